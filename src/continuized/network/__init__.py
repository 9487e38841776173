"""Acceleration without a global clock: graphs, gossip, nodes.

    from continuized import network
    g = network.Graph.of("grid:30x30")

Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuized.network.best_rates import Optimised
    from continuized.network.delay_studies import delay_study, simulated_limit
    from continuized.network.delays import delay_limit, share_limit, too_stale
    from continuized.network.faults import Faults
    from continuized.network.graph import Graph
    from continuized.network.methods import Gossip, NoGainWarning
    from continuized.network.outcome import Outcome
    from continuized.network.replaying import replay
    from continuized.network.rule import Rule, RuleSpec
    from continuized.network.running import run
    from continuized.network.simulator import simulate
    from continuized.network.supervising import StalenessWarning
    from continuized.network.traffic import exchange_share

_HOME = {
    "Faults": "faults",
    "Gossip": "methods",
    "Graph": "graph",
    "NoGainWarning": "methods",
    "Optimised": "best_rates",
    "Outcome": "outcome",
    "Rule": "rule",
    "RuleSpec": "rule",
    "StalenessWarning": "supervising",
    "delay_limit": "delays",
    "delay_study": "delay_studies",
    "exchange_share": "traffic",
    "replay": "replaying",
    "run": "running",
    "share_limit": "delays",
    "simulate": "simulator",
    "simulated_limit": "delay_studies",
    "too_stale": "delays",
}

__all__ = [
    "Faults",
    "Gossip",
    "Graph",
    "NoGainWarning",
    "Optimised",
    "Outcome",
    "Rule",
    "RuleSpec",
    "StalenessWarning",
    "delay_limit",
    "delay_study",
    "exchange_share",
    "replay",
    "run",
    "share_limit",
    "simulate",
    "simulated_limit",
    "too_stale",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"continuized.network.{_HOME[name]}"), name)
    raise AttributeError(f"module 'continuized.network' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
