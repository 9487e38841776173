"""The psi of f + psi as coordinate descent sees it: a function of each coordinate, or each block.

Where psi has an l2, f is given it: f is then more strongly convex, and what is left of psi is
`l1_i |x_i|` on an interval, or the norm of a block.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from continuized.marked.blocks import Partition
from continuized.problems.base import Array
from continuized.process.prox import GroupLasso, Separable, entry_step
from continuized.support.blas import inner
from continuized.support.validation import short_repr

SEPARABLE = "cz.prox.L1, ElasticNet, Box, LInfBall, NonNegative, Separable or GroupLasso"


class Penalty:
    """A prox for x of a shape; l1, l2, low, high: as in cz.prox.Separable, a vector each, the rows
    of `constants`.

    value: of the whole psi.  step: the proximal step without the l2, of all coordinates at once,
    the length of each its own.  entries: what the kernels take, a row (l1, low, high) for each.

    Raises TypeError where prox is not a sum over coordinates or groups, ValueError where it does
    not fit the shape.
    """

    groups: Partition | None = None
    weights: Array | None = None  # of the groups

    def __init__(self, prox: Any, shape: tuple[int, ...]) -> None:
        if not isinstance(prox, Separable | GroupLasso):
            given = (
                getattr(type(prox), "__name__", "") if hasattr(prox, "value") else short_repr(prox)
            )
            raise TypeError(
                f"CoordinateDescent needs a prox that is a sum over coordinates or blocks, {given} "
                f'is not; give {SEPARABLE}, or use minimize(..., method="continuized", prox=)'
            )
        prox.check_shape(shape)
        self.prox, self.shape, size = prox, shape, int(np.prod(shape))
        constants = (0.0, 0.0, -np.inf, np.inf)
        if isinstance(prox, Separable):
            constants = prox.constants
        else:
            number = prox.number_entries(np.zeros(shape))
            members, counts = np.argsort(number, kind="stable"), np.bincount(number)
            self.groups = Partition(members, np.cumsum([0, *counts]))
            self.weights = np.broadcast_to(prox.weight, counts.shape).astype(np.float64)
        self.constants = np.empty((4, size))
        for row, constant in zip(self.constants, constants, strict=True):
            row[:] = np.broadcast_to(constant, shape).reshape(size)
        self.l1, self.l2, self.low, self.high = self.constants
        self.entries = None
        if self.groups is None:
            self.entries = np.column_stack([self.l1, self.low, self.high])

    def along(self, blocks: Partition) -> Penalty:
        """Return the same with its groups in the order of the blocks; ValueError where they are
        other ones."""
        if self.groups is None or self.weights is None:
            return self
        number = self.groups.per_coordinate(np.arange(self.weights.size))[blocks.members]
        firsts, sizes = blocks.bounds[:-1], np.diff(blocks.bounds)
        if len(firsts) != self.weights.size or np.any(number != np.repeat(number[firsts], sizes)):
            raise ValueError(
                f"the {self.weights.size} groups of cz.prox.GroupLasso must be the {len(firsts)} "
                "blocks; leave blocks= out"
            )
        ordered = copy(self)
        ordered.groups, ordered.weights = blocks, self.weights[number[firsts]]
        if blocks.is_single:  # a norm of one coordinate is its size
            ordered.l1, ordered.groups, ordered.weights = ordered.weights, None, None
            ordered.entries = np.column_stack([ordered.l1, self.low, self.high])
        return ordered

    def value(self, x: Array) -> float:
        """Return psi(x)."""
        return self.prox.value(x.reshape(self.shape))

    def step(self, v: Array, lengths: Array) -> Array:
        """Return argmin over x of psi(x) - sum l2_i/2 x_i^2 + sum (x_i - v_i)^2 / (2 length_i)."""
        if self.groups is None or self.weights is None:
            return np.asarray(entry_step(v, lengths, self.l1, 0.0, self.low, self.high))
        norms = np.sqrt(self.groups.sum_blocks(v * v))
        least = self.weights * lengths[self.groups.members[self.groups.bounds[:-1]]]
        kept = np.divide(norms - least, norms, out=np.zeros_like(norms), where=norms > least)
        return v * self.groups.per_coordinate(kept)

    def find_still(self, x: Array) -> Array:
        """Tell which coordinates psi alone would leave where they are."""
        still = self.step(x, np.ones(x.size)) == x
        if self.groups is None:
            return np.asarray(still)
        return self.groups.per_coordinate(self.groups.sum_blocks(~still) == 0)

    def find_resting(self, x: Array) -> Array:
        """Tell which coordinates are at a kink or a bound."""
        bent = self.l1 > 0.0
        if self.groups is not None and self.weights is not None:
            bent = self.groups.per_coordinate(self.weights > 0.0)
        return np.asarray((x == self.low) | (x == self.high) | ((x == 0.0) & bent))

    def check_start(self, x0: Array) -> None:
        """Raise ValueError where psi is infinite at x0, a vector."""
        nearest = np.clip(x0, self.low, self.high)
        off = np.flatnonzero(nearest != x0)
        if off.size:
            i = int(off[0])
            raise ValueError(
                f"x0 is outside the domain of prox, by {np.linalg.norm(nearest - x0):.3g}: entry "
                f"{i} is {x0[i]:.6g}, the nearest allowed is {nearest[i]:.6g}; give "
                "np.clip(x0, low, high)"
            )

    @property
    def has_dual(self) -> bool:
        """Whether psi grows in every direction, so that every gradient has a dual point."""
        if self.weights is not None:
            return bool(np.all(self.weights > 0.0))
        return bool(np.all((self.l1 > 0.0) | np.isfinite(self.low) & np.isfinite(self.high)))

    def find_gap(self, f: float, g: Array, x: Array) -> float:
        """Return a bound on F(x) - F*, F = f + psi, where f is half a sum of squares |R|^2 / 2 of
        R = Y - A x, with the l2 of psi in it, and g is its gradient.

        Of a block, psi* is 0 where the norm of the slopes is at most its weight, and else infinite:
        the dual point of `marked.kernels.gap` is scaled so.
        """
        from continuized.marked.kernels import gap

        if self.groups is None or self.weights is None:
            return float(gap.find_gap(f, g, x, self.l1, self.low, self.high))
        product, pushes = 2.0 * f - inner(x, g), np.sqrt(self.groups.sum_blocks(g * g))
        over = pushes > self.weights
        most = float(np.min(self.weights[over] / pushes[over], initial=1.0))
        best = float(gap.find_best_scale(f, product, most))  # type: ignore[no-untyped-call]
        return f + self.value(x) - (best * product - best * best * f)
