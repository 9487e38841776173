"""Proximal steps, for f + psi with f smooth and psi simple:
prox(v, s) = argmin psi(x) + |x - v|^2 / (2s).

What an event does with them where L is known stands in `composite`, with its theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.blas import inner, norm
from continuized.support.display import show_line

__all__ = [
    "L1",
    "Box",
    "ElasticNet",
    "GroupLasso",
    "Halfspace",
    "Hyperplane",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "NonNegative",
    "NuclearNorm",
    "Prox",
    "Separable",
    "Simplex",
    "mapping_norm",
    "value_after_step",
]


class Prox(Protocol):
    """A simple function: its proximal step, and its value (infinite outside its domain).

    One of your own, psi(x) = |x|^2 / 2:

    >>> class Half:
    ...     def __call__(self, v, step):
    ...         return v / (1.0 + step)
    ...     def value(self, x):
    ...         return 0.5 * float(x @ x)
    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 1.0], [2.0, 4.0])
    >>> cz.minimize(p, [0.0, 0.0], prox=Half(), rng=0).x.round(4).tolist()
    [1.0, 2.0]
    """

    def __call__(self, v: Array, step: float) -> Array:
        """argmin over x of psi(x) + |x - v|^2 / (2 step)."""
        ...

    def value(self, x: Array) -> float:
        """Return psi(x)."""
        ...


class ShapedProx(Prox):
    """One that fits some shapes of x only."""

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError where x of this shape does not fit."""
        raise NotImplementedError


# One entry: plain functions of floats, which take arrays of them too, and which Numba compiles.


def clip(v: Any, low: Any, high: Any) -> Any:
    """Return the number nearest to v in [low, high]."""
    return np.minimum(np.maximum(v, low), high)


def entry_step(v: Any, step: Any, l1: Any, l2: Any, low: Any, high: Any) -> Any:
    """Return argmin over low <= x <= high of l1 |x| + l2/2 x^2 + (x - v)^2 / (2 step).

    In one dimension the minimiser on an interval is the nearest point to that on the whole line.
    """
    least = l1 * step
    return clip((v - clip(v, -least, least)) / (1.0 + l2 * step), low, high)


def entry_penalty(x: Any, l1: Any, l2: Any) -> Any:
    """Return l1 |x| + l2/2 x^2."""
    return l1 * np.abs(x) + 0.5 * l2 * x * x


def entry_value(x: Any, l1: Any, l2: Any, low: Any, high: Any) -> Any:
    """Return `entry_penalty`, or infinity where x is not in [low, high]."""
    return np.where((x >= low) & (x <= high), entry_penalty(x, l1, l2), np.inf)


def nearest_in_simplex(v: Any, total: Any) -> Any:
    """Return the point x >= 0 with sum x = total that is nearest to v: max(v - c, 0).

    c comes from the largest entries, as many as stay above it.  Less the largest entry of v it is
    the same; beside large entries, total would be rounded off.  What is below -total then, so is c:
    it becomes 0, however far below it is.
    """
    below = np.maximum(v - v.max(), -total)
    u = np.sort(below.ravel())[::-1]
    sums = (np.cumsum(u) - total) / np.arange(1, u.size + 1)
    return np.maximum(below - sums[np.sum(u > sums) - 1], 0.0)


# What rounding leaves of a short step from y, of this size, along a gradient of this slope.

ROUNDED = 16.0  # epsilons of |y|: a shorter step is mostly rounding


def longest_hidden(slope: float, size: float, eps: float) -> float:
    """Return the largest gamma with which |gamma g| is mostly rounding; 0 where g is 0."""
    return ROUNDED * eps * size / slope if slope > 0.0 else 0.0


def is_mostly_rounding(moved: float, gamma: float, slope: float, size: float, eps: float) -> bool:
    """Tell whether a proximal step of this length says nothing, and a longer gamma could."""
    longest = longest_hidden(slope, size, eps)
    return gamma < longest < math.inf and moved < ROUNDED * eps * size


FORMULAS = (clip, entry_step, entry_penalty, entry_value, longest_hidden, is_mostly_rounding)


@dataclass(frozen=True, eq=False, repr=False)
class Separable(ShapedProx):
    """psi(x) = sum_i l1_i |x_i| + l2_i/2 x_i^2 for low <= x <= high; otherwise psi(x) is infinite.

    Each of the four is a number, or an array with one for each entry of x: a weight of 0 leaves an
    entry alone, such as an intercept.  `entry_step` and `entry_value` are the step and the value
    of one entry, `constants` what they take.

    Raises TypeError where they are not real, ValueError where l1 or l2 is not finite and >= 0, or
    where no number lies between low and high.

    >>> Separable(l1=[1.0, 0.0], high=5.0)(np.array([3.0, 8.0]), 1.0).tolist()
    [2.0, 5.0]
    """

    l1: Any = 0.0
    l2: Any = 0.0
    low: Any = -math.inf
    high: Any = math.inf

    arguments: ClassVar[tuple[str, ...]] = ("l1", "l2", "low", "high")

    def __post_init__(self) -> None:
        low, high = check_bound(self.low, "low"), check_bound(self.high, "high")
        constants = {
            "l1": check_weight(self.l1, "l1"), "l2": check_weight(self.l2, "l2"),
            "low": low, "high": high,
        }  # fmt: skip
        shapes = [np.shape(constant) for constant in constants.values()]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            names = " and ".join(str(shape) for shape in dict.fromkeys(shapes) if shape)
            raise ValueError(
                f"the constants of cz.prox.{type(self).__name__} must have one shape, got {names}"
            ) from None
        if not np.all(low <= high):
            raise ValueError("the bounds of a box must satisfy low <= high")
        if np.any(low == math.inf) or np.any(high == -math.inf):
            raise ValueError("no number lies in a box with low = inf or high = -inf")
        for name, constant in constants.items():
            object.__setattr__(self, name, constant)

    @property
    def constants(self) -> tuple[Any, Any, Any, Any]:
        """(l1, l2, low, high), floats or arrays."""
        return self.l1, self.l2, self.low, self.high

    @property
    def has_l1(self) -> bool:
        """Whether it makes entries zero."""
        return self.l1 > 0.0 if type(self.l1) is float else bool(np.any(self.l1 > 0.0))

    def __call__(self, v: Array, step: float) -> Array:
        try:
            return _in_dtype_of(v, entry_step(v, step, *self.constants))
        except ValueError:
            self.check_shape(v.shape)
            raise

    @np.errstate(over="ignore")
    def value(self, x: Array) -> float:
        if type(self.low) is type(self.high) is float and self.low == -math.inf == -self.high:
            return float(entry_penalty(x, self.l1, self.l2).sum())  # quicker, without bounds
        # x was rounded to its dtype, and the bounds must be too.
        low, high = (np.asarray(bound, x.dtype) for bound in (self.low, self.high))
        return float(entry_value(x, self.l1, self.l2, low, high).sum())

    def values(self, points: Array) -> Array:
        """psi at each of points[0], points[1], ..."""
        with np.errstate(over="ignore"):
            low, high = (np.asarray(bound, points.dtype) for bound in (self.low, self.high))
            parts = entry_value(points, self.l1, self.l2, low, high)
        return np.asarray(parts.reshape(len(points), -1).sum(axis=1), dtype=np.float64)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError unless there is a constant for each entry of x, or one for all."""
        if all(type(constant) is float for constant in self.constants):
            return
        own = np.broadcast_shapes(*(np.shape(constant) for constant in self.constants))
        if len(own) > len(shape) or any(
            n not in (1, of_x) for n, of_x in zip(own[::-1], shape[::-1], strict=False)
        ):
            raise ValueError(
                f"the {self.noun} of cz.prox.{type(self).__name__} have shape {own}, but x has "
                f"shape {tuple(shape)}; give numbers, or one for each entry of x"
            )

    noun: ClassVar[str] = "constants"

    def _facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.arguments}

    __repr__ = show_line


class L1(Separable):
    """psi(x) = sum weight_i |x_i|; the weight is a finite number >= 0, or one for each entry of x.

    >>> L1(1.0)(np.array([3.0, -0.5]), 1.0).tolist()
    [2.0, 0.0]
    """

    arguments, noun = ("weight",), "weights"

    def __init__(self, weight: Any) -> None:
        super().__init__(check_weight(weight, "weight"))

    @property
    def weight(self) -> Any:
        """The weight, a float or an array."""
        return self.l1


class ElasticNet(Separable):
    """psi(x) = sum l1_i |x_i| + l2_i/2 x_i^2; finite numbers >= 0, or one for each entry of x.

    scikit-learn's alpha and l1_ratio are l1 = alpha l1_ratio and l2 = alpha (1 - l1_ratio).

    >>> ElasticNet(1.0, 3.0)(np.array([9.0, -0.5]), 1.0).tolist()
    [2.0, 0.0]
    """

    arguments, noun = ("l1", "l2"), "weights"

    def __init__(self, l1: Any, l2: Any) -> None:
        super().__init__(l1, l2)


class Box(Separable):
    """low <= x <= high, numbers or arrays; otherwise psi(x) is infinite.

    Raises TypeError where they are not real, ValueError where no number lies between them.

    >>> import numpy as np
    >>> Box(-1.0, 1.0)(np.array([-3.0, 0.5, 2.0]), 1.0).tolist()
    [-1.0, 0.5, 1.0]
    """

    arguments: ClassVar[tuple[str, ...]] = ("low", "high")
    noun = "bounds"

    def __init__(self, low: Any, high: Any) -> None:
        super().__init__(low=low, high=high)


class NonNegative(Separable):
    """x >= 0, and psi(x) = sum weight_i x_i there; the weight is a finite number >= 0, or one for
    each entry of x.

    >>> import numpy as np
    >>> NonNegative()(np.array([-3.0, 0.5]), 1.0).tolist()
    [0.0, 0.5]
    >>> NonNegative(weight=0.2)(np.array([-3.0, 0.5]), 1.0).tolist()
    [0.0, 0.3]
    """

    arguments, noun = ("weight",), "weights"

    def __init__(self, weight: Any = 0.0) -> None:
        super().__init__(check_weight(weight, "weight"), low=0.0)

    @property
    def weight(self) -> Any:
        """The weight, a float or an array."""
        return self.l1


class LInfBall(Box):
    """|x_i| <= radius for every i: a number > 0, or one for each entry of x.

    >>> LInfBall(1.0)(np.array([-3.0, 0.5]), 1.0).tolist()
    [-1.0, 0.5]
    """

    arguments, noun = ("radius",), "radii"

    def __init__(self, radius: Any) -> None:
        radius = check_weight(radius, "radius", positive=True)
        super().__init__(-radius, radius)

    @property
    def radius(self) -> Any:
        """The radius, a float or an array."""
        return self.high


# Sets and norms of the whole of x.  What is on the surface of a set is rounded to one side or the
# other: `value` counts x as inside where it is outside by less than SURFACE_SLACK, relatively, and
# the rounding unit of its dtype.

SURFACE_SLACK = 1e-9
TINY = 1e-30  # a step that goes nowhere but into the domain, also in float32
LENGTHEN = 16.0  # times, such a step


def is_at_most(number: float, bound: float, x: Array, size: float | None = None) -> bool:
    """Tell whether number <= bound up to rounding, relative to the bound or to a size."""
    slack = SURFACE_SLACK + float(np.finfo(x.dtype).eps)
    return bool(number <= bound + slack * (abs(bound) if size is None else size))


def length(v: Array) -> float:
    """Return the Euclidean norm of an array, also where squares would overflow or underflow."""
    unit = _largest(v)
    return unit * norm(v / unit) if unit < math.inf else unit


@dataclass(frozen=True)
class Simplex(Prox):
    """x >= 0 with sum x = total; ValueError unless total is a finite number > 0.

    >>> import numpy as np
    >>> Simplex()(np.array([0.5, 2.0]), 1.0).tolist()
    [0.0, 1.0]
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", check.real(self.total, "total", above=0.0))

    def __call__(self, v: Array, step: float) -> Array:
        return _in_dtype_of(v, nearest_in_simplex(v.astype(np.float64), self.total))

    def value(self, x: Array) -> float:
        off = abs(float(x.sum(dtype=np.float64)) - self.total)
        return 0.0 if np.all(x >= 0.0) and is_at_most(off, 0.0, x, self.total) else math.inf


@dataclass(frozen=True)
class L1Ball(Prox):
    """sum |x_i| <= radius, a finite number > 0; otherwise psi(x) is infinite.

    >>> L1Ball(2.0)(np.array([3.0, -2.0]), 1.0).tolist()
    [1.5, -0.5]
    """

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check.real(self.radius, "radius", above=0.0))

    def __call__(self, v: Array, step: float) -> Array:
        if self._norm(v) <= self.radius:
            return v.copy()
        return np.asarray(np.copysign(Simplex(self.radius)(np.abs(v), step), v))

    def _norm(self, x: Array) -> float:
        with np.errstate(over="ignore"):
            return float(np.abs(x).sum(dtype=np.float64))

    def value(self, x: Array) -> float:
        return 0.0 if is_at_most(self._norm(x), self.radius, x) else math.inf


@dataclass(frozen=True)
class L2Ball(Prox):
    """|x| <= radius in the Euclidean norm, a finite number > 0; otherwise psi(x) is infinite.

    >>> L2Ball(1.0)(np.array([3.0, -4.0]), 1.0).tolist()
    [0.6, -0.8]
    """

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check.real(self.radius, "radius", above=0.0))

    def __call__(self, v: Array, step: float) -> Array:
        size = length(v)
        return v.copy() if size <= self.radius else _in_dtype_of(v, v / size * self.radius)

    def value(self, x: Array) -> float:
        return 0.0 if is_at_most(length(x), self.radius, x) else math.inf


@dataclass(frozen=True, eq=False)
class Hyperplane(ShapedProx):
    """<normal, x> = offset, normal an array of the shape of x; otherwise psi(x) is infinite.

    Raises TypeError where they are not real, ValueError where they are not finite, or normal is 0.

    >>> Hyperplane([1.0, 1.0], 2.0)(np.array([3.0, 1.0]), 1.0).tolist()
    [2.0, 0.0]
    """

    normal: Any
    offset: float = 0.0

    __repr__ = show_line

    def __post_init__(self) -> None:
        normal = check.array(self.normal, "normal", dtype=np.float64, finite=True)
        offset, unit = check.real(self.offset, "offset"), _largest(normal)
        if not (np.any(normal) and math.isfinite(offset / unit)):
            raise check.refusal(ValueError, "normal", "long enough to divide offset by", normal)
        object.__setattr__(self, "normal", normal)
        object.__setattr__(self, "offset", offset)

    @cached_property
    def _scaled(self) -> tuple[Array, float]:
        """The normal and the offset over the largest entry: squares do not overflow then."""
        unit = _largest(self.normal)
        return self.normal / unit, self.offset / unit

    def _find_excess(self, x: Array) -> float:
        """Return by how much <normal, x> is above the offset, scaled."""
        normal, offset = self._scaled
        return inner(normal.ravel(), x.ravel()) - offset

    def __call__(self, v: Array, step: float) -> Array:
        self.check_shape(v.shape)
        normal, x = self._scaled[0], v.astype(np.float64)
        square = inner(normal.ravel(), normal.ravel())
        for _ in range(2):  # the second time for what rounding left of the first, of a v far away
            x = x - self._find_excess(x) / square * normal
        return _in_dtype_of(v, x)

    def value(self, x: Array) -> float:
        self.check_shape(x.shape)
        return self._value(abs(self._find_excess(x)), x)

    def _value(self, excess: float, x: Array) -> float:
        normal, offset = self._scaled
        size = length(normal) * length(x) + abs(offset)
        return 0.0 if is_at_most(excess, 0.0, x, size) else math.inf

    def check_shape(self, shape: tuple[int, ...]) -> None:
        check.shape(self.normal, f"normal of cz.prox.{type(self).__name__}", shape, like="x")


class Halfspace(Hyperplane):
    """<normal, x> <= offset, normal an array of the shape of x; otherwise psi(x) is infinite.

    Raises TypeError where they are not real, ValueError where they are not finite, or normal is 0.

    >>> Halfspace([1.0, 1.0], 2.0)(np.array([3.0, 1.0]), 1.0).tolist()
    [2.0, 0.0]
    """

    def __call__(self, v: Array, step: float) -> Array:
        self.check_shape(v.shape)
        return v.copy() if self._find_excess(v) <= 0.0 else super().__call__(v, step)

    def value(self, x: Array) -> float:
        self.check_shape(x.shape)
        return self._value(self._find_excess(x), x)


@dataclass(frozen=True, eq=False)
class GroupLasso(ShapedProx):
    """psi(x) = sum_g weight_g |x_g|, of the Euclidean norms of groups of entries.

    groups: an array of the shape of x, of labels: entries with the same label are a group.  By
    default the rows of a matrix x (for softmax regression: the coefficients of a feature).
    weight: a finite number >= 0, or one for each group in the order of their labels; often the
    root of its size, and 0 for what is not penalised.

    Raises TypeError or ValueError where they are none of these.

    >>> GroupLasso(1.0, ["a", "a", "b"])(np.array([3.0, 4.0, 0.5]), 1.0).round(12).tolist()
    [2.4, 3.2, 0.0]
    """

    weight: Any
    groups: Any = None

    __repr__ = show_line

    def __post_init__(self) -> None:
        weight, groups = check_weight(self.weight, "weight"), None
        if self.groups is not None:
            what = "None, or an array of integers or strings in the shape of x"
            try:
                groups = np.array(self.groups)
            except ValueError as error:  # rows of several lengths
                raise check.refusal(TypeError, "groups", what, self.groups) from error
            if groups.dtype.kind not in "iuUSb" or groups.ndim == 0:
                raise check.refusal(TypeError, "groups", what, self.groups)
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "groups", groups)
        if groups is not None:
            self.check_shape(groups.shape)

    @cached_property
    def _labels(self) -> Array:
        """The number of the group of each entry, if they were given."""
        return np.unique(self.groups, return_inverse=True)[1].ravel()

    def number_entries(self, x: Array) -> Array:
        """Return the number of the group of each entry."""
        self.check_shape(x.shape)
        if self.groups is not None:
            return self._labels
        return np.repeat(np.arange(x.shape[0]), x.size // max(x.shape[0], 1))

    def _norms(self, x: Array, number: Array, unit: float) -> Array:
        """Return the norms of the groups in a unit, by which squares do not overflow."""
        return np.sqrt(np.bincount(number, (x.ravel() / unit).astype(np.float64) ** 2))

    def __call__(self, v: Array, step: float) -> Array:
        number, unit = self.number_entries(v), _largest(v)
        norms = self._norms(v, number, unit)
        least = self.weight * step / unit
        kept = np.divide(norms - least, norms, out=np.zeros_like(norms), where=norms > least)
        return _in_dtype_of(v, v * kept[number].reshape(v.shape))

    def value(self, x: Array) -> float:
        number, unit = self.number_entries(x), _largest(x)
        return unit * float((self.weight * self._norms(x, number, unit)).sum())

    def check_shape(self, shape: tuple[int, ...]) -> None:
        if self.groups is None:
            if len(shape) != 2:
                raise ValueError(
                    "the groups of cz.prox.GroupLasso are the rows of a matrix, but x has shape "
                    f"{tuple(shape)}; give groups=, a label for each entry of x"
                )
            count = shape[0]
        else:
            check.shape(self.groups, "groups of cz.prox.GroupLasso", shape, like="x")
            count = int(self._labels.max(initial=-1)) + 1
        if np.ndim(self.weight):
            check.shape(self.weight, "weight of cz.prox.GroupLasso", (count,), each="group")


@dataclass(frozen=True)
class NuclearNorm(ShapedProx):
    """psi(x) = weight times the sum of the singular values of a matrix x; a finite number >= 0.

    >>> NuclearNorm(1.0)(np.array([[0.0, 3.0], [0.5, 0.0]]), 1.0).round(12).tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    """

    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", check.real(self.weight, "weight", minimum=0.0))

    def __call__(self, v: Array, step: float) -> Array:
        self.check_shape(v.shape)
        if not np.all(np.isfinite(v)):  # of which LAPACK makes an error, and a run an end
            return np.full_like(v, math.nan)
        left, values, right = np.linalg.svd(v.astype(np.float64), full_matrices=False)
        values = entry_step(values, step, self.weight, 0.0, 0.0, math.inf)
        kept = values > 0.0
        return _in_dtype_of(v, (left[:, kept] * values[kept]) @ right[kept])

    def value(self, x: Array) -> float:
        self.check_shape(x.shape)
        values = np.linalg.svd(x.astype(np.float64), compute_uv=False)
        return self.weight * float(values.sum())

    def check_shape(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 2:
            raise ValueError(
                f"cz.prox.NuclearNorm is for matrices, but x has shape {tuple(shape)}; give x0 as "
                "a matrix"
            )


@dataclass(frozen=True)
class _UserProx(Prox):
    """The user's prox(v, step); psi itself is not known, so that f alone is reported."""

    function: Callable[[Array, float], Any]
    value_is_known: ClassVar[bool] = False

    def __call__(self, v: Array, step: float) -> Array:
        return self.function(v.copy(), step)  # type: ignore[no-any-return]

    def value(self, x: Array) -> float:
        return 0.0


def proximal_step(prox: Prox, v: Array, step: float) -> Array:
    """prox(v, step), in the dtype of v; ValueError where it is not of its shape, or not real."""
    with np.errstate(over="ignore"):  # what is too large is infinite, which ends a run
        x = np.asarray(prox(v, step))
        if x.shape != v.shape or x.dtype.kind not in "fiu":
            raise ValueError(
                f"prox must return real numbers in the shape of x, {v.shape}, got shape {x.shape} "
                f"and dtype {x.dtype}"
            )
        return x.astype(v.dtype, copy=False)


def nearest_in_domain(prox: Prox, x: Array) -> Array:
    """Return the point of the domain of psi that is nearest to x: where a tiny step leads.

    >>> nearest_in_domain(Box(0.0, 1.0), np.array([-3.0, 0.5])).tolist()
    [0.0, 0.5]
    """
    if isinstance(prox, Separable):
        with np.errstate(over="ignore"):
            return _in_dtype_of(x, clip(x, prox.low, prox.high))
    return proximal_step(prox, x, TINY)


def mapping_norm(prox: Prox, y: Array, g: Array, gamma: float, x: Array | None = None) -> float:
    """Return the norm of the gradient mapping, |y - x| / gamma, x = prox(y - gamma g, gamma).

    Far away, or with a small gamma, a step of length gamma is lost in rounding, whatever the
    gradient is: then it becomes longer, but no longer than it must, for a long one reaches the
    least value of psi, wherever it began.

    >>> mapping_norm(L1(0.5), np.array([2.0]), np.array([2.0]), 1.0)
    2.0
    """
    x = proximal_step(prox, y - gamma * g, gamma) if x is None else x
    slope, size, eps = _finite_norm(g), _finite_norm(y), float(np.finfo(y.dtype).eps)
    moved = _finite_norm(y - x)
    while is_mostly_rounding(moved, gamma, slope, size, eps):
        gamma = min(LENGTHEN * gamma, longest_hidden(slope, size, eps))
        moved = _finite_norm(y - proximal_step(prox, y - gamma * g, gamma))
    return moved / gamma


def _finite_norm(v: Array) -> float:
    """The Euclidean norm, in the quick way where squares do not overflow."""
    quick = norm(v)
    return quick if quick < math.inf else length(v)


def value_after_step(prox: Prox, f: float, g: Array, move: Array, x: Array, step: float) -> float:
    """f + psi at x, after a move, from f and g before it:
    f + <g, move> + |move|^2 / (2 step) + psi(x).

    prox is that of psi.  An upper bound where 1 / step is at least L, otherwise an estimate.

    >>> x, g, step = np.array([1.0]), np.array([1.0]), 1.0  # f = x^2 / 2, L = 1
    >>> x_plus = proximal_step(L1(0.5), x - step * g, step)
    >>> value_after_step(L1(0.5), 0.5, g, x_plus - x, x_plus, step), x_plus.tolist()
    (0.0, [0.0])
    """
    flat = move.ravel()
    return f + inner(g.ravel(), flat) + 0.5 * inner(flat, flat) / step + prox.value(x)


def check_weight(weight: Any, name: str, *, positive: bool = False) -> Any:
    """A weight as a float, or an array of one's own; TypeError or ValueError unless >= 0 (> 0)."""
    limits: Any = {"above": 0.0} if positive else {"minimum": 0.0}
    if check.is_real(weight) or not np.iterable(weight) or isinstance(weight, str):
        return check.real(weight, name, **limits)
    return check.array(weight, name, dtype=np.float64, **limits)


def check_bound(bound: Any, name: str) -> Any:
    """A bound as a float, or an array of one's own; TypeError unless it is real."""
    given = check.array(bound, name, dtype=np.float64, noun="a real number or an array of some")
    return given if given.ndim else float(given)


def _largest(v: Array) -> float:
    """The largest |v_i|, to divide by; 1 where all are 0."""
    return float(np.abs(v).max(initial=0.0)) or 1.0


def _in_dtype_of(v: Array, x: Any) -> Array:
    """x in the dtype of v; that of integers would cut fractions off."""
    return np.asarray(x, dtype=v.dtype if v.dtype.kind == "f" else np.float64)


def check_prox(prox: Any, shape: tuple[int, ...]) -> Prox | None:
    """A Prox from what the user gave, for x of this shape."""
    if prox is None:
        return None
    what = "None, an object such as cz.prox.L1(0.1), or a function prox(v, step)"
    check.instance(prox, "prox", "__call__", what)
    if isinstance(prox, ShapedProx):
        prox.check_shape(shape)
    return prox if hasattr(prox, "value") else _UserProx(prox)


def __dir__() -> list[str]:
    return sorted(__all__)
