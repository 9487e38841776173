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
    from continuized.network.delay_studies import delay_study, simulated_limit
    from continuized.network.delays import delay_limit, share_limit, too_stale
    from continuized.network.dual import Dual
    from continuized.network.faults import Faults
    from continuized.network.graph import Graph
    from continuized.network.methods import Gossip, NoGainWarning
    from continuized.network.objective import Objective, split
    from continuized.network.outcome import Outcome
    from continuized.network.replaying import replay
    from continuized.network.rule import Rule, RuleSpec
    from continuized.network.running import run
    from continuized.network.simulator import simulate
    from continuized.network.solution import Decentralized
    from continuized.network.stragglers import Racer, race
    from continuized.network.supervising import StalenessWarning
    from continuized.network.traffic import exchange_share
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
    "Rule": "rule",
    "RuleSpec": "rule",
    "StalenessWarning": "supervising",
    "Study": "workers",
    "delay_limit": "delays",
    "delay_study": "delay_studies",
    "exchange_share": "traffic",
    "minimize": "decentralized",
    "race": "stragglers",
    "replay": "replaying",
    "run": "running",
    "share_limit": "delays",
    "simulate": "simulator",
    "simulated_limit": "delay_studies",
    "split": "objective",
    "study_workers": "workers",
    "too_stale": "delays",
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
    "Rule",
    "RuleSpec",
    "StalenessWarning",
    "Study",
    "delay_limit",
    "delay_study",
    "exchange_share",
    "minimize",
    "race",
    "replay",
    "run",
    "share_limit",
    "simulate",
    "simulated_limit",
    "split",
    "study_workers",
    "too_stale",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"continuized.network.{_HOME[name]}"), name)
    raise AttributeError(f"module 'continuized.network' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
