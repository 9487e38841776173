"""Gossip: messages, rates, speed, real transports, and a plan for a million nodes.

    pip install "continuized[bench,ray]"
    python benchmarks/gossip.py [--quick] [messages] [rates] [speed] [transports] [plan]

Without names, everything but what needs a library that is missing.  All mass starts on node 0; a
message is an exchange over an edge (on the wire: a request, an answer, a transfer and an
acknowledgement).

messages: exchanges until the squared error fell by 1e-8, the median and the range over seeds.

rates: the rate r of e^{-rt} at which the squared error falls, against the exact rate of its
expectation (theory.gossip_rate).  The slowest mode of accelerated gossip swings, and on these graphs
its square has not come round once when the error has fallen by 1e-8: a slope over a part of a run
depends on the part.  So the error is compared at times t and t + p with p the period of the
square (for plain gossip half of the run), t over the second half of the run; "slope" is what least
squares over that half give (Outcome.rate_measured), for comparison.  "typical" is the median over
runs, "mean" of the mean error over runs, with the standard error by leaving out one run at a time:
the expectation is carried by rare runs, and few runs fall faster.  For the path, the mean is also
held against the exact expectation (theory.moments).

speed: exchanges a second of the simulator, the best of several rounds.

transports: exchanges a second that real nodes carry out, on this machine, in a few seconds.

plan: for n nodes that know some random peers (or have a place in the plane), exchanges of a node,
bytes, memory and time.  Times are for links with a one-way delay of 50 ms.  Clocks are as quick as
leaves acceleration half of the delay it bears (network.delay_limit), and plain gossip has the same.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from continuized import network, theory
from continuized.network import Faults, Gossip, Graph

TOL = 1e-8
METHODS = {"plain": Gossip(accelerated=False), "accelerated": Gossip()}
LATENCY = 0.05  # seconds, one way
TCP_IP, SEGMENT = 40, 1460  # bytes: the headers of a segment at least, and what it holds
MOST_EXCHANGES = 2e9  # that are simulated for a row of the plan
EXCHANGE = ("REQUEST", "ANSWER", "TRANSFER", "ACK")


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
                    network.simulate(graph, start(graph), method, seed=s, tol=TOL).messages
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
        r = network.simulate(graph, start(graph), method, tol=TOL, seed=seed)
        slopes.append(r.rate_measured)
    both = np.array(errors)
    return both[:, : len(early)], both[:, len(early) :], slopes


def squared_errors(graph: Graph, method: Gossip, times: list[float], seed: int) -> np.ndarray:
    r = network.simulate(graph, start(graph), method, tol=0.0, until=max(times), seed=seed,
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
                network.simulate(graph, start(graph), method, tol=0.0, events=count, seed=s,
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
        r = network.run(graph, start(graph), transport, tol=1e-30, seconds=seconds, seed=0,
                        log=False)  # fmt: skip
        frames = len(EXCHANGE) * r.events_per_s
        print(
            f"  {transport:8} {r.events_per_s:>8,.0f} exchanges/s   {frames:>8,.0f} messages/s on "
            f"the wire at least   ledger error {r.ledger_error:.0e}",
            flush=True,
        )


def plan(quick: bool) -> None:
    """A million nodes."""
    show_bytes()
    print(
        "\nExchanges over the number of nodes, to 1e-8 (~: not run, from the row above by the "
        "theorem's rates);"
    )
    print("kB that a node sends, with headers, for 1 and 1000 numbers; the simulator's memory")
    print(
        f"  {'graph':20}{'plain':>10}{'accelerated':>12}{'kB':>7}{'kB (1000)':>11}"
        f"{'exchanges/s':>13}{'bytes/node':>12}"
    )
    sizes = {3: (1000, 10_000), 8: (1000, 10_000)}
    if not quick:
        sizes = {3: (1000, 10_000, 100_000, 1_000_000), 8: (1000, 10_000, 100_000)}
    for degree, counts in sizes.items():
        show_sizes([f"regular:{degree}x{n}" for n in counts])
    show_sizes([f"grid:{m}x{m}" for m in ((32, 100) if quick else (32, 100, 316, 1000))])
    show_times(["regular:3x1000", "grid:31x31"] + ([] if quick else ["regular:3x10000"]))


def show_bytes() -> None:
    """On the wire, by the frames of the real nodes."""
    print("Bytes of an exchange on the wire: frames alone, and with TCP/IP headers")
    for dim in (1, 1000):
        frames = frame_bytes(dim)
        total = sum(frames.values())
        parts = ", ".join(f"{name} {size:,}" for name, size in frames.items())
        print(f"  {dim:>5} numbers: {parts}; together {total:,}, {with_headers(frames):,}")


def frame_bytes(dim: int) -> dict[str, int]:
    from continuized.network import frames
    from continuized.network import messages as kinds

    codec = frames.Codec(bytes(frames.KEY_BYTES), dim)
    values = np.zeros(dim)
    sizes = {}
    for name in EXCHANGE:
        kind = getattr(kinds, name)
        carried = values if kind in kinds.WITH_VALUES else None
        sizes[name] = len(codec.encode(kinds.Message(kind, 0, 1, 0, False, carried)))
    return sizes


def with_headers(frames: dict[str, int]) -> int:
    """Bytes of frames in segments of their own."""
    return sum(size + TCP_IP * math.ceil(size / SEGMENT) for size in frames.values())


def show_sizes(specs: list[str]) -> None:
    """A row for each graph, measured in a process of its own, so that its memory can be told."""
    above: dict[str, float] = {}
    for spec in specs:
        command = [sys.executable, __file__, "--one", spec]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
        row = json.loads(done.stdout)
        cells = []
        for name in METHODS:
            if row[name] is None:
                row[name] = above[name] * above[f"rate {name}"] / row[f"rate {name}"]
                cells.append(f"~{row[name]:,.0f}")
            else:
                cells.append(f"{row[name]:,.0f}")
        sent = [row["accelerated"] * with_headers(frame_bytes(dim)) / 1000 for dim in (1, 1000)]
        print(
            f"  {spec:20}{cells[0]:>10}{cells[1]:>12}{sent[0]:>7,.0f}{sent[1]:>11,.0f}"
            f"{row['speed']:>13,.0f}{row['bytes']:>12,.0f}",
            flush=True,
        )
        above = row


def one(spec: str) -> None:
    """Of one graph, as JSON: exchanges over nodes (None where they would be too many), the
    theorem's rates times nodes, the simulator's speed and memory."""
    graph = Graph.of(spec)
    n, row = graph.nodes, {}
    network.simulate("path:3", [1.0, 0.0, 0.0])  # compiles
    for name, method in METHODS.items():
        rate = method.constants(graph).theta if method.accelerated else 0.5 * graph.mu_g
        row[f"rate {name}"], row[name] = rate * n, None
        limit = None if math.log(1.0 / TOL) / rate < MOST_EXCHANGES else 10 * n
        tracemalloc.start()
        r = network.simulate(graph, start(graph), method, tol=TOL, seed=0, record=0, events=limit)
        row["bytes"] = tracemalloc.get_traced_memory()[1] / n
        tracemalloc.stop()
        row["speed"] = r.events_per_s
        if r.reached:
            row[name] = r.messages / n
    print(json.dumps(row))


def show_times(specs: list[str]) -> None:
    """With delays: how long it takes where a message takes 50 ms."""
    print(
        f"\nSeconds on links of {1000 * LATENCY:g} ms one way (exponential), 1 % of messages lost;"
    )
    print("clocks as quick as half the delay limit allows; exchanges over the number of nodes")
    for spec in specs:
        graph = Graph.of(spec)
        delay = 0.5 * network.delay_limit(graph)
        faults = Faults(delay=delay, loss=0.01)
        for name, method in METHODS.items():
            r = network.simulate(graph, start(graph), method, tol=TOL, seed=0, faults=faults)
            seconds = r.t * LATENCY / delay
            print(
                f"  {spec:18}{name:12}{seconds:>9.1f} s   {r.messages / graph.nodes:>8.1f} "
                f"exchanges, {r.messages / graph.nodes / seconds:.2f} a second"
                f"{'' if r.reached else '   NOT REACHED'}",
                flush=True,
            )


PARTS: dict[str, Callable[[bool], None]] = {
    "messages": messages,
    "rates": rates,
    "speed": speed,
    "transports": transports,
    "plan": plan,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--quick", action="store_true", help="fewer seeds and smaller sizes")
    parser.add_argument("--one", metavar="GRAPH", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one)
        return
    for name in options.parts or PARTS:
        began = time.perf_counter()
        PARTS[name](options.quick)
        print(f"  [{name}: {time.perf_counter() - began:.0f} s]\n", flush=True)


if __name__ == "__main__":
    main()
