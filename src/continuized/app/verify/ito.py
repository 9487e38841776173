"""Checks of Ito's formula, appendix A, and of the prefactors of appendix B."""

from __future__ import annotations

import math

import numpy as np

from continuized import theory
from continuized.app.verify.claims import Effort, Found, Subject, at_most
from continuized.app.verify.formulas import lyapunov_weights, process_parameters
from continuized.app.verify.paper import STARTS, small_convex
from continuized.problems import Quadratic, paper_strongly_convex
from continuized.problems.base import Array
from continuized.process.methods import Continuized
from continuized.support.statistics import SampleMoments, mean_test

RUNS = 20_000
EVENTS = 2  # of a run
STEP = 1e-4  # of the differences that stand for A' and B', by Richardson's extrapolation


def shear() -> theory.Observable:
    """Return a bounded function of t, x and z, which skews little: sum sin(x + 2t) + sin(z_1
    x_1)."""

    def value(t: Array, x: Array, z: Array) -> Array:
        return np.asarray(np.sin(x + 2.0 * t[:, None]).sum(axis=1) + np.sin(z[:, 0] * x[:, 0]))

    def gradient(t: Array, x: Array, z: Array) -> tuple[Array, Array, Array]:
        in_x, in_z = np.cos(x + 2.0 * t[:, None]), np.zeros_like(z)
        in_t = 2.0 * in_x.sum(axis=1)
        slope = np.cos(z[:, 0] * x[:, 0])
        in_x[:, 0] += slope * z[:, 0]
        in_z[:, 0] = slope * x[:, 0]
        return in_t, in_x, in_z

    return theory.Observable(value, gradient, vectorized=True)


def closes(subject: Subject, effort: Effort) -> Found:
    """Measure |phi_0 + drift + martingale - phi| over its largest part, along paths."""
    for p in (small_convex(), paper_strongly_convex()):
        for start in STARTS:
            if p.mu == 0.0 and start == math.inf:
                continue
            method = subject.continuized(p.L, p.mu, start)
            x0 = np.zeros(p.dim)
            r = subject.minimize(
                p, x0, method=method, maxiter=60, rng=effort.seed, record="path", tol=0.0
            )
            for phi in (theory.lyapunov_function(method, p), shear()):
                parts = subject.decompose(phi, r, p)
                whole = parts.phi[0] + parts.drift + parts.martingale
                size = np.max(np.abs([parts.phi, parts.drift, parts.martingale]))
                yield at_most(1e-9, np.abs(whole - parts.phi) / size)


def martingale(subject: Subject, effort: Effort) -> Found:
    """Compare the mean of M at the second event, over runs on clocks of their own, against 0."""
    p = Quadratic([1.0, 0.3, 0.1], [1.0, -1.0, 0.5])
    rng = np.random.default_rng([effort.seed, 21])
    method = subject.continuized(p.L, p.mu)
    runs = effort.times * RUNS
    phi, x, t, M = shear(), np.zeros((runs, p.dim)), np.zeros(runs), np.zeros(runs)
    z = x
    for _ in range(EVENTS):
        gaps = rng.exponential(size=runs)
        M -= subject.integrate_gaps(phi, method, p, t, gaps, x, z)[1]
        x, z, t, grown = _step(phi, method, p, x, z, t, gaps)
        M += grown
    yield mean_test(SampleMoments.of(M[:, None]), 0.0, effort.alpha)


def _step(
    phi: theory.Observable, method: Continuized, p: Quadratic, x: Array, z: Array, t: Array,
    gaps: Array,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """Go to the next event of many runs; also what phi jumps by there."""
    pairs = zip(t.tolist(), (t + gaps).tolist(), gaps.tolist(), strict=True)
    found = np.array([method.coefficients(1, t0, t1, dt, 0.0)[:4] for t0, t1, dt in pairs])
    a, b, gamma, gamma_prime = found.T[:, :, None]
    x, z, t = x + a * (z - x), z + b * (x - z), t + gaps
    g = p.grads(x)
    before = phi.values(t, x, z)
    x, z = x - gamma * g, z - gamma_prime * g
    return x, z, t, phi.values(t, x, z) - before


def prefactors(subject: Subject, effort: Effort) -> Found:
    """Measure the five prefactors over the terms they are made of, for the paper's parameters."""
    for L, mu in ((1.0, 0.0), (2.0, 0.1), (3.0, 0.001)):
        for start in STARTS:
            if mu == 0.0 and start == math.inf:
                continue
            for t in (0.5, 3.0, 20.0):
                A, B = lyapunov_weights(t, L, mu, start)
                near, far = (
                    np.subtract(
                        lyapunov_weights(t + h, L, mu, start), lyapunov_weights(t - h, L, mu, start)
                    )
                    / (2.0 * h)
                    for h in (STEP, 2.0 * STEP)
                )
                dA, dB = (4.0 * near - far) / 3.0
                now = process_parameters(t, L, mu, start)
                found = subject.prefactors(L, mu, A=A, B=B, dA=dA, dB=dB, **now._asdict())
                squared = A * now.gamma + B * now.gamma_prime**2
                terms = (dA, B * now.eta_prime + 1e-3, A * now.eta, 0.5 * mu * dA + 1e-3, squared)
                yield at_most(1e-8, np.abs(np.divide(found, terms)))
