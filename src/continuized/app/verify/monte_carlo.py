"""Checks by Monte Carlo, each with a stated probability of a false alarm."""

from __future__ import annotations

import numpy as np

from continuized import theory
from continuized.app.verify import functions
from continuized.app.verify.claims import Effort, Measurement, Subject, worst_of
from continuized.problems import Quadratic
from continuized.process.noise import Gaussian
from continuized.solver.ensemble import ensemble
from continuized.support.statistics import MeanTest, Moments, dkw_radius, mean_test

LAW_OF = (1, 10, 100)  # the k whose T_k are tested

# Early times: later on f is so skewed (70 at t = 15 on figure 1's functions) that the mean is
# carried by runs too rare to be seen.
TIMES = [0.5, 1.0, 2.0]
NOISY_TIMES = [2.0, 5.0, 25.0]  # the last is the plateau where mu > 0


def event_times(subject: Subject, effort: Effort) -> Measurement:
    """The empirical law of T_k against Gamma(k, 1), as a multiple of the DKW radius."""
    from scipy.special import gammainc

    p = Quadratic([1.0], [1.0])
    method, steps = subject.continuized(p.L), max(LAW_OF)
    e = ensemble(p, method, np.zeros(1), runs=effort.runs, steps=steps, rng=effort.seed)
    assert e.t is not None
    radius, ranks = dkw_radius(e.runs, effort.alpha / len(LAW_OF)), np.arange(e.runs + 1) / e.runs
    distances = []
    for k in LAW_OF:
        law = gammainc(k, np.sort(e.t[:, k]))
        distances += [np.max(ranks[1:] - law), np.max(law - ranks[:-1])]
    return Measurement(float(np.max(distances)), radius)


def _equality(
    subject: Subject,
    effort: Effort,
    p: Quadratic,
    mu: float,
    start: float | None,
    times: list[float],
    variance: float = 0.0,
    from_optimum: bool = False,
) -> Measurement:
    method = subject.continuized(p.L, mu, start)
    x0 = p.x_star if from_optimum else np.zeros(p.dim)
    noise = subject.gaussian(variance) if variance else None
    e = ensemble(
        p, method, x0, runs=effort.runs, times=times, rng=effort.seed, noise=noise, keep="mean"
    )
    sigma2 = Gaussian(variance).sigma2(p.dim)
    exact = theory.moments(p, method, x0, times, sigma2=sigma2).fun
    return _judge(mean_test(e.moments, exact, effort.alpha))


def _judge(test: MeanTest) -> Measurement:
    return Measurement(test.z, test.limit, test.usable)


def equality_convex(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t), mu = 0, on figure 1's left function."""
    return _equality(subject, effort, functions.convex(), 0.0, None, TIMES)


def equality_strongly_convex(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t), mu > 0, on figure 1's right function."""
    p = functions.strongly_convex()
    return _equality(subject, effort, p, p.mu, None, TIMES)


def equality_start_0(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t), mu > 0 and start = 0."""
    p = functions.strongly_convex()
    return _equality(subject, effort, p, p.mu, 0.0, TIMES)


def equality_noise(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) with noise, mu = 0, from the optimum, as in figure 2, left."""
    p = functions.round_quadratic(0.0)
    return _equality(subject, effort, p, 0.0, None, NOISY_TIMES[:2], 1e-4, True)


def noise_floor(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) with noise up to the plateau, mu > 0, as in figure 2, right."""
    p = functions.round_quadratic(0.2)
    return _equality(subject, effort, p, p.mu, None, NOISY_TIMES, 1e-4, True)


def equality_at_events(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_k) at the k-th event, both cases."""
    found = []
    for p in (functions.small_convex(), functions.strongly_convex()):
        method, x0, k = subject.continuized(p.L, p.mu), np.zeros(p.dim), [1, 4, 12]
        e = ensemble(p, method, x0, runs=effort.runs, steps=max(k), rng=effort.seed)
        assert e.fun is not None
        exact = theory.moments(p, method, x0, k=k).fun
        found.append(_judge(mean_test(Moments.of(e.fun[:, k]), exact, effort.alpha / 2)))
    return worst_of(found)


def theorem_5(subject: Subject, effort: Effort) -> Measurement:
    """E[weight(T_k) (f(x_k) - f*)] against its bound: how far the mean may be above it."""
    found = []
    cases = [(functions.log_cosh(), 0.0), (functions.small_convex(), 0.0)]
    p_strong = functions.strongly_convex()
    for p, mu in [*cases, (p_strong, p_strong.mu)]:
        method, x0, k = subject.continuized(p.L, mu), np.zeros(p.dim or 0), [2, 8, 20]
        e = ensemble(p, method, x0, runs=effort.runs, steps=max(k), rng=effort.seed)
        assert e.t is not None
        assert e.fun is not None
        times = np.nan_to_num(e.t[:, k])  # of a run that failed, whose f is NaN
        weighted = theory.weight(method, times) * (e.fun[:, k] - (p.f_star or 0.0))
        limits = theory.bound(method, p, x0, k=k)
        test = mean_test(Moments.of(weighted), limits, effort.alpha / 3, side="upper")
        found.append(_judge(test))
    return worst_of(found)


def theorem_3_beyond_quadratics(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) against Theorem 3 on a function that is no quadratic."""
    p, times = functions.log_cosh(), [2.0, 6.0, 15.0]
    method, x0 = subject.continuized(p.L, 0.0), np.zeros(p.dim or 0)
    e = ensemble(p, method, x0, runs=effort.runs, times=times, rng=effort.seed, keep="mean")
    limits = theory.bound(method, p, x0, t=times)
    return _judge(mean_test(e.moments, limits, effort.alpha, side="upper"))
