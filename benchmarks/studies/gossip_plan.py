"""A plan for a million nodes on the internet: exchanges, bytes, memory and time.

    pip install .
    python -m benchmarks.studies.gossip_plan [--quick]

For nodes that know some random peers (regular:3xN, regular:8xN), or their neighbours in the plane
(grids): exchanges until the squared error fell by 1e-8, all mass on node 0 at the start; what a
node sends; what the simulator holds for it.  Times are for links with a one-way delay of 50 ms.
Clocks are as quick as leaves acceleration half of the delay that it bears (network.delay_limit),
and plain gossip has the same.  Bytes are those of the real nodes' frames, each in TCP segments of
its own.  In full it takes about 15 minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tracemalloc

import numpy as np

from benchmarks.studies.gossip import METHODS, TOL, start
from continuized import network
from continuized.network import Faults, Graph

LATENCY = 0.05  # seconds, one way
TCP_IP, SEGMENT = 40, 1460  # bytes: the headers of a segment at least, and what it holds
MOST_EXCHANGES = 2e9  # that are simulated for a row of the plan
EXCHANGE = ("REQUEST", "ANSWER", "TRANSFER", "ACK")


def plan(quick: bool) -> None:
    """A million nodes."""
    show_bytes()
    show_process()
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
    from continuized.network.protocol import transitions as kinds
    from continuized.network.workers import frames

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


def show_process() -> None:
    """The memory of a process that can be a node."""
    say = "import resource as r; print(r.getrusage(r.RUSAGE_SELF).ru_maxrss)"
    code = f"import continuized.network.runtime.transports.local_worker; {say}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"Memory of a process that is a node: {int(done.stdout) / 1024:.0f} MiB")


def show_sizes(specs: list[str]) -> None:
    """A row for each graph, measured in a process of its own, so that its memory can be told."""
    above: dict[str, float] = {}
    for spec in specs:
        command = [sys.executable, "-m", "benchmarks.studies.gossip_plan", "--one", spec]
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
        r = network.simulate(
            graph, start(graph), method=method, tol=TOL, rng=0, record=0, events=limit
        )
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
            r = network.simulate(graph, start(graph), method=method, tol=TOL, rng=0, faults=faults)
            seconds = r.t * LATENCY / delay
            print(
                f"  {spec:18}{name:12}{seconds:>9.1f} s   {r.messages / graph.nodes:>8.1f} "
                f"exchanges, {r.messages / graph.nodes / seconds:.2f} a second"
                f"{'' if r.reached else '   NOT REACHED'}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--one", metavar="GRAPH", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one)
    else:
        plan(options.quick)


if __name__ == "__main__":
    main()
