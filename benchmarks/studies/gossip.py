"""Gossip: messages, rates, speed and real transports; the plan for large n is gossip_plan.py.

    pip install ".[ray]"
    python -m benchmarks.studies.gossip [--quick] [messages] [rates] [speed] [transports]

Without names, everything but what needs a library that is missing.  All mass starts on node 0; a
message is an exchange over an edge: between real nodes a request, an answer, a transfer and an
acknowledgement.

messages: exchanges until the squared error fell by 1e-8, the median and the range over seeds.

rates: the rate r of e^{-rt} at which the squared error falls, against the exact rate of its
expectation (theory.gossip_rate).  The slowest mode of accelerated gossip swings, and on these
graphs its square has not come round once when the error has fallen by 1e-8: a slope over a part of
a run depends on the part.  So the error is compared at times t and t + p with p the period of the
square (for plain gossip half of the run), t over the second half of the run; "slope" is what least
squares over that half give (Outcome.rate_measured), for comparison.  "typical" is the median over
runs, "mean" of the mean error over runs, with the standard error by leaving out one run at a time:
the expectation is carried by rare runs, and few runs fall faster.  For the path, the mean is also
held against the exact expectation (theory.moments).

speed: exchanges a second of the simulator, the best of several rounds.

transports: exchanges a second that real nodes carry out, on this machine, in a few seconds.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable

import numpy as np

from benchmarks.studies.parts import run_parts
from continuized import network, theory
from continuized.network import Faults, Gossip, Graph

TOL = 1e-8
METHODS = {"plain": Gossip(accelerated=False), "accelerated": Gossip()}
FRAMES = 4  # of an exchange: request, answer, transfer, acknowledgement


def start(graph: Graph) -> np.ndarray:
    values = np.zeros(graph.nodes)
    values[0] = 1.0
    return values


def messages(quick: bool) -> None:
    """Exchanges to 1e-8, over seeds."""
    seeds = 3 if quick else 11
    print(f"Exchanges until the squared error fell by {TOL:g}, {seeds} seeds")
    for spec, aim in (("path:100", 35), ("grid:30x30", 12)):
        graph = Graph.of(spec)
        counts = {
            name: np.array(
                [
                    network.simulate(graph, start(graph), method=method, rng=s, tol=TOL).messages
                    for s in range(seeds)
                ]
            )
            for name, method in METHODS.items()
        }
        for name, count in counts.items():
            middle = f"{np.median(count):>12,.0f}"
            print(f"  {spec:12}{name:12}{middle}   ({count.min():,} to {count.max():,})")
        ratios = np.median(counts["plain"]) / counts["accelerated"]
        print(
            f"  {spec:12}{'ratio':12}{np.median(ratios):>12.1f}   ({ratios.min():.1f} to "
            f"{ratios.max():.1f}; aim: at least {aim})",
            flush=True,
        )


def period(graph: Graph, method: Gossip) -> float:
    """After which the square of the slowest mode comes round; infinite where it does not swing."""
    theta, gamma, gamma_prime = method.constants(graph)
    mu = graph.mu_g
    mode = np.array([[-theta - gamma * mu, theta], [theta - gamma_prime * mu, -theta]])
    swing = float(np.abs(np.linalg.eigvals(mode).imag).max())
    return math.pi / swing if swing > 0.0 else math.inf


def rates(quick: bool) -> None:
    """Measured against exact."""
    runs = 8 if quick else 64
    print(f"Rates of the squared error, {runs} runs, relative to the exact rate of its mean")
    for spec in ("path:100", "grid:30x30"):
        graph = Graph.of(spec)
        for name, method in METHODS.items():
            exact = theory.gossip_rate(graph, method, tol=1e-3)
            end = math.log(1.0 / TOL) / exact
            apart = min(period(graph, method), 5.0 * end) if method.accelerated else 0.5 * end
            early = np.linspace(0.5 * end, end, 16)
            early_errors, late_errors, slopes = many_runs(graph, method, early, apart, runs)
            typical = np.log(early_errors / late_errors).mean(axis=1) / apart
            of_mean = fall(early_errors, late_errors) / apart
            others = [
                fall(np.delete(early_errors, k, axis=0), np.delete(late_errors, k, axis=0)) / apart
                for k in range(runs)
            ]
            spread = math.sqrt((runs - 1) * float(np.var(others)))
            print(
                f"  {spec:12}{name:12} exact {exact:.4e}   typical {np.median(typical) / exact:.3f}"
                f"   mean {of_mean / exact:.3f} +- {spread / exact:.3f}"
                f"   slope {np.median(slopes) / exact:.3f}",
                flush=True,
            )
    show_expectation(Graph.of("path:100"), Gossip(), runs)


def fall(early: np.ndarray, late: np.ndarray) -> float:
    """The mean over times of the log of the ratio of means over runs."""
    return float(np.log(early.mean(axis=0) / late.mean(axis=0)).mean())


def many_runs(
    graph: Graph, method: Gossip, early: np.ndarray, apart: float, runs: int
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Squared errors (runs, times) at times and so much later, and slopes of runs to 1e-8."""
    times = np.concatenate([early, early + apart]).tolist()
    errors, slopes = [], []
    for seed in range(runs):
        errors.append(squared_errors(graph, method, times, seed))
        r = network.simulate(graph, start(graph), method=method, tol=TOL, rng=seed)
        slopes.append(r.rate_measured)
    both = np.array(errors)
    return both[:, : len(early)], both[:, len(early) :], slopes


def squared_errors(graph: Graph, method: Gossip, times: list[float], seed: int) -> np.ndarray:
    r = network.simulate(graph, start(graph), method=method, tol=0.0, until=max(times), rng=seed,
                         snapshots=times)  # fmt: skip
    x = np.array([r.snapshots[t] for t in times])
    return np.asarray(((x - 1.0 / graph.nodes) ** 2).sum(axis=1))


def show_expectation(graph: Graph, method: Gossip, runs: int) -> None:
    """The mean error over runs and its expectation."""
    times = np.array([2_000.0, 8_000.0, 16_000.0])
    errors = np.array([squared_errors(graph, method, times.tolist(), s) for s in range(8 * runs)])
    expected = theory.moments(graph, method, start(graph), times).fun
    mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=1) / math.sqrt(len(errors))
    print(
        f"  {graph.name}, {method.name}, {8 * runs} runs: mean error / expectation at t = ", end=""
    )
    for t, m, d, e in zip(times, mean, deviation, expected, strict=True):
        print(f"{t:,.0f}: {m / e:.3f} +- {d / e:.3f}", end="   ")
    print(flush=True)


def speed(quick: bool) -> None:
    """Exchanges a second, simulated."""
    print("Simulated exchanges a second, grid:30x30 (aim: 5,000,000)")
    graph, events = Graph.of("grid:30x30"), 1_000_000 if quick else 5_000_000
    for name, method in METHODS.items():
        for label, faults in (("exchanges at once", None), ("message by message", Faults())):
            count = events if faults is None else events // 10
            best = max(
                network.simulate(graph, start(graph), method=method, tol=0.0, events=count, rng=s,
                                 faults=faults).events_per_s
                for s in range(3 if quick else 5)
            )  # fmt: skip
            print(f"  {name:12} {label:20} {best:>14,.0f}", flush=True)


def transports(quick: bool) -> None:
    """Exchanges a second of real nodes."""
    seconds = 3.0 if quick else 8.0
    print(f"Real nodes, grid:30x30, {seconds:g} s (aims: local 5,000 messages/s, Ray 800)")
    graph = Graph.of("grid:30x30")
    for transport in ("local", "ray"):
        if transport == "ray" and importlib.util.find_spec("ray") is None:
            print("  ray is not installed")
            continue
        r = network.run(graph, start(graph), transport=transport, tol=1e-30, seconds=seconds, rng=0,
                        log=False)  # fmt: skip
        frames = FRAMES * r.events_per_s
        print(
            f"  {transport:8} {r.events_per_s:>8,.0f} exchanges/s   {frames:>8,.0f} messages/s at "
            f"least   ledger error {r.ledger_error:.0e}",
            flush=True,
        )


PARTS: dict[str, Callable[[bool], None]] = {
    "messages": messages,
    "rates": rates,
    "speed": speed,
    "transports": transports,
}


if __name__ == "__main__":
    run_parts(__doc__, PARTS, "fewer seeds and smaller sizes")
