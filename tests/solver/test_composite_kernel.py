"""f + psi compiled, where psi is a sum over entries: it runs as the same psi does in NumPy.

A prox of the user's own class is run by NumPy, event by event, whatever it does: that is the other
engine.  Both draw the same clock.
"""

from __future__ import annotations

import platform
import re
import warnings
from functools import cache
from typing import Any

import numba
import numpy as np
import pytest

import continuized as cz
from continuized.process.prox import is_mostly_rounding
from continuized.process.stepper import Status
from continuized.solver.kernels import composite as kernel
from continuized.solver.kernels.loop import make_block_loop
from continuized.support.jit import UNCOUNTED, jit
from tests.invariants.registry import same_bits

pytestmark = pytest.mark.blas
D = 12


class InNumPy:
    """The same psi, of which compiled code knows nothing."""

    def __init__(self, prox: cz.prox.Separable) -> None:
        self.prox = prox

    def __call__(self, v: np.ndarray, step: float) -> np.ndarray:
        return self.prox(v, step)

    def value(self, x: np.ndarray) -> float:
        return self.prox.value(x)


def least_squares() -> cz.Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, D)) * np.linspace(0.3, 1.0, D)
    return cz.problems.LeastSquares(X, X[:, 0] - X[:, 1] + rng.standard_normal(30))


def quadratic() -> cz.problems.Quadratic:
    return cz.problems.Quadratic(np.linspace(0.05, 1.0, D), np.linspace(-1.0, 1.0, D))


@cache
def users_compiled() -> cz.Problem:
    p = quadratic()
    eigenvalues, x_star = p.eigenvalues.copy(), p.x_star.copy()

    @numba.njit
    def grad(x: Any, out: Any) -> None:
        for c in range(x.size):
            out[c] = eigenvalues[c] * (x[c] - x_star[c])

    return cz.Problem(p.fun, grad, L=p.L, mu=p.mu)


def users_python() -> cz.Problem:
    p = quadratic()
    return cz.Problem(p.fun, lambda x: p.eigenvalues * (x - p.x_star), L=p.L, mu=p.mu)


PROBLEMS: dict[str, Any] = {
    "regression": least_squares,
    "quadratic": quadratic,
    "user's compiled gradient": users_compiled,
    "user's gradient in Python": users_python,
}
PENALTIES = {
    "l1": cz.prox.L1(np.linspace(0.0, 0.1, D)),
    "elastic net": cz.prox.ElasticNet(0.05, 0.1),
    "box": cz.prox.Box(-0.1, np.linspace(0.05, 0.5, D)),
    "non-negative": cz.prox.NonNegative(0.01),
    "all": cz.prox.Separable(0.02, 0.1, -0.2, 0.3),
}


def run(p: Any, prox: Any, dtype: Any = np.float64, **how: Any) -> Any:
    return cz.minimize(p, np.zeros(D, dtype), prox=prox, **{"rng": 3, **how})


@pytest.mark.parametrize("prox", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_compiled_and_plain_runs_are_the_same(problem: str, prox: Any) -> None:
    p = PROBLEMS[problem]()
    for mu in (0.0, p.mu):
        how: Any = {"L": p.L, "mu": mu, "maxiter": 400, "record": "path"}
        ours, plain = run(p, prox, **how), run(p, InNumPy(prox), **how)
        assert same_bits(ours.path.t, plain.path.t)
        # Steps of z grow as t/(2L) where mu = 0: an error of 1e-16 in a gradient is 400 times that.
        np.testing.assert_allclose(ours.path.x, plain.path.x, atol=1e-12)
        np.testing.assert_allclose(ours.path.z, plain.path.z, atol=1e-10)
        np.testing.assert_allclose(ours.trace.fun, plain.trace.fun, rtol=1e-12)
        assert ours.njev == plain.njev
        assert np.all(np.isfinite([prox.value(x) for x in ours.path.x]))


def test_noise_is_added_to_the_gradients() -> None:
    p, prox = least_squares(), PENALTIES["all"]
    how: Any = {"method": cz.Continuized(p.L, p.mu), "maxiter": 300}
    ours, plain = (
        run(p, psi, noise=cz.noise.Gaussian(1e-3), **how) for psi in (prox, InNumPy(prox))
    )
    np.testing.assert_allclose(ours.x, plain.x, atol=1e-12)
    assert not np.allclose(ours.x, run(p, prox, **how).x, atol=1e-6)


@pytest.mark.slow
def test_float32_stays_float32() -> None:
    p, prox = least_squares(), PENALTIES["all"]
    how: Any = {"method": cz.Continuized(p.L, p.mu), "maxiter": 300, "record": "path"}
    ours, plain = (run(p, psi, np.float32, **how) for psi in (prox, InNumPy(prox)))
    assert ours.path.x.dtype == np.float32
    np.testing.assert_allclose(ours.path.x, plain.path.x, atol=1e-5)
    assert np.all(np.isfinite([prox.value(x) for x in ours.path.x]))


@pytest.mark.parametrize("prox", PENALTIES.values(), ids=PENALTIES)
def test_every_kind_of_gradient_gives_the_same_bits(prox: Any) -> None:
    """One function takes the step, whoever gives the gradient."""
    for how in ({"tol": 1e-7}, {"maxiter": 300, "record": "path"}):
        ours, users, python = (
            run(make(), prox, L=1.0, mu=0.05, **how)
            for make in (quadratic, users_compiled, users_python)
        )
        assert ours.nit == users.nit == python.nit
        assert same_bits(ours.x, users.x)
        assert same_bits(ours.x, python.x)


@pytest.mark.parametrize("mu", [0.0, 0.04])
@pytest.mark.parametrize("make", [least_squares, users_python])
def test_the_end_is_that_of_the_plain_run(make: Any, mu: float) -> None:
    """At the same event: what tol is compared with falls by far more than rounding from one to the
    next, when it passes 1e-6."""
    for record in (True, False):
        how: Any = {"L": make().L, "mu": mu, "tol": 1e-6, "record": record}
        ours, plain = (
            run(make(), PENALTIES["l1"], **how),
            run(make(), InNumPy(PENALTIES["l1"]), **how),
        )
        assert ours.success
        assert (ours.nit, ours.njev, ours.message) == (plain.nit, plain.njev, plain.message)
        np.testing.assert_allclose(ours.x, plain.x, atol=1e-12)
        np.testing.assert_array_equal(ours.x == 0.0, plain.x == 0.0)


def test_steps_that_are_lost_in_rounding_are_no_end() -> None:
    """gamma is 1e-10: a step from x of size 1e6 is lost, though the gradient is 1e-2."""
    f = cz.Problem(
        lambda x: 0.5 * float((x - 1e6) @ (x - 1e6)), lambda x: x - 1e6, L=1e10, mu=0.0
    )  # fmt: skip
    x0 = np.full(3, 1e6 + 0.01)
    assert is_mostly_rounding(0.0, 1e-10, 0.017, 1.7e6, 2.2e-16)
    for prox in (cz.prox.L1(0.0), InNumPy(cz.prox.L1(0.0))):
        r = cz.minimize(f, x0, L=1e10, mu=0.0, prox=prox, tol=1e-3, maxiter=50, rng=0)
        assert r.status is Status.MAXITER
        assert r.nit == 50
        r = cz.minimize(f, x0, L=1e10, mu=0.0, prox=prox, tol=0.1, maxiter=50, rng=0)
        assert r.success
        assert r.nit == 1  # seen at the first event


@pytest.mark.parametrize("make", [least_squares, users_python])
def test_a_step_that_is_forbidden_is_not_taken(make: Any) -> None:
    """L is far too small."""
    p, how = make(), {"method": cz.Continuized(0.001), "maxiter": 2000}
    ended = []
    for prox in (PENALTIES["l1"], InNumPy(PENALTIES["l1"])):
        with pytest.warns(cz.ConstantsWarning, match="too small") as warned:
            ended.append((run(p, prox, **how), str(warned[0].message)))
    (ours, said), (plain, words) = ended
    assert ours.status is plain.status is Status.DIVERGED
    assert (ours.nit, ours.njev) == (plain.nit, plain.njev)
    np.testing.assert_allclose(ours.x, plain.x, rtol=1e-9)
    assert said[:25] == words[:25]


class Rare:
    """Noise that is infinite now and then."""

    def draw(self, rng: Any, n: int, dim: int) -> Any:
        noise = 1e-3 * rng.standard_normal((n, dim))
        noise[rng.random(n) < 0.05, 0] = np.inf
        return noise

    def sigma2(self, dim: int) -> float:
        return 1e-6 * dim


def test_events_whose_gradients_are_not_finite_are_skipped() -> None:
    p, prox = least_squares(), PENALTIES["box"]
    how: Any = {"method": cz.Continuized(p.L, p.mu), "noise": Rare(), "maxiter": 500}
    ours, plain = (run(p, psi, nonfinite="skip", **how) for psi in (prox, InNumPy(prox)))
    assert ours.skipped == plain.skipped > 10
    np.testing.assert_allclose(ours.x, plain.x, atol=1e-12)


@pytest.mark.parametrize("make", [least_squares, users_python])
def test_a_run_is_resumed_bit_by_bit(make: Any, tmp_path: Any) -> None:
    p, prox = make(), PENALTIES["all"]
    how: Any = {"L": p.L, "mu": 0.0, "record": "path"}
    whole = run(p, prox, maxiter=3000, **how)
    kept = how | {"checkpoint": tmp_path / "run.npz", "every": 0.0}
    run(p, prox, maxiter=1300, **kept)
    again = run(p, prox, maxiter=3000, resume=True, **kept)
    assert same_bits(again.path.x, whole.path.x)
    assert same_bits(again.path.z, whole.path.z)
    assert same_bits(again.trace.fun, whole.trace.fun)


def test_matrices_and_constants_of_each_entry() -> None:
    """x of two axes, and constants that are broadcast along one."""
    target = np.arange(6.0).reshape(2, 3)
    f = cz.Problem(
        lambda x: 0.5 * float(((x - target) ** 2).sum()), lambda x: x - target, L=1.0, mu=1.0
    )
    box = cz.prox.Box(0.5, np.array([1.0, 2.0, 3.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        r = cz.minimize(f, np.ones((2, 3)), L=1.0, mu=1.0, prox=box, tol=1e-9, rng=0)
    np.testing.assert_allclose(r.x, box(target, 1.0), atol=1e-9)


@pytest.mark.slow
def test_proximal_steps_run_in_vector_registers() -> None:
    (signature,) = kernel.compile_loop(np.dtype(np.float64)).nopython_signatures
    loop = jit(make_block_loop(kernel.make_loop(1e-16)), signature, cached=False, **UNCOUNTED)
    (assembly,) = loop.inspect_asm().values()
    if platform.machine() in ("x86_64", "AMD64"):
        assert re.search(r"\tv?divpd\t", assembly)
