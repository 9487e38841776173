"""From the moments at one time to those at later times: by an ODE, or by a polynomial.

Moments decay by many orders of magnitude, below any absolute tolerance.  So they are followed
piece by piece, each in units of what they are at its beginning, until one has fallen to PIECE_FALL
of that.  Plain methods, whose equation A' = G A has a symmetric G, need no small steps: e^{tG} is a
polynomial in G, of a degree that grows as sqrt(t).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from continuized.problems.base import Array
from continuized.support.progress import Bar
from continuized.support.threads import HAS_THREADS
from continuized.theory.moments.pair import (
    Marks,
    PairMoments,
    Rates,
    flow_matrix,
    sizes,
    slope,
    symmetrise,
)

RTOL, ATOL = 1e-11, 1e-14  # the latter in units of the moments at the beginning of a piece
PIECE_FALL = 1e-2  # of a moment at the beginning of a piece: then a new one begins, far above ATOL
SHORTEST_TIME = 1e-290  # in which nothing changes, and that the integrator cannot divide
MAX_STEPS = 1_000_000  # of the integrator, in a piece
STIFF = -4  # what the integrator returns where it has taken many short steps
SERIES_END = 1e-7  # where the series hands over from an infinite eta(0); its error is its square

LEAST_MOMENT = 1e-280  # a moment below would soon underflow, and is taken for 0
FIRST_LOOK = 2**14  # evaluations, after which it is asked how many there will be; later at twice
MOST_EVALUATIONS = 50_000_000  # of a slope of few numbers: an hour or less
MANY_NUMBERS = 2000  # which make an evaluation take twice as long as of few
SHOW_EVERY = 1000  # evaluations
PERCENT = 100

# What a polynomial may leave of the largest moment: its inverse is what rounding errors grow by.
POLYNOMIAL_FALL = 1e-3
FIRST_SPAN = 8.0  # times 1/radius: of the first polynomial; the later ones may be for longer
LAST_TERM = 1e-17  # of the largest moment: the last term of a polynomial


def integrate_moments(
    rates: Rates,
    marks: Marks,
    start: PairMoments,
    times: Array,
    project: Callable[[Array], Array] = symmetrise,
    *,
    show: Bar,
) -> Iterator[PairMoments]:
    """Yield the pair moments at increasing times, from `start` at time 0.

    `project` puts back, after each piece, what rounding has taken.  `show` is told the percentage.
    Raises ArithmeticError where the integrator gives up, ValueError where it would not end.
    """
    t, m, last = 0.0, start, float(times.max(initial=0.0))
    # The theorems' rate is eta, in the end: what falls as a power of t at first may be seen to
    # fall quickly then, and what will fall exponentially may not be seen to fall yet.
    decay = 0.0 if np.any(marks.noise) or last == 0.0 else float(rates.eta(last))
    budget = EvaluationBudget(last, show, start.size, _log_size(start), decay)
    for stop in times.tolist():
        if t == 0.0 < stop and m.size and math.isinf(rates.eta(0.0)):
            t = min(SERIES_END, 0.5 * stop)
            m = _leave_start(rates, marks, np.stack([start[2]] * 3), t)  # x joins z
        while t < stop and m.size:
            budget.size = _log_size(m)
            t, m = _integrate_piece(rates, marks, m, t, stop, budget)
            m = _without_nothing(project(m))
        yield m


class EvaluationBudget:
    """Counts the evaluations on the way to a last time; ValueError where they would not end.

    show is told how far it is, in percent.  numbers: how many are followed.  size: the logarithm of
    them, where they may fall to LEAST_MOMENT before that time; decay: by how much it falls in a
    unit of time in the long run, 0 where that is to be seen on the way.
    """

    def __init__(
        self, last: float, show: Bar, numbers: int, size: float = 0.0, decay: float = 0.0
    ) -> None:
        self.last, self.show, self.count, self.look_at = last, show, 0, FIRST_LOOK
        self.most = MOST_EVALUATIONS / (1.0 + numbers / MANY_NUMBERS)
        self.size, self.before, self.decay = size, (0.0, size), decay

    def add(self, t: float) -> None:
        """Count an evaluation at time t."""
        if self.count == 0:
            self.started = time.perf_counter()
        self.count += 1
        if self.count % SHOW_EVERY == 0:
            self.show(int(PERCENT * t / self.last), f"t = {t:.4g} of {self.last:.4g}")
        if self.count < self.look_at:
            return
        # As many for each unit of time to come as in the half of them that came last.
        (before, size), self.before = self.before, (t, self.size)
        passed, left = max(t - before, 1e-300), self.last - t
        speed = 0.5 * self.count / passed
        decay = self.decay if self.decay > 0.0 else (size - self.size) / passed
        if decay > 0.0:
            left = min(left, (self.size - math.log(LEAST_MOMENT)) / decay)
        all_of_them = self.count + speed * left
        if all_of_them > self.most:
            hours = (time.perf_counter() - self.started) / self.count * all_of_them / 3600.0
            raise ValueError(
                f"times up to {self.last:.6g} would take {all_of_them:.2g} evaluations of the "
                f"equation, about {hours:.2g} hours; ask for times up to {self.most / speed:.2g}"
            )
        self.look_at = 2 * self.count


def _log_size(m: PairMoments) -> float:
    return math.log(max(float(sizes(m).max(initial=0.0)), LEAST_MOMENT))


def _without_nothing(m: PairMoments) -> PairMoments:
    """The moments with 0 in place of what would underflow: no equation can be solved there."""
    nothing = sizes(m).max(axis=0, initial=0.0) < LEAST_MOMENT
    return np.where(nothing, 0.0, m) if np.any(nothing) else m


def _leave_start(rates: Rates, marks: Marks, m: PairMoments, t: float) -> PairMoments:
    """The moments soon after an infinite eta(0), which does no harm: until an event w = u.

    They are m + t m_1 + O(t^2), where (1 - t F) m_1 is what events do at time 0, F the flow.
    """
    a, b = rates.gamma(t) * marks.steps, rates.gamma_prime(t) * marks.weights
    one, noise = np.ones(sizes(m).shape[1:]), np.asarray(marks.noise)
    by_events = slope(0.0, 0.0, one, a, b, marks, m, noise)
    inverse = np.linalg.inv(np.eye(3) - t * flow_matrix(rates.eta(t), rates.eta_prime(t)))
    return m + t * symmetrise((inverse @ by_events.reshape(3, -1)).reshape(m.shape))


def _integrate_piece(
    rates: Rates, marks: Marks, m: PairMoments, t: float, stop: float, budget: EvaluationBudget
) -> tuple[float, PairMoments]:
    """The time and the moments where one has fallen to PIECE_FALL, or those at `stop`."""
    # A moment that is 0 has the size that the noise of one event gives it.
    soon = min(stop, t + 1.0)
    by_noise = marks.noise * np.array([rates.gamma(soon), rates.gamma_prime(soon)]) ** 2
    own = sizes(m)
    squares = np.maximum(own, by_noise.reshape(2, *[1] * (own.ndim - 1)))
    u, w = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    scale, ratio = np.stack([u * u, u * w, w * w]), w / u
    scale = scale.reshape(scale.shape + (1,) * (m.ndim - scale.ndim))
    noise, weights = marks.noise / (u * u), marks.weights / ratio
    enough = PIECE_FALL * sizes(m / scale)

    def scaled_slope(t: float, y: Array) -> Array:
        budget.add(t)
        eta, eta_prime, gamma, gamma_prime = (rate(t) for rate in rates)
        a, b = gamma * marks.steps, gamma_prime * weights
        return slope(eta, eta_prime, ratio, a, b, marks, y, noise)

    def has_fallen(y: Array) -> bool:
        return bool((sizes(y) < enough).any())

    t, y = solve(scaled_slope, m / scale, t, stop, has_fallen)
    return t, y * scale


def solve(
    slope: Callable[[float, Array], Array],
    y: Array,
    t: float,
    stop: float,
    is_enough: Callable[[Array], bool] = lambda y: False,
) -> tuple[float, Array]:
    """Solve y' = slope(t, y) from y at t, to `stop` or to the first step that `is_enough`.

    Where many steps are short, as where y has settled, it may come back before that.
    The absolute tolerance is ATOL: y should be in units of its size.
    """
    from scipy.integrate import ode

    if stop - t < SHORTEST_TIME:
        return stop, y
    shape, done = y.shape, False
    failed: list[BaseException] = []

    def flat(t: float, y: Array) -> Array:
        try:
            return slope(t, y.reshape(shape)).reshape(-1)
        except Exception as error:  # the integrator would lose it, and go on
            failed.append(error)
            return np.zeros_like(y)

    def after_step(t: float, y: Array) -> int:
        nonlocal done
        done = is_enough(y.reshape(shape))
        return -1 if done or failed else 0  # -1: no further

    # The compiled DOP853: the one of solve_ivp calls threaded BLAS on every stage.
    solver = ode(flat).set_integrator("dop853", rtol=RTOL, atol=ATOL, nsteps=MAX_STEPS)
    solver.set_solout(after_step)
    solver.set_initial_value(y.ravel(), t)
    # On a thread of its own, so that this one hears Ctrl-C.
    with (
        warnings.catch_warnings(action="ignore", category=UserWarning),  # the error says it
        ThreadPoolExecutor(1) if HAS_THREADS else nullcontext() as pool,
    ):
        try:
            if pool is None:
                found = solver.integrate(stop).reshape(shape)
            else:
                found = pool.submit(solver.integrate, stop).result().reshape(shape)
        except BaseException as error:
            failed.append(error)  # the thread ends after its next step
    if failed:
        raise failed[0]
    if solver.get_return_code() == STIFF and solver.t > t:  # no reason to give up
        return float(solver.t), np.asarray(found)
    if not solver.successful():
        raise ArithmeticError(
            f"the moments could not be integrated up to t = {stop:.6g}; ask for earlier times"
        )
    return (float(solver.t) if done else stop), np.asarray(found)


def exponentiate(
    slope: Callable[[Array], Array],
    m: Array,
    times: Array,
    radius: float,
    project: Callable[[Array], Array],
    show: Bar,
) -> Iterator[Array]:
    """Yield e^{tG} m at increasing times, where slope(m) = G m; see `exponential`.

    `show` is told the percentage.  Raises ArithmeticError where the moments overflow.
    """
    last = float(times.max(initial=0.0))
    now, span = 0.0, FIRST_SPAN / radius if radius > 0.0 else math.inf
    for stop in times.tolist():
        while now < stop and m.any():
            end = min(now + span, stop)
            found = exponential(slope, m, end - now, radius)
            fall = _largest(found) / _largest(m)
            if not math.isfinite(fall):
                raise ArithmeticError(f"the moments grow beyond all numbers up to t = {end:.6g}")
            if fall < POLYNOMIAL_FALL:
                span = 0.5 * (end - now)
                continue
            if fall > math.sqrt(POLYNOMIAL_FALL) and end < stop:
                span *= 2.0
            now, m = end, project(found)
            if _largest(m) < LEAST_MOMENT:  # the least number of all would not become less
                m = np.zeros_like(m)
            show(int(PERCENT * now / last), f"t = {now:.4g} of {last:.4g}")
        yield m


def exponential(slope: Callable[[Array], Array], m: Array, span: float, radius: float) -> Array:
    """e^{span G} m, where slope(m) = G m and the eigenvalues of G are in [-2 radius, 0].

    With h = span radius and x = 1 + G/radius, Chebyshev's e^{h(x-1)} = sum_k c_k T_k(x), where
    c_k = 2 e^{-h} I_k(h), half of it for k = 0.  For eigenvalues outside, more terms are taken.
    """
    from scipy.special import ive

    h, k = span * radius, 1
    before, now = m, m + slope(m) / radius
    total = ive(0, h) * before + 2.0 * ive(1, h) * now
    # Of two neighbours, for one T_k may be 0; the c_k shrink as e^{-k^2/(2h)}.
    while ive(k, h) * max(_largest(before), _largest(now)) > LAST_TERM * _largest(total):
        k, before, now = k + 1, now, 2.0 * (now + slope(now) / radius) - before
        total += 2.0 * ive(k, h) * now
    return np.asarray(total)


def _largest(m: Array) -> float:
    return float(np.abs(m).max())
