"""Benchmarks for `tools/compare_runs.py --speed`: the least seconds of each, in one process.

PYTHONPATH=TREE/src python tools/compare_cases/speed.py [--only PATTERN]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from adapter_cases import svmlight_text
from common import minimize, quadratic, seeded, user_fun, user_grad
from scipy import sparse

import continuized as cz
from continuized import network

# Seconds of repeats, of which there are at least 5.  A repeat takes a few milliseconds: less than
# the time for which a busy machine leaves a process alone.
BUDGET = 0.4


def benchmarks(folder: Path) -> dict[str, Callable[[], Any]]:
    """What is timed, each after a call that compiles."""
    rng = np.random.default_rng(0)
    p, x100 = quadratic(100), np.zeros(100)
    dense = rng.standard_normal((2000, 100))
    logistic = cz.problems.LogisticRegression(dense, np.sign(dense[:, 0]), 1e-3)
    S = sparse.random_array((2000, 200), density=0.02, rng=rng, format="csr")
    signs = np.where(S @ rng.standard_normal(200) > 0.0, 1.0, -1.0)
    ridge = cz.problems.LeastSquares(S, signs, 1e-3)
    by_rows = cz.problems.LogisticRegression(S, signs, 1e-3)
    rows = sparse.random_array((50_000, 300), density=0.04, rng=rng, format="csr")
    file = folder / "rows.svm"
    file.write_bytes(svmlight_text(rows, np.ones(50_000)))
    events = partial(minimize, record=False, tol=0.0)
    grid, values = network.Graph.of("grid:30x30"), np.arange(900.0)
    gossip = partial(seeded, network.simulate, grid, values, tol=0.0)
    lossy = network.Faults(delay=0.1, loss=0.1, duplication=0.05, skew=0.1)
    parts = network.split(logistic, 16)
    m = cz.Continuized(p.L, p.mu)
    return {
        "a call of minimize": partial(events, quadratic(3), np.zeros(3), maxiter=10),
        "step, d = 100": partial(events, p, x100, maxiter=20_000),
        "step, d = 100, recorded": partial(minimize, p, x100, maxiter=5_000),
        "step, Python gradient": partial(events, user_fun, x100, user_grad, L=1.5, maxiter=500),
        "step, unknown L": partial(minimize, user_fun, x100, user_grad, maxiter=50),
        "ensemble, d = 100": partial(seeded, cz.ensemble, p, m, x100, runs=64, steps=200),
        "gradient, dense logistic": lambda: [logistic.grad(x100) for _ in range(20)],
        "coordinate events": partial(
            events, ridge, np.zeros(200), method=cz.CoordinateDescent(), maxiter=20_000
        ),
        "dual coordinate events": partial(
            events, by_rows, np.zeros(200), method=cz.DualCoordinate(), maxiter=20_000
        ),
        "gossip events": partial(gossip, events=30_000),
        "gossip events with faults": partial(gossip, events=2_000, faults=lossy),
        "decentralised events": partial(
            seeded, network.minimize, "grid:4x4", parts, "dadao", events=500, tol=0.0
        ),
        "reading LIBSVM": partial(cz.problems.read, file),
    }


def least_seconds(function: Callable[[], Any]) -> tuple[float, float]:
    """The least time of a call over repeats that fill the budget: on the wall, and of processors.

    The second leaves out when other processes had the cores, and adds up over threads.
    """
    function()
    walls: list[float] = []
    processors: list[float] = []
    while len(walls) < 5 or sum(walls) < BUDGET:
        wall, processor = time.perf_counter(), time.process_time()
        function()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return min(walls), min(processors)


def main() -> None:
    """Time everything, and print the seconds as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="PATTERN", default="")
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = benchmarks(Path(folder))
        found = {name: least_seconds(run) for name, run in named.items() if only in name}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
