"""Mirror steps: the process in the geometry of a function h, for mu = 0.

With h 1-strongly convex in a norm, f L-smooth in that norm, and D(u, z) = h(u) - h(z) -
<grad h(z), u - z>, an event is

    z+ = argmin over u of gamma' (<g, u> + psi(u)) + D(u, z)        x+ = x + eta (z+ - z)

and, from x_0 = z_0 and a start of 2 or more, E F(x_t) - F* is at most
((s^2 / 4L) (F(x_0) - F*) + D(x*, z_0)) 4L / (t + s)^2, s being the start: docs/proofs/composite.md.
Where h is |x|^2 / 2 this is `composite`.  With mu > 0 the flow would have to mix grad h(z) with
grad h(x), for which no closed form is known: not offered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.problems.quadratic import Quadratic
from continuized.problems.regression.interface import Regression
from continuized.problems.regression.linear import Linear
from continuized.problems.regression.spectrum import column_gram
from continuized.process.composite import Composite
from continuized.process.methods import Continuized
from continuized.process.prox import (
    Prox,
    Separable,
    Simplex,
    check_prox,
    entry_step,
    is_at_most,
    length,
)
from continuized.support import validation as check
from continuized.support.blas import always_on_one_thread, inner
from continuized.support.checkpoints.state import probe
from continuized.support.validation import short_repr

__all__ = ["Entropy", "Mirror", "PNorm"]

# What the first step of a user's own geometry, which is looked at, may seem to lose: relative to
# what is compared, and in roundings of what that is a difference of.
STEP_ROUNDING, ROUNDINGS = 1e-9, 100.0
MOST_COLUMNS = 4_000  # for a whole Hessian
ABOVE = 1.0 + 1e-12  # what a computed L is made larger by, for rounding


class Mirror(Protocol):
    """A geometry: its step, and its divergence.

    One of your own, D = |u - z|^2 / 2, which is the plain process:

    >>> class Plain:
    ...     def step(self, z, g, gamma_prime, prox):
    ...         v = z - gamma_prime * g
    ...         return v if prox is None else prox(v, gamma_prime)
    ...     def divergence(self, u, z):
    ...         return 0.5 * float(np.sum((u - z) ** 2))
    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 1.0], [2.0, 4.0])
    >>> cz.minimize(p, [0.0, 0.0], mirror=Plain(), L=1.0, tol=1e-3, rng=0).x.round(2).tolist()
    [2.0, 4.0]
    """

    def step(self, z: Array, g: Array, gamma_prime: float, prox: Prox | None) -> Array:
        """argmin over u of gamma' (<g, u> + psi(u)) + D(u, z); psi is 0 where prox is None."""
        ...

    def divergence(self, u: Array, z: Array) -> float:
        """Return D(u, z) >= 0."""
        ...


class Geometry(Mirror):
    """A mirror that knows its norm, its domain, and the smoothness of some functions in it."""

    has_gap: ClassVar[bool] = False  # whether `gap` bounds f(x) - f*, so that tol is for it

    def check_prox(self, prox: Prox | None) -> None:
        """Raise ValueError where the step is not known with this psi."""

    def check_start(self, x: Array, name: str) -> None:
        """Raise ValueError where x, of this name, is not in the domain."""

    def norm(self, v: Array) -> float:
        """Return the norm in which h is 1-strongly convex."""
        raise NotImplementedError

    def dual_norm(self, g: Array) -> float:
        """Return its dual norm."""
        raise NotImplementedError

    def find_L(self, problem: Problem, shape: tuple[int, ...]) -> float | None:
        """Return a bound of the smoothness of f in the norm; None where none is known."""
        raise NotImplementedError

    def bring_back(self, x: Array) -> Array:
        """Return x, or the point of the domain that rounding has moved it from."""
        return x

    def gap(self, x: Array, g: Array) -> float | None:
        """Return a bound of f(x) - f*, g being the gradient there; None where none is known."""
        return None

    def plain_prox(self, prox: Prox) -> Any:
        """Return the prox by which a run in the plain geometry has the same minimisers."""
        return prox


@dataclass(frozen=True)
class Entropy(Geometry):
    """The simplex, x >= 0 with sum x = 1, and products of simplices: each row of a matrix x is one.

    h(x) = sum x_i log x_i, D the relative entropy, at most log d from the uniform x_0; the norm
    is sum |x_i|, and for rows the root of the sum of their squares.  The step multiplies:
    z_i exp(-gamma' g_i), over the sum.  L is then max |H_ij| for a Hessian H, which may be far
    below its largest eigenvalue (for rows, at most the largest eigenvalue of the matrix of the
    maxima of the blocks of H).  tol is compared with the gap <g, x> - min g >= f(x) - f*, added up
    over rows.

    Every entry of x0 must be > 0: what is 0 stays 0.

    >>> Entropy().step(np.array([0.5, 0.5]), np.array([0.0, math.log(3.0)]), 1.0, None).tolist()
    [0.75, 0.25]
    """

    has_gap: ClassVar[bool] = True

    def check_prox(self, prox: Prox | None) -> None:
        if prox is not None:
            raise ValueError(
                f"cz.mirror.Entropy() keeps x on the simplex by itself; drop prox=, got "
                f"{short_repr(prox)}"
            )

    def check_start(self, x: Array, name: str) -> None:
        if x.ndim not in (1, 2):
            raise ValueError(
                f"cz.mirror.Entropy() is for vectors, and for matrices of rows, but {name} has "
                f"shape {x.shape}"
            )
        nearest = _project_rows(x, 1.0)
        off = float(np.abs(x.sum(axis=-1, dtype=np.float64) - 1.0).max(initial=0.0))
        if np.any(x < 0.0) or not is_at_most(off, 0.0, x, 1.0):
            away = float(np.linalg.norm(nearest - x))
            raise ValueError(
                f"{name} is outside the simplex of cz.mirror.Entropy() by {away:.3g}; give a point "
                f"inside, the nearest point is {short_repr(nearest)}"
            )
        if name == "x0" and not np.all(x > 0.0):
            raise ValueError(
                "x0 must be > 0 in every entry for cz.mirror.Entropy(), where 0 stays 0; start "
                "from np.full(d, 1 / d)"
            )

    def step(self, z: Array, g: Array, gamma_prime: float, prox: Prox | None = None) -> Array:
        """Return z_i exp(-gamma' g_i), over its sum; of each row."""
        with np.errstate(under="ignore"):
            w = z * np.exp(-gamma_prime * (g - g.min(axis=-1, keepdims=True)))
            # What underflows would stay 0 for ever.
            w = np.maximum(w / w.sum(axis=-1, keepdims=True), np.finfo(w.dtype).tiny)
        return np.asarray(w, dtype=z.dtype)

    def divergence(self, u: Array, z: Array) -> float:
        """Return the relative entropy, sum u_i log(u_i / z_i) - u_i + z_i."""
        from scipy.special import kl_div

        return float(np.sum(kl_div(u, z)))

    def norm(self, v: Array) -> float:
        return float(np.linalg.norm(np.abs(v).sum(axis=-1)))

    def dual_norm(self, g: Array) -> float:
        return float(np.linalg.norm(np.abs(g).max(axis=-1, initial=0.0)))

    def find_L(self, problem: Problem, shape: tuple[int, ...]) -> float | None:
        largest = _largest_of_blocks(problem, shape)
        if largest is not None and len(shape) == 1:  # no larger than the largest eigenvalue
            return largest
        known = [L for L in (largest, problem.L) if L is not None]
        return min(known, default=None)

    def bring_back(self, x: Array) -> Array:
        kept = np.maximum(x, 0.0)
        return np.asarray(kept / kept.sum(axis=-1, keepdims=True))

    def gap(self, x: Array, g: Array) -> float:
        slack = (x * (g - g.min(axis=-1, keepdims=True))).sum()
        return float(slack)

    def plain_prox(self, prox: Prox) -> Any:
        return _project_rows


def _project_rows(v: Array, step: float) -> Array:
    """Return the nearest point whose rows are on the simplex, whatever the step."""
    rows = [Simplex()(row, step) for row in v.reshape(-1, v.shape[-1])]
    return np.array(rows).reshape(v.shape)


@dataclass(frozen=True)
class PNorm(Geometry):
    """h(x) = |x|_p^2 / (2 (p - 1)), 1 < p <= 2, on the whole space; p = 2 is the plain geometry.

    For solutions with few entries among d: p = 1 + 1/log d has L near max |H_ij|, and
    D(x*, 0) near (log d / 2) |x*|_1^2.  prox may be a `cz.prox.L1`.

    Raises TypeError or ValueError for other p.

    >>> PNorm(2.0).step(np.array([1.0, 2.0]), np.array([1.0, 0.0]), 0.5, None).tolist()
    [0.5, 2.0]
    """

    p: float

    def __post_init__(self) -> None:
        p = check.real(self.p, "p", above=1.0, maximum=2.0)
        object.__setattr__(self, "p", p)

    def check_prox(self, prox: Prox | None) -> None:
        if prox is None:
            return
        plain = Separable().constants
        if not isinstance(prox, Separable) or any(
            np.any(given != none) for given, none in zip(prox.constants[1:], plain[1:], strict=True)
        ):
            raise ValueError(
                f"cz.mirror.PNorm goes with prox=cz.prox.L1(weight) or none, got {short_repr(prox)}"
            )

    def step(self, z: Array, g: Array, gamma_prime: float, prox: Prox | None = None) -> Array:
        """Return the z+ with grad h(z+) = grad h(z) - gamma' (g + a subgradient of psi)."""
        v = self._slope(z) - gamma_prime * g
        if isinstance(prox, Separable):
            v = entry_step(v, gamma_prime, *prox.constants)
        return np.asarray(self._slope_inverse(v), dtype=z.dtype)

    def _slope(self, x: Array) -> Array:
        """Return grad h(x)."""
        return _power_slope(x, self.p) / (self.p - 1.0)

    def _slope_inverse(self, v: Array) -> Array:
        """Return the x with grad h(x) = v: the gradient of (p - 1)/2 |v|_q^2, 1/p + 1/q = 1."""
        return _power_slope(v, self.p / (self.p - 1.0)) * (self.p - 1.0)

    def divergence(self, u: Array, z: Array) -> float:
        half = 0.5 / (self.p - 1.0)
        change = half * (_square(self.norm(u)) - _square(self.norm(z)))
        return max(change - inner(self._slope(z).ravel(), (u - z).ravel()), 0.0)

    def norm(self, v: Array) -> float:
        return _p_norm(v, self.p)

    def dual_norm(self, g: Array) -> float:
        return _p_norm(g, self.p / (self.p - 1.0))

    def find_L(self, problem: Problem, shape: tuple[int, ...]) -> float | None:
        """Between the norms |x|_1 and |x|_2, by interpolation: max |H_ij|^(1-a) lambda_max^a with
        a = 2 - 2/p (Riesz and Thorin)."""
        largest, L = _largest_of_blocks(problem, (1, math.prod(shape))), problem.L
        if L is None or largest is None or min(L, largest) <= 0.0:
            return L
        a = 2.0 - 2.0 / self.p
        return float(min(largest, L) ** (1.0 - a) * L**a) * ABOVE


def _square(size: float) -> float:
    """Return size^2; infinity where Python's own power would raise OverflowError."""
    return size * size


def _p_norm(v: Array, p: float) -> float:
    unit = float(np.abs(v).max(initial=0.0))
    if unit == 0.0 or not math.isfinite(unit):
        return unit
    with np.errstate(under="ignore"):
        return unit * float(np.sum((np.abs(v) / unit) ** p, dtype=np.float64) ** (1.0 / p))


def _power_slope(x: Array, p: float) -> Array:
    """Return the gradient of |x|_p^2 / 2: sign(x_i) |x_i|^(p-1) |x|_p^(2-p)."""
    size = _p_norm(x, p)
    if size == 0.0 or not math.isfinite(size):
        return np.asarray(x * 1.0)
    with np.errstate(under="ignore"):
        return np.asarray(np.copysign(size * (np.abs(x) / size) ** (p - 1.0), x))


# The smoothness in |x|_1, and in the norm of rows of it, of what has a known Hessian.


def _largest_of_blocks(problem: Problem, shape: tuple[int, ...]) -> float | None:
    """Return max |H_ij|, or for x of several rows the largest eigenvalue of the matrix of the
    maxima of its blocks; None where no bound H of the Hessian is known.

    H is positive semidefinite: its largest entries are on the diagonal, which bounds all blocks.
    """
    rows = shape[0] if len(shape) == 2 else 1
    if isinstance(problem, Quadratic):
        return problem.L
    if not isinstance(problem, Regression) or problem.classes > 1:
        return None
    if not math.isfinite(getattr(problem, "curvature", math.inf)):
        return None
    diagonal = np.asarray(problem.coordinate_L)
    if rows == 1:
        return float(diagonal.max(initial=0.0)) * ABOVE
    if diagonal.size > MOST_COLUMNS or not isinstance(problem, Linear):
        return float(diagonal.reshape(rows, -1).max(axis=1).sum()) * ABOVE
    sampled = problem.sample_rows(slice(None))
    H = np.abs(problem.curvature * column_gram(sampled) / sampled.shape[0])
    np.fill_diagonal(H, diagonal)
    columns = diagonal.size // rows
    maxima = H.reshape(rows, columns, rows, columns).max(axis=(1, 3))
    with always_on_one_thread():  # as all constants
        return float(np.linalg.eigvalsh(maxima)[-1]) * ABOVE


class MirrorComposite(Composite):
    """f + psi in a geometry, psi = 0 where no prox is given: what steppers and theorems need."""

    def __init__(self, mirror: Any, prox: Any, shape: tuple[int, ...]) -> None:
        self.mirror: Any = check_mirror(mirror)
        given = check_prox(prox, shape)
        super().__init__(Separable() if given is None else given, shape)
        self._psi = given
        self._is_geometry = isinstance(mirror, Geometry)
        if self._is_geometry:
            self.mirror.check_prox(given)
        if self._has_gap:
            self.criterion_name = "gap"

    @property
    def _has_gap(self) -> bool:
        return self._is_geometry and bool(self.mirror.has_gap)

    @property
    def given(self) -> dict[str, Any]:
        return {"mirror": self.mirror} | ({} if self._psi is None else {"prox": self._psi})

    def find_L(self, problem: Problem, shape: tuple[int, ...]) -> float:
        """Return L in the norm of the geometry; raise ValueError where it is not known."""
        L = self.mirror.find_L(problem, shape) if self._is_geometry else None
        if L is None:
            raise ValueError(
                "with mirror= L is the smoothness in the norm of the geometry, which is not known "
                "here: give L="
            )
        return float(L)

    def begin(self, method: Any, x0: Array) -> Continuized:
        if isinstance(method, Continuized) and method.mu > 0.0:
            raise ValueError(
                f"mirror= is for mu = 0, got mu = {method.mu:.6g}: with mu > 0 the flow has no "
                "closed form; drop mu"
            )
        return super().begin(method, x0)

    def move(self, z: Array, g: Array, gamma_prime: float) -> Array:
        # Copies: the user's own may write into what it is given.
        z_plus = np.asarray(self.mirror.step(z.copy(), g.copy(), gamma_prime, self._psi))
        if z_plus.shape != z.shape or z_plus.dtype.kind not in "fiu":
            raise ValueError(
                f"the step of mirror must return real numbers in the shape of x, {z.shape}, got "
                f"shape {z_plus.shape} and dtype {z_plus.dtype}"
            )
        if not (self._is_used or self._is_geometry):
            self._is_used = True
            self._check_first_step(z, g, gamma_prime, z_plus)
        return z_plus.astype(z.dtype, copy=False)

    def _check_first_step(self, z: Array, g: Array, gamma_prime: float, z_plus: Array) -> None:
        """Raise ValueError where a step is no minimiser: z itself would be better."""
        if not np.all(np.isfinite(z_plus)):
            return
        divergence = check.real(
            self.mirror.divergence(z_plus.copy(), z.copy()), "the divergence of mirror",
            minimum=0.0, finite=False,
        )  # fmt: skip
        slope = gamma_prime * inner(g.ravel(), (z_plus - z).ravel())
        values = gamma_prime * self.value(z_plus), gamma_prime * self.value(z)
        lost = slope + values[0] - values[1] + divergence
        # Near a minimum all is rounding: that of z+ is a part of |z+|, and g need not vanish there.
        size = max(length(z), length(z_plus))
        rounded = size * (gamma_prime * length(g) + size) + abs(values[0]) + abs(values[1])
        slack = float(np.finfo(z.dtype).eps) * (1.0 + ROUNDINGS * rounded)
        slack += STEP_ROUNDING * (abs(slope) + abs(values[0] - values[1]) + divergence)
        if not lost <= slack:
            raise ValueError(
                "the step of mirror must minimise gamma' (<g, u> + psi(u)) + D(u, z), but at its "
                f"first point that is larger than at z, by {lost:.3g}; check its sign and its "
                "divergence"
            )

    def move_rows(self, z: Array, g: Array, gamma_prime: Array) -> Array:
        moved = [self.move(*row) for row in zip(z, g, gamma_prime.tolist(), strict=True)]
        return np.array(moved).reshape(z.shape)

    def bring_back(self, x: Array) -> Array:
        back: Array = self.mirror.bring_back(x) if self._is_geometry else x
        return back

    def distances(self, u: Array, points: Array) -> Array:
        return np.array([2.0 * self.mirror.divergence(u, z) for z in points], dtype=np.float64)

    def check_start(self, x0: Array, name: str = "x0") -> None:
        if self._is_geometry:
            self.mirror.check_start(x0, name)
        super().check_start(x0, name)

    def squares(self, g: Array, y: Array, dg: Array, dy: Array) -> tuple[float, ...]:
        if not self._is_geometry:  # in which norm L is meant is not known: nothing witnesses it
            g2, y2, _, dgdy, dy2 = super().squares(g, y, dg, dy)
            return g2, y2, 0.0, dgdy, dy2
        norm, dual = self.mirror.norm, self.mirror.dual_norm
        along = inner(dg.ravel(), dy.ravel())
        return *map(_square, (dual(g), norm(y), dual(dg))), along, _square(norm(dy))

    def criterion(self, x: Array, g: Array, gamma: float) -> float:
        """Return the gap; where none is known, sqrt(2 D(x+, x)) / gamma, x+ a step from x."""
        gap = self.gap(x, g)
        if gap is not None:
            return gap
        return math.sqrt(2.0 * self.mirror.divergence(self.move(x, g, gamma), x)) / gamma

    def last_step(self, x: Array, g: Array, gamma: float) -> Array | None:
        return None

    def gap(self, x: Array, g: Array) -> float | None:
        return self.mirror.gap(x, g) if self._has_gap else None

    def entry_constants(self, x: Array) -> Array | None:
        return None

    def plain_prox(self) -> Any:
        """Return the prox of a run in the plain geometry with the same minimisers, psi = 0 among
        them; None where that is not known."""
        return self.mirror.plain_prox(self.prox) if self._is_geometry else None

    def fingerprint(self, x0: Array) -> Any:
        return np.asarray(self.mirror.step(x0.copy(), probe(x0), 1.0, self._psi))


def make_composite(prox: Any, mirror: Any, shape: tuple[int, ...], noise: Any = None) -> Composite:
    """Return f + psi from what the user gave, for x of this shape; one of the two is not None."""
    if mirror is not None and noise is not None:
        raise ValueError("mirror= goes without noise=: no theorem here covers both")
    return Composite(prox, shape) if mirror is None else MirrorComposite(mirror, prox, shape)


def check_mirror(mirror: Any) -> Any:
    """Return a mirror; raise TypeError for what has not the two functions."""
    what = "an object such as cz.mirror.Entropy(), with step(z, g, gamma_prime, prox) and"
    what = f"{what} divergence(u, z)"
    for name in ("step", "divergence"):
        check.instance(mirror, "mirror", name, what)
    return mirror


def __dir__() -> list[str]:
    return sorted(__all__)
