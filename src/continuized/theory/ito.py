"""Ito's formula for the process (the paper's appendix A).

For a smooth phi(t, x, z), with g = grad f(x) and all parameters at time t,

    generator of phi:  I = d/dt phi + <d/dx phi, eta (z - x)> + <d/dz phi, eta' (x - z)>
                           + phi(t, x - gamma g, z - gamma' g) - phi(t, x, z)
    phi_t = phi_0 + int_0^t I_s ds + M_t

where M is a martingale: the jumps of phi at the events, minus the integral of what they are
expected to be (the second line of I), the compensator.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.process.flow import mix
from continuized.process.methods import Method, jump
from continuized.support import validation as check
from continuized.support.display import shown
from continuized.theory.checks import check_fits, check_path
from continuized.theory.lyapunov import dot_rows, state_rows
from continuized.theory.moments.pair import parameter_rows, rates_of
from continuized.theory.observable import EPS, Observable, check_gradient_of

if TYPE_CHECKING:
    from continuized.solver.result import Path, Result

TOLERANCE = 1e-10  # of the integral over a gap, relative to phi and to the integral of its parts
MOST_HALVINGS = 24  # of a gap
MOST_STATES = 4096  # that phi is asked at, at once
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
    >>> phi = cz.theory.lyapunov_function(method, p)
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
    >>> parts = decompose(cz.theory.lyapunov_function(r.method, p), r, p)
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
