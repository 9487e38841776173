"""Ensembles: 10,000 runs x 1,000 steps on the paper's d = 100 function, side by side.

Ours draws its own event times; the peers are given theirs, so that their random numbers
cost them nothing.  All give T_k and f(x_k) of every run.  Interleaved, minimum of several
repeats; what counts are the ratios.

    pip install "continuized[bench]"; python benchmarks/ensemble.py
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

import continuized as cz

FIRST_CALL = """
import sys, time
started = time.perf_counter()
import numpy as np
import continuized as cz
p = cz.problems.paper_convex()
wanted = {"steps": 10} if sys.argv[1] == "steps" else {"times": [1.0, 2.0]}
cz.ensemble(p, cz.Continuized(p.L), np.zeros(100), runs=2, seed=0, **wanted)
print(time.perf_counter() - started)
"""


def first_calls() -> None:
    """The first call in a new process: with an empty cache on disk, then with the one it left."""
    for wanted in ("steps", "times"):
        with tempfile.TemporaryDirectory() as cache:
            env = {**os.environ, "NUMBA_CACHE_DIR": cache}
            command = [sys.executable, "-c", FIRST_CALL, wanted]
            seconds = [float(subprocess.check_output(command, env=env)) for _ in range(2)]
        print(f"first call with {wanted}=: {seconds[0]:.2f} s, then from disk {seconds[1]:.2f} s")


def batched_numpy(p: cz.problems.Quadratic, gaps: np.ndarray) -> np.ndarray:
    """All runs at once, a step at a time."""
    runs, steps = gaps.shape
    x = z = np.zeros((runs, p.dim))
    t, f = np.zeros(runs), np.empty((runs, steps + 1))
    f[:, 0] = p.values(x)
    for k in range(steps):
        t = t + gaps[:, k]
        r = gaps[:, k] / t
        y = x + (r * (2.0 - r))[:, None] * (z - x)
        g = p.eigenvalues * (y - p.x_star)
        x, z = y - g / p.L, z - (t / (2.0 * p.L))[:, None] * g
        f[:, k + 1] = p.values(x)
    return f


def jax_vmap(p: cz.problems.Quadratic) -> Callable[[np.ndarray], np.ndarray]:
    """jax.vmap over the runs of a lax.scan over the steps, in double precision."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    lam, star = jnp.asarray(p.eigenvalues), jnp.asarray(p.x_star)

    def value(x):
        return 0.5 * jnp.sum(lam * (x - star) ** 2)

    def one_run(gaps):
        def step(state, gap):
            t, x, z = state
            t = t + gap
            r = gap / t
            y = x + r * (2.0 - r) * (z - x)
            g = lam * (y - star)
            x, z = y - g / p.L, z - t / (2.0 * p.L) * g
            return (t, x, z), (t, value(x))

        zero = jnp.zeros(p.dim)
        return jax.lax.scan(step, (0.0, zero, zero), gaps)[1]

    compiled = jax.jit(jax.vmap(one_run))

    def run(gaps: np.ndarray) -> np.ndarray:
        _, f = compiled(gaps)
        return np.asarray(jax.block_until_ready(f))

    return run


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=10_000)
    arguments.add_argument("--steps", type=int, default=1_000)
    arguments.add_argument("--repeats", type=int, default=5)
    a = arguments.parse_args()
    p = cz.problems.paper_convex()
    method, x0 = cz.Continuized(p.L), np.zeros(p.dim)
    gaps = np.random.default_rng(0).standard_exponential((a.runs, a.steps))

    def ours(threads: int | None = None) -> np.ndarray:
        return cz.ensemble(p, method, x0, runs=a.runs, steps=a.steps, seed=0, threads=threads).fun

    contestants = {}
    if importlib.util.find_spec("jax"):
        jax_run = jax_vmap(p)
        contestants["jax.vmap"] = lambda: jax_run(gaps)
    # Right after jax, the less favourable place: new memory for the result is dear there.
    contestants["continuized, all threads"] = ours
    contestants["batched NumPy"] = lambda: batched_numpy(p, gaps)
    contestants["continuized, 1 thread"] = lambda: ours(1)
    best = dict.fromkeys(contestants, float("inf"))
    for repeat in range(a.repeats + 1):
        for name, run in contestants.items():
            started = time.perf_counter()
            last = float(np.median(run()[:, -1]))
            if repeat:  # the first round compiles
                best[name] = min(best[name], time.perf_counter() - started)
            elif not 0.0 < last < 1e-8:
                raise SystemExit(f"{name} gives a median of {last}: it does not run our loop")
    base = best["continuized, all threads"]
    print(f"{a.runs:,} runs x {a.steps:,} steps, d = {p.dim}")
    for name, seconds in best.items():
        print(f"{name:28s} {seconds / base:6.2f} x   ({seconds:.2f} s)")
    first_calls()


if __name__ == "__main__":
    main()
