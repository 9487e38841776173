"""`gossip`: what an exchange costs in the simulator, and how many acceleration saves.

The loop in Python follows the rules of a node as they are written, an exchange at a time; the
simulator has compiled the same rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.outcome import TIMED, Contest, Curve, Entry, Panel, Suite
from benchmarks.timing import Contestant, Say, WrongError, compete
from continuized import network
from continuized.network.gossip import mix_over
from continuized.problems.base import Array
from continuized.process.methods import jump

TOL = 1e-6
SEEDS = 5


class Size(NamedTuple):
    """How much is done."""

    graph: str  # whose exchanges are timed
    exchanges: int
    graphs: tuple[str, ...]  # on which exchanges are counted
    repeats: int


FULL = Size("grid:30x30", 500_000, ("cycle:100", "grid:30x30", "path:100"), repeats=5)
QUICK = Size("grid:20x20", 200_000, ("cycle:50", "grid:20x20"), repeats=3)


class Averaged(NamedTuple):
    """Where a simulation ended."""

    x: Array
    z: Array
    exchanges: int


def run(size: Size, say: Say) -> Suite:
    """The contests of this suite."""
    contests, panels = [timed(size, say)], []
    for name in size.graphs:
        say(f"exchanges to {TOL:g}, {name}")
        contest, panel = counted(name)
        contests.append(contest)
        panels.append(panel)
    return Suite(contests, panels)


def timed(size: Size, say: Say) -> Contest:
    """Seconds for an exchange."""
    graph = network.Graph.of(size.graph)
    values = start(graph)
    return compete(
        f"an exchange of accelerated gossip, {size.graph}",
        [
            Contestant("continuized", lambda: lambda: ours(graph, values, size.exchanges)),
            Contestant(
                "the same rules, a loop in Python",
                lambda: lambda: in_python(graph, values, size.exchanges),
            ),
        ],
        repeats=size.repeats,
        check=lambda answer: _averages(answer, values),
        note="One number a node. Drawing the events is counted.",
        say=say,
    )


def start(graph: Any) -> Array:
    """One number for each node."""
    values: Array = np.random.default_rng(0).standard_normal(graph.nodes)
    return values


def ours(graph: Any, values: Array, exchanges: int) -> Averaged:
    """Accelerated gossip in the simulator."""
    r = network.simulate(graph, values, tol=0.0, events=exchanges, rng=0, record=0)
    return Averaged(r.x, r.z, r.messages)


def in_python(graph: Any, values: Array, exchanges: int) -> Averaged:
    """Accelerated gossip, an exchange at a time, on lists of floats."""
    rng = np.random.default_rng(0)
    theta, gamma, gamma_prime = network.Gossip().constants(graph)
    rung = graph.edges[rng.choice(len(graph.P), exchanges, p=graph.P)].tolist()
    times = np.cumsum(rng.standard_exponential(exchanges)).tolist()
    x, z, last = values.tolist(), values.tolist(), [0.0] * graph.nodes
    for (i, j), t in zip(rung, times, strict=True):
        for node in (i, j):
            x[node], z[node] = mix_over(x[node], z[node], t - last[node], theta)
            last[node] = t
        d = x[i] - x[j]
        x[i], z[i] = jump(x[i], z[i], d, gamma, gamma_prime)
        x[j], z[j] = jump(x[j], z[j], -d, gamma, gamma_prime)
    for node, since in enumerate(last):
        x[node], z[node] = mix_over(x[node], z[node], times[-1] - since, theta)
    return Averaged(np.array(x), np.array(z), exchanges)


def _averages(answer: Averaged, values: Array) -> float:
    """The exchanges; WrongError where the sum was not conserved or the values drew no nearer."""
    gone = abs(float((answer.x + answer.z).sum() - 2.0 * values.sum()))
    if gone > 1e-9 * float(np.abs(values).sum()):
        raise WrongError(f"the sum of x and z changed by {gone:.2g}")
    if not np.var(answer.x) < np.var(values):
        raise WrongError("the values are no nearer to each other than at the start")
    return float(answer.exchanges)


def counted(name: str) -> tuple[Contest, Panel]:
    """Exchanges until the squared error is 1e-6 of the start's: medians over seeds."""
    graph = network.Graph.of(name)
    entries, curves = [], []
    for method in ("accelerated", "plain"):
        runs = [
            network.simulate(graph, start(graph), method=method, tol=TOL, rng=seed)
            for seed in range(SEEDS)
        ]
        median = float(np.median([r.messages for r in runs]))
        entries.append(Entry(f"{method} gossip", TIMED, median))
        curves.append(Curve(method, runs[0].trace.messages[1:], runs[0].trace.error[1:]))
    contest = Contest(
        f"exchanges to a squared error of {TOL:g}, {name}",
        "exchanges",
        tuple(entries),
        f"Medians over {SEEDS} seeds.",
    )
    return contest, Panel(name, "exchanges", tuple(curves), ylabel="squared error")
