"""Checks of what is proved here beyond the paper: sharper exponents, whole paths, functions that
are not convex, two starting points, and what is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from continuized import theory
from continuized.app.verify import formulas
from continuized.app.verify.claims import LARGEST_RATIO, Effort, Found, Subject, at_most
from continuized.app.verify.literal import compare_each
from continuized.app.verify.paper import SKEWED, small_convex
from continuized.problems import (
    Charbonnier,
    HuberRegression,
    Problem,
    Quadratic,
    SigmoidRegression,
    paper_strongly_convex,
)
from continuized.process.methods import Continuized, Method
from continuized.support.statistics import Measurement, mean_test
from continuized.theory.proofs import ConstantParameters, Proof, theorem_A, theorem_B

POSITIVE = 1e-12  # relative to the size of the form: what rounding may make of an eigenvalue 0
RATIOS = (7.04, 10.0, 100.0, 1e4)  # L / mu
GAP = 0.5  # over which eta and eta' are read off the mixing weights
TIMES = [1.0, 1.5]  # where f is least skewed
DELTA = 0.1  # that a run may leave its curve
TAU = 0.5
DIM, EVENTS = 40, 40


# Theorems A and B


def proof_form(subject: Subject, effort: Effort) -> Found:
    """Measure the largest eigenvalue of the form of each proof, with the methods' own
    parameters."""
    for ratio in (*RATIOS, 1e6):
        mu = 1.0 / ratio
        yield _largest_eigenvalue(subject.continuized(1.0, mu), theorem_A(math.sqrt(mu)))
        yield _largest_eigenvalue(
            subject.sharp_continuized(1.0, mu), theorem_B(math.sqrt(2.0 * mu))
        )


def _largest_eigenvalue(method: Method, proof: Proof) -> Measurement:
    a, b, gamma, gamma_prime, _ = method.coefficients(1, 3.0, 3.0 + GAP, GAP, 0.0)
    both = -math.log1p(-(a + b)) / GAP  # eta + eta'
    eta, eta_prime = both * a / (a + b), both * b / (a + b)
    own = proof._replace(parameters=ConstantParameters(eta, eta_prime, gamma, gamma_prime))
    matrix = np.array(own.form, dtype=np.float64)
    # Each variable in its own unit, for they are of different powers of mu; z drops out.
    unit = np.sqrt(np.abs(np.diag(matrix)))
    unit[1] = math.sqrt(proof.mu)
    return at_most(POSITIVE, np.linalg.eigvalsh(matrix / np.outer(unit, unit)).max())


def spread_quadratic(ratio: float) -> Quadratic:
    """Return a quadratic with five eigenvalues from 1/ratio to 1."""
    return Quadratic(np.geomspace(1.0 / ratio, 1.0, 5), np.ones(5))


def sharp_bounds(subject: Subject, effort: Effort) -> Found:
    """Measure the exact E f(x_t) - f* over the bounds of Theorems A and B."""
    for ratio in RATIOS:
        p, x0 = spread_quadratic(ratio), np.zeros(5)
        times = np.geomspace(0.1, 12.0, 20) * math.sqrt(ratio)
        for method in (subject.continuized(p.L, p.mu), subject.sharp_continuized(p.L, p.mu)):
            exact = theory.moments(p, method, x0, times).fun
            yield at_most(LARGEST_RATIO, exact / theory.sharp_bound(method, p, x0, t=times).bound)


# Whole paths


def whole_paths(subject: Subject, effort: Effort) -> Found:
    """Measure how many runs are above their curve at one of 300 times, which is no more than ever.

    If each is with probability delta at most, their number is at most the quantile of the binomial
    law but for a share of the error budget.
    """
    from scipy.stats import binom

    runs = effort.runs // 2
    for p, method, share in _path_cases(subject):
        x0 = np.zeros(p.dim)
        last = 60.0 if p.mu == 0.0 else 6.0 * math.sqrt(p.L / p.mu)
        times = np.linspace(0.0, last, 301)[1:]
        curve = theory.path_bound(method, p, x0, times, DELTA)  # type: ignore[arg-type]
        e = subject.ensemble(p, method, x0, runs=runs, times=times, rng=effort.seed)
        assert e.fun is not None
        above = np.any(~(e.fun - p.f_star <= curve), axis=1).sum()  # a NaN counts
        yield at_most(float(binom.isf(effort.alpha / share, runs, DELTA)), above)


def _path_cases(subject: Subject) -> Iterator[tuple[Quadratic, Method, int]]:
    """Yield a direction with curvature L alone, where runs come nearest to their curve, and
    three."""
    for p in (Quadratic([1.0], [1.0], mu=0.0), Quadratic([0.01, 1.0], [0.1, 1.0])):
        yield p, subject.continuized(p.L, p.mu), 3
    p = paper_strongly_convex()
    yield p, subject.sharp_continuized(p.L, p.mu), 3


# Functions that are not convex


@cache
def quasar_problems() -> tuple[Problem, ...]:
    """Return a well of one variable and a model with a sigmoid link, with mu = 0 and mu > 0."""
    rng = np.random.default_rng(0)
    X, star = rng.standard_normal((20, 3)), np.array([2.0, -1.0, 3.0])
    wells = Charbonnier(TAU, 1.0), Charbonnier(TAU, 1.0, l2=0.02)
    return *wells, SigmoidRegression(X, star), SigmoidRegression(X, star, tau=0.3)


def quasar(subject: Subject, effort: Effort) -> Found:
    """Measure the share of random states whose phi is expected to rise until the next event."""
    rng, n = np.random.default_rng([effort.seed, 3]), max(effort.states // 20, 50)
    for p in quasar_problems():
        star = p.x_star
        assert star is not None
        for start in (0.0, 3.0) if p.mu == 0.0 else (None,):
            method = subject.continuized(p.L, p.mu, start, p.tau)
            sizes = 10.0 ** rng.uniform(-2.0, 2.0, (2, n, 1))
            x, z = star + sizes * rng.standard_normal((2, n, star.size))
            for t in (0.0, 0.4, 20.0):
                gap = theory.supermartingale_gap(method, p, np.full(n, t), x, z)
                yield at_most(0.0, np.mean(~(gap.value <= gap.error + 1e-9 * gap.phi)))


def _quasar_methods(subject: Subject) -> Iterator[tuple[Quadratic, Continuized]]:
    """A convex function is quasar-convex too, with any tau."""
    convex, strong = small_convex(), paper_strongly_convex()
    yield convex, subject.continuized(convex.L, 0.0, None, TAU)
    yield convex, subject.continuized(convex.L, 0.0, 3.0, TAU)
    yield strong, subject.continuized(strong.L, strong.mu, None, TAU)


def quasar_bound(subject: Subject, effort: Effort) -> Found:
    """Measure the exact E f(x_t) - f* on quadratics, run with tau < 1, over its bound."""
    times = np.geomspace(0.1, 200.0, 40)
    for p, method in _quasar_methods(subject):
        x0 = np.zeros(p.dim)
        exact = theory.moments(p, method, x0, times).fun
        yield at_most(LARGEST_RATIO, exact / theory.bound(method, p, x0, t=times))


# Paths, and two starting points


def paths(subject: Subject, effort: Effort) -> Found:
    """Compare x, z and f of runs of all new parameters, from z_0 apart from x_0, against the step
    written a second time."""
    h, star = np.geomspace(0.05, 1.0, DIM), np.cos(np.arange(DIM))
    p, x0, z0 = Quadratic(h, star, mu=0.0), np.zeros(DIM), 0.3 - star
    sharp = partial(formulas.sharp_parameters, 1.0, 0.05)
    cases: list[tuple[Method, Any]] = [(subject.sharp_continuized(1.0, 0.05), lambda t: sharp())]
    for mu, start in ((0.0, 0.0), (0.0, 3.0), (0.05, math.inf)):
        at = partial(formulas.quasar_parameters, L=1.0, mu=mu, start=start, tau=TAU)
        cases.append((subject.continuized(1.0, mu, start, TAU), at))
    for method, at in cases:
        given: Any = {"method": method, "z0": z0, "rng": effort.seed}
        path: Any = subject.minimize(p, x0, **given, maxiter=EVENTS, record="path").path
        points = formulas.iterate_parameters(p.grad, x0, z0, path.t[1:], at)
        for k, (x, z) in enumerate(points, 1):
            yield from compare_each((path.x[k], path.z[k]), (x, z))
        e: Any = subject.ensemble(p, method, x0, z0=z0, runs=2, steps=EVENTS, rng=effort.seed)
        for t, found in zip(e.t, e.fun, strict=True):
            points = formulas.iterate_parameters(p.grad, x0, z0, t[1:], at)
            yield from compare_each(found[1:], [p.fun(x) for x, _ in points])


def two_starts(subject: Subject, effort: Effort) -> Found:
    """Measure E f(x_t) from z_0 apart from x_0, which is 0."""
    for p, start in ((small_convex(), 0.0), (small_convex(), 0.7), (paper_strongly_convex(), None)):
        method, x0, z0 = subject.continuized(p.L, p.mu, start), np.zeros(p.dim), -0.5 * p.x_star
        given: Any = {"z0": z0, "times": TIMES, "rng": effort.seed, "keep": "mean"}
        e = subject.ensemble(p, method, x0, runs=int(SKEWED * effort.runs), **given)
        exact = theory.moments(p, method, x0, TIMES, z0=z0).fun
        yield mean_test(e.moments, exact, effort.alpha / 3)


# What is exact


def quadratic_rates(subject: Subject, effort: Effort) -> Found:
    """Compare the exponents of Theorems A and B over the exact rate on quadratics, and the latter
    against the decay of exact second moments."""
    for ratio in RATIOS:
        mu = 1.0 / ratio
        paper, sharp = subject.continuized(1.0, mu), subject.sharp_continuized(1.0, mu)
        q = math.sqrt(mu)
        for method, proved in ((paper, 4.0 / 3.0 * q), (sharp, math.sqrt(2.0) * q)):
            rate = theory.quadratic_rate(method, 1.0, mu)
            yield at_most(1.0, proved / rate)
            # Each curvature decays by itself, some to nothing; the worst is at an end here.
            p, late = Quadratic(np.geomspace(mu, 1.0, 9), np.ones(9)), np.array([20.0, 24.0]) / q
            m = theory.moments(p, method, np.zeros(9), late)
            sizes = (m.xx * p.eigenvalues + mu * m.zz)[:, m.zz[1] > 0.0]
            decay = np.log(sizes[0] / sizes[1]) / (late[1] - late[0])
            yield at_most(1.0 + 1e-4, [rate / decay.min(), decay.min() / rate])


def tightness(subject: Subject, effort: Effort) -> Found:
    """Compare E f(x_t) on a Huber function whose slope suits the time t, against its closed form.

    While x is on the slope r, E z_t = 1 - r t^2/4 and E x_t = 1 - r (t^2/8 + t/3), from 1, with
    L = 1.  With the best r, E f(x_t) is the bound of Theorem 3 times t^2 / (t^2 + 8t/3 + 4).
    """
    for t in (30.0, 100.0):
        r = 1.0 / (t * t / 4.0 + 2.0 * t / 3.0 + 1.0)
        p = HuberRegression(np.ones((1, 1)), np.zeros(1), delta=r)
        method, x0 = subject.continuized(1.0), np.ones(1)
        e = subject.ensemble(
            p, method, x0, runs=effort.runs, times=[t], rng=effort.seed, keep="mean"
        )
        exact = 2.0 / (t * t + 8.0 * t / 3.0 + 4.0)
        yield mean_test(e.moments, np.array([exact]), effort.alpha / 2)
