"""Acceleration without a global clock: graphs, gossip, nodes.

    from continuized import network
    g = network.Graph.of("grid:30x30")

Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuized.network.graphs.best_rates import Optimised
    from continuized.network.graphs.graph import Graph
    from continuized.network.methods import Gossip, NoGainWarning
    from continuized.network.nodes.rule import Rule, RuleSpec
    from continuized.network.nodes.running import run
    from continuized.network.nodes.supervising import StalenessWarning
    from continuized.network.optimisation.a2cid2 import A2CiD2
    from continuized.network.optimisation.dadao import DADAO
    from continuized.network.optimisation.decentralized import minimize
    from continuized.network.optimisation.dual import Dual
    from continuized.network.optimisation.objective import Objective, split
    from continuized.network.optimisation.solution import Decentralized
    from continuized.network.optimisation.stragglers import Racer, race
    from continuized.network.optimisation.workers import Study, study_workers
    from continuized.network.outcome import Outcome
    from continuized.network.simulation.delay_studies import delay_study, simulated_limit
    from continuized.network.simulation.delays import delay_limit, share_limit, too_stale
    from continuized.network.simulation.faults import Faults
    from continuized.network.simulation.replaying import replay
    from continuized.network.simulation.simulator import simulate
    from continuized.network.simulation.traffic import exchange_share

_HOME = {
    "A2CiD2": "optimisation.a2cid2",
    "DADAO": "optimisation.dadao",
    "Decentralized": "optimisation.solution",
    "Dual": "optimisation.dual",
    "Faults": "simulation.faults",
    "Gossip": "methods",
    "Graph": "graphs.graph",
    "NoGainWarning": "methods",
    "Objective": "optimisation.objective",
    "Optimised": "graphs.best_rates",
    "Outcome": "outcome",
    "Racer": "optimisation.stragglers",
    "Rule": "nodes.rule",
    "RuleSpec": "nodes.rule",
    "StalenessWarning": "nodes.supervising",
    "Study": "optimisation.workers",
    "delay_limit": "simulation.delays",
    "delay_study": "simulation.delay_studies",
    "exchange_share": "simulation.traffic",
    "minimize": "optimisation.decentralized",
    "race": "optimisation.stragglers",
    "replay": "simulation.replaying",
    "run": "nodes.running",
    "share_limit": "simulation.delays",
    "simulate": "simulation.simulator",
    "simulated_limit": "simulation.delay_studies",
    "split": "optimisation.objective",
    "study_workers": "optimisation.workers",
    "too_stale": "simulation.delays",
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
