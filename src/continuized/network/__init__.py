"""Acceleration without a global clock: graphs, gossip, nodes.

    from continuized import network
    g = network.Graph.of("grid:30x30")

Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuized.network.analysis import delay_limit, exchange_share, share_limit, too_stale
    from continuized.network.faults import Faults
    from continuized.network.gossip import Gossip, NoGainWarning
    from continuized.network.graphs.graph import Graph
    from continuized.network.graphs.optimal_rates import Optimised
    from continuized.network.optimisation.a2cid2.method import A2CiD2
    from continuized.network.optimisation.dadao.method import DADAO
    from continuized.network.optimisation.dual.method import Dual
    from continuized.network.optimisation.minimize import minimize
    from continuized.network.optimisation.objective import Objective, split
    from continuized.network.optimisation.race import Racer, race
    from continuized.network.protocol.node_model import Rule, RuleSpec
    from continuized.network.result import Decentralized, Outcome
    from continuized.network.runtime.run import run
    from continuized.network.runtime.supervisor import StalenessWarning
    from continuized.network.simulation.replay import replay
    from continuized.network.simulation.simulate import simulate

_HOME = {
    "A2CiD2": "optimisation.a2cid2.method",
    "DADAO": "optimisation.dadao.method",
    "Decentralized": "result",
    "Dual": "optimisation.dual.method",
    "Faults": "faults",
    "Gossip": "gossip",
    "Graph": "graphs.graph",
    "NoGainWarning": "gossip",
    "Objective": "optimisation.objective",
    "Optimised": "graphs.optimal_rates",
    "Outcome": "result",
    "Racer": "optimisation.race",
    "Rule": "protocol.node_model",
    "RuleSpec": "protocol.node_model",
    "StalenessWarning": "runtime.supervisor",
    "delay_limit": "analysis",
    "exchange_share": "analysis",
    "minimize": "optimisation.minimize",
    "race": "optimisation.race",
    "replay": "simulation.replay",
    "run": "runtime.run",
    "share_limit": "analysis",
    "simulate": "simulation.simulate",
    "split": "optimisation.objective",
    "too_stale": "analysis",
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
    "delay_limit",
    "exchange_share",
    "minimize",
    "race",
    "replay",
    "run",
    "share_limit",
    "simulate",
    "split",
    "too_stale",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"continuized.network.{_HOME[name]}"), name)
    raise AttributeError(f"module 'continuized.network' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
