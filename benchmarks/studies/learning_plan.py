"""What an exchange of a large model takes: the parts that are computed, measured, and the wire.

    python -m benchmarks.studies.learning_plan [--quick]

Makes the numbers of the section "Learning" of docs/internet.md.  Every part of an exchange of
float32 models is timed on its own, in processor time of one core, the least of several rounds: what
a node does to answer, to pay and to be paid, and to make and to read the frames, with their
authentication.  The wire is added on paper: two frames, one after the other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.learning.links import make_codec
from continuized.network.learning.model import LearningModel
from continuized.network.protocol.transitions import ANSWER, Message
from continuized.network.workers.frames import FrameReader

PIECE = 1 << 18  # bytes that come at once
GIGABITS = (1, 10, 100)


def measure(work: Callable[[], object], rounds: int) -> float:
    best = np.inf
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return float(best)


def find_parts(size: int, rounds: int) -> dict[str, float]:
    """Seconds of one core for the parts of an exchange, both ends together."""
    x = np.random.default_rng(0).standard_normal(size + 1).astype(np.float32)
    x[-1] = 0.0
    node = LearningModel(x, Constants(0.1, 0.5, 2.0), size)
    codec = make_codec(bytes(32), size, np.float32)
    said = node.answer()
    frame = bytes(codec.encode(Message(ANSWER, 0, 1, 1, False, said)))

    def read() -> None:
        reader = FrameReader(codec)
        for start in range(0, len(frame), PIECE):
            list(reader.feed(frame[start : start + PIECE]))

    each = {
        "mix": lambda: node.mix(0.1),
        "answer": node.answer,
        "pay": lambda: node.pay(said),
        "be paid": lambda: node.apply(said, plain=False),
        "make a frame": lambda: codec.encode(Message(ANSWER, 0, 1, 1, False, said)),
        "read a frame": read,
    }
    twice = {"mix", "make a frame", "read a frame"}
    # Small ones are repeated within a round: the clock of a process is coarse.
    repeats = max(1, 10**6 // size)

    def repeat(work: Callable[[], object]) -> Callable[[], None]:
        return lambda: [work() for _ in range(repeats)] and None

    return {
        name: (1 + (name in twice)) * measure(repeat(work), rounds) / repeats
        for name, work in each.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, up to 10^6 numbers")
    quick = parser.parse_args().quick
    sizes = [10**4, 10**5, 10**6] + ([] if quick else [10**7])
    rounds = 3 if quick else 9
    per_number = 0.0
    for size in sizes:
        parts = find_parts(size, rounds)
        per_number = sum(parts.values()) / size
        shown = ", ".join(f"{name} {1e9 * part / size:.1f}" for name, part in parts.items())
        print(f"{size:>10,} numbers: {1e9 * per_number:.1f} ns each ({shown})", flush=True)
    print("\nSeconds for an exchange, computed and sent, by gigabits a second")
    for size in (10**6, 10**7, 10**8, 10**9):
        times = [f"{size * (per_number + 64.0 / (1e9 * g)):>10.3g}" for g in GIGABITS]
        print(f"{size:>14,} numbers, {8 * size / 1e6:>6,.0f} MB: {'  '.join(times)}")


if __name__ == "__main__":
    main()
