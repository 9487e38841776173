"""Acceleration without a global clock: graphs, gossip, nodes.

    from continuized import network
    g = network.Graph.of("grid:30x30")

Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuized.network.faults import Faults
    from continuized.network.graph import Graph
    from continuized.network.methods import Gossip
    from continuized.network.outcome import Outcome
    from continuized.network.replaying import replay
    from continuized.network.rule import Rule, RuleSpec
    from continuized.network.running import run
    from continuized.network.simulator import simulate
    from continuized.network.supervising import StalenessWarning

_HOME = {
    "Faults": "faults",
    "Gossip": "methods",
    "Graph": "graph",
    "Outcome": "outcome",
    "Rule": "rule",
    "RuleSpec": "rule",
    "StalenessWarning": "supervising",
    "replay": "replaying",
    "run": "running",
    "simulate": "simulator",
}

__all__ = [
    "Faults",
    "Gossip",
    "Graph",
    "Outcome",
    "Rule",
    "RuleSpec",
    "StalenessWarning",
    "replay",
    "run",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"continuized.network.{_HOME[name]}"), name)
    raise AttributeError(f"module 'continuized.network' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
