"""Marked methods as matrices, read off the eager oracle, problems to run them on, and what of their
moments is bounded and measured."""

import numpy as np
from scipy.linalg import expm

import continuized as cz
from continuized import parameters
from continuized.app.verify import marked as marked_checks
from continuized.process import reference
from continuized.support.statistics import SampleMoments, mean_test
from continuized.theory import moments


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
RUNS = 4000


def bounded_moment(p, method, times):
    """What the theorem bounds: E f - f* of coordinates, E |x - x*|^2 / 2 of rows, from X0."""
    m = moments(p, method, X0, times)
    if isinstance(method, cz.CoordinateDescent):
        return m.fun - p.f_star
    return 0.5 * m.xx.sum(axis=1)


def compare_means(p, stepper, exact, times, alpha):
    """f of coordinates, |x - x*|^2 / 2 of rows, of RUNS runs against their expectations."""
    x = marked_checks.draw_samples(stepper, times, RUNS, 1)
    if hasattr(stepper, "form"):
        found, expected = np.stack([p.values(row) for row in x]), exact.fun
    else:
        found = 0.5 * ((x - p.x_star) ** 2).sum(axis=2)
        expected = 0.5 * exact.xx.sum(axis=1)
    return mean_test(SampleMoments.of(found), expected, alpha)


def jump_matrix(p, stepper, jumps, mark, gamma_prime):
    """The matrix J of (u, w) at a mark, read off the eager oracle: none of theory's formulas."""
    d = p.dim
    J = np.eye(2 * d)
    for j in range(d):
        support, dx, dz = jumps(p.x_star + np.eye(d)[j], mark)
        J[support, j] -= dx
        J[d + support, j] -= gamma_prime * dz if stepper.accelerated else dx
    return J


def jump_matrices(p, stepper, gamma_prime):
    """The J of every mark."""
    if hasattr(stepper, "form"):
        jumps = reference.CoordinateJumps(p, stepper.form.L_i, stepper.p)
    else:
        jumps = reference.RowJumps(p, stepper.R2, stepper.factors)
    return [jump_matrix(p, stepper, jumps, i, gamma_prime) for i in range(stepper.p.size)]


def mean_jump(p, stepper, gamma_prime):
    """E of J (x) J over all marks."""
    matrices = jump_matrices(p, stepper, gamma_prime)
    return sum(q * np.kron(J, J) for q, J in zip(stepper.p, matrices, strict=True))


def generator(p, stepper, t, mean=mean_jump):
    """d/dt of the (2d)^2 second moments, as one matrix."""
    K, one = flow_generator(stepper, t, p.dim), np.eye(2 * p.dim)
    jump = mean(p, stepper, parameters.gamma_prime(t, *stepper.process.constants))
    return np.kron(K, one) + np.kron(one, K) + jump - np.eye(len(jump))


def flow_generator(stepper, t, d):
    if not stepper.accelerated:
        return np.zeros((2 * d, 2 * d))
    c = stepper.process.constants
    e, f = parameters.eta(t, *c), parameters.eta_prime(t, *c)
    return np.kron([[-e, e], [f, -f]], np.eye(d))


def start_moments(p):
    uw = np.tile(X0 - p.x_star, 2)
    return np.outer(uw, uw).ravel()


def hessian(p):
    if isinstance(p, cz.problems.Quadratic):
        return np.diag(p.eigenvalues)
    return p.X.T @ p.X / len(p.X) + p.l2 * np.eye(p.dim)


def assert_moments(m, i, M, p, rtol=1e-8):
    """The reference solvers are accurate to their rtol of the largest entry only."""
    d = p.dim
    tolerance = {"rtol": rtol, "atol": 1e-5 * rtol * start_moments(p).max()}
    M = M.reshape(2 * d, 2 * d)
    np.testing.assert_allclose(m.xx[i], np.diag(M[:d, :d]), **tolerance)
    np.testing.assert_allclose(m.zz[i], np.diag(M[d:, d:]), **tolerance)
    np.testing.assert_allclose(m.xz[i], np.diag(M[:d, d:]), rtol=rtol, atol=rtol * m.z2[i])
    np.testing.assert_allclose(m.fun[i] - p.f_star, 0.5 * np.sum(hessian(p) * M[:d, :d]), rtol=rtol)
    assert abs(m.z2[i] / m.zz[i].sum() - 1.0) < 1e-14


def assert_equals_exponential(p, method, mean=mean_jump):
    """Moments with constant parameters are a matrix exponential."""
    times = [0.0, 0.7, 9.0, 40.0]
    m, G = moments(p, method, X0, times), generator(p, method.prepare(p, X0), 0.0, mean)
    for i, t in enumerate(times):
        assert_moments(m, i, expm(t * G) @ start_moments(p), p)


def bounded_form(p, stepper):
    """The matrix of what the theorem bounds: f - f*, or |x - x*|^2 / 2."""
    return hessian(p) if hasattr(stepper, "form") else np.eye(p.dim)
