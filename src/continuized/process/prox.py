"""Proximal steps, for f + h with f smooth and h simple: prox(v, s) = argmin h(x) + |x - v|^2/(2s).

The paper's theorems are about smooth functions: with h nothing is proved here.  The accelerated
step is the usual one, with the gradient mapping L (y - x+) in place of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.threads import inner
from continuized.support.validation import short_repr

__all__ = [
    "L1",
    "Box",
    "ElasticNet",
    "NonNegative",
    "Prox",
    "Separable",
    "Simplex",
    "value_after_step",
]


class Prox(Protocol):
    """A simple function: its proximal step, and its value (infinite outside its domain).

    One of your own, h(x) = |x|^2 / 2:

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
        """argmin over x of h(x) + |x - v|^2 / (2 step)."""
        ...

    def value(self, x: Array) -> float:
        """Return h(x)."""
        ...


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


def entry_value(x: Any, l1: Any, l2: Any, low: Any, high: Any) -> Any:
    """Return l1 |x| + l2/2 x^2, or infinity where x is not in [low, high]."""
    return np.where((x >= low) & (x <= high), l1 * np.abs(x) + 0.5 * l2 * x * x, np.inf)


FORMULAS = (clip, entry_step, entry_value)


@dataclass(frozen=True, eq=False, repr=False)
class Separable(Prox):
    """h(x) = sum_i l1_i |x_i| + l2_i/2 x_i^2 for low <= x <= high; otherwise h(x) is infinite.

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

    def __call__(self, v: Array, step: float) -> Array:
        try:
            return _in_dtype_of(v, entry_step(v, step, *self.constants))
        except ValueError:
            self.check_shape(v.shape)
            raise

    def value(self, x: Array) -> float:
        # x was rounded to its dtype, and the bounds must be too.
        low, high = (np.asarray(bound, x.dtype) for bound in (self.low, self.high))
        with np.errstate(over="ignore"):
            return float(entry_value(x, self.l1, self.l2, low, high).sum())

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError unless there is a constant for each entry of x, or one for all."""
        own = np.broadcast_shapes(*(np.shape(constant) for constant in self.constants))
        if len(own) > len(shape) or any(
            n not in (1, of_x) for n, of_x in zip(own[::-1], shape[::-1], strict=False)
        ):
            raise ValueError(
                f"the {self.noun} of cz.prox.{type(self).__name__} have shape {own}, but x has "
                f"shape {tuple(shape)}; give numbers, or one for each entry of x"
            )

    noun: ClassVar[str] = "constants"

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={short_repr(getattr(self, name))}" for name in self.arguments)
        return f"{type(self).__name__}({given})"


class L1(Separable):
    """h(x) = sum weight_i |x_i|; the weight is a finite number >= 0, or one for each entry of x.

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
    """h(x) = sum l1_i |x_i| + l2_i/2 x_i^2; finite numbers >= 0, or one for each entry of x.

    scikit-learn's alpha and l1_ratio are l1 = alpha l1_ratio and l2 = alpha (1 - l1_ratio).

    >>> ElasticNet(1.0, 3.0)(np.array([9.0, -0.5]), 1.0).tolist()
    [2.0, 0.0]
    """

    arguments, noun = ("l1", "l2"), "weights"

    def __init__(self, l1: Any, l2: Any) -> None:
        super().__init__(l1, l2)


class Box(Separable):
    """low <= x <= high, numbers or arrays; otherwise h(x) is infinite.

    Raises TypeError where they are not real, ValueError where no number lies between them.

    >>> import numpy as np
    >>> Box(-1.0, 1.0)(np.array([-3.0, 0.5, 2.0]), 1.0).tolist()
    [-1.0, 0.5, 1.0]
    """

    arguments, noun = ("low", "high"), "bounds"

    def __init__(self, low: Any, high: Any) -> None:
        super().__init__(low=low, high=high)


class NonNegative(Separable):
    """x >= 0, and h(x) = sum weight_i x_i there: finite numbers >= 0, or one for each entry of x.

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
        # The projection is max(v - c, 0): c from the largest entries, as many as stay above it.
        v = v - v.max()  # the same projection; beside large entries, total would be rounded off
        u = np.sort(v.ravel())[::-1]
        sums = (np.cumsum(u) - self.total) / np.arange(1, u.size + 1)
        c = sums[np.flatnonzero(u > sums)[-1]]
        return np.asarray(np.maximum(v - c, 0.0), dtype=v.dtype)

    def value(self, x: Array) -> float:
        inside = np.all(x >= 0.0) and abs(float(x.sum()) - self.total) <= 1e-9 * self.total
        return 0.0 if inside else math.inf


@dataclass(frozen=True)
class _UserProx(Prox):
    """The user's prox(v, step); h itself is not known, so that f alone is reported."""

    function: Callable[[Array, float], Any]

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


def value_after_step(prox: Prox, f: float, g: Array, move: Array, x: Array, step: float) -> float:
    """f + h at x, after a move, from f and g before it: f + <g, move> + |move|^2 / (2 step) + h(x).

    prox is that of h.  An upper bound where 1 / step is at least L, otherwise an estimate.

    >>> x, g, step = np.array([1.0]), np.array([1.0]), 1.0  # f = x^2 / 2, L = 1
    >>> x_plus = proximal_step(L1(0.5), x - step * g, step)
    >>> value_after_step(L1(0.5), 0.5, g, x_plus - x, x_plus, step), x_plus.tolist()
    (0.0, [0.0])
    """
    flat = move.ravel()
    return f + inner(g.ravel(), flat) + 0.5 * inner(flat, flat) / step + prox.value(x)


def check_weight(weight: Any, name: str) -> Any:
    """A weight as a float, or an array of one's own; TypeError or ValueError unless >= 0."""
    if check.is_real(weight) or not np.iterable(weight) or isinstance(weight, str):
        return check.real(weight, name, minimum=0.0, noun="a finite number")
    return check.array(weight, name, dtype=np.float64, minimum=0.0)


def check_bound(bound: Any, name: str) -> Any:
    """A bound as a float, or an array of one's own; TypeError unless it is real."""
    given = check.array(bound, name, dtype=np.float64, noun="a real number or an array of some")
    return given if given.ndim else float(given)


def _in_dtype_of(v: Array, x: Any) -> Array:
    """x in the dtype of v; that of integers would cut fractions off."""
    return np.asarray(x, dtype=v.dtype if v.dtype.kind == "f" else np.float64)


def check_prox(prox: Any, shape: tuple[int, ...]) -> Prox | None:
    """A Prox from what the user gave, for x of this shape."""
    if prox is None:
        return None
    what = "None, an object such as cz.prox.L1(0.1), or a function prox(v, step)"
    check.instance(prox, "prox", "__call__", what)
    if isinstance(prox, Separable):
        prox.check_shape(shape)
    return prox if hasattr(prox, "value") else _UserProx(prox)
