"""D(y) = sum_i f_i*(y_i), what the dual methods minimise over y with sum_i y_i = 0."""

from __future__ import annotations

import numpy as np

from continuized.network.optimisation import local_solver
from continuized.network.optimisation.objective import Objective
from continuized.problems.base import Array


class DualFunction:
    """D and its gradient, whose row i is w_i = grad f_i*(y_i).

    Newton's method, where it is needed, starts from the last gradient.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._data = local_solver.make_data(objective, conjugates=True)
        self._room = local_solver.make_room(objective.dim)
        self._w = np.zeros((objective.nodes, objective.dim))
        self._node = np.repeat(np.arange(objective.nodes), np.diff(objective.starts))

    def slopes(self, y: Array) -> Array:
        """Return the gradient, (nodes, dim)."""
        for i in range(self.objective.nodes):
            if not local_solver.gradient_of_conjugate(
                self._data, i, np.ascontiguousarray(y[i]), self._w[i], self._room
            ):
                raise ArithmeticError(f"node {i} could not solve its own problem")
        return self._w.copy()

    def value(self, y: Array, w: Array | None = None) -> float:
        """D(y) = sum_i <y_i, w_i> - f_i(w_i); with w = slopes(y) if that is at hand."""
        o = self.objective
        w = self.slopes(y) if w is None else w
        predictions = np.einsum("rc,rc->r", o.X, w[self._node])[:, np.newaxis]
        losses = local_solver.value(o.loss, predictions, o.y, o.row_scale, 0.0, np.ones(1))
        penalties = 0.5 * o.l2 @ (w * w).sum(axis=1)
        return float(np.vdot(y, w) - losses - penalties)

    @property
    def minimum(self) -> float:
        """D* = -sum_i f_i(x*)."""
        return -self.objective.nodes * self.objective.f_star

    @property
    def minimiser(self) -> Array:
        """y*, whose rows are the gradients of f_i at x*."""
        return slopes_at_minimiser(self.objective)


def slopes_at_minimiser(objective: Objective) -> Array:
    """Return grad f_i(x*), (nodes, dim)."""
    data = local_solver.make_data(objective, conjugates=False)
    out = np.empty((objective.nodes, objective.dim))
    for i in range(objective.nodes):
        local_solver.gradient(data, i, objective.x_star, out[i])
    # Their sum is 0 but for rounding, which is taken off.
    return np.asarray(out - out.mean(axis=0))
