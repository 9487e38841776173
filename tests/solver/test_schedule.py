"""The scalars of a run whose L changes, what two points say of L, and known constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import continuized as cz
from continuized import Status
from continuized.process.clock import Event, Unit
from continuized.process.stepper import Limits
from continuized.solver.loop import Loop
from continuized.solver.metric import Diagonal, Identity
from continuized.solver.steppers.adaptive import AdaptiveOptions, AdaptiveSchedule, AdaptiveStepper
from continuized.solver.steppers.evaluations import Evaluator

X0 = np.array([0.3, -1.0, 4.0])
DEFINITE = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, -0.5], [0.0, -0.5, 2.0]])


def test_a_pair_that_is_carried_through_changes_of_L() -> None:
    """sqrt A and sqrt B from their differential equations, with L piecewise constant."""
    rng, schedule, L = np.random.default_rng(0), AdaptiveSchedule(2.0), 2.0
    roots = np.array([0.0, 1.3])  # any B: only A / B matters
    for k in range(1, 30):
        dt = float(rng.exponential())
        before = roots[0]

        def slopes(t: float, y: np.ndarray, L: float = L) -> list[float]:
            return [y[1] / math.sqrt(2.0 * L), 0.0]

        roots = solve_ivp(slopes, (0.0, dt), roots, rtol=1e-12, atol=1e-14).y[:, -1]
        a, b = schedule.weights(Event(k, 0.0, dt))
        # x' = eta (z - x) with eta = 2 (log sqrt A)': the weight left on x is A_before / A.
        assert (1.0 - a, b) == (pytest.approx((before / roots[0]) ** 2, abs=1e-12), 0.0)
        gamma, gamma_prime = schedule.steps()
        assert gamma == 1.0 / L
        assert gamma_prime == pytest.approx(roots[0] / roots[1] / math.sqrt(2.0 * L), rel=1e-10)
        L = float(rng.uniform(0.1, 10.0))
        schedule.change_L(L)
        _, gamma_prime = schedule.steps()
        assert gamma_prime == pytest.approx(roots[0] / roots[1] / math.sqrt(2.0 * L), rel=1e-10)
    schedule.restart()
    assert schedule.weights(Event(1, 0.0, 0.5))[0] == 1.0
    schedule.change_L(math.inf)
    assert math.isfinite(schedule.L)


def asked_points(p: Any, x0: np.ndarray, **options: Any) -> np.ndarray:
    """Where the first 60 gradients of a run were asked for."""
    points: list[np.ndarray] = []

    def grad(x: np.ndarray) -> np.ndarray:
        points.append(np.array(x))
        return p.grad(x)

    cz.minimize(cz.Problem(p.fun, grad), x0, maxiter=60, **options)
    return np.array(points[:60])


@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_known_constants_give_the_run_of_the_fixed_stepper(mu: float) -> None:
    p = cz.problems.Quadratic([0.1, 1.0, 3.0], [1.0, -1.0, 2.0])
    plain = cz.minimize(p, X0, L=p.L, mu=mu, rng=5, maxiter=60)
    r = cz.minimize(p, X0, L=p.L, mu=mu, rng=5, maxiter=60, metric=np.ones(3))
    np.testing.assert_allclose(r.x, plain.x, rtol=0.0, atol=1e-12)
    assert (r.nit, r.status, r.method) == (60, Status.COMPLETED, plain.method)
    options = {"L": p.L, "mu": mu, "rng": 5}
    fixed = asked_points(p, X0, **options)
    ours = asked_points(p, X0, metric=np.ones(3), **options)
    np.testing.assert_allclose(ours, fixed, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("strong", [False, True])
def test_a_metric_is_a_change_of_variables(strong: bool) -> None:
    """With P = C C^T, the run in P is the plain one on f(C^-T u), u = C^T x, mapped back."""
    H = np.diag([0.5, 2.0, 9.0]) + 0.3
    C = np.linalg.cholesky(DEFINITE)
    back = np.linalg.inv(C.T)
    values = np.linalg.eigvalsh(back.T @ H @ back)
    L, mu = float(values[-1]), float(values[0]) if strong else 0.0
    constants = {"L": L, "mu": mu, "rng": 1, "maxiter": 50}
    r = cz.minimize(
        lambda x: 0.5 * x @ H @ x - x.sum(), X0, jac=lambda x: H @ x - 1.0, metric=DEFINITE,
        **constants,
    )  # fmt: skip
    u = cz.minimize(
        lambda u: 0.5 * (back @ u) @ H @ (back @ u) - (back @ u).sum(), C.T @ X0,
        jac=lambda u: back.T @ (H @ (back @ u) - 1.0), **constants,
    )  # fmt: skip
    np.testing.assert_allclose(r.x, back @ u.x, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("P", [1.0, 4.0])
@pytest.mark.parametrize("turned", [False, True])
def test_the_least_L_of_two_points(turned: bool, P: float) -> None:
    """x^4 at 1 and 2: g = 4 and 32, the Bregman distances are 11 and 17; in P, |.|^2 / P."""
    metric = Identity() if P == 1.0 else Diagonal(np.array([P]))
    points = Evaluator(
        cz.Problem(lambda x: float(x[0] ** 4), lambda x: 4.0 * x**3), np.ones(1), metric
    )
    one, two = points.evaluate(np.array([1.0])), points.evaluate(np.array([2.0]))
    pair = (two, one) if turned else (one, two)
    assert points.least_L(*pair) == pytest.approx(28.0**2 / P / (2.0 * 11.0))
    hidden = [point._replace(f=1e17) for point in pair]  # f is rounded off: by gradients alone
    assert points.least_L(*hidden) == pytest.approx(28.0 / P)
    assert points.least_L(one, one) == 0.0
    assert points.evaluations == 2


class Rising:
    """Metrics 10 I, 20 I, 30 I, ..., each for three steps."""

    kind = first_kind = "gram"
    corrects = False
    steps = {"gram": 3.0}  # noqa: RUF012

    def steps_before_renewal(self, kind: str, left: float) -> float:
        return self.steps[kind]

    def build(self, w: np.ndarray, number: int, kind: str) -> Diagonal:
        return Diagonal(np.full(3, 10.0 * (number + 1)))

    def next_kind(self, kind: str, k: int, fell: float) -> str:
        return kind


def test_a_new_metric_begins_with_a_step_in_it() -> None:
    p = cz.problems.Quadratic([0.1, 1.0, 3.0], [1.0, -1.0, 2.0])
    points: list[np.ndarray] = []

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        points.append(x)
        return p.fun(x), p.grad(x)

    factory: Any = Rising()
    options = AdaptiveOptions(None, factory=factory)
    stepper = AdaptiveStepper(cz.Problem(both, value_and_grad=True), X0, options)
    loop = Loop(stepper, Unit().stream(), Limits(None, 10))
    loop.run()
    r = loop.result()
    for number, k in ((2, 3), (3, 6), (4, 9)):
        expected = points[k - 1] - p.grad(points[k - 1]) / (10.0 * number)
        np.testing.assert_allclose(points[k], expected, rtol=1e-14)
    assert (r.constants["metrics_made"], r.constants["rejected"], r.nfev) == (4, 0, 10)
