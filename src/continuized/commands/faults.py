"""What the commands about networks have in common: nodes that die, and clocks that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuized.commands import BadInput

if TYPE_CHECKING:
    from continuized.network import Graph

SKEWED = 0.5
KILLED_BY = 1 / 8  # of the time that the theorem allows a method: its share in which nodes die


def checked_part(option: str, part: float) -> None:
    """Refuse what leaves nothing: no message that comes, a clock that stands still or goes back."""
    if not 0.0 <= part < 1.0:
        raise BadInput(f"{option} must be at least 0 and below 1, got {part:g}")


def dying(graph: Graph, kill: int, seed: int) -> list[int]:
    """So many nodes, without which the rest are connected."""
    import numpy as np

    from continuized.network.drawn_deaths import drawn

    try:
        return drawn(graph, kill, np.random.default_rng(seed))
    except ValueError as error:
        raise BadInput(f"--kill: {error}") from error


def spaced(nodes: list[int], last: float) -> list[tuple[float, int]]:
    """Deaths evenly in time, the last one at `last`."""
    return [(last * (k + 1) / len(nodes), node) for k, node in enumerate(nodes)]
