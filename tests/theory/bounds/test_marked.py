"""Bounds of marked methods: by hand, above exact expectations, and where there are none."""

import math

import numpy as np
import pytest

import continuized as cz
from continuized import parameters
from continuized.app.verify import marked as marked_checks
from continuized.theory import bound, moments, weight
from continuized.theory.moments.marks import coordinate_marks, follow
from tests.helpers.marked_matrices import (
    CASES,
    CLEAN,
    FLAT,
    PLAIN,
    QUADRATIC,
    RIDGE,
    X0,
    bounded_form,
    bounded_moment,
    flow_generator,
    jump_matrices,
    least_squares,
    start_moments,
)
from tests.mutants.process import LargestL

TIMES = np.geomspace(0.05, 120.0, 25)
BOUNDED = [
    (QUADRATIC, cz.CoordinateDescent()),
    (QUADRATIC, cz.CoordinateDescent([0.2, 0.3, 0.5], start=0.0)),
    (QUADRATIC, cz.CoordinateDescent("uniform", start=0.7)),
    (QUADRATIC, cz.CoordinateDescent("uniform", **PLAIN)),
    (FLAT, cz.CoordinateDescent()),
    (FLAT, cz.CoordinateDescent(**PLAIN)),
    (FLAT, cz.CoordinateDescent([0.5, 0.1, 0.4], **PLAIN)),
    (RIDGE, cz.CoordinateDescent()),
    (RIDGE, cz.CoordinateDescent(**PLAIN)),
    *(
        (CLEAN, kind(**options))
        for kind in (cz.StochasticLeastSquares, cz.Kaczmarz)
        for options in ({}, {"start": 0.0}, {"mu": 0.0}, PLAIN, {**PLAIN, "mu": 0.0})
    ),
]


@pytest.mark.blas
@pytest.mark.parametrize(("p", "method"), BOUNDED)
def test_exact_moments_are_below_the_bounds(p, method):
    ratio = bounded_moment(p, method, TIMES) / bound(method, p, X0, t=TIMES)
    assert ratio.max() <= 1.0 + 1e-9
    assert ratio.max() > 0.02, "a bound this slack would test nothing"


def test_S_replaced_by_the_largest_L_is_caught():
    for p in (QUADRATIC, marked_checks.quadratic()):
        x0 = np.zeros(p.dim)
        fun = moments(p, LargestL(), x0, TIMES).fun
        assert np.max(fun / bound(cz.CoordinateDescent(), p, x0, t=TIMES)) > 10.0


@pytest.mark.blas
def test_bounds_by_hand():
    p = QUADRATIC
    lam, u = p.eigenvalues, X0 - p.x_star
    S = np.sqrt(lam).sum() ** 2
    process = cz.Continuized(S, p.mu)
    t = np.array([0.5, 30.0])
    accelerated = bound(cz.CoordinateDescent(), p, X0, t=t)
    np.testing.assert_allclose(accelerated, bound(process, p, X0, t=t), rtol=1e-12)
    np.testing.assert_allclose(
        bound(cz.CoordinateDescent(), p, X0, k=[1, 5]), bound(process, p, X0, k=[1, 5]), rtol=1e-12
    )
    plain = cz.CoordinateDescent("uniform", **PLAIN)
    rate = 0.05 / 3 / 1.0
    np.testing.assert_allclose(bound(plain, p, X0, t=t), p.fun(X0) * np.exp(-rate * t))
    np.testing.assert_allclose(bound(plain, p, X0, k=7), p.fun(X0) * (1 - rate) ** 7)
    v = X0 - FLAT.x_star
    top = 3 * FLAT.fun(X0) + 1.5 * (v[0] ** 2 + 0.3 * v[1] ** 2)
    np.testing.assert_allclose(bound(plain, FLAT, X0, k=[0, 9]), [top / 3, top / 12])
    np.testing.assert_allclose(bound(plain, FLAT, X0, t=9.0), top / 12)
    uneven = cz.CoordinateDescent([0.5, 0.1, 0.4], **PLAIN)  # c = 1/0.1: f is flat along the last
    top = 10 * FLAT.fun(X0) + 0.5 * (v[0] ** 2 / 0.5 + 0.3 * v[1] ** 2 / 0.1)
    np.testing.assert_allclose(bound(uneven, FLAT, X0, t=9.0), top / 19)
    # rows
    H = CLEAN.X.T @ CLEAN.X / len(CLEAN.X)
    u = X0 - CLEAN.x_star
    inverse = u @ np.linalg.solve(H, u)
    stepper = cz.StochasticLeastSquares().prepare(CLEAN, X0)
    L, mu = stepper.R2 * stepper.kappa, np.linalg.eigvalsh(H)[0]
    by_hand = 0.5 * (u @ u + mu * inverse) * np.exp(-np.sqrt(mu / L) * t)
    np.testing.assert_allclose(bound(cz.StochasticLeastSquares(), CLEAN, X0, t=t), by_hand)
    convex = cz.StochasticLeastSquares(mu=0.0)
    np.testing.assert_allclose(bound(convex, CLEAN, X0, t=t), 2 * L * inverse / t**2)
    slow = cz.StochasticLeastSquares(accelerated=False)
    by_hand = 0.5 * (u @ u) * np.exp(-mu / stepper.R2 * t)
    np.testing.assert_allclose(bound(slow, CLEAN, X0, t=t), by_hand)
    slow = cz.StochasticLeastSquares(accelerated=False, mu=0.0)
    top = stepper.kappa * (u @ u) + stepper.R2 * inverse
    np.testing.assert_allclose(bound(slow, CLEAN, X0, k=4), top / (2 * stepper.kappa + 16))


@pytest.mark.blas
@pytest.mark.parametrize("name", CASES)
def test_plain_bounds_at_events_hold_for_the_exact_recursion(name):
    p, make = CASES[name]
    d = p.dim
    variants = [make(**PLAIN)] + ([make(**PLAIN, mu=0.0)] if p is CLEAN else [])
    for method in variants:
        stepper = method.prepare(p, X0)
        Js = jump_matrices(p, stepper, 0.0)
        M = start_moments(p).reshape(2 * d, 2 * d)
        H = bounded_form(p, stepper)
        for k in range(1, 60):
            M = sum(q * J @ M @ J.T for q, J in zip(stepper.p, Js, strict=True))
            value = 0.5 * np.sum(H * M[:d, :d])
            assert value <= bound(method, p, X0, k=k) * (1 + 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_weighted_bound_at_events_holds_exactly(name):
    """E[e^{qT_k} M_k] for constant parameters: over a gap, e^{qs} and the flow have a resolvent."""
    p, make = CASES[name]
    method, d = make(), p.dim
    stepper = method.prepare(p, X0)
    q = math.sqrt(stepper.process.mu / stepper.process.L)
    assert weight(stepper.process, 2.0) == pytest.approx(math.exp(2.0 * q))
    K, one = flow_generator(stepper, 0.0, d), np.eye(2 * d)
    G = np.kron(K, one) + np.kron(one, K)
    gap = np.linalg.inv((1.0 - q) * np.eye(4 * d * d) - G)
    step = parameters.gamma_prime(0.0, *stepper.process.constants)
    J = sum(
        w * np.kron(J, J) for w, J in zip(stepper.p, jump_matrices(p, stepper, step), strict=True)
    )
    H = bounded_form(p, stepper)
    M = start_moments(p)
    for k in range(1, 100):
        M = J @ (gap @ M)
        value = 0.5 * np.sum(H * M.reshape(2 * d, 2 * d)[:d, :d])
        assert value <= bound(method, p, X0, k=k) * (1 + 1e-9)


@pytest.mark.blas
@pytest.mark.parametrize("options", [{}, {"start": 0.0}, PLAIN])
def test_the_dual_bound_holds_for_the_exact_dual_moments(options):
    """D is a quadratic of the dual variables, and its coordinates are marks like any other."""
    p, method = least_squares(noise=2.0, l2=0.05), cz.DualCoordinate(**options)
    stepper = method.prepare(p, X0)
    u = stepper.coordinates() - (p.y - p.X @ p.x_star)
    n = len(p.y)
    H = p.X @ p.X.T / (p.l2 * n**2) + np.eye(n) / n
    marks = coordinate_marks(stepper)
    np.testing.assert_allclose(marks.pull(np.eye(n)), stepper.p[:, None] * H, rtol=1e-12)
    m = follow(stepper, marks, np.outer(u, u), TIMES)
    exact = 0.5 * np.einsum("tij,ij->t", m[:, 0], H)
    # The gap at the start, from the library's own dual objective at a_0 and at a*.
    best = cz.DualCoordinate().prepare(p, p.x_star)
    gap = best.dual_value() - stepper.dual_value()
    assert 0.5 * u @ H @ u == pytest.approx(gap, rel=1e-9)
    ratio = exact / bound(method, p, X0, t=TIMES)
    assert 0.05 < ratio.max() <= 1.0 + 1e-9
    if options == {}:
        by_hand = gap + 0.5 / n * (u @ u)
        assert bound(method, p, X0, t=0.0) == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.blas
def test_rows_that_do_not_span_the_space():
    """x* is the solution nearest x_0, and what no row sees stays."""
    X = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, -1.0, 0.0], [2.0, 1.0, 0.0]])
    p = cz.problems.LeastSquares(X, X @ [1.0, 2.0, 0.0])
    for method in (cz.StochasticLeastSquares(), cz.Kaczmarz(), cz.Kaczmarz(**PLAIN)):
        m = moments(p, method, X0, TIMES)
        assert np.all(m.xx[:, 2] == 0.0)
        ratio = 0.5 * m.xx.sum(axis=1) / bound(method, p, X0, t=TIMES)
        assert 0.01 < ratio.max() <= 1.0 + 1e-9
        far = X0 + [0.0, 0.0, 100.0]
        np.testing.assert_allclose(bound(method, p, far, t=TIMES), bound(method, p, X0, t=TIMES))


@pytest.mark.blas
def test_started_at_the_solution_nothing_moves():
    for p, method in BOUNDED:
        assert np.all(moments(p, method, p.x_star, [0.0, 5.0]).xx <= 1e-25)
        assert np.all(bound(method, p, p.x_star, t=[1.0, 5.0]) <= 1e-25)


LOGISTIC = cz.problems.LogisticRegression(CLEAN.X, np.sign(CLEAN.y), l2=0.1)
UNPENALISED = cz.problems.LogisticRegression(CLEAN.X, np.sign(CLEAN.y), l2=0.0)
NOISY = least_squares(noise=2.0)
REFUSED = {
    "dual logistic": ("no theorem", lambda: bound(cz.DualCoordinate(), LOGISTIC, X0, t=1.0)),
    "unknown x*": ("x_star", lambda: bound(cz.CoordinateDescent(), UNPENALISED, X0, t=1.0)),
    "label noise": ("without noise", lambda: bound(cz.Kaczmarz(), NOISY, X0, t=1.0)),
    "label noise, moments": ("without noise", lambda: moments(NOISY, cz.Kaczmarz(), X0, [1.0])),
    "sigma2": ("noise", lambda: bound(cz.CoordinateDescent(), QUADRATIC, X0, t=1.0, sigma2=0.1)),
    "sigma2, moments": ("sigma2", lambda: moments(CLEAN, cz.Kaczmarz(), X0, [1.0], sigma2=0.1)),
    "R2": ("R2", lambda: bound(cz.StochasticLeastSquares(R2=0.01), CLEAN, X0, t=1.0)),
    "kappa": ("kappa", lambda: bound(cz.StochasticLeastSquares(kappa=1.0), CLEAN, X0, t=1.0)),
    "mu": ("mu", lambda: bound(cz.StochasticLeastSquares(mu=1.0), CLEAN, X0, t=1.0)),
    "both": ("exactly one", lambda: bound(cz.Kaczmarz(), CLEAN, X0, t=1.0, k=1)),
    "k": ("give times", lambda: moments(QUADRATIC, cz.CoordinateDescent(), X0, k=[1])),
    "dimension": ("dimension", lambda: moments(CLEAN, cz.Kaczmarz(), [1.0], [1.0])),
}


@pytest.mark.parametrize(("words", "call"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(words, call):
    with pytest.raises(ValueError, match=words):
        call()


def test_moments_of_what_is_no_quadratic_are_refused():
    with pytest.raises(TypeError, match="not known exactly"):
        moments(LOGISTIC, cz.CoordinateDescent(), X0, [1.0])
    with pytest.raises(TypeError, match="not known exactly"):
        moments(RIDGE, cz.DualCoordinate(), X0, [1.0])
