"""Run by test_gossip_checkpoints: a simulation that is killed again and again, and resumed.

    python killed_simulations.py FOLDER

As `killed_runs.py`; a child tells of every checkpoint that it has written.  Exit code 0 if all is
well.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from killed_runs import killed_child

from continuized import network
from continuized.network import Faults, Graph, Outcome
from continuized.network.simulation import stepper
from continuized.support.checkpoints import checkpointer as checkpoints

KILLS = 12
MOST = 5  # checkpoints that a child may write
stepper.SMALLEST_BLOCK = 1000  # events between two of them: many in a short run
GRAPH = Graph.of("cycle:40")
VALUES = np.random.default_rng(0).normal(size=(40, 2))
FAULTS = Faults(delay=0.2, loss=0.05, duplication=0.05, skew=0.1, deaths=((9e2, 4),))


def simulate(**how: Any) -> Outcome:
    return network.simulate(
        GRAPH, VALUES, method="plain", rng=9, tol=0.0, until=1100.0 * KILLS * MOST, faults=FAULTS,
        record=50, **how,
    )  # fmt: skip


def bits(r: Outcome) -> list[Any]:
    return [
        r.t,
        r.messages,
        r.error,
        r.staleness,
        *(a.tobytes() for a in (r.x, r.z, *r.trace.columns.values())),
    ]


def main(path: Path) -> None:
    whole = simulate()
    save = checkpoints.save

    def work(tell: Callable[[], None]) -> None:
        def told(*args: Any, **options: Any) -> None:
            save(*args, **options)
            tell()

        checkpoints.save = told
        simulate(checkpoint=path, every=0.0, resume=True)

    seen = []
    for _ in range(KILLS):
        killed_child(work, random.randint(1, MOST - 1))
        found = path if path.exists() else checkpoints.previous(path)
        seen.append(checkpoints.load(found)[0]["state"]["stepper"]["k"])
    assert seen == sorted(seen), seen
    assert 0 < seen[0] < seen[-1] < whole.messages, seen
    assert bits(simulate(checkpoint=path, resume=True)) == bits(whole)


if __name__ == "__main__":
    random.seed(0)
    main(Path(sys.argv[1]) / "run.npz")
