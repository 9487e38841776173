"""Marked methods: exact moments against independent sums, bounds, and what the engines measure.

The statistical tests share ALPHA = 1e-6 equally, at a fixed seed.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import continuized as cz
from continuized import flow, oracle, parameters
from continuized.statistics import Moments, mean_test
from continuized.theory import bound, marked_moments, moments, weight
from continuized.theory.marked_moments import coordinate_marks, integrated
from continuized.theory.moment_maps import rates
from continuized.verify import marked as marked_checks
from continuized.verify.mutants import ForgottenP, LargestL

ALPHA = 1e-6
RUNS = 4000


def least_squares(seed=0, n=6, d=3, noise=0.0, l2=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1.0, 0.3, d)
    return cz.problems.LeastSquares(X, X @ np.arange(1.0, d + 1) + noise * rng.random(n), l2=l2)


QUADRATIC = cz.problems.Quadratic([1.0, 0.3, 0.05], [1.0, -2.0, 3.0])
FLAT = cz.problems.Quadratic([1.0, 0.3, 0.0], [1.0, -2.0, 0.5], mu=0.0)
CLEAN, RIDGE = least_squares(), least_squares(noise=2.0, l2=0.05)
X0 = np.array([0.5, 0.0, -1.0])

# name: (problem, how to make the method), for every kind of mark
CASES = {
    "quadratic": (QUADRATIC, cz.CoordinateDescent),
    "given p": (QUADRATIC, lambda **o: cz.CoordinateDescent([0.2, 0.3, 0.5], **o)),
    "ridge": (RIDGE, lambda **o: cz.CoordinateDescent("uniform", **o)),
    "rows": (CLEAN, cz.StochasticLeastSquares),
    "kaczmarz": (CLEAN, cz.Kaczmarz),
}
PLAIN = {"accelerated": False}


def jump_matrices(p, engine, gamma_prime):
    """The matrices J_i of (u, w), read off the eager oracle: none of theory's formulas."""
    d = p.dim
    if hasattr(engine, "form"):
        jumps = oracle.Coordinates(p, engine.form.L_i, engine.p)
    else:
        jumps = oracle.Rows(p, engine.R2, engine.factors)
    matrices = []
    for i in range(engine.p.size):
        J = np.eye(2 * d)
        for j in range(d):
            support, dx, dz = jumps(p.x_star + np.eye(d)[j], i)
            J[support, j] -= dx
            J[d + support, j] -= gamma_prime * dz if engine.accelerated else dx
        matrices.append(J)
    return matrices


def flow_generator(engine, t, d):
    if not engine.accelerated:
        return np.zeros((2 * d, 2 * d))
    c = engine.process.constants
    e, f = parameters.eta(t, *c), parameters.eta_prime(t, *c)
    return np.kron([[-e, e], [f, -f]], np.eye(d))


def generator(p, engine, t):
    """d/dt of the (2d)^2 second moments, as one matrix."""
    d = p.dim
    K, one = flow_generator(engine, t, d), np.eye(2 * d)
    step = parameters.gamma_prime(t, *engine.process.constants)
    G = np.kron(K, one) + np.kron(one, K)
    for q, J in zip(engine.p, jump_matrices(p, engine, step), strict=True):
        G += q * (np.kron(J, J) - np.eye(4 * d * d))
    return G


def start_moments(p):
    uw = np.tile(X0 - p.x_star, 2)
    return np.outer(uw, uw).ravel()


def hessian(p):
    if isinstance(p, cz.problems.Quadratic):
        return np.diag(p.eigenvalues)
    return p.X.T @ p.X / len(p.X) + p.l2 * np.eye(p.dim)


def bounded_form(p, engine):
    """The matrix of what the theorem bounds: f - f*, or |x - x*|^2 / 2."""
    return hessian(p) if hasattr(engine, "form") else np.eye(p.dim)


def assert_moments(m, i, M, p, rtol=1e-8):
    """The reference solvers are accurate to their rtol of the largest entry only."""
    d = p.dim
    tolerance = {"rtol": rtol, "atol": 1e-5 * rtol * start_moments(p).max()}
    M = M.reshape(2 * d, 2 * d)
    np.testing.assert_allclose(m.xx[i], np.diag(M[:d, :d]), **tolerance)
    np.testing.assert_allclose(m.zz[i], np.diag(M[d:, d:]), **tolerance)
    np.testing.assert_allclose(m.xz[i], np.diag(M[:d, d:]), rtol=rtol, atol=rtol * m.z2[i])
    np.testing.assert_allclose(m.fun[i] - p.f_star, 0.5 * np.sum(hessian(p) * M[:d, :d]), rtol=rtol)
    assert m.z2[i] == pytest.approx(m.zz[i].sum(), rel=1e-14)


@pytest.mark.parametrize("options", [{}, PLAIN], ids=["accelerated", "plain"])
@pytest.mark.parametrize("name", CASES)
def test_constant_parameters_equal_a_matrix_exponential(name, options):
    p, make = CASES[name]
    method, times = make(**options), [0.0, 0.7, 9.0, 40.0]
    m = moments(p, method, X0, times)
    G = generator(p, method.prepare(p, X0), 0.0)
    for i, t in enumerate(times):
        assert_moments(m, i, expm(t * G) @ start_moments(p), p)


@pytest.mark.parametrize("name", CASES)
def test_a_finite_start_equals_another_solver_on_the_full_matrix(name):
    p, make = CASES[name]
    method, t = make(start=0.3), 6.0
    engine = method.prepare(p, X0)
    solution = solve_ivp(
        lambda s, M: generator(p, engine, s) @ M,
        (0.0, t),
        start_moments(p),
        method="RK45",
        rtol=1e-10,
        atol=1e-13,
    )
    assert_moments(moments(p, method, X0, [t]), 0, solution.y[:, -1], p, rtol=1e-7)


def brute_force(p, engine, t, most=3, points=8):
    """E over at most three events: all their marks, and Gauss-Legendre over their times.

    Of more events, only the probability is counted, as if they did nothing.
    """
    d, c = p.dim, engine.process.constants
    nodes, node_weights = np.polynomial.legendre.leggauss(points)

    def mixing(t0, t1):
        a, b = flow.weights(t0, t1, t1 - t0, *c)
        return np.kron([[1 - a, a], [b, 1 - b]], np.eye(d))

    def mean_step(M, t0, t1):  # mixed up to an event at t1, then over the marks
        M = mixing(t0, t1) @ M @ mixing(t0, t1).T
        Js = jump_matrices(p, engine, parameters.gamma_prime(t1, *c))
        return sum(q * J @ M @ J.T for q, J in zip(engine.p, Js, strict=True))

    def rest(M, t0, left):  # exp(-t) times the integral over the remaining events
        K = mixing(t0, t) if t > t0 else np.eye(2 * d)
        total = K @ M @ K.T
        if left:
            half = 0.5 * (t - t0)
            for x, v in zip(nodes, node_weights, strict=True):
                t1 = t0 + half * (1 + x)
                total = total + half * v * rest(mean_step(M, t0, t1), t1, left - 1)
        return total

    M = start_moments(p).reshape(2 * d, 2 * d)
    more = 1.0 - math.exp(-t) * sum(t**k / math.factorial(k) for k in range(most + 1))
    return math.exp(-t) * rest(M, 0.0, most) + more * M


@pytest.mark.parametrize("options", [{"start": 0.0}, {"start": 0.0, "mu": 0.0}])
@pytest.mark.parametrize("name", ["quadratic", "rows"])
def test_start_0_equals_the_sum_over_few_events(name, options):
    p, make = CASES[name]
    options = dict(options)
    if name == "quadratic":
        p = cz.problems.Quadratic(p.eigenvalues, p.x_star, mu=options.pop("mu", None))
    t, method = 0.05, make(**options)
    exact = brute_force(p, method.prepare(p, X0), t)
    # What is left out has probability t^4/4! = 3e-7, against 0.05 for an event.
    m, d = moments(p, method, X0, [t]), p.dim
    start = (X0 - p.x_star) ** 2
    for found, block in ((m.xx, exact[:d, :d]), (m.xz, exact[:d, d:]), (m.zz, exact[d:, d:])):
        change = np.diag(block) - start
        np.testing.assert_allclose(found[0] - start, change, atol=1e-4 * np.abs(change).max())


@pytest.mark.parametrize("name", ["quadratic", "rows"])
def test_the_first_moments_after_a_singular_start(name):
    """t = 2e-7: the change, of order t, is the integrator's series; zz changes by t^2 only."""
    p, make = CASES[name]
    t, method, start = 2e-7, make(start=0.0), (X0 - p.x_star) ** 2
    exact = brute_force(p, method.prepare(p, X0), t, most=1)
    change = np.diag(exact[: p.dim, : p.dim]) - start
    found = moments(p, method, X0, [t]).xx[0] - start
    np.testing.assert_allclose(found, change, atol=1e-3 * np.abs(change).max())


def test_the_singular_start_is_the_limit_of_small_ones():
    for name in ("quadratic", "rows"):
        p, make = CASES[name]
        near = moments(p, make(start=1e-6), X0, [1e-3, 3.0, 20.0])
        at_0 = moments(p, make(start=0.0), X0, [1e-3, 3.0, 20.0])
        np.testing.assert_allclose(at_0.fun, near.fun, rtol=1e-5)
        np.testing.assert_allclose(at_0.z2, near.z2, rtol=1e-5)


def test_coordinates_together_equal_coordinates_alone():
    """A Quadratic as least squares: diagonals of the matrices are the vectors."""
    lam = QUADRATIC.eigenvalues
    p = cz.problems.LeastSquares(np.diag(np.sqrt(3 * lam)), np.sqrt(3 * lam) * QUADRATIC.x_star)
    for options in ({}, {"start": 0.0}, PLAIN):
        method = cz.CoordinateDescent(**options)
        alone, joint = (moments(q, method, X0, [1.0, 30.0, 90.0]) for q in (QUADRATIC, p))
        # Together, the accuracy is relative to the largest coordinate.
        np.testing.assert_allclose(joint.xx, alone.xx, rtol=1e-8, atol=1e-9 * alone.xx.max())
        np.testing.assert_allclose(joint.zz, alone.zz, rtol=1e-8, atol=1e-9 * alone.zz.max())


def test_one_coordinate_is_the_continuized_method():
    p = cz.problems.Quadratic([0.7], [2.0])
    for start in (None, 0.0, 0.4):
        one = moments(p, cz.CoordinateDescent(start=start), [0.0], [0.1, 4.0, 20.0])
        full = moments(p, cz.Continuized(p.L, p.mu, start), [0.0], [0.1, 4.0, 20.0])
        np.testing.assert_allclose(one.fun, full.fun, rtol=1e-9)
        np.testing.assert_allclose(one.z2, full.z2, rtol=1e-9)


# Measured means.

MANY = marked_checks.quadratic()
WIDE = marked_checks.wide_least_squares()
SPARSE = cz.problems.LeastSquares(
    np.random.default_rng(3).standard_normal((25, 12)) * (np.arange(12) % 3 > 0), np.ones(25), 0.1
)
ENGINES = {
    "coordinates": (MANY, cz.CoordinateDescent(), [10.0, 25.0]),
    "coordinates, convex": (marked_checks.quadratic(mu=0.0), cz.CoordinateDescent(), [10.0, 25.0]),
    "coordinates, start 0": (MANY, cz.CoordinateDescent(start=0.0), [10.0, 25.0]),
    "coordinates, plain": (MANY, cz.CoordinateDescent("uniform", **PLAIN), [10.0, 25.0]),
    "coordinates of least squares": (SPARSE, cz.CoordinateDescent(), [4.0, 8.0]),
    "rows": (WIDE, cz.StochasticLeastSquares(), [8.0, 12.0]),
    "rows, convex": (WIDE, cz.StochasticLeastSquares(mu=0.0), [8.0, 12.0]),
    "kaczmarz": (WIDE, cz.Kaczmarz(), [8.0, 12.0]),
    "kaczmarz, plain": (WIDE, cz.Kaczmarz(**PLAIN), [8.0, 12.0]),
}


def compared(p, engine, exact, times):
    """f of coordinates, |x - x*|^2 / 2 of rows, against their expectations."""
    x = marked_checks.samples(engine, times, RUNS, 1)
    if hasattr(engine, "form"):
        found, expected = np.stack([p.values(row) for row in x]), exact.fun
    else:
        found = 0.5 * ((x - p.x_star) ** 2).sum(axis=2)
        expected = 0.5 * exact.xx.sum(axis=1)
    return mean_test(Moments.of(found), expected, ALPHA / len(ENGINES))


@pytest.mark.parametrize("name", ENGINES)
def test_measured_means_equal_exact_moments(name):
    p, method, times = ENGINES[name]
    x0 = np.zeros(p.dim)
    exact = moments(p, method, x0, times)
    test = compared(p, method.prepare(p, x0), exact, times)
    assert test.usable, test
    assert test.passed, test


def test_a_forgotten_p_is_caught():
    p, x0, times = MANY, np.zeros(MANY.dim), [10.0, 25.0]
    exact = moments(p, cz.CoordinateDescent(start=0.0), x0, times)
    test = compared(p, ForgottenP(start=0.0).prepare(p, x0), exact, times)
    assert test.usable, test
    assert test.z > 3.0 * test.limit


def test_a_row_step_of_z_that_is_wrong_is_caught(monkeypatch):
    p, x0, times = WIDE, np.zeros(WIDE.dim), [8.0, 12.0]
    method = cz.StochasticLeastSquares()
    exact, engine = moments(p, method, x0, times), method.prepare(p, x0)
    advance = type(engine).advance
    longer = [1.0, 1.0, 1.0, 3.0, 1.0]
    monkeypatch.setattr(
        type(engine), "advance", lambda self, marks, coefs: advance(self, marks, coefs * longer)
    )
    test = compared(p, engine, exact, times)
    assert test.usable, test
    assert test.z > 1.5 * test.limit


# Bounds.

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


def bounded_moment(p, method, times):
    m = moments(p, method, X0, times)
    if isinstance(method, cz.CoordinateDescent):
        return m.fun - p.f_star
    return 0.5 * m.xx.sum(axis=1)


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
    engine = cz.StochasticLeastSquares().prepare(CLEAN, X0)
    L, mu = engine.R2 * engine.kappa, np.linalg.eigvalsh(H)[0]
    by_hand = 0.5 * (u @ u + mu * inverse) * np.exp(-np.sqrt(mu / L) * t)
    np.testing.assert_allclose(bound(cz.StochasticLeastSquares(), CLEAN, X0, t=t), by_hand)
    convex = cz.StochasticLeastSquares(mu=0.0)
    np.testing.assert_allclose(bound(convex, CLEAN, X0, t=t), 2 * L * inverse / t**2)
    slow = cz.StochasticLeastSquares(accelerated=False)
    by_hand = 0.5 * (u @ u) * np.exp(-mu / engine.R2 * t)
    np.testing.assert_allclose(bound(slow, CLEAN, X0, t=t), by_hand)
    slow = cz.StochasticLeastSquares(accelerated=False, mu=0.0)
    top = engine.kappa * (u @ u) + engine.R2 * inverse
    np.testing.assert_allclose(bound(slow, CLEAN, X0, k=4), top / (2 * engine.kappa + 16))


@pytest.mark.parametrize("name", CASES)
def test_plain_bounds_at_events_hold_for_the_exact_recursion(name):
    p, make = CASES[name]
    d = p.dim
    variants = [make(**PLAIN)] + ([make(**PLAIN, mu=0.0)] if p is CLEAN else [])
    for method in variants:
        engine = method.prepare(p, X0)
        Js = jump_matrices(p, engine, 0.0)
        M = start_moments(p).reshape(2 * d, 2 * d)
        H = bounded_form(p, engine)
        for k in range(1, 60):
            M = sum(q * J @ M @ J.T for q, J in zip(engine.p, Js, strict=True))
            value = 0.5 * np.sum(H * M[:d, :d])
            assert value <= bound(method, p, X0, k=k) * (1 + 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_weighted_bound_at_events_holds_exactly(name):
    """E[e^{qT_k} M_k] for constant parameters: over a gap, e^{qs} and the flow have a resolvent."""
    p, make = CASES[name]
    method, d = make(), p.dim
    engine = method.prepare(p, X0)
    q = math.sqrt(engine.process.mu / engine.process.L)
    assert weight(engine.process, 2.0) == pytest.approx(math.exp(2.0 * q))
    K, one = flow_generator(engine, 0.0, d), np.eye(2 * d)
    G = np.kron(K, one) + np.kron(one, K)
    gap = np.linalg.inv((1.0 - q) * np.eye(4 * d * d) - G)
    step = parameters.gamma_prime(0.0, *engine.process.constants)
    J = sum(
        w * np.kron(J, J) for w, J in zip(engine.p, jump_matrices(p, engine, step), strict=True)
    )
    H = bounded_form(p, engine)
    M = start_moments(p)
    for k in range(1, 100):
        M = J @ (gap @ M)
        value = 0.5 * np.sum(H * M.reshape(2 * d, 2 * d)[:d, :d])
        assert value <= bound(method, p, X0, k=k) * (1 + 1e-9)


@pytest.mark.parametrize("options", [{}, {"start": 0.0}, PLAIN])
def test_the_dual_bound_holds_for_the_exact_dual_moments(options):
    """D is a quadratic of the dual variables, and its coordinates are marks like any other."""
    p, method = least_squares(noise=2.0, l2=0.05), cz.DualCoordinate(**options)
    engine = method.prepare(p, X0)
    u = engine.coordinates() - (p.y - p.X @ p.x_star)
    n = len(p.y)
    H = p.X @ p.X.T / (p.l2 * n**2) + np.eye(n) / n
    marks = coordinate_marks(engine)
    np.testing.assert_allclose(marks.c, H, rtol=1e-12)
    rate = rates(engine.process) if engine.accelerated else marked_moments.STILL
    m = integrated(rate, marks.drift, np.stack([np.outer(u, u)] * 3), TIMES)
    exact = 0.5 * np.einsum("tij,ij->t", m[:, 0], H)
    # The gap at the start, from the library's own dual objective at a_0 and at a*.
    best = cz.DualCoordinate().prepare(p, p.x_star)
    gap = best.dual_value() - engine.dual_value()
    assert 0.5 * u @ H @ u == pytest.approx(gap, rel=1e-9)
    ratio = exact / bound(method, p, X0, t=TIMES)
    assert 0.05 < ratio.max() <= 1.0 + 1e-9
    if options == {}:
        by_hand = gap + 0.5 / n * (u @ u)
        assert bound(method, p, X0, t=0.0) == pytest.approx(by_hand, rel=1e-9)


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


def test_started_at_the_solution_nothing_moves():
    for p, method in BOUNDED:
        assert np.all(moments(p, method, p.x_star, [0.0, 5.0]).xx <= 1e-25)
        assert np.all(bound(method, p, p.x_star, t=[1.0, 5.0]) <= 1e-25)


LOGISTIC = cz.problems.LogisticRegression(CLEAN.X, np.sign(CLEAN.y), l2=0.1)
NOISY = least_squares(noise=2.0)
REFUSED = {
    "dual logistic": ("no theorem", lambda: bound(cz.DualCoordinate(), LOGISTIC, X0, t=1.0)),
    "unknown x*": ("x_star", lambda: bound(cz.CoordinateDescent(), LOGISTIC, X0, t=1.0)),
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


def test_no_times_are_fine_and_marks_are_enumerated():
    assert moments(CLEAN, cz.Kaczmarz(), X0, []).fun.shape == (0,)
    # Two events of plain coordinate descent, all mark sequences by hand.
    engine = cz.CoordinateDescent(**PLAIN).prepare(QUADRATIC, X0)
    lam, p = QUADRATIC.eigenvalues, engine.p
    total = 0.0
    for i, j in itertools.product(range(3), repeat=2):
        alive = np.ones(3)
        alive[[i, j]] = 0.0  # a step of 1/L_i on a quadratic ends the coordinate
        total += p[i] * p[j] * 0.5 * np.sum(lam * alive * (X0 - QUADRATIC.x_star) ** 2)
    k2 = 0.5 * np.sum(lam * (1 - p) ** 2 * (X0 - QUADRATIC.x_star) ** 2)
    assert total == pytest.approx(k2)
    m = moments(QUADRATIC, cz.CoordinateDescent(**PLAIN), X0, [3.0])
    by_hand = 0.5 * np.sum(lam * np.exp(-3.0 * p) * (X0 - QUADRATIC.x_star) ** 2)
    assert m.fun[0] == pytest.approx(by_hand, rel=1e-10)
