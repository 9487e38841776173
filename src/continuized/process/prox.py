"""Proximal steps, for f + h with f smooth and h simple: prox(v, s) = argmin h(x) + |x - v|^2/(2s).

The paper's theorems are about smooth functions: with h nothing is proved here.  The accelerated
step is the usual one, with the gradient mapping L (y - x+) in place of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.threads import inner

__all__ = ["L1", "Box", "NonNegative", "Prox", "Simplex", "value_after_step"]


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


@dataclass(frozen=True)
class L1(Prox):
    """h(x) = weight sum |x_i|; the weight is a finite number >= 0.

    >>> L1(1.0)(np.array([3.0, -0.5]), 1.0).tolist()
    [2.0, 0.0]
    """

    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", check.real(self.weight, "weight", minimum=0.0))

    def __call__(self, v: Array, step: float) -> Array:
        least = self.weight * step
        return np.asarray(np.maximum(v - least, 0.0) - np.maximum(-v - least, 0.0))

    def value(self, x: Array) -> float:
        return self.weight * float(np.abs(x).sum())


@dataclass(frozen=True, eq=False)
class Box(Prox):
    """low <= x <= high, numbers or arrays; otherwise h(x) is infinite.

    Raises TypeError where they are not real, ValueError where no number lies between them.

    >>> import numpy as np
    >>> Box(-1.0, 1.0)(np.array([-3.0, 0.5, 2.0]), 1.0).tolist()
    [-1.0, 0.5, 1.0]
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        low = check.array(self.low, "low", noun="a real number or an array of some")
        high = check.array(self.high, "high", noun="a real number or an array of some")
        try:
            np.broadcast_shapes(low.shape, high.shape)
        except ValueError:
            raise ValueError(
                f"the bounds of a box must have one shape, got {low.shape} and {high.shape}"
            ) from None
        if not np.all(low <= high):
            raise ValueError("the bounds of a box must satisfy low <= high")
        if np.any(low == math.inf) or np.any(high == -math.inf):
            raise ValueError("no number lies in a box with low = inf or high = -inf")
        object.__setattr__(self, "low", low.copy())
        object.__setattr__(self, "high", high.copy())

    def __call__(self, v: Array, step: float) -> Array:
        try:
            return np.asarray(np.clip(v, self.low, self.high), dtype=v.dtype)
        except ValueError:
            self.check_shape(v.shape)
            raise

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError unless there is a bound for each entry of x, or one for all."""
        own = np.broadcast_shapes(self.low.shape, self.high.shape)
        if len(own) > len(shape) or any(
            n not in (1, of_x) for n, of_x in zip(own[::-1], shape[::-1], strict=False)
        ):
            raise ValueError(
                f"the bounds of cz.prox.Box have shape {own}, but x has shape {tuple(shape)}; give "
                "numbers, or one for each entry of x"
            )

    def value(self, x: Array) -> float:
        return 0.0 if np.all((x >= self.low) & (x <= self.high)) else math.inf


class NonNegative(Box):
    """x >= 0.

    >>> import numpy as np
    >>> NonNegative()(np.array([-3.0, 0.5]), 1.0).tolist()
    [0.0, 0.5]
    """

    def __init__(self) -> None:
        super().__init__(0.0, math.inf)


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


def check_prox(prox: Any, shape: tuple[int, ...]) -> Prox | None:
    """A Prox from what the user gave, for x of this shape."""
    if prox is None:
        return None
    what = "None, an object such as cz.prox.L1(0.1), or a function prox(v, step)"
    check.instance(prox, "prox", "__call__", what)
    if isinstance(prox, Box):
        prox.check_shape(shape)
    return prox if hasattr(prox, "value") else _UserProx(prox)
