"""What a node that learns computes: A²CiD² on x and D = x~ - x, in place.

An optimiser moves x and x~ alike, so that D does not know of it: what the optimiser did is added
to x, and needs no hook in it.  With d = x_i - x_j, the flow over a time dt and an exchange are

    x += a D    D *= 1 - 2a                a = (1 - e^{-2 eta dt}) / 2
    x -= d / 2  D -= (alpha~ - 1/2) d      at i, and the opposite at j

Both leave the sum over nodes of x + D / 2 = (x + x~) / 2 alone.

Models may be large: no array is copied that is not sent, and what is done to several arrays is
done block by block, while a block is in the processor's cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from continuized.network.gossip import Constants
from continuized.problems.base import Array
from continuized.process.flow import equal_weights

BLOCK_NUMBERS = 1 << 14
ALPHA = 0.5  # the step of x


class LearningModel:
    """x of a node and, where exchanges are accelerated, D beside its first entries.

    Parameters
    ----------
    x : array (dim + 1,)
        It is changed in place.  The last entry is none of the model's and stays 0: a transfer has
        there the alpha~ with which it was paid, for nodes may come to have different ones.
    constants : Constants
        eta, 1/2 and alpha~.
    accelerated : int
        So many first entries have a D; the others are averaged plainly.

    >>> x, y = np.array([0.0, 4.0, 0.0]), np.array([1.0, 2.0, 0.0])
    >>> one, two = (LearningModel(v, Constants(0.1, 0.5, 2.0), 1) for v in (x, y))
    >>> two.apply(one.pay(two.answer()), plain=False)
    >>> x.tolist(), one.D.tolist(), y.tolist(), two.D.tolist()
    ([0.5, 3.0, 0.0], [1.5], [0.5, 3.0, 0.0], [-1.5])
    """

    def __init__(self, x: Array, constants: Constants, accelerated: int) -> None:
        self.x = x
        self.constants = constants
        self.D: Array = np.zeros(accelerated, x.dtype)
        self.plain = False
        self.squared_distance = math.nan  # |d|^2 of the last exchange that it began

    def mix(self, dt: float) -> None:
        """Let a time dt pass, in steps; a node that has become plain mixes for ever."""
        theta = self.constants.theta
        a = 0.5 if self.plain else equal_weights(theta, dt)[0]
        if a > 0.0:
            for x, D in self._blocks():
                x += a * D
                D *= 1.0 - 2.0 * a

    def add(self, new: Array, old: Array) -> None:
        """Add what an optimiser did to the parameters, from `old` to `new`; then old becomes x.

        Where no exchange came between, x becomes `new` to the last bit.
        """
        dim = self.x.size - 1
        for start in range(0, dim, BLOCK_NUMBERS):
            block = slice(start, min(start + BLOCK_NUMBERS, dim))
            self.x[block] = new[block] + (self.x[block] - old[block])
            old[block] = self.x[block]

    def answer(self) -> Array:
        """Return a copy of x."""
        return self.x.copy()

    def pay(self, answer: Array) -> Array:
        """Give d = x_i - x_j away; return it, with alpha~ behind it.

        Raises ArithmeticError, with nothing paid, where d is not finite.
        """
        d: Array = np.subtract(self.x, answer)
        self.squared_distance = float(np.dot(d, d))
        if not math.isfinite(self.squared_distance) and not np.isfinite(d).all():
            raise ArithmeticError("the difference of two nodes is not finite: the run diverges")
        d[-1] = ALPHA if self.plain else self.constants.gamma_prime
        self._jump(d, -1.0)
        return d

    def apply(self, transfer: Array, plain: bool) -> None:
        """Take what a neighbour gave, with the alpha~ that it paid with."""
        self._jump(transfer, 1.0)

    def conserved_per_transfer(self, plain: bool) -> float:
        """See `find_moved`: it depends on the transfer and on the entry."""
        raise NotImplementedError

    def find_moved(self, transfer: Array) -> Array:
        """Return how much of x + x~ a transfer moves."""
        moved = transfer[:-1].astype(np.float64)
        moved[: self.D.size] *= ALPHA + float(transfer[-1])
        moved[self.D.size :] *= 2.0 * ALPHA
        return moved

    def state(self) -> tuple[Array, Array]:
        """Return copies of x and x~."""
        x = self.x[:-1].copy()
        tilde = x.copy()
        tilde[: self.D.size] += self.D
        return x, tilde

    def fall_back(self) -> None:
        """Go on as plain gossip: the flow run for ever takes x and x~ to their mean."""
        self.plain = True
        self.mix(math.inf)

    def join(self, x: Array) -> None:
        """Start from what a neighbour answered."""
        self.x[:] = x
        self.D[:] = 0.0

    def _jump(self, transfer: Array, sign: float) -> None:
        beyond = sign * (float(transfer[-1]) - ALPHA)
        size = self.D.size
        for start in range(0, self.x.size - 1, BLOCK_NUMBERS):
            stop = min(start + BLOCK_NUMBERS, self.x.size - 1)
            d = transfer[start:stop]
            self.x[start:stop] += (sign * ALPHA) * d
            if start < size and beyond != 0.0:
                self.D[start:stop] += beyond * d[: size - start]

    def _blocks(self) -> Iterator[tuple[Array, Array]]:
        for start in range(0, self.D.size, BLOCK_NUMBERS):
            block = slice(start, min(start + BLOCK_NUMBERS, self.D.size))
            yield self.x[block], self.D[block]
