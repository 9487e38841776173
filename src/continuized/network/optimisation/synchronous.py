"""Methods that go in rounds, for comparison: a round takes as long as the slowest node.

- Dual: Nesterov's method on u -> D(sqrt(W) u), W the graph's Laplacian (Scaman et al. 2017): in a
  round every node solves its own problem and tells its neighbours.  L is the largest eigenvalue of
  W over mu, and mu the smallest that is not 0 over L.
- All-reduce: Nesterov's method on F itself: in a round every node takes a gradient, and the mean
  of them all is told to all, which a network does not give for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from continuized.network.graphs import spectrum
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.dual.function import DualFunction
from continuized.network.optimisation.dual.method import check_fits
from continuized.network.optimisation.objective import KINDS, Objective
from continuized.problems.base import Array, Problem
from continuized.problems.losses import SQUARED
from continuized.process.methods import Nesterov
from continuized.solver.minimize import minimize


class Rounds(NamedTuple):
    """The error, as in `network.minimize`, after every round, first that of the start."""

    error: Array
    reached: bool


def dual_rounds(graph: Graph, objective: Objective, tol: float, most: int) -> Rounds:
    """The synchronous dual method until the error is tol, or for `most` rounds."""
    check_fits(graph, objective)
    D, shape = DualFunction(objective), (objective.nodes, objective.dim)
    W = spectrum.laplacian(graph.nodes, graph.edges, np.ones(len(graph.edges))).toarray()
    values, vectors = np.linalg.eigh(W)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T

    def both(u: Array) -> tuple[float, Array]:
        y = root @ u.reshape(shape)
        w = D.slopes(y)
        return D.value(y, w), (root @ w).ravel()

    L, mu = values[-1] / objective.mu, values[1] / objective.L
    problem = Problem(both, L=L, mu=mu, value_and_grad=True)
    return _rounds(
        problem, L, mu, lambda u: objective.error(D.slopes(root @ u.reshape(shape))),
        shape[0] * shape[1], tol, most,
    )  # fmt: skip


def all_reduce_rounds(objective: Objective, tol: float, most: int) -> Rounds:
    """Nesterov's method on F until the error is tol, or for `most` rounds."""
    o = objective
    rows = o.X * np.sqrt(o.row_scale / o.nodes)[:, np.newaxis]
    ends = np.linalg.eigvalsh(rows.T @ rows)[[0, -1]]
    whole, l2 = KINDS[o.loss], float(o.l2.mean())
    L = whole.curvature * float(ends[1]) + l2
    mu = l2 + (max(float(ends[0]), 0.0) if o.loss == SQUARED else 0.0)
    problem = Problem(o.fun, o.grad, L=L, mu=mu)
    return _rounds(problem, L, mu, lambda w: o.error(w[np.newaxis]), o.dim, tol, most)


def _rounds(
    problem: Problem, L: float, mu: float, error: Callable[[Array], float], dim: int, tol: float,
    most: int,
) -> Rounds:  # fmt: skip
    start = np.zeros(dim)
    errors = [error(start)]

    def watch(x: Array) -> None:
        errors.append(error(x))
        if errors[-1] <= tol:
            raise StopIteration

    if errors[0] > tol:
        method = Nesterov(float(L), float(mu))
        minimize(problem, start, method=method, maxiter=most, callback=watch, record=False)
    return Rounds(np.array(errors), bool(errors[-1] <= tol))
