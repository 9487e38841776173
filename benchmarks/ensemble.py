"""`ensemble`: many runs at once on the paper's convex function, beside jax.vmap and NumPy.

Ours draws its own event times; the others are given theirs, so that random numbers cost them
nothing.  All give f(x_k) of every run at every event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import continuized as cz
from benchmarks.outcome import Suite
from benchmarks.peers import in_doubles, load
from benchmarks.timing import Contestant, Say, Work, WrongError, compete
from continuized.problems.base import Array

NOTE = "Ours draws its event times, the others are given theirs."


class Size(NamedTuple):
    """How much is done."""

    runs: int
    steps: int
    repeats: int


FULL = Size(runs=10_000, steps=1_000, repeats=5)
QUICK = Size(runs=2_000, steps=500, repeats=3)


def run(size: Size, say: Say) -> Suite:
    """The contest of this suite."""
    p = cz.problems.paper_convex()
    gaps = np.random.default_rng(0).standard_exponential((size.runs, size.steps))
    expected = float(np.median(in_numpy(p, gaps[: min(size.runs, 500)])[:, -1]))
    contestants = [
        Contestant("continuized, all threads", lambda: ours(p, size, None)),
        Contestant("continuized, 1 thread", lambda: ours(p, size, 1)),
        Contestant("jax.vmap", lambda: _vmap(p, gaps)),
        Contestant("NumPy, all runs at once", lambda: lambda: in_numpy(p, gaps)),
    ]
    title = f"{size.runs:,} runs x {size.steps:,} steps, d = {p.dim}"
    contest = compete(
        title, contestants, repeats=size.repeats, note=NOTE, say=say,
        check=lambda f: _same_law(f, size, expected),
    )  # fmt: skip
    return Suite([contest], [])


def _same_law(f: Array, size: Size, expected: float) -> float:
    """1; WrongError where the shape or, by far, the median at the end is another."""
    shape, median = (size.runs, size.steps + 1), float(np.median(f[:, -1]))
    if f.shape != shape:
        raise WrongError(f"gives an array of shape {f.shape}, and not {shape}")
    if not 0.1 * expected <= median <= 10.0 * expected:
        raise WrongError(f"its median at the end is {median:.2g}, and not about {expected:.2g}")
    return 1.0


def ours(p: cz.problems.Quadratic, size: Size, threads: int | None) -> Work:
    """Our ensemble, on so many threads, or on all."""
    method, x0 = cz.Continuized(p.L), np.zeros(p.dim)
    return lambda: (
        cz.ensemble(p, method, x0, runs=size.runs, steps=size.steps, rng=0, threads=threads).fun
    )


def in_numpy(p: cz.problems.Quadratic, gaps: Array) -> Array:
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


def _vmap(p: cz.problems.Quadratic, gaps: Array) -> Work:
    """jax.vmap over the runs of a scan over the steps."""
    jax = load("jax")

    def prepare() -> Callable[[Any], Any]:
        jnp = jax.numpy
        curvatures, star = jnp.asarray(p.eigenvalues), jnp.asarray(p.x_star)

        def value(x: Any) -> Any:
            return 0.5 * jnp.sum(curvatures * (x - star) ** 2)

        def step(state: Any, gap: Any) -> Any:
            t, x, z = state
            t = t + gap
            r = gap / t
            y = x + r * (2.0 - r) * (z - x)
            g = curvatures * (y - star)
            x, z = y - g / p.L, z - t / (2.0 * p.L) * g
            return (t, x, z), value(x)

        def one_run(gaps: Any) -> Any:
            zero = jnp.zeros(p.dim)
            values = jax.lax.scan(step, (0.0, zero, zero), gaps)[1]
            return jnp.concatenate([value(zero)[None], values])

        whole: Callable[[Any], Any] = jax.jit(jax.vmap(one_run))
        return whole

    compiled = in_doubles(prepare)()
    return in_doubles(lambda: np.asarray(jax.block_until_ready(compiled(gaps))))
