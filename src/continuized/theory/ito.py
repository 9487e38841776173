"""Ito's formula for the process (the paper's appendix A), and what the proof makes of it.

For a smooth phi(t, x, z), with g = grad f(x) and all parameters at time t,

    generator of phi:  I = d/dt phi + <d/dx phi, eta (z - x)> + <d/dz phi, eta' (x - z)>
                           + phi(t, x - gamma g, z - gamma' g) - phi(t, x, z)
    phi_t = phi_0 + int_0^t I_s ds + M_t

where M is a martingale: the jumps of phi at the events, minus the integral of what they are
expected to be (the second line of I), the compensator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem, check_problem
from continuized.process import parameters as scalars
from continuized.process.flow import mix
from continuized.process.methods import Method, jump
from continuized.support import validation as check
from continuized.support.display import show_html, show_line, shown
from continuized.theory.bounds.paper import log_A, log_B
from continuized.theory.checks import check_continuized, check_fits, check_path, minimiser, minimum
from continuized.theory.lyapunov import dot_rows, state_rows
from continuized.theory.moments.pair import parameter_rows, rates_of

if TYPE_CHECKING:
    from continuized.solver.result import Path, Result

TOLERANCE = 1e-10  # of the integral over a gap, relative to phi and to the integral of its parts
MOST_HALVINGS = 24  # of a gap
MOST_STATES = 4096  # that phi is asked at, at once
TESTED_STATES = 4  # where the gradient of phi is tested
GRADIENT_SLACK = 1e-5  # relative, between a gradient and central differences
EPS = float(np.finfo(np.float64).eps)
JUMP_SLACK = 1e-6  # relative, between the jumps of a path and those of its problem

# Gauss-Kronrod, 7 and 15 points on [-1, 1]: half of the nodes, with their weights.
_NODES = (
    0.991455371120812639206854697526329, 0.949107912342758524526189684047851,
    0.864864423359769072789712788640926, 0.741531185599394439863864773280788,
    0.586087235467691130294144691258380, 0.405845151377397166906606412076961,
    0.207784955007898467600689403773245, 0.0,
)  # fmt: skip
_WEIGHTS = (
    0.022935322010529224963732008058970, 0.063092092629978553290700663189204,
    0.104790010322250183839876322541518, 0.140653259715525918745189590510238,
    0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
    0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
)  # fmt: skip
NODES = np.array([*(-v for v in _NODES), *_NODES[-2::-1]])
WEIGHTS = np.array([*_WEIGHTS, *_WEIGHTS[-2::-1]])
COARSE = np.zeros(15)  # the weights of the 7 points among them
COARSE[1::2] = np.polynomial.legendre.leggauss(7)[1]


@dataclass(frozen=True, repr=False)
class Observable:
    """A smooth function phi(t, x, z) with its gradient.

    Parameters
    ----------
    value : callable
        (t, x, z) -> phi, one number.
    gradient : callable
        (t, x, z) -> the derivatives in t, x and z: a number and two arrays.
    vectorized : bool
        Whether both take many states at once: t of shape (n,), x and z with n rows; value then
        gives n numbers, gradient n numbers and two arrays of n rows.

    TypeError where they cannot be called.

    >>> import continuized as cz
    >>> phi = Observable(lambda t, x, z: float(z @ z), lambda t, x, z: (0.0, 0.0 * x, 2.0 * z))
    >>> p = cz.problems.Quadratic([1.0, 0.1])
    >>> method, state = cz.Continuized(1.0, 0.1), (1.0, [1.0, 0.0], [1.0, 0.0])
    >>> round(float(generator(phi, method, p, state)), 6)  # |z - gamma' g|^2 - |z|^2
    3.675445
    """

    value: Callable[[Any, Any, Any], Any]
    gradient: Callable[[Any, Any, Any], Any]
    vectorized: bool = False

    def __post_init__(self) -> None:
        what = "a function of t, x and z"
        for name in ("value", "gradient"):
            check.function(getattr(self, name), name, what)
        object.__setattr__(self, "vectorized", check.flag(self.vectorized, "vectorized"))

    def values(self, t: Array, x: Array, z: Array) -> Array:
        """Return phi at many states."""
        if self.vectorized:
            given = self.value(t, x, z)
        else:
            given = [self.value(*state) for state in zip(t.tolist(), x, z, strict=True)]
        return _numbers(given, "value", (len(t),))

    def gradients(self, t: Array, x: Array, z: Array) -> tuple[Array, Array, Array]:
        """Return the derivatives in t, x and z at many states."""
        if self.vectorized:
            parts = _three(self.gradient(t, x, z))
        else:
            each = [_three(self.gradient(*s)) for s in zip(t.tolist(), x, z, strict=True)]
            parts = [[row[i] for row in each] for i in range(3)]
        shapes = ((len(t),), x.shape, z.shape)
        in_t, in_x, in_z = (
            _numbers(part, "gradient", shape) for part, shape in zip(parts, shapes, strict=True)
        )
        return in_t, in_x, in_z

    __repr__ = show_line
    _repr_html_ = show_html


def lyapunov_function(method: Method, problem: Problem) -> Observable:
    """Return the paper's phi = A_t (f(x) - f*) + B_t |z - x*|^2 as an Observable.

    method: Continuized; problem: with x* and f* known.  ValueError otherwise.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> phi = lyapunov_function(cz.Continuized(p.L, p.mu), p)
    >>> r = cz.minimize(p, [0.0, 0.0, 0.0], maxiter=9, rng=0, record="path")
    >>> bool(np.isclose(phi.value(0.0, r.path.x[0], r.path.z[0]), cz.theory.lyapunov(r, p).phi[0]))
    True
    """
    method = check_continuized(method, "phi")
    star, least = minimiser(check_problem(problem)).ravel(), minimum(problem)

    def rows(v: Array) -> Array:
        return v.reshape(-1, star.size)

    def weights(t: Any) -> tuple[Array, Array]:
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
        return np.exp(log_A(method, times)), np.exp(log_B(method, times))

    def value(t: Any, x: Array, z: Array) -> Any:
        A, B = weights(t)
        found = A * (problem.values(rows(x)) - least) + B * ((rows(z) - star) ** 2).sum(axis=1)
        return found if np.ndim(t) else float(found[0])

    def gradient(t: Any, x: Array, z: Array) -> tuple[Any, Array, Array]:
        A, B = weights(t)
        eta, eta_prime = parameter_rows(method, np.atleast_1d(t))[:, :2].T
        w = rows(z) - star
        in_t = method.tau * eta * A * (problem.values(rows(x)) - least) + eta_prime * B * (
            w * w
        ).sum(axis=1)
        in_x, in_z = A[:, None] * problem.grads(rows(x)), 2.0 * B[:, None] * w
        return (
            (in_t if np.ndim(t) else float(in_t[0])),
            in_x.reshape(x.shape),
            in_z.reshape(z.shape),
        )

    return Observable(value, gradient, vectorized=True)


def generator(
    phi: Observable, method: Method, problem: Problem, state: tuple[ArrayLike, ArrayLike, ArrayLike]
) -> Array:
    """Compute I, what phi is expected to change by in unit time, at a state (t, x, z), or many.

    method: Continuized, SharpContinuized or CustomContinuized, on problem, with exact gradients.
    Many states are t of shape (n,), x and z with n rows.  TypeError and ValueError for what does
    not fit, and for a phi whose gradient contradicts finite differences, with by how much.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> method, state = cz.Continuized(p.L, p.mu), (1.0, np.zeros(3), np.full(3, 0.5))
    >>> phi = lyapunov_function(method, p)
    >>> bool(np.isclose(generator(phi, method, p, state), cz.theory.drift(method, p, *state)))
    True
    """
    check.instance(phi, "phi", Observable, "a cz.theory.Observable(value, gradient)")
    parts = check.sequence(state, "state", "a triple (t, x, z)")
    if len(parts) != 3:
        raise ValueError(f"state must be a triple (t, x, z), got {len(parts)} entries")
    t, x, z, single = state_rows(problem, *parts)
    check_gradient_of(phi, t, x, z)
    four = parameter_rows(method, t)
    if not np.all(np.isfinite(four)):
        raise ValueError("the generator needs a time at which eta is finite, such as t > 0")
    flow, compensator = _both_parts(phi, problem, four, t, x, z)
    return (flow + compensator)[0 if single else slice(None)]


@shown
class Decomposition(NamedTuple):
    """phi along a path, split by Ito's formula; one row for the start and for each event.

    Attributes
    ----------
    t : array
        0 and the times of the events.
    phi : array
        phi after each event.
    drift : array
        The integral of the generator up to then.
    martingale : array
        The jumps up to then, minus the integral of what they are expected to be.
    error : array
        The estimated error of the integrals up to then.

    phi[0] + drift + martingale is phi, up to `closure`.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> r = cz.minimize(p, [0.0, 0.0, 0.0], maxiter=50, rng=0, record="path")
    >>> parts = decompose(lyapunov_function(r.method, p), r, p)
    >>> bool(parts.closure < 1e-9), bool(np.all(np.diff(parts.drift) <= 0.0))
    (True, True)
    """

    t: Array
    phi: Array
    drift: Array
    martingale: Array
    error: Array

    @property
    def closure(self) -> float:
        """How far phi_0 + drift + martingale is from phi, relative to the largest of the parts."""
        parts = (self.phi, self.drift, self.martingale)
        largest = max(float(np.max(np.abs(part))) for part in parts)
        gap = np.max(np.abs(self.phi[0] + self.drift + self.martingale - self.phi))
        return float(gap) / largest if largest > 0.0 else 0.0


def decompose(phi: Observable, r: Result, problem: Problem) -> Decomposition:
    """Split phi along a recorded path into its start, its drift and a martingale: Ito's formula.

    Parameters
    ----------
    phi : Observable
        Any smooth function of (t, x, z), with its gradient.
    r : Result
        Of `minimize(problem, ..., record="path")` with Continuized, SharpContinuized or
        CustomContinuized, exact gradients, and no prox or mirror.
    problem : Problem
        The one that was minimised.

    The integrals between events are adaptive Gauss-Kronrod sums, to 1e-10 of what is integrated.
    The martingale is computed from the jumps, not as what is left, so that `closure` is a test of
    the whole.  Raises TypeError and ValueError for what does not fit: a gradient of phi that finite
    differences contradict (it says by how much), a path whose jumps are not the problem's.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> r = cz.minimize(p, [0.0, 0.0], maxiter=20, rng=0, record="path")
    >>> mean = Observable(lambda t, x, z: x.mean(), lambda t, x, z: (0.0, 0.0 * x + 0.5, 0.0 * z))
    >>> bool(decompose(mean, r, p).closure < 1e-9)
    True
    """
    check.instance(phi, "phi", Observable, "a cz.theory.Observable(value, gradient)")
    path, method = check_path(r), r.method
    if r.get("prox") is not None or r.get("mirror") is not None:
        raise ValueError("Ito's formula here is for gradient steps: run without prox= and mirror=")
    rates_of(method)  # refuses other methods
    check_fits(problem, path.x)
    x, z = (v.astype(np.float64, copy=False) for v in (path.x, path.z))
    before = _states_before(method, path, x, z)
    _check_jumps(method, problem, path, *before, x, z)
    with np.errstate(over="ignore", invalid="ignore"):
        after = phi.values(path.t, x, z)
    overflows = np.flatnonzero(~np.isfinite(after))
    if overflows.size:
        raise ValueError(
            f"phi is not finite from t = {path.t[overflows[0]]:.6g} on; take a shorter path (the "
            "paper's A_t overflows where sqrt(mu/L) t > 709)"
        )
    check_gradient_of(phi, path.t[1:], x[1:], z[1:])
    jumps = after[1:] - phi.values(path.t[1:], *before)
    flow, compensator, error = integrate_gaps(
        phi, method, problem, path.t[:-1], path.dt[1:], x[:-1], z[:-1]
    )
    drift, martingale, errors = (
        np.concatenate([[0.0], np.cumsum(part)])
        for part in (flow + compensator, jumps - compensator, error)
    )
    return Decomposition(path.t, after, drift, martingale, errors)


def integrate_gaps(
    phi: Observable, method: Method, problem: Problem, t0: Array, dt: Array, x: Array, z: Array
) -> tuple[Array, Array, Array]:
    """Integrate the two parts of the generator over gaps without events, from many states.

    Returns, for each gap [t0, t0 + dt] and the state (x, z) at its beginning, the integrals of the
    flow's part and of the compensator, and an estimate of their errors.  Gaps on which 7 and 15
    points disagree are halved; the state at a node is that of the flow from t0.
    """
    totals = np.zeros((3, len(t0)))
    # Panels to do: the gap, its two ends as parts of the gap, and how often it was halved.
    gap, low, high = np.arange(len(t0)), np.zeros(len(t0)), np.ones(len(t0))
    size = MOST_STATES // len(NODES)
    for depth in range(MOST_HALVINGS + 1):
        halves: list[tuple[Array, Array, Array]] = []
        for first in range(0, len(gap), size):
            panel = slice(first, first + size)
            g, a, b = gap[panel], low[panel], high[panel]
            found, error, allowed = _panel_sums(
                phi, method, problem, t0[g], dt[g], x[g], z[g], a, b
            )
            done = ~(error > allowed) | (depth == MOST_HALVINGS)
            for total, part in zip(totals, (*found, error), strict=True):
                np.add.at(total, g[done], part[done])
            middle = 0.5 * (a + b)
            halves += [(g[~done], a[~done], middle[~done]), (g[~done], middle[~done], b[~done])]
        gap, low, high = (np.concatenate([half[i] for half in halves]) for i in range(3))
        if not len(gap):
            break
    flow, compensator, errors = totals
    return flow, compensator, errors


def _panel_sums(
    phi: Observable, method: Method, problem: Problem, t0: Array, dt: Array, x: Array, z: Array,
    low: Array, high: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return both integrals over a part of each gap, their error, and what is allowed of it."""
    share = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * NODES
    since = (share * dt[:, None]).ravel()
    t = np.repeat(t0, len(NODES)) + since
    begin = np.repeat(t0, len(NODES)).tolist()
    ab = np.array(
        [method.flow(*gap) for gap in zip(begin, t.tolist(), since.tolist(), strict=True)]
    )
    column = (-1, *[1] * (x.ndim - 1))
    rows = np.repeat(np.arange(len(x)), len(NODES))
    a, b = (weight.reshape(column) for weight in ab.T)
    at_x, at_z = mix(x[rows], z[rows], a, b)
    four = parameter_rows(method, t)
    parts = np.array(_both_parts(phi, problem, four, t, at_x, at_z)).reshape(2, -1, len(NODES))
    width = 0.5 * (high - low) * dt
    fine, coarse = width * (parts @ WEIGHTS), width * (parts @ COARSE)
    first = (t[:: len(NODES)], at_x[:: len(NODES)], at_z[:: len(NODES)])
    scale = np.abs(phi.values(*first)) + (width * (np.abs(parts) @ WEIGHTS)).sum(axis=0)
    # x and z are rounded, which no halving mends: phi may be nothing else near the minimiser.
    of_x, of_z = (dot_rows(v, v) for v in first[1:])
    in_x, in_z = (dot_rows(slope, slope) for slope in phi.gradients(*first)[1:])
    allowed = TOLERANCE * scale + 64.0 * EPS * np.sqrt(of_x * in_x + of_z * in_z)
    return fine, np.abs(fine - coarse).sum(axis=0), allowed


def _both_parts(
    phi: Observable, problem: Problem, four: Array, t: Array, x: Array, z: Array
) -> tuple[Array, Array]:
    """Return the flow's part of the generator, and the compensator, at many states."""
    column = (-1, *[1] * (x.ndim - 1))
    eta, eta_prime, gamma, gamma_prime = (parameter.reshape(column) for parameter in four.T)
    in_t, in_x, in_z = phi.gradients(t, x, z)
    # eta may be huge where x and z have met: first their difference, which is 0 there.
    flow = in_t + dot_rows(in_x, eta * (z - x)) + dot_rows(in_z, eta_prime * (x - z))
    g = problem.grads(x).reshape(x.shape)
    after = jump(x, z, g, gamma, gamma_prime)
    return flow, phi.values(t, *after) - phi.values(t, x, z)


def check_gradient_of(phi: Observable, t: Array, x: Array, z: Array) -> None:
    """Refuse a phi whose gradient contradicts central differences, at a few of these states."""
    rng = np.random.default_rng(0)
    later = np.flatnonzero(t > 0.0)
    for i in sorted({int(k) for k in later[:: max(len(later) // TESTED_STATES, 1)]}):
        one = slice(i, i + 1)
        point = [t[one], x[one], z[one]]
        slopes = phi.gradients(*point)
        for which, name in enumerate(("t", "x", "z")):
            direction = rng.standard_normal(point[which].shape) if which else np.ones(1)
            direction /= np.linalg.norm(direction)
            here = float(np.max(np.abs(point[which])))
            step = np.cbrt(EPS) * (here if which == 0 else max(here, 1e-3))
            ends, rounding = [], 0.0
            for sign in (1.0, -1.0):
                moved = list(point)
                moved[which] = point[which] + sign * step * direction
                ends.append(float(phi.values(*moved)[0]))
                # phi is rounded, and so are the points where it is asked.
                slope = float(np.linalg.norm(phi.gradients(*moved)[which]))
                rounding += 64.0 * EPS * (abs(ends[-1]) + here * slope) / step
            measured = (ends[0] - ends[1]) / (2.0 * step)
            given = float(np.sum(slopes[which] * direction))
            size = max(abs(measured), abs(given))
            if not abs(measured - given) <= GRADIENT_SLACK * size + rounding:
                raise ValueError(
                    f"the gradient of phi contradicts finite differences at t = {t[i]:.6g}: along "
                    f"{name} it gives {given:.6g}, differences give {measured:.6g}, off by "
                    f"{abs(measured - given):.3g}; mend gradient"
                )


class Prefactors(NamedTuple):
    """The five prefactors of appendix B: I_t is at most their sum with what they stand before.

    gradient_x: A' - A eta, of <grad f(x), x - x*>.  z_squared: B' - B eta', of |z - x*|^2.
    gradient_z: A eta - 2 B gamma', of <grad f(x), z - x*>.  x_squared: B eta' - A' mu/2, of
    |x - x*|^2.  gradient_squared: B gamma'^2 - A gamma (1 - L gamma/2), of |grad f(x)|^2.

    >>> Prefactors(0.0, 0.0, 0.0, 0.0, -0.5).gradient_squared
    -0.5
    """

    gradient_x: Any
    z_squared: Any
    gradient_z: Any
    x_squared: Any
    gradient_squared: Any

    def __repr__(self) -> str:
        return show_line(self)


def prefactors(
    L: float, mu: float, *, A: ArrayLike, B: ArrayLike, dA: ArrayLike, dB: ArrayLike,
    eta: ArrayLike, eta_prime: ArrayLike, gamma: ArrayLike, gamma_prime: ArrayLike,
) -> Prefactors:  # fmt: skip
    """Compute the five prefactors of appendix B, for any parameters of the process and of phi.

    L, mu: of the function.  A, B, dA, dB: the weights of phi and their derivatives.  eta,
    eta_prime, gamma, gamma_prime: of the process.  Numbers, or arrays over time.  All five are zero
    for the paper's choice; where none is positive, and the three before squares only, phi is a
    supermartingale.  TypeError and ValueError for what are no numbers, L and mu as ever.

    >>> q = 0.1  # sqrt(mu/L), Theorem 3 with mu > 0 at t = 0
    >>> found = prefactors(1.0, 0.01, A=1.0, B=0.005, dA=q, dB=0.005 * q, eta=q, eta_prime=q,
    ...                    gamma=1.0, gamma_prime=10.0)
    >>> bool(np.allclose(found, 0.0, atol=1e-15))
    True
    """
    L, mu = scalars.check_constants(L, mu)
    given = {"A": A, "B": B, "dA": dA, "dB": dB, "eta": eta, "eta_prime": eta_prime,
             "gamma": gamma, "gamma_prime": gamma_prime}  # fmt: skip
    arrays = [check.array(value, name, dtype=np.float64) for name, value in given.items()]
    try:
        A, B, dA, dB, eta, eta_prime, gamma, gamma_prime = np.broadcast_arrays(*arrays)
    except ValueError as error:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(
            f"the parameters must be numbers, or arrays that go together, got shapes {shapes}"
        ) from error
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest
        return Prefactors(
            gradient_x=(dA - A * eta)[()],
            z_squared=(dB - B * eta_prime)[()],
            gradient_z=(A * eta - 2.0 * B * gamma_prime)[()],
            x_squared=(B * eta_prime - 0.5 * mu * dA)[()],
            gradient_squared=(B * gamma_prime**2 - A * gamma * (1.0 - 0.5 * L * gamma))[()],
        )


def _states_before(method: Method, path: Path, x: Array, z: Array) -> tuple[Array, Array]:
    """Return x and z just before each event, by the flow from the event before."""
    times, gaps = path.t.tolist(), path.dt.tolist()
    ab = np.array([method.flow(times[k - 1], times[k], gaps[k]) for k in range(1, len(times))])
    a, b = ab.reshape(-1, 2).T.reshape(2, -1, *[1] * (x.ndim - 1))
    return mix(x[:-1], z[:-1], a, b)


def _check_jumps(
    method: Method, problem: Problem, path: Path, x: Array, z: Array, x_after: Array, z_after: Array
) -> None:
    """Refuse a path whose jumps are not gradient steps on this problem, such as one with noise."""
    if math.isinf(rates_of(method).eta(0.0)) and np.any(x_after[0] != z_after[0]):
        raise ValueError("eta is infinite at 0, where x jumps onto z: start with z_0 = x_0")
    four = parameter_rows(method, path.t[1:])
    column = (-1, *[1] * (x.ndim - 1))
    g = problem.grads(x).reshape(x.shape)
    expected = jump(x, z, g, *(step.reshape(column) for step in four.T[2:]))
    for got, want in zip((x_after[1:], z_after[1:]), expected, strict=True):
        size = np.abs(want).max(axis=tuple(range(1, x.ndim)), initial=0.0)
        off = np.abs(got - want).max(axis=tuple(range(1, x.ndim)), initial=0.0)
        slack = max(JUMP_SLACK, 1e3 * float(np.finfo(path.x.dtype).eps))
        wrong = np.flatnonzero(
            ~(off <= slack * np.maximum(size, np.abs(x).max(initial=0.0) * 1e-3))
        )
        if wrong.size:
            k = int(wrong[0]) + 1
            raise ValueError(
                f"event {k} of the path is no gradient step on this problem, it is off by "
                f"{off[k - 1]:.3g}: give the problem of the run, run without noise"
            )


def _three(given: Any) -> list[Any]:
    parts = list(given) if isinstance(given, tuple | list) else []
    if len(parts) != 3:
        raise TypeError(
            f"gradient must return three derivatives, in t, x and z, got {check.short_repr(given)}"
        )
    return parts


def _numbers(given: Any, name: str, shape: tuple[int, ...]) -> Array:
    """Return what the user's function gave as an array of this shape."""
    found = check.array(given, f"what {name} gives", dtype=np.float64)
    if found.shape != shape:
        try:
            return found.reshape(shape)
        except ValueError as error:
            raise ValueError(
                f"{name} must give an array of shape {shape} here, got {found.shape}"
            ) from error
    return found
