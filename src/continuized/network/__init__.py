"""Acceleration without a global clock: graphs, gossip, nodes.

    from continuized import network
    g = network.Graph.of("grid:30x30")

Names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuized.support.lazy import load_lazily

if TYPE_CHECKING:
    from continuized.network.analysis import StalenessWarning as StalenessWarning
    from continuized.network.analysis import delay_limit as delay_limit
    from continuized.network.analysis import exchange_share as exchange_share
    from continuized.network.analysis import share_limit as share_limit
    from continuized.network.analysis import too_stale as too_stale
    from continuized.network.faults import Faults as Faults
    from continuized.network.gossip import Gossip as Gossip
    from continuized.network.gossip import NoGainWarning as NoGainWarning
    from continuized.network.graphs.graph import Graph as Graph
    from continuized.network.graphs.optimal_rates import Optimised as Optimised
    from continuized.network.logs.replay import replay as replay
    from continuized.network.optimisation.a2cid2 import A2CiD2 as A2CiD2
    from continuized.network.optimisation.dadao import DADAO as DADAO
    from continuized.network.optimisation.dual import Dual as Dual
    from continuized.network.optimisation.minimize import minimize as minimize
    from continuized.network.optimisation.objective import Objective as Objective
    from continuized.network.optimisation.objective import split as split
    from continuized.network.optimisation.race import Racer as Racer
    from continuized.network.optimisation.race import race as race
    from continuized.network.protocol.node_model import NodeModel as NodeModel
    from continuized.network.protocol.node_model import NodeModelSpec as NodeModelSpec
    from continuized.network.result import Decentralized as Decentralized
    from continuized.network.result import Outcome as Outcome
    from continuized.network.runtime.run import run as run
    from continuized.network.sharded.problem import Sharded as Sharded
    from continuized.network.simulation.simulate import simulate as simulate
    from continuized.network.workers.ray_options import Ray as Ray

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = load_lazily(
        __name__,
        {
            "analysis": "StalenessWarning delay_limit exchange_share share_limit too_stale",
            "faults": "Faults",
            "gossip": "Gossip NoGainWarning",
            "graphs.graph": "Graph",
            "graphs.optimal_rates": "Optimised",
            "optimisation.a2cid2": "A2CiD2",
            "optimisation.dadao": "DADAO",
            "optimisation.dual": "Dual",
            "optimisation.minimize": "minimize",
            "optimisation.objective": "Objective split",
            "optimisation.race": "Racer race",
            "protocol.node_model": "NodeModel NodeModelSpec",
            "result": "Decentralized Outcome",
            "workers.ray_options": "Ray",
            "runtime.run": "run",
            "sharded.problem": "Sharded",
            "logs.replay": "replay",
            "simulation.simulate": "simulate",
        },
    )
