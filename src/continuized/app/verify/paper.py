"""Checks of the paper's theorems, on functions whose full gradients are asked for.

Without chance: exact expectations, quadrature, independent integration.  By Monte Carlo: each
check with a stated probability of a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from functools import cache, partial
from typing import Any

import numpy as np

from continuized import theory
from continuized.app.verify.claims import LARGEST_RATIO, Effort, Found, Subject, at_most
from continuized.app.verify.formulas import lyapunov_weights, process_parameters
from continuized.problems import Problem, Quadratic, paper_convex, paper_strongly_convex
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process.flow import weights
from continuized.process.methods import Continuized, Method, State
from continuized.process.noise import Gaussian
from continuized.solver.ensemble import ensemble
from continuized.support.statistics import Measurement, SampleMoments, dkw_radius, mean_test

STARTS = (0.0, 0.3, 5.0, math.inf)
LAW_OF = (1, 10, 100)  # the k whose T_k are tested

# Early times: later on f is so skewed (70 at t = 15 on figure 1's functions) that the mean is
# carried by runs too rare to be seen.
TIMES = [0.5, 1.0, 2.0]
SKEWED = 3 / 2  # times the runs: what f's skewness asks for, and half as many more
NOISY_TIMES = [2.0, 5.0, 25.0]  # the last is the plateau where mu > 0


# The functions that the checks run on


class LogCosh(Problem):
    """sum_i log cosh(x_i - x*_i): convex, 1-smooth, not strongly convex, and no quadratic.

    Of three coordinates, some far from the minimiser, where f is nearly linear.
    """

    def __init__(self) -> None:
        from continuized.support.jit import HAS_NUMBA, njit

        star = np.array([3.0, -1.0, 0.2])

        @njit
        def fun(x):  # type: ignore[no-untyped-def]
            total = 0.0
            for i in range(x.size):
                u = abs(x[i] - star[i])
                total += u + np.log1p(np.exp(-2.0 * u)) - np.log(2.0)
            return total

        @njit
        def grad(x, out):  # type: ignore[no-untyped-def]
            for i in range(x.size):
                out[i] = np.tanh(x[i] - star[i])

        known: dict[str, Any] = {"L": 1.0, "mu": 0.0, "x_star": star, "f_star": 0.0}
        if HAS_NUMBA:
            super().__init__(fun, grad, **known)
        else:
            super().__init__(self.values, self.grads, **known)

    def values(self, points: Any) -> Any:
        u = np.abs(points - self.x_star)
        return (u + np.log1p(np.exp(-2.0 * u)) - np.log(2.0)).sum(axis=-1)

    def grads(self, points: Any) -> Any:
        """Return the gradient at each row."""
        return np.tanh(points - self.x_star)


log_cosh = cache(LogCosh)  # compiled once


def round_quadratic(mu: float) -> Quadratic:
    """Return a quadratic with fifty eigenvalues in [0.2, 1]: so many that noise makes f nearly
    normal."""
    return Quadratic(np.linspace(0.2, 1.0, 50), np.ones(50), mu=mu)


def small_convex() -> Quadratic:
    """Return a quadratic with a few eigenvalues between 0 and 1, run with the convex parameters."""
    return Quadratic([1.0, 0.3, 0.05, 0.0], [1.0, -2.0, 3.0, 0.0], mu=0.0)


# Without chance


def compare_discrete(
    subject: Subject, effort: Effort, make: Callable[[Subject, Problem], Method]
) -> Found:
    """Measure (f(x_k) - f*) / bound for every k, on the one path there is; convex and strongly
    convex."""
    for p in (small_convex(), paper_convex(), log_cosh(), paper_strongly_convex()):
        method, x0, k = make(subject, p), np.zeros(p.dim or 0), np.arange(1, 301)
        points = follow(method, p, clocks.Unit(), k.size)
        excess = [p.fun(state.x) - (p.f_star or 0.0) for _, state in points]
        yield at_most(LARGEST_RATIO, excess / theory.bound(method, p, x0, k=k))


def follow(
    method: Method, p: Problem, clock: clocks.Clock, events: int
) -> Iterator[tuple[clocks.Event, State]]:
    """Yield the events of a clock, and the state of a method after each, from 0."""
    state = method.init(np.zeros(p.dim or 0))
    for event in clock.stream().draw(events).each():
        state, _ = method.step(state, event, lambda x, mark: p.grad(x))
        yield event, state


theorem_1 = partial(compare_discrete, make=lambda s, p: s.gradient_descent(p.L))
theorem_2 = partial(compare_discrete, make=lambda s, p: s.nesterov(p.L, p.mu))


def continuized_cases(subject: Subject) -> list[tuple[Quadratic, Continuized]]:
    """Return the continuized method on the quadratics, with every start."""
    quadratics = (small_convex(), paper_convex(), paper_strongly_convex())
    return [
        (p, subject.continuized(p.L, p.mu, start))
        for p in quadratics
        for start in STARTS
        if p.mu > 0.0 or start < math.inf
    ]


def compare_with_bound(subject: Subject, effort: Effort, sigma2: float = 0.0) -> Found:
    """Measure the exact E f(x_t) - f* over its bound, with noise of total variance sigma2."""
    times = np.geomspace(0.1, 200.0, 40)
    for p, method in continuized_cases(subject):
        x0 = np.zeros(p.dim)
        exact = theory.moments(p, method, x0, times, sigma2=sigma2).fun
        yield at_most(LARGEST_RATIO, exact / theory.bound(method, p, x0, t=times, sigma2=sigma2))


theorem_3 = compare_with_bound  # E f(x_t) - f* <= phi_0 / A_t
theorem_6 = partial(compare_with_bound, sigma2=0.01)  # the same with additive noise


def theorem_4(subject: Subject, effort: Effort) -> Found:
    """Compare the discrete iteration against the ODE integrated numerically, with jumps, on one
    clock."""
    for p, method in continuized_cases(subject):
        if p.dim <= 4:
            x, z, t = np.zeros(p.dim), np.zeros(p.dim), 0.0
            for event, state in follow(method, p, clocks.Poisson(effort.seed), 15):
                x, z = _integrate(method, x, z, t, event.t)
                g = p.grad(x)
                now = process_parameters(event.t, *method.constants)
                x, z, t = x - now.gamma * g, z - now.gamma_prime * g, event.t
                scale = 1.0 + np.max(np.abs([x, z]))
                yield at_most(1e-10, np.abs([state.x - x, state.z - z]) / scale)


def _integrate(
    method: Continuized, x: Array, z: Array, t0: float, t1: float
) -> tuple[Array, Array]:
    """Integrate dx = eta (z - x) dt, dz = eta' (x - z) dt from t0 to t1, by an ODE solver."""
    from scipy.integrate import solve_ivp

    c = method.constants
    if math.isinf(process_parameters(t0, *c).eta):
        return z, z  # x joins z at once, and they stay together

    def slope(t: float, y: Array) -> Array:
        x, z = y.reshape(2, -1)
        now = process_parameters(t, *c)
        return np.concatenate([now.eta * (z - x), now.eta_prime * (x - z)])

    solution = solve_ivp(
        slope, (t0, t1), np.concatenate([x, z]), method="DOP853", rtol=1e-13, atol=1e-15
    )
    x, z = solution.y[:, -1].reshape(2, -1)
    return x, z


def drift(subject: Subject, effort: Effort) -> Found:
    """Measure the generator I_t / phi_t at random states."""
    for p, method, t, x, z in _random_states(subject, effort):
        A, B = np.transpose([lyapunov_weights(s, *method.constants) for s in t.tolist()])
        phi = A * (p.values(x) - p.f_star) + B * ((z - p.x_star) ** 2).sum(axis=1)
        yield at_most(1e-9, theory.drift(method, p, t, x, z) / phi)


def supermartingale(subject: Subject, effort: Effort) -> Found:
    """Measure the share of random states where E phi at the next event is above phi."""
    above, total = 0, 0
    for p, method, t, x, z in _random_states(subject, effort):
        gap = theory.supermartingale_gap(method, p, t, x, z)
        above += int(np.sum(~(gap.value <= gap.error + 1e-10 * gap.phi)))  # a NaN counts
        total += len(t)
    yield Measurement(above / total, 0.0)


def _random_states(
    subject: Subject, effort: Effort
) -> Iterator[tuple[Problem, Continuized, Array, Array, Array]]:
    """Draw random (t, x, z), of every scale, on one-dimensional functions and the small ones."""
    rng = np.random.default_rng([effort.seed, 1])
    cases: list[tuple[Problem, Continuized]] = []
    for mu in (0.0, 0.01, 0.5):
        for start in STARTS if mu else STARTS[:-1]:
            lam = [1.0, max(mu, 0.1)][rng.integers(2)]
            cases.append((Quadratic([lam], mu=mu), subject.continuized(1.0, mu, start)))
    cases += [(log_cosh(), subject.continuized(1.0, 0.0, s)) for s in STARTS[:-1]]
    each = math.ceil(effort.states / len(cases))
    for p, method in cases:
        # A few times, many points: states that share their time share their quadrature.
        times = np.exp(rng.uniform(math.log(0.05), math.log(50.0), 20))
        t = times[rng.integers(len(times), size=each)]
        x, z = np.exp(rng.uniform(-3, 3, (2, each, 1))) * rng.standard_normal((2, each, p.dim or 1))
        yield p, method, t, x, z


def flow_digits(subject: Subject, effort: Effort) -> Found:
    """Compare the convex mixing weight against 60-digit arithmetic, in ulp, up to T = 1e15."""
    rng = np.random.default_rng([effort.seed, 2])
    method = subject.continuized(1.0)
    for t0 in np.geomspace(1.0, 1e15, 200).tolist():
        gap = float(rng.exponential())
        t1 = t0 + gap
        a = method.coefficients(1, t0, t1, gap, 0.0)[0]
        with localcontext() as context:
            context.prec = 60
            exact = 1 - (1 - Decimal(gap) / Decimal(t1)) ** 2
            error = float(abs(Decimal(a) - exact) / exact)
        yield at_most(4.0, error / math.ulp(1.0))


def one_family(subject: Subject, effort: Effort) -> Found:
    """start = 0 tends to the convex weights as mu -> 0, and start -> inf to the exponential."""
    for t0, dt in ((0.0, 0.7), (1.0, 0.3), (50.0, 2.0)):
        convex = weights(t0, t0 + dt, dt, 1.0, 0.0, 0.0)
        nearly = weights(t0, t0 + dt, dt, 1.0, 1e-20, 0.0)
        constant = weights(t0, t0 + dt, dt, 1.0, 0.04, math.inf)
        late = weights(t0, t0 + dt, dt, 1.0, 0.04, 400.0)
        yield at_most(1e-12, np.abs([np.subtract(convex, nearly), np.subtract(constant, late)]))


def scaling_limits(subject: Subject, effort: Effort) -> Found:
    """Measure the rate at which the process comes to the ODE as L grows; the clock's own is
    -1/4."""
    for p in (small_convex(), paper_strongly_convex()):
        found = theory.expected_scaling_distance(p, np.zeros(p.dim), 4.0, np.geomspace(1e2, 1e5, 4))
        yield at_most(0.01, abs(found.rate + 0.25))


def tuned_L(subject: Subject, effort: Effort) -> Found:
    """Measure the exact error at the horizon with the noise-adapted L, over the predicted one."""
    sigma2, horizon = 0.01, 200.0
    for p in (small_convex(), paper_strongly_convex()):
        x0 = np.zeros(p.dim)
        tuned = subject.continuized(theory.noise_tuned_L(p, x0, sigma2, horizon), p.mu)
        exact = theory.moments(p, tuned, x0, [horizon], sigma2=sigma2).fun
        plain = subject.continuized(p.L, p.mu)
        usual = theory.moments(p, plain, x0, [horizon], sigma2=sigma2).fun
        yield at_most(1.0, exact / theory.bound(tuned, p, x0, t=horizon, sigma2=sigma2))
        yield at_most(1.0, exact / usual)


# By Monte Carlo


def event_times(subject: Subject, effort: Effort) -> Found:
    """Compare the empirical law of T_k against Gamma(k, 1), as a multiple of the DKW radius."""
    from scipy.special import gammainc

    p = Quadratic([1.0], [1.0])
    method, steps = subject.continuized(p.L), max(LAW_OF)
    e = ensemble(p, method, np.zeros(1), runs=effort.runs, steps=steps, rng=effort.seed)
    assert e.t is not None
    radius, ranks = dkw_radius(e.runs, effort.alpha / len(LAW_OF)), np.arange(e.runs + 1) / e.runs
    for k in LAW_OF:
        law = gammainc(k, np.sort(e.t[:, k]))
        yield at_most(radius, [ranks[1:] - law, law - ranks[:-1]])


def compare_means(
    subject: Subject, effort: Effort, problem: Callable[[], Quadratic],
    times: Sequence[float] = TIMES, start: float | None = None, variance: float = 0.0,
) -> Found:  # fmt: skip
    """Compare E f(x_t) against the exact mean; with noise of this variance, from the optimum."""
    runs = effort.runs if variance else int(SKEWED * effort.runs)
    p = problem()
    method = subject.continuized(p.L, p.mu, start)
    x0 = p.x_star if variance else np.zeros(p.dim)
    noise = subject.gaussian(variance) if variance else None
    e = ensemble(p, method, x0, runs=runs, times=times, rng=effort.seed, noise=noise, keep="mean")
    sigma2 = Gaussian(variance).sigma2(p.dim)
    exact = theory.moments(p, method, x0, times, sigma2=sigma2).fun
    yield mean_test(e.moments, exact, effort.alpha)


# mu = 0 on figure 1's left function, mu > 0 on its right one, and there start = 0.
equality_convex = partial(compare_means, problem=paper_convex)
equality_strongly_convex = partial(compare_means, problem=paper_strongly_convex)
equality_start_0 = partial(compare_means, problem=paper_strongly_convex, start=0.0)
# With noise, as in figure 2: mu = 0, and mu > 0 up to the plateau.
equality_noise = partial(
    compare_means, problem=partial(round_quadratic, 0.0), times=NOISY_TIMES[:2], variance=1e-4
)
noise_floor = partial(
    compare_means, problem=partial(round_quadratic, 0.2), times=NOISY_TIMES, variance=1e-4
)


def equality_at_events(subject: Subject, effort: Effort) -> Found:
    """Measure E f(x_k) at the k-th event, both cases; later, a rare run is 30 times the mean."""
    for p in (small_convex(), paper_strongly_convex()):
        method, x0, k = subject.continuized(p.L, p.mu), np.zeros(p.dim), [1, 4, 10]
        e = ensemble(p, method, x0, runs=int(SKEWED * effort.runs), steps=max(k), rng=effort.seed)
        assert e.fun is not None
        exact = theory.moments(p, method, x0, k=k).fun
        yield mean_test(SampleMoments.of(e.fun[:, k]), exact, effort.alpha / 2)


def theorem_5(subject: Subject, effort: Effort) -> Found:
    """Compare E[weight(T_k) (f(x_k) - f*)] against its bound: how far the mean may be above it."""
    for p in (log_cosh(), small_convex(), paper_strongly_convex()):
        method, x0, k = subject.continuized(p.L, p.mu), np.zeros(p.dim or 0), [2, 8, 20]
        e = ensemble(p, method, x0, runs=effort.runs, steps=max(k), rng=effort.seed)
        assert e.t is not None
        assert e.fun is not None
        times = np.nan_to_num(e.t[:, k])  # of a run that failed, whose f is NaN
        weighted = theory.weight(method, times) * (e.fun[:, k] - (p.f_star or 0.0))
        limits = theory.bound(method, p, x0, k=k)
        yield mean_test(SampleMoments.of(weighted), limits, effort.alpha / 3, side="upper")


def theorem_3_beyond_quadratics(subject: Subject, effort: Effort) -> Found:
    """Compare E f(x_t) against Theorem 3 on a function that is no quadratic."""
    p, times = log_cosh(), [2.0, 6.0, 15.0]
    method, x0 = subject.continuized(p.L, 0.0), np.zeros(p.dim or 0)
    e = ensemble(p, method, x0, runs=effort.runs, times=times, rng=effort.seed, keep="mean")
    limits = theory.bound(method, p, x0, t=times)
    yield mean_test(e.moments, limits, effort.alpha, side="upper")
