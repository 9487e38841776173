"""Checks of stochastic gradients whose noise depends on the state, and of the exact noise floor."""

from __future__ import annotations

import numpy as np

from continuized import theory
from continuized.app.verify.claims import LARGEST_RATIO, Effort, Found, Subject, at_most
from continuized.app.verify.formulas import lyapunov_weights, process_parameters
from continuized.problems import LogisticRegression, Quadratic
from continuized.support.statistics import SampleMoments, mean_test

DRAWS = 50_000  # squared errors skew by 1.4


def regression() -> LogisticRegression:
    """Return a logistic regression of 40 rows of one length and 4 columns: so the errors skew
    little."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 4))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.sign(X.sum(axis=1) + rng.standard_normal(40))
    return LogisticRegression(X, y, 0.1)


def minibatches(subject: Subject, effort: Effort) -> Found:
    """Compare the mean of estimates against the gradient, and of their squared errors against
    variance."""
    p, rng = regression(), np.random.default_rng([effort.seed, 23])
    x = np.linspace(-0.1, 0.2, p.dim)
    for batch in (1, 4):
        oracle = subject.minibatch(p, batch)
        off = np.array([oracle.draw(x, rng) for _ in range(effort.times * DRAWS)]) - p.grad(x)
        squares = (off * off).sum(axis=1) - oracle.variance(x)
        columns = np.column_stack([off, squares])
        yield mean_test(SampleMoments.of(columns), 0.0, 0.5 * effort.alpha)


def drift(subject: Subject, effort: Effort) -> Found:
    """Measure the exact drift with single rows as gradients, over Theorem 6's sigma^2 A / L."""
    p, rng = regression(), np.random.default_rng([effort.seed, 24])
    oracle = subject.minibatch(p, 1)
    for mu, start in ((p.mu, np.inf), (p.mu, 1.0), (0.0, 1.0)):
        method = subject.continuized(p.L, mu, start)
        for _ in range(max(effort.states // 200, 5)):
            t = float(rng.uniform(0.1, 20.0))
            x, z = rng.standard_normal((2, p.dim)) * 10.0 ** rng.uniform(-1.0, 1.0)
            A, _ = lyapunov_weights(t, p.L, mu, start)
            allowed = oracle.variance(x) * A / p.L
            found = theory.drift(method, p, t, x, z, noise=oracle)
            yield at_most(LARGEST_RATIO, found / allowed)


def floors(subject: Subject, effort: Effort) -> Found:
    """Compare the floor against second moments that are written out here and iterated to their
    limit."""
    L, mu, sigma2 = 1.0, 0.02, 0.01
    p = Quadratic([mu, 0.1, L])
    for larger in (1.0, 4.0):
        now = process_parameters(0.0, larger, mu, np.inf)
        for gamma in (1.0 / larger, 1.0 / np.sqrt(L * larger)):
            total = 0.0
            for curvature in p.eigenvalues:
                F = np.array([[-now.eta, now.eta], [now.eta_prime, -now.eta_prime]])
                J = np.eye(2) - curvature * np.array([[gamma, 0.0], [now.gamma_prime, 0.0]])
                step = np.array([gamma, now.gamma_prime])
                G = np.kron(F, np.eye(2)) + np.kron(np.eye(2), F) + np.kron(J, J) - np.eye(4)
                total += 0.5 * curvature * np.linalg.solve(G, -sigma2 / 3 * np.kron(step, step))[0]
            found = subject.noise_step(p, larger, sigma2).floors[int(gamma > 1.0 / larger)]
            yield at_most(1e-9, abs(found / total - 1.0))
