"""Every penalty on every problem: the run with known constants is the plain loop, and repeats."""

from __future__ import annotations

import numpy as np
import pytest

import continuized as cz
from continuized.process.composite import Composite
from tests.invariants.registry import (
    PENALTIES,
    STEPS,
    events_of,
    every_penalty,
    plain_loop,
    problem,
    run,
    same_bits,
    x0_of,
)

ON = (
    "quadratic",
    "paper convex",
    "least squares, sparse",
    "logistic",
    "user",
    "user, Numba gradient",
)
every_problem = pytest.mark.parametrize("on", ON)


@every_problem
@every_penalty
def test_a_run_is_the_plain_loop(penalty: str, on: str) -> None:
    p, prox = problem(on), PENALTIES[penalty]
    x0 = x0_of(p)
    for method in (cz.Continuized(p.L), cz.Continuized(p.L, p.mu)):
        r = run(method, p, prox=prox)
        move = Composite(prox, x0.shape).move
        states = plain_loop(r.method, p, x0, events_of(r.method, 4, STEPS), move=move)
        np.testing.assert_allclose(r.path.x, [s.x for s in states], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(r.path.z, [s.z for s in states], rtol=1e-10, atol=1e-12)


@every_penalty
def test_the_same_seed_gives_the_same_bits_and_nothing_given_is_changed(penalty: str) -> None:
    p, prox = problem("least squares"), PENALTIES[penalty]
    x0 = x0_of(p)
    one, two = (run(cz.Continuized(p.L), p, prox=prox, x0=x0) for _ in range(2))
    assert same_bits(one.path.x, two.path.x)
    assert same_bits(x0, x0_of(p))
    shown: list[np.ndarray] = []
    called = run(cz.Continuized(p.L), p, prox=prox, callback=shown.append)
    assert same_bits(called.path.x, one.path.x)
    assert same_bits(shown, one.path.x[1:])
    assert same_bits(run(cz.Continuized(p.L), p, prox=prox, record=False).x, one.x)


@every_penalty
def test_float32_stays_float32(penalty: str) -> None:
    p = problem("quadratic")
    r = run(cz.Continuized(p.L), p, prox=PENALTIES[penalty], x0=x0_of(p, np.float32))
    assert r.x.dtype == r.path.z.dtype == np.float32
