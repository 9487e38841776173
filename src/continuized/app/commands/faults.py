"""Faults as the commands about networks take them: of messages, clocks and nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import BadInput, together

if TYPE_CHECKING:
    from continuized.network import Graph

SKEWED = 0.5
KILLED_BY = 1 / 8  # of the time that the theorem allows a method: its share in which nodes die


def fault_options(*spellings: str) -> Callable[[Any], Any]:
    """The options of faults; `spellings` are more names of --message-loss."""
    return together(
        click.option("--message-loss", *spellings, "message_loss", type=float, default=0.0,
                     help="The part of messages that are lost, of the four that make an exchange."),
        click.option("--duplication", type=float, default=0.0, help="The part that come twice."),
        click.option("--delay", type=float, default=0.0,
                     help="The mean of a message's, in units of the time in which one ring of all "
                     "edges together is expected."),
        click.option("--skew", type=float, is_flag=False, flag_value=SKEWED, default=0.0,
                     help=f"Clocks run at 1 - SKEW to 1 + SKEW; alone: {SKEWED}."),
        click.option("--kill", type=click.IntRange(min=0), default=0, help="How many nodes die."),
    )  # fmt: skip


def check_faults(message_loss: float, duplication: float, delay: float, skew: float) -> None:
    """Refuse what leaves nothing: no message that comes, a clock that stands still or goes back."""
    parts = {"--message-loss": message_loss, "--duplication": duplication, "--skew": skew}
    for option, part in parts.items():
        if not 0.0 <= part < 1.0:
            raise BadInput(f"{option} must be at least 0 and below 1, got {part:g}")
    if not 0.0 <= delay < math.inf:
        raise BadInput(f"--delay must be a finite number >= 0, got {delay:g}")


def dying(graph: Graph, kill: int, seed: int) -> list[int]:
    """So many nodes, without which the rest are connected."""
    import numpy as np

    from continuized.network.runtime.faults import drawn

    try:
        return drawn(graph, kill, np.random.default_rng(seed))
    except ValueError as error:
        raise BadInput(f"--kill: {error}") from error


def spaced(nodes: list[int], last: float) -> list[tuple[float, int]]:
    """Deaths evenly in time, the last one at `last`."""
    return [(last * (k + 1) / len(nodes), node) for k, node in enumerate(nodes)]
