"""The scaling limits of appendix D: L -> infinity with s = t / sqrt(L).

    mu = 0:  x'' + (3/s) x' + grad f(x) = 0        x(0) = x_0, x'(0) = 0
    mu > 0:  x'' + 2 sqrt(mu) x' + grad f(x) = 0

(the ODEs of Su, Boyd and Candes, and of Shi et al.).  The process comes as close as the Poisson
clock lets it: events number sqrt(L) s up to a relative L^{-1/4}, hence distances of that order.

On quadratics the distance of the process to its limit is exact: E |x_t - X|^2 needs only the first
and second moments of x_t.  There is no sampling, and so a rate with no noise in it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem, check_problem
from continuized.problems.quadratic import Quadratic
from continuized.process.methods import Continuized
from continuized.process.random_streams import Seed, child, seed_sequence
from continuized.support import validation as check
from continuized.support.display import shown
from continuized.support.files import check_memory
from continuized.support.progress import bar
from continuized.theory.checks import known_L, start_of
from continuized.theory.moments import moments
from continuized.theory.moments.integrate import PERCENT, EvaluationBudget, solve
from continuized.theory.moments.pair import Rates, rates_of

RTOL, ATOL = 1e-11, 1e-13

SERIES_END = 1e-4  # in units of 1/sqrt(L): where the series about s = 0 hands over
LEAST_PHASE, LARGEST_PHASE = 1e-9, 1e300  # below, nothing has moved; above, it overflows
FIRST_EVENT = 1e-9  # x = z = x_0 up to the first event, so that an infinite eta(0) does no harm


@shown
class ScalingDistance(NamedTuple):
    """Root mean square distances of the process to the ODE, one per L, and their rate.

    `distance` ~ L^rate: the slope of a least-squares line through the logarithms, NaN where a
    distance is 0.  `error` is the standard error of each distance.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0], [0.0], mu=0.0)
    >>> d = cz.theory.expected_scaling_distance(p, [1.0], 3.0, [1e4, 1e6])
    >>> d.L.tolist(), round(d.rate, 2)
    ([10000.0, 1000000.0], -0.25)
    """

    L: Array
    distance: Array
    error: Array
    rate: float


def scaling_limit(p: Problem, x0: ArrayLike, times: ArrayLike, *, progress: bool = False) -> Array:
    """x(s) of the limiting ODE at increasing times s, one row each; convex where p.mu is 0.

    Solved as the paper's first-order system, x' = (2/s)(z - x), z' = -(s/2) grad f(x), or
    x' = sqrt(mu)(z - x), z' = sqrt(mu)(x - z) - grad f(x)/sqrt(mu), to about 1e-10.  At s = 0
    the first starts from its series, x = x_0 - s^2/8 grad f(x_0) + O(s^4),
    z = x_0 - s^2/4 grad f(x_0) + O(s^4).  On a Quadratic x is known, at any s (`oscillate`).

    p: a Problem, with L known where mu = 0.  x0: the start.  progress: show a bar on standard
    error.  Raises ValueError where times are negative, not in order, or so late that the
    integration would not end, ArithmeticError where it fails.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0], [0.0], mu=0.0)
    >>> x = scaling_limit(p, [1.0], [0.0, 2.0])
    >>> x.shape, round(float(x[1, 0]), 6)  # 2 J_1(s) / s at s = 2
    ((2, 1), 0.576725)
    """
    from scipy.integrate import solve_ivp

    times = np.atleast_1d(check.times(times, "times", ordered=True))
    start, root = start_of(p, x0), math.sqrt(p.mu or 0.0)
    if isinstance(p, Quadratic):
        check.flag(progress, "progress")
        star = p.x_star.reshape(start.shape)
        waves = oscillate(p.eigenvalues, p.mu, times).reshape(len(times), *start.shape)
        return np.asarray(star + waves * (start - star))
    first = SERIES_END / math.sqrt(known_L(p) or 1.0) if root == 0.0 else 0.0  # L = 0: any will do
    rest, places = np.unique(times[times > first], return_inverse=True)

    def gradient(x: Array) -> Array:
        return np.asarray(p.grad(x.reshape(start.shape)), dtype=np.float64).ravel()

    def series(s: Array) -> Array:
        """(x, z) near s = 0 in the convex case, one row per s; at s = 0 in every case."""
        s2 = (s * s)[:, None]
        return np.stack([start.ravel() - s2 / 8.0 * g, start.ravel() - s2 / 4.0 * g], axis=1)

    def slope(s: float, y: Array) -> Array:
        budget.add(s)
        x, z = y.reshape(2, -1)
        g = gradient(x)
        if root == 0.0:
            return np.concatenate([(2.0 / s) * (z - x), -0.5 * s * g])
        return np.concatenate([root * (z - x), root * (x - z) - g / root])

    g = gradient(start)
    size = max(float(np.abs(v).max(initial=1e-300)) for v in (start, g))
    rows = [series(times[times <= first])[:, 0]]
    with bar("scaling limit", PERCENT, progress, unit="%") as show:
        budget = EvaluationBudget(float(times.max(initial=0.0)), show, 2 * start.size)
        if rest.size:
            solution = solve_ivp(
                slope,
                (first, float(rest[-1])),
                series(np.array([first]))[0].ravel(),
                method="DOP853",
                t_eval=rest,
                rtol=RTOL,
                atol=ATOL * size,
            )
            if not solution.success:
                why = solution.message
                raise ArithmeticError(f"the limiting ODE could not be integrated: {why}")
            rows.append(solution.y.T[places, : start.size])
    return np.concatenate(rows).reshape(len(times), *start.shape)


def oscillate(lam: Array, mu: float, s: Array) -> Array:
    """The solution of the limiting ODE on 1/2 lambda u^2, from u = 1 at rest, at times s: a row to
    each, with a column to each lambda >= mu.

    For mu = 0 it is 2 J_1(v) / v, v = sqrt(lambda) s, with Bessel's J_1; for mu > 0
    e^{-c} (cos w + c sin(w) / w), c = sqrt(mu) s and w = sqrt(lambda - mu) s.

    >>> oscillate(np.array([1.0]), 1.0, np.array([0.0, 1.0])).round(6).tolist()  # (1 + s) e^{-s}
    [[1.0], [0.735759]]
    """
    from scipy.special import j1

    with np.errstate(over="ignore"):
        roots = np.sqrt(mu), np.sqrt(lam - mu)
        c, phase = (np.minimum(s[:, None] * root, LARGEST_PHASE) for root in roots)
    if mu > 0.0:
        return np.asarray(np.exp(-c) * (np.cos(phase) + c * np.sinc(phase / np.pi)))
    v = np.maximum(phase, LEAST_PHASE)
    return np.where(phase > LEAST_PHASE, 2.0 * j1(v) / v, 1.0)


def scaling_distance(
    p: Problem,
    x0: ArrayLike,
    horizon: float,
    L_values: ArrayLike,
    runs: int = 100,
    rng: Seed = 0,
    points: int = 8,
) -> ScalingDistance:
    """How far the process with each L of L_values is from the limiting ODE, and the rate.

    The distance is max over s = horizon/points, ..., horizon of the root mean square over runs
    of |x_{s sqrt(L)} - X(s)|, with Continuized(L, p.mu) and the paper's start.  The standard
    error is that of the mean square at the worst s.  Its leading part is the clock's own
    fluctuation, of order L^{-1/4}.

    Parameters
    ----------
    p : Problem
    x0 : array
        The start.
    horizon : float > 0
        The last s.
    L_values : numbers
        Two different ones or more, none below the function's L.
    runs : int
        Of each L; 2 or more.
    rng : int, SeedSequence or Generator
    points : int
        How many s.

    Returns
    -------
    ScalingDistance

    Raises
    ------
    ValueError
        For arguments that make no sense.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0], [0.0], mu=0.0)
    >>> far, near = scaling_distance(p, [1.0], 3.0, [10.0, 1e4], runs=50).distance
    >>> bool(near < far)
    True
    """
    check.whole(runs, "runs", minimum=2)
    L, s, limit = _check_setting(p, x0, horizon, L_values, points)
    root = seed_sequence(rng)
    distance, error = np.empty(L.size), np.empty(L.size)
    for i, L_i in enumerate(L.tolist()):
        squares = np.array([_squares(p, x0, L_i, s, limit, child(root, i, j)) for j in range(runs)])
        worst = int(squares.mean(axis=0).argmax())
        distance[i] = math.sqrt(squares[:, worst].mean())
        spread = 0.5 * squares[:, worst].std(ddof=1) / math.sqrt(runs)
        error[i] = spread / distance[i] if distance[i] > 0.0 else 0.0
    return ScalingDistance(L, distance, error, _fit_rate(L, distance))


def _squares(
    p: Problem, x0: ArrayLike, L: float, s: Array, limit: Array, rng: np.random.SeedSequence
) -> Array:
    """|x_{s sqrt(L)} - X(s)|^2 of one run."""
    from continuized.solver.minimize import minimize

    method = Continuized(L, float(p.mu or 0.0))
    end = float(s[-1]) * math.sqrt(L)
    events = math.ceil(end + 10.0 * math.sqrt(end) + 20.0)
    check_memory(16.0 * (limit[0].size + 1) * events, "the path of a run", "a smaller L or horizon")
    while True:
        r = minimize(p, x0, method=method, rng=rng, maxiter=events, record="path")
        if r.trace.t[-1] >= end:
            break
        events *= 2  # the same seed: the same run, further on
    x, _ = r.at(s * math.sqrt(L))
    return ((x - limit) ** 2).reshape(len(s), -1).sum(axis=1)  # type: ignore[no-any-return]


def expected_scaling_distance(
    p: Quadratic, x0: ArrayLike, horizon: float, L_values: ArrayLike, points: int = 8
) -> ScalingDistance:
    """Do as `scaling_distance`, with exact expectations in place of runs (and no error).

    p: a Quadratic, TypeError otherwise.  x0, horizon, L_values, points: as there.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0], [0.0], mu=0.0)
    >>> far, near = expected_scaling_distance(p, [1.0], 3.0, [10.0, 1e4]).distance
    >>> bool(near < far)
    True
    """
    if not isinstance(p, Quadratic):
        raise TypeError(
            f"exact distances are known on a Quadratic only, got {type(p).__name__}; "
            "use scaling_distance"
        )
    L, s, limit = _check_setting(p, x0, horizon, L_values, points)
    limit = limit.reshape(len(s), -1) - p.x_star
    u0 = start_of(p, x0).ravel() - p.x_star
    distance = np.empty(L.size)
    for i, L_i in enumerate(L.tolist()):
        method, times = Continuized(L_i, p.mu or 0.0), s * math.sqrt(L_i)
        second = moments(p, method, x0, times).xx
        mean = mean_distances(rates_of(method), p.eigenvalues, u0, times)
        squares = (second - 2.0 * mean * limit + limit**2).sum(axis=1)
        distance[i] = math.sqrt(float(squares.max()))
    return ScalingDistance(L, distance, np.zeros(L.size), _fit_rate(L, distance))


def mean_distances(rates: Rates, lam: Array, u0: Array, times: Array) -> Array:
    """E x_t - x* at increasing times > 0, a row each, for x_0 = z_0 = x* + u0.

    The means obey u' = eta (w - u) - gamma lambda u, w' = eta' (u - w) - gamma' lambda u.
    """

    def slope(t: float, y: Array) -> Array:
        u, w = y
        of_u = rates.eta(t) * (w - u) - rates.gamma(t) * lam * u
        return np.stack([of_u, rates.eta_prime(t) * (u - w) - rates.gamma_prime(t) * lam * u])

    unit = float(np.abs(u0).max(initial=0.0)) or 1.0
    t, y, rows = FIRST_EVENT, np.stack([u0, u0]) / unit, np.empty((len(times), u0.size))
    for i, stop in enumerate(times.tolist()):
        while t < stop:
            t, y = solve(slope, y, t, stop)
        rows[i] = unit * y[0]
    return rows


def _check_setting(
    p: Problem, x0: ArrayLike, horizon: float, L_values: ArrayLike, points: int
) -> tuple[Array, Array, Array]:
    """Return the different L in order, the times horizon/points, ..., and the ODE's x there."""
    horizon, p = check.real(horizon, "horizon", above=0.0), check_problem(p)
    L = np.unique(check.times(L_values, "L_values"))
    if L.size < 2:
        raise check.refusal(ValueError, "L_values", "at least two different numbers", L_values)
    if p.L is not None and L[0] < p.L:
        raise ValueError(f"L_values must be at least the function's L, {p.L:.6g}, got {L[0]:.6g}")
    check.whole(points, "points", minimum=1)
    s = horizon * np.arange(1, points + 1) / points
    return L, s, scaling_limit(p, x0, s)


def _fit_rate(L: Array, distance: Array) -> float:
    if not np.all(distance > 0.0):
        return math.nan
    return float(np.polynomial.polynomial.polyfit(np.log(L), np.log(distance), 1)[1])
