"""f + psi with known constants: the step, the domain, the end, and what is refused."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.process import parameters
from continuized.process.clock import Poisson
from continuized.process.composite import Composite
from continuized.process.methods import composite_jump, jump
from tests.helpers.composite_problems import CASES, Case, FullQuadratic, quadratic

pytestmark = pytest.mark.blas
PARAMETERS = {
    "mu = 0": lambda f: cz.Continuized(f.L),
    "mu = 0, start = 7": lambda f: cz.Continuized(f.L, start=7.0),
    "mu > 0": lambda f: cz.Continuized(f.L, f.mu),
    "mu > 0, least start": lambda f: cz.Continuized(
        f.L, f.mu, parameters.least_composite_start(f.L, f.mu)
    ),
}
every_case = pytest.mark.parametrize("case", CASES)
every_method = pytest.mark.parametrize("name", PARAMETERS)


def run(case: Case, method: Any, **options: Any) -> Any:
    return cz.minimize(case.f, case.x0, method=method, prox=case.prox, **options)


@every_case
@every_method
def test_runs_come_to_the_solution_of_scipy(case: str, name: str) -> None:
    c, method = CASES[case](seed=1), PARAMETERS[name](CASES[case](seed=1).f)
    tol = 1e-9 if method.mu > 0.0 else 1e-4  # the theorem promises 1/t^2 where mu = 0, no more
    r = run(c, method, tol=tol, rng=0)
    assert r.success
    assert r.message == "The norm of the gradient mapping is at most tol."
    # |x - x*| <= (1/mu + 1/L) |mapping|, kappa = 100 and L = 1.
    np.testing.assert_allclose(r.x, c.x_star, atol=110.0 * tol)
    assert r.fun == pytest.approx(c.F(r.x), rel=1e-14)
    assert -1e-13 <= r.fun - c.F(c.x_star) <= 110.0 * tol**2 + 1e-13
    np.testing.assert_array_equal(r.x == 0.0, c.x_star == 0.0)
    np.testing.assert_allclose(r.jac, c.f.grad(r.x), rtol=1e-12, atol=1e-14)


@every_case
@every_method
def test_every_state_is_in_the_domain_and_psi_hat_above_psi(case: str, name: str) -> None:
    c = CASES[case](seed=1)
    for seed in range(5):
        r = run(c, PARAMETERS[name](c.f), maxiter=400, record="path", rng=seed)
        psi = np.array([[c.prox.value(state) for state in states] for states in r.path[2:]])
        assert np.all(np.isfinite(psi))
        phi = cz.theory.lyapunov(r, c.f, x_star=c.x_star)
        assert np.all(phi.psi_hat >= psi[0] - 1e-12 * (1.0 + psi[0]))
        np.testing.assert_allclose(r.trace.fun, [c.F(x) for x in r.path.x], rtol=1e-13)


def follow_by_hand(c: Case, method: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The flow integrated by many small steps, and the step as the page has it."""
    x, z, last = c.x0.copy(), c.x0.copy(), 0.0
    for t in times.tolist():
        n = 2000
        dt = (t - last) / n
        for i in range(n):  # the midpoint rule, of error dt^2
            now = last + i * dt
            mid = now + 0.5 * dt
            eta, eta_prime = (
                rate(now, *method.constants) for rate in (parameters.eta, parameters.eta_prime)
            )
            u, v = x + 0.5 * dt * eta * (z - x), z + 0.5 * dt * eta_prime * (x - z)
            eta, eta_prime = (
                rate(mid, *method.constants) for rate in (parameters.eta, parameters.eta_prime)
            )
            x, z = x + dt * eta * (v - u), z + dt * eta_prime * (u - v)
        gamma_prime = parameters.gamma_prime(t, *method.constants)
        z_plus = c.prox(z - gamma_prime * c.f.grad(x), gamma_prime)
        x, z, last = x + parameters.eta(t, *method.constants) * (z_plus - z), z_plus, t
    return x, z


@every_case
@every_method
def test_the_run_is_the_process_integrated_numerically(case: str, name: str) -> None:
    c = CASES[case](seed=2)
    method = PARAMETERS[name](c.f).for_composite()
    r = run(c, method, maxiter=6, record="path", rng=5)
    x, z = follow_by_hand(c, method, r.path.t[1:])
    np.testing.assert_allclose(r.path.x[-1], x, atol=1e-5)
    np.testing.assert_allclose(r.path.z[-1], z, atol=1e-5)


@every_case
def test_the_reference_step_is_the_run(case: str) -> None:
    c = CASES[case](seed=4)
    method = cz.Continuized(c.f.L, c.f.mu).for_composite()
    composite = Composite(c.prox, c.x0.shape)
    state = method.init(c.x0)
    r = run(c, method, maxiter=40, record="path", rng=2)
    for k, event in enumerate(Poisson(2).stream().draw(40).each(), 1):
        state, _ = method.step(state, event, lambda x, mark: c.f.grad(x), composite.move)
        np.testing.assert_allclose(r.path.x[k], state.x, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(r.path.z[k], state.z, rtol=1e-12, atol=1e-14)


def test_without_psi_the_step_is_the_papers() -> None:
    x, z, g = (np.random.default_rng(i).standard_normal(4) for i in range(3))
    for t, mu, start in ((3.0, 0.0, 2.0), (3.0, 0.1, math.inf), (3.0, 0.1, 3.0)):
        step = parameters.gamma_prime(t, 2.0, mu, start)
        found = composite_jump(x, z, g, 0.5, step, lambda z, g, s: z - s * g)
        np.testing.assert_allclose(found, jump(x, z, g, 0.5, step), rtol=1e-14)
        assert 0.5 / step == pytest.approx(parameters.eta(t, 2.0, mu, start), rel=1e-14)


@pytest.mark.parametrize("case", ["lasso", "box", "simplex"])
@pytest.mark.parametrize(
    ("how", "diagonal"),
    [
        ({"steps": 60}, True),
        ({"times": [0.7, 5.0, 40.0]}, False),
        pytest.param({"steps": 60}, False, marks=pytest.mark.slow),
        pytest.param({"times": [0.7, 5.0, 40.0]}, True, marks=pytest.mark.slow),
    ],
)
def test_ensembles_repeat_runs(case: str, how: dict[str, Any], diagonal: bool) -> None:
    """Compiled for lasso and box, on a regression and on a Quadratic; in Python for the simplex."""
    prox, x0 = CASES[case]().prox, CASES[case]().x0
    rng = np.random.default_rng(0)
    p: Any = cz.problems.Quadratic(np.geomspace(0.01, 1.0, 8), rng.standard_normal(8))
    if not diagonal:
        X = rng.standard_normal((20, 8))
        p = cz.problems.LeastSquares(X, X[:, 0] + rng.standard_normal(20))
    for method in (cz.Continuized(p.L), cz.Continuized(p.L, p.mu)):
        e = cz.ensemble(p, method, x0, runs=3, rng=1, prox=prox, **how)
        for i in range(3):
            r = cz.minimize(
                p, x0, method=method, prox=prox, maxiter=80, record="path", rng=e.seed(i)
            )
            if "steps" in how:
                np.testing.assert_array_equal(e.t[i], r.trace.t[:61])
                expected = r.trace.fun[:61]
            else:
                expected = [p.fun(x) + prox.value(x) for x in r.at(how["times"])[0]]
            np.testing.assert_allclose(e.fun[i], expected, rtol=1e-12)


def test_noise_is_added_to_the_gradients() -> None:
    """With noise E f + psi stays below Theorem 6's bound: 400 runs, whose mean lies 10 standard
    errors and more below it (measured: 0.05 to 0.5 of the bound)."""
    c = CASES["lasso"](seed=0)
    X = np.linalg.cholesky(c.f.H).T * math.sqrt(8.0)
    p = cz.problems.LeastSquares(X, np.linalg.solve(X.T, 8.0 * c.f.c))
    for method in (cz.Continuized(p.L), cz.Continuized(p.L, p.mu * (1.0 - 1e-6))):
        noise, times = cz.noise.Gaussian(0.1), [2.0, 10.0, 30.0]
        e = cz.ensemble(p, method, c.x0, runs=400, times=times, rng=0, prox=c.prox, noise=noise)
        star = p.fun(c.x_star) + c.prox.value(c.x_star)
        bound = cz.theory.bound(method, p, c.x0, t=times, sigma2=0.1, prox=c.prox, x_star=c.x_star)
        assert np.all(e.mean() - star + 10.0 * e.standard_error() < bound)
        assert np.all(bound > cz.theory.bound(method, p, c.x0, t=times, prox=c.prox))


def test_float32_stays_float32_and_feasible() -> None:
    for name, make in CASES.items():
        c = make(seed=3)
        r = cz.minimize(
            c.f, c.x0.astype(np.float32), L=c.f.L, mu=c.f.mu, prox=c.prox, tol=1e-3, rng=0,
            record="path",
        )  # fmt: skip
        assert r.success, name
        assert r.x.dtype == r.path.x.dtype == np.float32
        assert all(math.isfinite(c.prox.value(x)) for x in r.path.x)
        np.testing.assert_allclose(r.x, c.x_star, atol=0.2)


def test_a_run_is_resumed_bit_by_bit(tmp_path: Any) -> None:
    c = CASES["simplex"](seed=3)
    options: Any = {"L": c.f.L, "prox": c.prox, "rng": 3, "record": "path"}
    whole = cz.minimize(c.f, c.x0, maxiter=3000, **options)
    kept = options | {"checkpoint": tmp_path / "run.npz", "every": 0.0}
    cz.minimize(c.f, c.x0, maxiter=1500, **kept)
    again = cz.minimize(c.f, c.x0, maxiter=3000, resume=True, **kept)
    np.testing.assert_array_equal(again.path.x, whole.path.x)
    np.testing.assert_array_equal(again.path.z, whole.path.z)
    other = kept | {"prox": cz.prox.Box(0.0, 1.0)}
    with pytest.raises(cz.CheckpointError):
        cz.minimize(c.f, c.x0, maxiter=3000, resume=True, **other)


def test_the_default_start_is_2_where_none_was_given() -> None:
    c = CASES["lasso"]()
    for options in ({"L": c.f.L, "mu": 0.0}, {"method": cz.Continuized(c.f.L)}):
        r = cz.minimize(c.f, c.x0, prox=c.prox, maxiter=3, rng=0, **options)
        assert r.method == cz.Continuized(c.f.L, start=2.0)
    assert cz.Continuized(1.0) == cz.Continuized(1.0, start=0.0)  # but only one of them says so
    assert cz.Continuized(1.0).for_composite().start == 2.0
    with pytest.raises(ValueError, match=r"use start >= 2$"):
        cz.Continuized(1.0, start=0.0).for_composite()
    r = cz.minimize(c.f, c.x0, L=c.f.L, prox=c.prox, maxiter=3, rng=0)
    assert (r.method.mu, r.method.start) == (c.f.mu, math.inf)


def test_a_wrong_L_is_witnessed() -> None:
    c = CASES["box"](seed=1)
    with pytest.warns(cz.ConstantsWarning, match="L = 0.05 is too small"):
        cz.minimize(c.f, c.x0, L=0.05, mu=0.0, prox=c.prox, maxiter=20, rng=0)


class Outside:
    """The prox of a box of its own, beside a value that knows a smaller one."""

    def __call__(self, v: np.ndarray, step: float) -> np.ndarray:
        return np.clip(v, -2.0, 2.0)

    def value(self, x: np.ndarray) -> float:
        return 0.0 if np.all(np.abs(x) <= 1e-3) else math.inf


HALF = FullQuadratic(np.eye(3), np.ones(3))


@pytest.mark.parametrize(
    ("x0", "options", "words"),
    [
        (
            [2.0, 0.0, 0.5],
            {"prox": cz.prox.Box(0.0, 1.0)},
            "x0 is outside the domain of Box(low=0.0, high=1.0) by 1; give a point inside, the "
            "nearest point is array([1. , 0. , 0.5])",
        ),
        (
            [0.0, 0.0, 0.0],
            {"prox": cz.prox.Simplex()},
            "by 0.577; give a point inside",
        ),
        ([0.0, -3.0, 0.0], {"prox": lambda v, s: np.maximum(v, 0.0)}, "by 3; give a point inside"),
        ([0.0, 0.0, 0.0], {"prox": Outside()}, "prox must return points where its own value is"),
        (
            [0.0, 0.0, 0.0],
            {"prox": cz.prox.L1(0.1), "method": cz.Continuized(1.0, start=1.5)},
            "start = 1.5 makes eta larger than 1 at the beginning, and x could leave the domain; "
            "use start >= 2",
        ),
        (
            [0.0, 0.0, 0.0],
            {"prox": cz.prox.L1(0.1), "method": cz.Continuized(1.0, 0.25, 2.0)},
            "use start >= 2.19722",
        ),
        (
            [0.0, 0.0, 0.0],
            {"prox": cz.prox.L1(0.1), "method": cz.GradientDescent(1.0)},
            "with L= or a cz.Continuized(L, mu)",
        ),
        ([0.0, 0.0, 0.0], {"prox": cz.prox.L1(0.1), "metric": np.ones(3)}, "do not go together"),
        ([0.0, 0.0, 0.0], {"prox": lambda v, s: v[:2]}, "real numbers in the shape of x, (3,)"),
    ],
)
def test_refused(x0: list[float], options: dict[str, Any], words: str) -> None:
    given = {"L": 1.0, "mu": 0.0} if "method" not in options else {}
    with pytest.raises(ValueError, match=re.escape(words)):
        cz.minimize(HALF, x0, **given, **options)


def test_refused_in_ensembles() -> None:
    prox, x0 = cz.prox.Box(0.0, 1.0), np.zeros(3)
    with pytest.raises(ValueError, match=r"^prox= goes with cz.Continuized\(L, mu\) only, got Nes"):
        cz.ensemble(HALF, cz.Nesterov(1.0), x0, runs=1, steps=1, prox=prox)
    with pytest.raises(ValueError, match="outside the domain"):
        cz.ensemble(HALF, cz.Continuized(1.0), x0 - 1.0, runs=1, steps=1, prox=prox)


def test_outside_the_conditions_x_does_leave_the_domain() -> None:
    """What the start is asked for: the reference step, which checks nothing, from start = 0."""
    c = CASES["box"](seed=1)
    composite = Composite(c.prox, c.x0.shape)
    method = cz.Continuized(c.f.L, start=0.0)
    state = method.init(c.x0)
    outside = 0.0
    for event in Poisson(3).stream().draw(50).each():
        state, _ = method.step(state, event, lambda x, mark: c.f.grad(x), composite.move)
        outside = max(outside, float(np.max(np.abs(state.x - np.clip(state.x, -0.2, 0.7)))))
    assert outside > 0.05


def test_an_easy_run_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = quadratic(6, 0)
        r = cz.minimize(f, np.zeros(6), L=f.L, prox=cz.prox.L2Ball(0.5), tol=1e-8, rng=0)
    assert r.success
    assert float(np.linalg.norm(r.x)) == pytest.approx(0.5, rel=1e-12)
