"""How much delay accelerated gossip bears: simulated runs beside what `delay_limit` predicts.

Run `python examples/delay_study.py [GRAPH]`; prints a row for each delay, path:10 by default.

The prediction is about the mean square, which rare large errors dominate.  A typical run goes on
converging at longer delays, up to what `find_limit` finds by simulation.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized import network

RUNS = 5
HORIZON = 20.0  # the time that is simulated, times the rate theta that is left
DIGITS = 0.05  # relative, of a simulated limit


class DelayRow(NamedTuple):
    """One delay: what is predicted, and the median measured rates (the error falls as e^{-rt})."""

    delay: float
    stable: bool  # in mean square, as predicted for accelerated gossip
    share: float  # of the exchanges, as predicted
    accelerated: float
    plain: float


def study_delays(
    graph: Any, delays: Sequence[float], *, rng: int = 0, runs: int = RUNS, law: str = "exponential"
) -> list[DelayRow]:
    """Measure the rates of plain and accelerated gossip as the delay of messages grows.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
    delays : mean one-way delays, in units of t
    rng : int
    runs : int
        Each run starts from its own normal values; the median of their rates is reported.
    law : of the delays, as in `network.Faults`

    >>> row = study_delays("path:5", [0.5], runs=1)[0]
    >>> row.stable, row.accelerated > 0.0
    (True, True)
    """
    graph = network.Graph.of(graph)
    limit = network.delay_limit(graph)
    return [
        DelayRow(
            delay=float(delay),
            stable=float(delay) < limit,
            share=network.exchange_share(graph, delay),
            accelerated=measure_rate(graph, "accelerated", delay, rng, runs, law),
            plain=measure_rate(graph, "plain", delay, rng, runs, law),
        )
        for delay in delays
    ]


def find_limit(graph: Any, *, rng: int = 0, runs: int = RUNS, law: str = "exponential") -> float:
    """Find the delay from which on the error of the median run of accelerated gossip grows.

    The limit is found by bisection, to 5 %; it is infinite where the error still falls at delays
    of 5 / theta.  It is larger than `network.delay_limit`, which is about the mean square.
    The arguments are those of `study_delays`.

    >>> find_limit("path:5", runs=3)
    inf
    """
    graph = network.Graph.of(graph)
    theta = network.Gossip().constants(graph).theta

    def falls(delay: float) -> bool:
        return measure_rate(graph, "accelerated", delay, rng, runs, law) > 0.0

    low, high = 0.0, 1.0
    while falls(high):
        low, high = high, 2.0 * high
        if theta * low > 5.0:
            return math.inf
    while high - low > DIGITS * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falls(middle) else (low, middle)
    return 0.5 * (low + high)


def measure_rate(
    graph: network.Graph, method: str, delay: float, rng: int, runs: int, law: str
) -> float:
    """Return the median of the rates of a few runs."""
    if runs < 1:
        raise ValueError(f"runs must be an integer >= 1, got {runs}")
    theta = network.Gossip().constants(graph).theta
    until = HORIZON / (theta * network.exchange_share(graph, delay))
    faults = network.Faults(delay=delay, law=law)
    rates = []
    for seed in np.random.SeedSequence(rng).spawn(runs):
        values = np.random.default_rng(seed).normal(size=graph.nodes)
        with warnings.catch_warnings():  # what happens beyond the limit is what is asked here
            warnings.simplefilter("ignore", network.StalenessWarning)
            r = network.simulate(
                graph, values, method=method, tol=1e-28, until=until, rng=seed, faults=faults
            )
        rates.append(r.rate_measured)
    return float(np.median(rates))


def main(spec: str = "path:10") -> None:
    """Print the study of one graph, with delays around the predicted limit."""
    limit = network.delay_limit(spec)
    print(f"{spec}: predicted limit {limit:.3g}, simulated limit {find_limit(spec):.3g}")
    base = limit if math.isfinite(limit) else 10.0
    for row in study_delays(spec, [0.0, 0.2 * base, 0.5 * base, base, 2.0 * base]):
        print(
            f"delay {row.delay:6.2f}: rate accelerated {row.accelerated:9.2e}, "
            f"plain {row.plain:9.2e}, {100.0 * row.share:.0f} % of the exchanges"
        )


if __name__ == "__main__":
    main(*sys.argv[1:2])
