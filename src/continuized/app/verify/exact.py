"""Checks without chance: exact expectations, quadrature, independent integration.

The worst of many numbers is taken by np.max, which keeps a NaN; Python's max would drop it.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np

from continuized import theory
from continuized.app.verify import functions
from continuized.app.verify.claims import Effort, Measurement, Subject
from continuized.problems import Problem, Quadratic
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process import parameters
from continuized.process.flow import weights
from continuized.process.methods import Continuized, Method

ROUNDING = 1.0 + 1e-9  # what a ratio to a bound may exceed 1 by
STARTS = (0.0, 0.3, 5.0, math.inf)


def discrete_bound(method: Method, p: Problem, steps: int) -> float:
    """The largest (f(x_k) - f*) / bound over k, on the one path there is."""
    x0 = np.zeros(p.dim or 0)
    state, ratios = method.init(x0), []
    bounds = theory.bound(method, p, x0, k=np.arange(1, steps + 1))
    for event, limit in zip(clocks.Unit().stream().draw(steps).each(), bounds, strict=True):
        state, _ = method.step(state, event, lambda x, mark: p.grad(x))
        ratios.append((p.fun(state.x) - (p.f_star or 0.0)) / limit)
    return float(np.max(ratios))


def theorem_1(subject: Subject, effort: Effort) -> Measurement:
    """Gradient descent, convex and strongly convex."""
    cases = (functions.small_convex(), functions.convex(), functions.log_cosh())
    convex = [discrete_bound(subject.gradient_descent(p.L), p, 300) for p in cases]
    p = functions.strongly_convex()
    strongly = discrete_bound(subject.gradient_descent(p.L), p, 300)
    return Measurement(float(np.max([*convex, strongly])), ROUNDING)


def theorem_2(subject: Subject, effort: Effort) -> Measurement:
    """Nesterov acceleration, convex and strongly convex."""
    cases = (functions.small_convex(), functions.convex(), functions.log_cosh())
    convex = [discrete_bound(subject.nesterov(p.L), p, 300) for p in cases]
    p = functions.strongly_convex()
    strongly = discrete_bound(subject.nesterov(p.L, p.mu), p, 300)
    return Measurement(float(np.max([*convex, strongly])), ROUNDING)


def continuized_cases(subject: Subject) -> list[tuple[Quadratic, Continuized]]:
    """The continuized method on the quadratics, with every start."""
    cases = [
        (p, subject.continuized(p.L, 0.0, s))
        for p in (functions.small_convex(), functions.convex())
        for s in STARTS
        if s < math.inf
    ]
    p = functions.strongly_convex()
    return cases + [(p, subject.continuized(p.L, p.mu, s)) for s in STARTS]


def expectation_bound(subject: Subject, sigma2: float) -> Measurement:
    """The largest exact E f(x_t) - f* over its bound."""
    times, ratios = np.geomspace(0.1, 200.0, 40), []
    for p, method in continuized_cases(subject):
        x0 = np.zeros(p.dim)
        exact = theory.moments(p, method, x0, times, sigma2=sigma2).fun
        ratios.append(exact / theory.bound(method, p, x0, t=times, sigma2=sigma2))
    return Measurement(float(np.max(ratios)), ROUNDING)


def theorem_3(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) - f* <= phi_0 / A_t."""
    return expectation_bound(subject, sigma2=0.0)


def theorem_6(subject: Subject, effort: Effort) -> Measurement:
    """The same with additive noise."""
    return expectation_bound(subject, sigma2=0.01)


def theorem_4(subject: Subject, effort: Effort) -> Measurement:
    """The discrete iteration against the ODE integrated numerically, with jumps."""
    small = [(p, method) for p, method in continuized_cases(subject) if p.dim <= 4]
    distances = [_distance_to_ode(p, method, effort.seed) for p, method in small]
    return Measurement(float(np.max(distances)), 1e-10)


def _distance_to_ode(p: Quadratic, method: Continuized, seed: int, events: int = 15) -> float:
    """The largest relative distance over the events, both processes on one clock."""
    state = method.init(np.zeros(p.dim))
    x, z, t = state.x, state.z, 0.0
    distances = []
    for event in clocks.Poisson(seed).stream().draw(events).each():
        state, _ = method.step(state, event, lambda x, mark: p.grad(x))
        x, z = _integrate(method, x, z, t, event.t)
        g = p.grad(x)
        x, z = x - g / p.L, z - parameters.gamma_prime(event.t, *_constants(method)) * g
        t = event.t
        scale = 1.0 + max(np.abs(x).max(), np.abs(z).max())
        distances += [np.abs(state.x - x).max() / scale, np.abs(state.z - z).max() / scale]
    return float(np.max(distances))


def _constants(method: Continuized) -> tuple[float, float, float]:
    assert method.start is not None
    return method.L, method.mu, method.start


def _integrate(
    method: Continuized, x: Array, z: Array, t0: float, t1: float
) -> tuple[Array, Array]:
    """dx = eta (z - x) dt, dz = eta' (x - z) dt from t0 to t1, by an ODE solver."""
    from scipy.integrate import solve_ivp

    c = _constants(method)
    if math.isinf(parameters.eta(t0, *c)):
        x = z  # x joins z at once, and they stay together
        return x, z

    def slope(t: float, y: Array) -> Array:
        x, z = y.reshape(2, -1)
        return np.concatenate(
            [parameters.eta(t, *c) * (z - x), parameters.eta_prime(t, *c) * (x - z)]
        )

    solution = solve_ivp(
        slope, (t0, t1), np.concatenate([x, z]), method="DOP853", rtol=1e-13, atol=1e-15
    )
    x, z = solution.y[:, -1].reshape(2, -1)
    return x, z


def drift(subject: Subject, effort: Effort) -> Measurement:
    """The largest generator I_t / phi_t over random states."""
    ratios = []
    for p, method, t, x, z in _random_states(subject, effort):
        A = np.exp([parameters.log_A(s, *_constants(method)) for s in t.tolist()])
        B = np.exp([parameters.log_B(s, *_constants(method)) for s in t.tolist()])
        phi = A * (p.values(x) - p.f_star) + B * ((z - p.x_star) ** 2).sum(axis=1)
        ratios.append(theory.drift(method, p, t, x, z) / phi)
    return Measurement(float(np.max(ratios)), 1e-9)


def supermartingale(subject: Subject, effort: Effort) -> Measurement:
    """The share of random states where E phi at the next event is above phi."""
    above, total = 0, 0
    for p, method, t, x, z in _random_states(subject, effort):
        gap = theory.supermartingale_gap(method, p, t, x, z)
        above += int(np.sum(~(gap.value <= gap.error + 1e-10 * gap.phi)))  # a NaN counts
        total += len(t)
    return Measurement(above / total, 0.0)


def _random_states(
    subject: Subject, effort: Effort
) -> list[tuple[Problem, Continuized, Array, Array, Array]]:
    """Random (t, x, z), of every scale, on one-dimensional functions and the small ones."""
    rng = np.random.default_rng([effort.seed, 1])
    cases: list[tuple[Problem, Continuized]] = []
    for mu in (0.0, 0.01, 0.5):
        for start in STARTS if mu else STARTS[:-1]:
            lam = [1.0, max(mu, 0.1)][rng.integers(2)]
            cases.append((Quadratic([lam], mu=mu), subject.continuized(1.0, mu, start)))
    cases += [(functions.log_cosh(), subject.continuized(1.0, 0.0, s)) for s in STARTS[:-1]]
    states: list[tuple[Problem, Continuized, Array, Array, Array]] = []
    each = math.ceil(effort.states / len(cases))
    for p, method in cases:
        # A few times, many points: states that share their time share their quadrature.
        moments = np.exp(rng.uniform(math.log(0.05), math.log(50.0), 20))
        t = moments[rng.integers(len(moments), size=each)]
        x, z = np.exp(rng.uniform(-3, 3, (2, each, 1))) * rng.standard_normal((2, each, p.dim or 1))
        states.append((p, method, t, x, z))
    return states


def flow_digits(subject: Subject, effort: Effort) -> Measurement:
    """The convex mixing weight against 60-digit arithmetic, up to T = 1e15."""
    rng, errors = np.random.default_rng([effort.seed, 2]), []
    method = subject.continuized(1.0)
    for t0 in np.geomspace(1.0, 1e15, 200).tolist():
        gap = float(rng.exponential())
        t1 = t0 + gap
        a = method.coefficients(1, t0, t1, gap, 0.0)[0]
        with localcontext() as context:
            context.prec = 60
            exact = 1 - (1 - Decimal(gap) / Decimal(t1)) ** 2
            errors.append(float(abs(Decimal(a) - exact) / exact))
    return Measurement(float(np.max(errors)) / math.ulp(1.0), 4.0)


def one_family(subject: Subject, effort: Effort) -> Measurement:
    """start = 0 tends to the convex weights as mu -> 0, and start -> inf to the exponential."""
    distances = []
    for t0, dt in ((0.0, 0.7), (1.0, 0.3), (50.0, 2.0)):
        convex = weights(t0, t0 + dt, dt, 1.0, 0.0, 0.0)
        nearly = weights(t0, t0 + dt, dt, 1.0, 1e-20, 0.0)
        constant = weights(t0, t0 + dt, dt, 1.0, 0.04, math.inf)
        late = weights(t0, t0 + dt, dt, 1.0, 0.04, 400.0)
        distances += [np.subtract(convex, nearly), np.subtract(constant, late)]
    return Measurement(float(np.abs(distances).max()), 1e-12)


def scaling_limits(subject: Subject, effort: Effort) -> Measurement:
    """The rate at which the process comes to the ODE as L grows; the clock's own is -1/4."""
    misses = []
    for p in (functions.small_convex(), functions.strongly_convex()):
        found = theory.expected_scaling_distance(p, np.zeros(p.dim), 4.0, np.geomspace(1e2, 1e5, 4))
        misses.append(abs(found.rate + 0.25))
    return Measurement(float(np.max(misses)), 0.01)


def tuned_L(subject: Subject, effort: Effort) -> Measurement:
    """The exact error at the horizon with the noise-adapted L, over the predicted one."""
    sigma2, horizon, ratios = 0.01, 200.0, []
    for p in (functions.small_convex(), functions.strongly_convex()):
        x0 = np.zeros(p.dim)
        L = theory.noise_tuned_L(p, x0, sigma2, horizon)
        tuned = subject.continuized(L, p.mu)
        plain = subject.continuized(p.L, p.mu)
        exact, usual = (
            float(theory.moments(p, m, x0, [horizon], sigma2=sigma2).fun[0]) for m in (tuned, plain)
        )
        predicted = float(theory.bound(tuned, p, x0, t=horizon, sigma2=sigma2))
        ratios += [exact / predicted, exact / usual]
    return Measurement(float(np.max(ratios)), 1.0)
