"""Decentralised optimisation: messages to a precision, a slow node, the simulator, and faults.

    python -m benchmarks.studies.decentralized [--quick]

Data, all from fixed seeds: Gaussian rows, 40 for each node, whose ten columns have sizes from 0.3
to 1; targets <x, w>, w Gaussian, with a noise of 0.3 (ridge), or their signs (logistic); l2 = 1
over the number of rows.  Rows are dealt out at random; with --sorted in the order of their targets,
so that nodes disagree.

1. Exchanges and local gradients until the error, the nodes' mean squared distance to the
   solution relative to its squared norm, is 1e-8, and the rate measured beside the theorem's.
2. One node slower than the others: simulated time to error 1e-4, in units of a usual node's local
   step, messages for nothing.  "synchronous-dual" is Nesterov's method on the dual, in rounds that
   wait for the slowest node, with the same local step; "all-reduce" is Nesterov's method on the
   whole objective, given the mean of all gradients for nothing.
3. The simulator: events a second, wall time, exchanges done at once and by messages.
4. Faults: exchanges to error 1e-8 over those without; delays in the time between two ticks of all
   edges together.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from continuized import network
from continuized.problems import LeastSquares, LogisticRegression

GRAPHS = ("grid:5x5", "cycle:20", "regular:3x32", "complete:16")
COLUMNS, ROWS_A_NODE = 10, 40


def parts(graph: network.Graph, loss: str, in_order: bool) -> network.Objective:
    rng = np.random.default_rng(0)
    n = ROWS_A_NODE * graph.nodes
    X = rng.standard_normal((n, COLUMNS)) * np.linspace(0.3, 1.0, COLUMNS)
    y = X @ rng.standard_normal(COLUMNS) + 0.3 * rng.standard_normal(n)
    if in_order:
        order = np.argsort(y)
        X, y = X[order], y[order]
    kind = LeastSquares if loss == "ridge" else LogisticRegression
    problem = kind(X, y if loss == "ridge" else np.sign(y), l2=1.0 / n)
    return network.split(problem, graph.nodes, None if in_order else 0)


def show_messages(graphs: tuple[str, ...], in_order: bool) -> None:
    print("1. to error 1e-8")
    for spec in graphs:
        for loss in ("ridge", "logistic"):
            g = network.Graph.of(spec)
            o = parts(g, loss, in_order)
            print(f"  {spec}, {loss}, L/mu {o.L / o.mu:.0f}")
            for method in ("dual", "plain-dual", "dadao"):
                r = network.minimize(g, o, method=method, rng=0)
                more = " " if r.reached else ">"
                print(
                    f"    {method:12}{more}{r.messages:9,} exchanges{more}{r.gradients:9,} local"
                    f"   rate {r.rate_measured:.2e}, theorem {r.rate_theory:.2e}",
                    flush=True,
                )


def show_race(graphs: tuple[str, ...], in_order: bool, seeds: int) -> None:
    print("2. time to error 1e-4, one node slower (median over seeds)")
    for spec in graphs:
        g = network.Graph.of(spec)
        o = parts(g, "ridge", in_order)
        for slow in (1.0, 10.0, 30.0):
            work = np.ones(g.nodes)
            work[g.nodes // 2] = slow
            races = [network.race(g, o, work, rng=seed) for seed in range(seeds)]
            times = {
                racers[0].method: float(np.median([r.time for r in racers]))
                for racers in zip(*races, strict=True)
            }
            line = ", ".join(f"{name} {t:.0f}" for name, t in times.items())
            gain = times["synchronous-dual"] / times["dual"]
            print(f"  {spec}, {slow:g} times: {line};  synchronous / dual {gain:.2f}", flush=True)


def show_pace(rounds: int) -> None:
    print("3. events a second, grid:5x5, the quickest of so many runs")
    g = network.Graph.of("grid:5x5")
    for loss in ("ridge", "logistic"):
        o = parts(g, loss, False)
        o.x_star  # noqa: B018  (found once, and not timed)
        for method in ("dual", "dadao", "a2cid2"):
            events, engines = 20_000, (None, network.Faults())
            best = dict.fromkeys(engines, float("inf"))
            for faults in engines * (rounds + 1):  # the first ones compile
                started = time.perf_counter()
                how = {"tol": 0.0, "events": events, "rng": 0, "record": 1}
                network.minimize(g, o, method=method, faults=faults, **how)
                best[faults] = min(best[faults], time.perf_counter() - started)
            at_once, messages = (events / best[faults] for faults in engines)
            print(f"  {loss:9}{method:8}{at_once:12,.0f} at once{messages:12,.0f} by messages")


def show_faults(graphs: tuple[str, ...], in_order: bool, seeds: int) -> None:
    print("4. exchanges to error 1e-8 over those without faults (medians over seeds)")
    cases = {
        "loss 0.1, duplication 0.05": {"loss": 0.1, "duplication": 0.05},
        "delay 0.1": {"delay": 0.1},
        "delay 0.3": {"delay": 0.3},
        "skew 0.5": {"skew": 0.5},
    }
    for spec in graphs:
        g = network.Graph.of(spec)
        o = parts(g, "ridge", in_order)
        for method in (network.Dual(), network.DADAO()):
            base = _exchanges(g, o, method, None, seeds)
            for name, case in cases.items():
                given = {**case, "delay": case.get("delay", 0.0) / method.edge_rate(g)}
                ratio = _exchanges(g, o, method, network.Faults(**given), seeds) / base
                words = f"{ratio:.2f}" if np.isfinite(ratio) else "not reached"
                print(f"  {spec:14}{method.name:8}{name:28}{words}", flush=True)


def _exchanges(
    g: network.Graph, o: network.Objective, method: network.Dual | network.DADAO,
    faults: network.Faults | None, seeds: int,
) -> float:  # fmt: skip
    """The median; infinite where a run does not get there."""
    runs = [network.minimize(g, o, method=method, rng=seed, faults=faults) for seed in range(seeds)]
    return float(np.median([r.messages if r.reached else np.inf for r in runs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two graphs, one seed")
    parser.add_argument("--sorted", action="store_true", help="rows in the order of their targets")
    given = parser.parse_args()
    graphs = GRAPHS[:2] if given.quick else GRAPHS
    show_messages(graphs, given.sorted)
    show_race(graphs, given.sorted, 1 if given.quick else 5)
    show_pace(1 if given.quick else 3)
    show_faults(graphs, given.sorted, 1 if given.quick else 5)


if __name__ == "__main__":
    main()
