"""Acceleration without a global clock: graphs, gossip, nodes.

    from continuized import network
    g = network.Graph.of("grid:30x30")

Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuized.network.a2cid2 import A2CiD2
    from continuized.network.best_rates import Optimised
    from continuized.network.dadao import DADAO
    from continuized.network.decentralized import minimize
    from continuized.network.dual import Dual
    from continuized.network.faults import Faults
    from continuized.network.graph import Graph
    from continuized.network.methods import Gossip, NoGainWarning
    from continuized.network.objective import Objective, split
    from continuized.network.outcome import Outcome
    from continuized.network.replaying import replay
    from continuized.network.simulator import simulate
    from continuized.network.solution import Decentralized
    from continuized.network.stragglers import Racer, race
    from continuized.network.workers import Study, study_workers

_HOME = {
    "A2CiD2": "a2cid2",
    "DADAO": "dadao",
    "Decentralized": "solution",
    "Dual": "dual",
    "Faults": "faults",
    "Gossip": "methods",
    "Graph": "graph",
    "NoGainWarning": "methods",
    "Objective": "objective",
    "Optimised": "best_rates",
    "Outcome": "outcome",
    "Racer": "stragglers",
    "Study": "workers",
    "minimize": "decentralized",
    "race": "stragglers",
    "replay": "replaying",
    "simulate": "simulator",
    "split": "objective",
    "study_workers": "workers",
}

__all__ = [
    "DADAO",
    "A2CiD2",
    "Decentralized",
    "Dual",
    "Faults",
    "Gossip",
    "Graph",
    "NoGainWarning",
    "Objective",
    "Optimised",
    "Outcome",
    "Racer",
    "Study",
    "minimize",
    "race",
    "replay",
    "simulate",
    "split",
    "study_workers",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"continuized.network.{_HOME[name]}"), name)
    raise AttributeError(f"module 'continuized.network' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
