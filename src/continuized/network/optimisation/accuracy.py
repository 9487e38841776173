"""How far nodes are from where they will agree: the rows of an `OptimisationTrace`."""

from __future__ import annotations

import math

import numpy as np

from continuized.network.optimisation.functions import Functions
from continuized.network.optimisation.objective import Objective
from continuized.network.result import rounding_of_solution
from continuized.problems.base import Array


class Accuracy:
    """Measures the error of nodes that minimise an objective; simulated nodes and real ones alike.

    Where nodes died, the others agree on another point than x* (see `Decentralized.agreed`): the
    living, and the `tilt` that the dead have left behind.
    """

    def __init__(self, objective: Objective | Functions) -> None:
        self.objective = objective
        self._found: tuple[bytes, Array] = b"", objective.x_star

    def find_agreement(self, alive: Array, tilt: Array) -> Array:
        """Return where the living will agree: found anew when nodes died or came."""
        if not (alive.any() and np.isfinite(tilt).all()):
            return np.full_like(self.objective.x_star, math.nan)
        if alive.all() and not tilt.any():
            return self.objective.x_star
        key = alive.tobytes() + tilt.tobytes()
        if key != self._found[0]:
            self._found = key, self.objective.find_agreement(alive, tilt)
        return self._found[1]

    def measure(self, x: Array, agreed: Array) -> tuple[float, float, float]:
        """Return the error, the excess F(mean) - F* and the consensus of the living nodes' x."""
        if not len(x):
            return math.nan, math.nan, math.nan
        with np.errstate(over="ignore", invalid="ignore"):  # a step may be too long
            mean = x.mean(axis=0)
            return (
                self.objective.error(x, agreed),
                self.objective.fun(mean) - self.objective.f_star,
                self.objective.error(x, mean),
            )

    @property
    def rounding(self) -> float:
        """An error of this size may be rounding alone."""
        L, mu = float(np.max(self.objective.local_L)), self.objective.mu
        return rounding_of_solution(L / mu if mu > 0.0 and math.isfinite(L) else 1.0)
