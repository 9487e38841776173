"""A recorded path, `r.at(t)`: right-continuous with left limits, and exact between events."""

from __future__ import annotations

import math

import numpy as np
import pytest

import continuized as cz
from tests.invariants.registry import STEPS, every_method, method, problem, run, same_bits, x0_of


@every_method
def test_the_path_is_cadlag_and_exact_between_events(name: str) -> None:
    p = problem("quadratic")
    m = method(name, p)
    r = run(m, p)
    t, xs, zs = r.trace.t, r.path.x, r.path.z
    for k in range(STEPS + 1):
        for got, wanted in zip(r.at(t[k]), (xs[k], zs[k]), strict=True):
            assert same_bits(got, wanted)  # after the jump
    for got, wanted in zip(r.at(0.0, side="left"), (xs[0], zs[0]), strict=True):
        assert same_bits(got, wanted)
    for k in range(STEPS):
        gap = float(r.path.dt[k + 1])
        for at, side, dt in (
            (t[k + 1], "left", gap),
            (t[k] + 0.3 * gap, "right", 0.3 * gap),
            (t[k] + 0.3 * gap, "left", 0.3 * gap),
        ):
            a, b = m.flow(float(t[k]), float(at), dt)
            x, z = r.at(at, side=side)
            np.testing.assert_allclose(x, xs[k] + a * (zs[k] - xs[k]), rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(z, zs[k] + b * (xs[k] - zs[k]), rtol=1e-11, atol=1e-12)
    # Just before an event it is near the left limit, and the jump is the gradient step.
    if name.startswith(("continuized", "custom")):
        left, _ = r.at(t[9], side="left")
        np.testing.assert_allclose(r.at(np.nextafter(t[9], 0.0))[0], left, rtol=1e-9)
        np.testing.assert_allclose(xs[9], left - p.grad(left) / p.L, rtol=1e-11)


def test_the_left_limit_uses_the_drawn_gap() -> None:
    # At T = 1e12 the times themselves are known to 1e-4 only.
    gaps = np.array([1e12, 0.3])
    clock = cz.clock.Recorded(np.cumsum(gaps), gaps)
    p = problem("quadratic")
    m = cz.Continuized(p.L, p.mu, 0.3)
    r = cz.minimize(p, x0_of(p), method=m, clock=clock, record="path")
    x, _ = r.at(r.trace.t[2], side="left")
    a, _ = m.flow(1e12, 1e12 + 0.3, 0.3)
    np.testing.assert_allclose(x - r.path.x[1], a * (r.path.z[1] - r.path.x[1]), rtol=1e-13)


@pytest.mark.parametrize("bad", [-0.1, 1e9, math.nan, math.inf])
def test_at_a_time_outside(bad: float) -> None:
    r = run(cz.Continuized(1.0), problem("paper strongly convex"))
    with pytest.raises(
        ValueError, match=r"t must be a number in \[0, .*\], got .*; the last event"
    ):
        r.at(bad)


def test_at_needs_a_path_and_a_side() -> None:
    p = problem("paper strongly convex")
    with pytest.raises(ValueError, match='record="path"'):
        run(cz.Continuized(1.0), p, record=True).at(0.0)
    with pytest.raises(ValueError, match="side must be"):
        run(cz.Continuized(1.0), p).at(0.0, side="middle")


@pytest.mark.parametrize("shape", [(4,), (2, 2), (0,), (1, 4, 1)])
def test_many_times_are_asked_for_at_once(shape: tuple[int, ...]) -> None:
    p = cz.problems.paper_strongly_convex()
    r = cz.minimize(p, np.zeros(3), maxiter=9, rng=0, record="path")
    times = np.linspace(0.0, r.trace.t[-1], max(math.prod(shape), 1))[: math.prod(shape)]
    for side in ("right", "left"):
        x, z = r.at(times.reshape(shape), side)
        assert x.shape == z.shape == (*shape, 3)
        for one, (a, b) in enumerate(zip(x.reshape(-1, 3), z.reshape(-1, 3), strict=True)):
            alone = r.at(times[one], side)
            assert np.array_equal(a, alone[0])
            assert np.array_equal(b, alone[1])
    with pytest.raises(ValueError, match="t must be a number in"):
        r.at([0.0, 2.0 * r.trace.t[-1]])
