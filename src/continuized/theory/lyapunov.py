"""The Lyapunov function phi_t = A_t (f(x_t) - f*) + B_t |z_t - x*|^2, and its drift.

The proof of Theorem 3 (appendix B) says that phi is a supermartingale for convex f.  Here
that is checked without sampling: by the generator I_t, and by integrating over the gap to
the next event.

For f + psi (docs/proofs/composite.md) f(x_t) - f* is replaced by f(x_t) + psi^_t - F*: psi^ and
zeta^ begin as psi(x_0), mix as x and z do, and at an event zeta^ becomes psi(z+), psi^ follows as x
does.  psi^ is at least psi(x); it is carried along where x is.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.problems.quadratic import Quadratic
from continuized.process import parameters
from continuized.process.flow import mix
from continuized.process.methods import Continuized, Method, follow, is_marked, jump
from continuized.process.noise import Oracle
from continuized.support import validation as check
from continuized.support.display import show_html, show_line, shown
from continuized.theory.bounds.paper import log_A, log_B
from continuized.theory.checks import (
    check_continuized,
    check_fits,
    check_path,
    minimiser,
    minimum,
)
from continuized.theory.composite import CompositeProblem, as_composite_problem
from continuized.theory.moments.pair import parameter_rows

if TYPE_CHECKING:
    from continuized.solver.result import Path, Result

POINTS = 12  # of Gauss and Legendre, to a panel
TOLERANCE = 1e-9  # of the quadrature, relative to phi
MOST_HALVINGS = 3
LARGEST_ENTRY = 1e150  # of a state, whose squares are added up
LONGEST_GAP = 45.0  # e^-45 is below rounding
LARGEST_LOG = 700.0  # e^710 overflows


def lyapunov(r: Result, p: Problem, *, x_star: ArrayLike | None = None) -> Lyapunov:
    """Return phi_t along a recorded path of `Continuized`: at the events, and at any time.

    r is of `minimize(p, ...)` with record="path"; ValueError where it is not, or of another
    method.  phi is a supermartingale: it decreases in expectation, not on every path.  Of a run
    with prox= or mirror=, phi is that of f + psi and of the geometry, and x_star as for `bound`.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> r = cz.minimize(p, [0.0, 0.0, 0.0], maxiter=50, rng=0, record="path")
    >>> phi = cz.theory.lyapunov(r, p)
    >>> phi.phi.shape, bool(phi.at(r.trace.t[7]) == phi.phi[7])
    ((51,), True)
    """
    return Lyapunov(r, p, x_star)


class Lyapunov:
    """phi along one path.  `t` and `phi` have one row per event, row 0 the start.

    `log_phi` and `log_at` are for where phi overflows.  Of a run with prox=, `psi_hat` is what
    stands for psi(x) in phi, at least as large.  Made by `lyapunov(r, p, x_star=x_star)`.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> phi = cz.theory.lyapunov(cz.minimize(p, [0.0, 0.0], maxiter=9, rng=0, record="path"), p)
    >>> round(float(phi.phi[0]), 12), phi.at([0.0, 1.0]).shape  # phi_0 = f - f* + mu/2 |x - x*|^2
    (0.65, (2,))
    """

    psi_hat: Array | None = None

    def __init__(self, r: Result, p: Problem, x_star: ArrayLike | None = None) -> None:
        from continuized.solver.result import Result

        recorded = check_path(r)
        self.method = check_continuized(r.method, "lyapunov")
        check_fits(p, recorded.x)
        prox, mirror = r.get("prox"), r.get("mirror")
        is_composite = prox is not None or mirror is not None
        if x_star is not None and not is_composite:
            raise ValueError("x_star= is for runs with prox= or mirror=; set p.x_star, or drop it")
        self.problem, self.t = p, recorded.t
        x, z = (v.astype(np.float64, copy=False) for v in (recorded.x, recorded.z))
        self._shape = x.shape[1:]
        path = recorded._replace(x=x.reshape(len(x), -1), z=z.reshape(len(z), -1))
        if is_composite:
            if r.skipped:
                raise ValueError("the path has events without a jump; use nonfinite='stop'")
            F = as_composite_problem(p, x[0], prox, mirror, x_star)
            surrogates = _carry_psi(self.method, F.composite.values(z), path)
            path = path._replace(
                x=np.column_stack([path.x, surrogates[0]]),
                z=np.column_stack([path.z, surrogates[1]]),
            )
            self.problem, self.psi_hat = F, surrogates[0]
        # A path of its own, in which psi^ and zeta^ are further entries of x and z.
        self._result = Result(path=path, method=r.method)
        self.log_phi = self._evaluate(self.t, path.x, path.z)

    def _evaluate(self, t: Array, x: Array, z: Array) -> Array:
        n = math.prod(self._shape)
        psi = x[:, n] if x.shape[1] > n else None
        x, z = (v[:, :n].reshape(len(v), *self._shape) for v in (x, z))
        return _log_phi(self.method, self.problem, t, x, z, psi)

    @property
    def phi(self) -> Array:
        """The values of phi at the start and after every event."""
        return np.exp(self.log_phi)

    def at(self, t: ArrayLike, side: str = "right") -> Array:
        """Return phi at times t; at an event after the jump, or before it with side="left"."""
        return np.exp(self.log_at(t, side))

    def log_at(self, t: ArrayLike, side: str = "right") -> Array:
        """Return log phi_t, as `at` (t, side)."""
        times = check.times(t, "t")
        x, z = self._result.at(times.ravel(), side)
        return self._evaluate(times.ravel(), x, z).reshape(times.shape)[()]

    def _facts(self) -> dict[str, Any]:
        return {"rows": len(self.t), "method": self.method, "problem": self.problem}

    __repr__ = show_line
    _repr_html_ = show_html


def _carry_psi(method: Continuized, psi_z: Array, path: Path) -> tuple[Array, Array]:
    """Return psi^ and zeta^ after the start and after every event; psi_z is psi at the z."""
    psi, zeta = [float(psi_z[0])], [float(psi_z[0])]
    times, gaps = path.t.tolist(), path.dt.tolist()
    for k in range(1, len(times)):
        a, b, gamma, gamma_prime, _ = method.coefficients(k, times[k - 1], times[k], gaps[k], 0.0)
        mixed, old = mix(psi[-1], zeta[-1], a, b)
        psi.append(follow(mixed, old, float(psi_z[k]), gamma / gamma_prime))
        zeta.append(float(psi_z[k]))
    return np.array(psi), np.array(zeta)


def drift(
    method: Method,
    p: Problem,
    t: ArrayLike,
    x: ArrayLike,
    z: ArrayLike,
    sigma2: float = 0.0,
    *,
    prox: Any = None,
    mirror: Any = None,
    x_star: ArrayLike | None = None,
    noise: Oracle | None = None,
) -> Array:
    """Compute the exact generator I_t of the proof at states (t, x, z): d/dt E phi_t, no sampling.

        I_t = A' (f - f*) + B' |z - x*|^2 + A eta <grad f, z - x> + 2 B eta' <z - x*, x - z>
              + phi(t, x - gamma grad f, z - gamma' grad f) - phi(t, x, z)

    with A' = tau eta A and B' = eta' B.  I_t <= 0 when f is convex, L-smooth and mu-strongly
    convex, or (tau, mu)-quasar-convex (up to sigma2 A_t / L with noise).  One state, or many: t of
    shape (n,), x and z with n rows.  t + start > 0 is needed: eta is infinite at 0.  method:
    Continuized, on p.

    With noise of total variance sigma2, E f(x - gamma (grad f + noise)) is exact on a Quadratic, if
    the noise is isotropic; elsewhere what is returned is an upper bound, for f is L-smooth.  Where
    noise is an oracle that lists its outcomes (`cz.noise.Minibatch` of single rows), it is exact
    for any problem.  ValueError for other oracles, for other methods than Continuized, and for
    states that do not fit.

    With prox=, of psi, phi is that of f + psi, whose drift is a function of the same state, for
    psi^ and zeta^ cancel; mirror= is the geometry; x_star as for `bound`; noise is refused.

    method may be an accelerated CoordinateDescent, whose prox is its own: then I_t is the mean over
    its marks, with S in place of L.

    >>> import continuized as cz, numpy as np
    >>> p = cz.problems.paper_strongly_convex()
    >>> method, x0 = cz.Continuized(p.L, p.mu), np.zeros(3)
    >>> bool(drift(method, p, 1.0, x0, x0 + 0.5) <= 0.0)
    True
    """
    sigma2 = check.real(sigma2, "sigma2", minimum=0.0)
    if noise is not None:
        check.instance(noise, "noise", Oracle, "a cz.noise.Oracle such as cz.noise.Minibatch(p)")
        if prox is not None or mirror is not None or sigma2 > 0.0 or is_marked(method):
            raise ValueError(
                "noise= of drift goes without sigma2=, prox= and mirror=, for Continuized"
            )
    is_composite = prox is not None or mirror is not None
    if is_marked(method):
        if is_composite or sigma2 > 0.0:
            raise ValueError(
                f"prox=, mirror= and sigma2= of drift are for Continuized, got "
                f"{check.short_repr(method)}; give prox to CoordinateDescent itself"
            )
        return _marked_drift(method, p, t, x, z, x_star)
    method = check_continuized(method, "drift")
    method, p, (t, x, z, single) = _prepare(method, p, (t, x, z), prox, mirror, x_star)
    _check_eta(method, t)
    rate, rate_prime, _, gamma_prime = parameter_rows(method, t).T
    gamma = parameters.gamma(method.L)
    A, B = np.exp(log_A(method, t)), np.exp(log_B(method, t))
    g, w = p.grads(x), z - minimiser(p).reshape(x.shape[1:])
    f, w2 = _excess_and_distance(p, x, z, 0.0)
    flow = rate * A * (method.tau * f + dot_rows(g, z - x)) + rate_prime * B * (
        w2 + 2.0 * dot_rows(w, x - z)
    )
    f1, w1 = _excess_and_distance(p, *_jump_rows(p, x, z, g, gamma, gamma_prime))
    value = flow + A * (f1 - f) + B * (w1 - w2)
    if noise is not None:
        value = value + _spread_of_outcomes(noise, p, x, z, g, gamma, gamma_prime, A, B, f1, w1)
    if sigma2 > 0.0:
        if is_composite:
            raise ValueError("the drift with prox= or mirror= is known without noise: use sigma2=0")
        curvature = float(p.eigenvalues.mean()) if isinstance(p, Quadratic) else p.L or method.L
        value = value + sigma2 * (A * 0.5 * gamma**2 * curvature + B * gamma_prime**2)
    return np.asarray(value)[0 if single else slice(None)]


def _spread_of_outcomes(
    noise: Oracle, p: Problem, x: Array, z: Array, g: Array, gamma: float, gamma_prime: Array,
    A: Array, B: Array, f1: Array, w1: Array,
) -> Array:  # fmt: skip
    """Return E phi after an event with the oracle's estimates, minus phi after one with g."""
    found = np.empty(len(x))
    for i in range(len(x)):
        listed = noise.outcomes(x[i])
        if listed is None:
            raise ValueError(
                "the drift needs all outcomes of the oracle, as of Minibatch(problem, batch=1); "
                "give sigma2= in place of noise= for an upper bound"
            )
        chances, estimates = listed
        estimates = estimates.reshape(-1, *x.shape[1:])
        if not np.allclose(np.tensordot(chances, estimates, 1), g[i], rtol=1e-8, atol=1e-12):
            raise ValueError(
                "the mean of the oracle's outcomes is not the gradient of this problem"
            )
        after = jump(x[i], z[i], estimates, gamma, gamma_prime[i])
        f, w = _excess_and_distance(p, *after)
        found[i] = A[i] * (chances @ f - f1[i]) + B[i] * (chances @ w - w1[i])
    return found


def _marked_drift(
    method: Any, p: Problem, t: ArrayLike, x: ArrayLike, z: ArrayLike, x_star: ArrayLike | None
) -> Array:
    # Imported here, for the marked methods bring Numba with them.
    from continuized.theory.coordinate_drift import coordinate_drift, prepare_drift

    times, x, z, single = state_rows(p, t, x, z)
    stepper, process = prepare_drift(method, p, x[0])
    _check_times(process, times)
    _check_eta(process, times)
    found = coordinate_drift(method, stepper, p, times, x, z, x_star)
    return np.asarray(found)[0 if single else slice(None)]


def _check_eta(method: Continuized, t: Array) -> None:
    if np.any(t + method.start == 0.0):
        raise ValueError("the drift needs t + start > 0: eta is infinite at 0")


@shown
class Gap(NamedTuple):
    """E[phi after the next event | state] - phi (value), its estimated error, and phi itself.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> gap = supermartingale_gap(cz.Continuized(p.L, p.mu), p, 1.0, np.zeros(3), np.ones(3))
    >>> bool(gap.value < 0.0), bool(gap.error < 1e-6 * gap.phi)
    (True, True)
    """

    value: Array
    error: Array
    phi: Array


def supermartingale_gap(
    method: Method,
    p: Problem,
    t: ArrayLike,
    x: ArrayLike,
    z: ArrayLike,
    *,
    prox: Any = None,
    mirror: Any = None,
    x_star: ArrayLike | None = None,
) -> Gap:
    """Compute E[phi at the next event | state (t, x, z)] - phi_t, which must be <= 0.

    Integrates over the gap, Exp(1), by composite Gauss-Legendre on panels that grow
    geometrically; they are halved until the change is at most 1e-9 phi, or three times
    (`error` is the last change).  The step is taken from the method itself, so that a wrong
    step is seen.  One state or many; states that share their t cost least.  method, p, t, x, z,
    prox, mirror, x_star and the errors: as for `drift`; with prox, psi^ = psi(x) and
    zeta^ = psi(z) at t.

    >>> import continuized as cz, numpy as np
    >>> p = cz.problems.paper_strongly_convex()
    >>> method, x0 = cz.Continuized(p.L, p.mu), np.zeros(3)
    >>> bool(np.all(supermartingale_gap(method, p, 1.0, x0, x0 + 0.5).value <= 0.0))
    True
    """
    method = check_continuized(method, "supermartingale_gap")
    method, p, (t, x, z, single) = _prepare(method, p, (t, x, z), prox, mirror, x_star)
    found = np.empty((3, len(t)))
    for time in np.unique(t).tolist():
        rows = t == time
        found[:, rows] = _gap_at(method, p, time, x[rows], z[rows])
    return Gap(*(found[:, 0] if single else found))


def _gap_at(
    method: Continuized, p: Problem, t: float, x: Array, z: Array
) -> tuple[Array, Array, Array]:
    # A and B relative to their sum at t, which may overflow.
    unit = float(np.logaddexp(log_A(method, np.asarray(t)), log_B(method, np.asarray(t))))
    phi = np.exp(_log_phi(method, p, np.full(len(x), t), x, z) - unit)
    edges = _panels(method, t)
    last = _expected_phi(method, p, t, x, z, edges, unit)
    for _ in range(MOST_HALVINGS):
        edges = np.sort(np.concatenate([edges, 0.5 * (edges[1:] + edges[:-1])]))
        now = _expected_phi(method, p, t, x, z, edges, unit)
        error, last = np.abs(now - last), now
        if np.all(error <= TOLERANCE * phi):
            break
    scale = math.exp(unit)
    return (last - phi) * scale, error * scale, phi * scale


def _panels(method: Continuized, t: float) -> Array:
    """Return edges 0 < e < 2e < 4e < ... : the flow changes on the scale of t + start and of 1."""
    L, mu, start, _ = method.parameters
    q = 2.0 * parameters.omega(L, mu)
    last = LONGEST_GAP / max(1.0 - q, 1e-3)
    first = min(1.0, t + start) if t + start > 0.0 else 1.0
    n = math.ceil(math.log2(last / first))
    return np.concatenate([[0.0], last * 2.0 ** np.arange(-n, 1.0)])


def _expected_phi(
    method: Continuized, p: Problem, t: float, x: Array, z: Array, edges: Array, unit: float
) -> Array:
    """Compute int e^{-d} phi(after an event at t + d) dd, over e^unit; a panel of gaps d at a
    time."""
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    total = np.zeros(len(x))
    for left, right in pairwise(edges.tolist()):
        gaps = left + 0.5 * (right - left) * (1.0 + nodes)
        steps = [method.coefficients(1, t, t + d, d, 0.0)[:4] for d in gaps.tolist()]
        a, b, gamma, gamma_prime = np.array(steps).reshape(POINTS, 4, *[1] * x.ndim).swapaxes(0, 1)
        y, w = mix(x[np.newaxis], z[np.newaxis], a, b)
        rows = (-1, *x.shape[1:])
        y, w = y.reshape(rows), w.reshape(rows)
        psi, zeta = _psi_rows(p, x, z, a.reshape(POINTS, 1), b.reshape(POINTS, 1))
        each, each_prime = (np.repeat(step.ravel(), len(x)) for step in (gamma, gamma_prime))
        after = _jump_rows(p, y, w, p.grads(y), each, each_prime, psi, zeta)
        f, w2 = (v.reshape(POINTS, -1) for v in _excess_and_distance(p, *after))
        log_share = np.log(0.5 * (right - left) * weights) - gaps - unit
        A, B = (np.exp(log_share + log(method, t + gaps)) for log in (log_A, log_B))
        total += A @ f + B @ w2
    return total


def _psi_rows(p: Problem, x: Array, z: Array, a: Array, b: Array) -> tuple[Any, Any]:
    """Return psi^ and zeta^, psi(x) and psi(z) at first, after mixing by a and b, a row each."""
    if not isinstance(p, CompositeProblem):
        return 0.0, 0.0
    at_x, at_z = (p.composite.values(states)[np.newaxis] for states in (x, z))
    psi, zeta = mix(at_x, at_z, a, b)  # type: ignore[arg-type]
    return psi.ravel(), zeta.ravel()


def _jump_rows(
    p: Problem, x: Array, z: Array, g: Array, gamma: Any, gamma_prime: Array,
    psi: Any = 0.0, zeta: Any = 0.0,
) -> tuple[Array, Array, Any]:  # fmt: skip
    """Return x, z and psi^ of many states, one to a row, after an event; likewise its steps."""
    column = (-1, *[1] * (x.ndim - 1))
    if not isinstance(p, CompositeProblem):
        step: Any = np.broadcast_to(gamma, gamma_prime.shape).reshape(column)
        return *jump(x, z, g, step, gamma_prime.reshape(column)), None  # type: ignore[arg-type]
    eta = gamma / gamma_prime
    z_plus = p.composite.move_rows(z, g, gamma_prime)
    psi = follow(psi, zeta, p.composite.values(z_plus), eta)
    return follow(x, z, z_plus, eta.reshape(column)), z_plus, psi


def _log_phi(
    method: Continuized, p: Problem, t: Array, x: Array, z: Array, psi: Array | None = None
) -> Array:
    with np.errstate(divide="ignore"):
        in_x, in_z = np.log(np.maximum(_excess_and_distance(p, x, z, psi), 0.0))
    return np.logaddexp(log_A(method, t) + in_x, log_B(method, t) + in_z)  # type: ignore[no-any-return]


def _prepare(
    method: Continuized, p: Problem, states: tuple[ArrayLike, ArrayLike, ArrayLike], prox: Any,
    mirror: Any, x_star: ArrayLike | None,
) -> tuple[Continuized, Problem, tuple[Array, Array, Array, bool]]:  # fmt: skip
    """Return the method and the function as they are, or as f + psi has them, and the states."""
    is_composite = prox is not None or mirror is not None
    if is_composite:
        method = method.for_composite()
    t, x, z, single = state_rows(p, *states)
    _check_times(method, t)
    if is_composite:
        p = as_composite_problem(p, x[0], prox, mirror, x_star)
    return method, p, (t, x, z, single)


def _check_times(method: Continuized, times: Array) -> None:
    late = times[np.maximum(log_A(method, times), log_B(method, times)) > LARGEST_LOG]
    if late.size:
        raise ValueError(f"A_t or B_t overflows at t = {late[0]:.6g}; give an earlier time")


def state_rows(
    p: Problem, t: ArrayLike, x: ArrayLike, z: ArrayLike
) -> tuple[Array, Array, Array, bool]:
    """Return many states as rows, or one state as one row."""
    times = check.times(t, "t")
    x, z = (check.array(v, n, dtype=np.float64, finite=True) for v, n in ((x, "x"), (z, "z")))
    if x.shape != z.shape:
        raise ValueError(f"x and z must have one shape, got {x.shape} and {z.shape}")
    largest = float(np.max(np.abs([x, z]), initial=0.0))
    if largest > LARGEST_ENTRY:
        raise ValueError(
            f"x and z must be at most {LARGEST_ENTRY:g}, or squares overflow: got {largest}"
        )
    single = times.ndim == 0
    if single:
        times, x, z = times[np.newaxis], x[np.newaxis], z[np.newaxis]
    elif times.ndim != 1 or x.ndim < 2 or len(x) != len(times):
        raise ValueError(
            f"many states are t of shape (n,) and x, z with n rows, got {times.shape}, {x.shape}"
        )
    check_fits(p, x)
    return times, x, z, single


def _excess_and_distance(p: Problem, x: Array, z: Array, psi: Any = None) -> tuple[Array, Array]:
    """f - f* and |z - x*|^2 of many states, one to a row.

    Of a CompositeProblem, f + psi^ - F*, psi^ being psi(x) where it is None.
    """
    if isinstance(p, CompositeProblem):
        values = p.values(x) if psi is None else p.smooth.values(x) + psi
        return values - minimum(p), p.distances(z)
    w = z - minimiser(p).reshape(x.shape[1:])
    return np.maximum(p.values(x) - minimum(p), 0.0), dot_rows(w, w)


def dot_rows(u: Array, v: Array) -> Array:
    """Return the product <u_i, v_i> of each row."""
    return (u * v).reshape(len(u), -1).sum(axis=1)  # type: ignore[no-any-return]
