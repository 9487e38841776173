"""Delays simulated, beside what is predicted of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.network.analysis.stability import delay_limit
from continuized.network.analysis.traffic import exchange_share
from continuized.network.faults import Faults
from continuized.network.gossip import Gossip
from continuized.network.graphs.graph import Graph
from continuized.network.simulation.simulate import simulate
from continuized.process import random_streams as seeds
from continuized.support import validation as check

RUNS = 5
HORIZON = 20.0  # times 1 / theta, at the pace that is left
DIGITS = 0.05  # relative, of a simulated limit


class DelayRow(NamedTuple):
    """One delay: what is predicted, and the median measured rates (the error falls as e^{-rt})."""

    delay: float
    stable: bool  # in mean square, as predicted for accelerated gossip
    share: float  # of exchanges, as predicted
    accelerated: float
    plain: float


def delay_study(
    graph: Any, delays: Sequence[float], *, rng: seeds.Seed = 0, runs: int = RUNS,
    law: str = "exponential",
) -> list[DelayRow]:  # fmt: skip
    """Rates of plain and accelerated gossip as the link delay grows.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
    delays : mean one-way delays, in units of t
    rng : of all runs
    runs : int
        Each from its own normal values; the median of their rates is reported.
    law : of the delays, as in `Faults`

    >>> row = delay_study("path:5", [0.5], runs=1)[0]
    >>> row.stable, row.accelerated > 0.0
    (True, True)
    """
    check.whole(runs, "runs", minimum=1)
    graph = Graph.of(graph)
    limit, root = delay_limit(graph), seeds.seed_sequence(rng)
    return [
        DelayRow(
            delay=check.real(delay, "delay"),
            stable=float(delay) < limit,
            share=exchange_share(graph, float(delay)),
            accelerated=_rate(graph, "accelerated", float(delay), root, runs, law),
            plain=_rate(graph, "plain", float(delay), root, runs, law),
        )
        for delay in delays
    ]


def simulated_limit(
    graph: Any, *, rng: seeds.Seed = 0, runs: int = RUNS, law: str = "exponential"
) -> float:
    """The delay from which on the error of the median run of accelerated gossip grows.

    By bisection, to 5 %; infinity where it still falls at delays of 5 / theta.  It is larger than
    `delay_limit`, which is about the mean square.

    graph, rng, runs, law: as for `delay_study`.

    >>> simulated_limit("path:5", runs=3)
    inf
    """
    check.whole(runs, "runs", minimum=1)
    graph = Graph.of(graph)
    theta, root = Gossip().constants(graph).theta, seeds.seed_sequence(rng)

    def falls(delay: float) -> bool:
        return _rate(graph, "accelerated", delay, root, runs, law) > 0.0

    low, high = 0.0, 1.0
    while falls(high):
        low, high = high, 2.0 * high
        if theta * low > 5.0:
            return math.inf
    while high - low > DIGITS * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falls(middle) else (low, middle)
    return 0.5 * (low + high)


def _rate(graph: Graph, method: str, delay: float, root: seeds.Root, runs: int, law: str) -> float:
    """The median of the rates of a few runs."""
    theta = Gossip().constants(graph).theta
    until = HORIZON / (theta * exchange_share(graph, delay))
    rates = []
    for k in range(runs):
        own = seeds.child(root, k)
        values = np.random.default_rng(own).normal(size=graph.nodes)
        faults = Faults(delay=delay, law=law)
        r = simulate(graph, values, method, tol=1e-28, until=until, rng=own, faults=faults)
        rates.append(r.rate_measured)
    return float(np.median(rates))
