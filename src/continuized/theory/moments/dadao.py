"""Exact second moments of DADAO on ridge, read off its own compiled events.

On ridge the flow and every event are affine in the state u of all nodes.  With F the flow's matrix
and J_m that of the event of mark m, the moments M = E (u - u*)(u - u*)^T obey

    M' = F M + M F^T + sum_m rate_m (J_m M J_m^T - M).

The kernels are run on a basis, with labels 0, to find F and the J_m: no formula stands a second
time.  The system's matrix is exponentiated, for its times are long: they grow as sqrt(L/mu).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs.graph import Graph
from continuized.network.optimisation import dadao
from continuized.network.optimisation.objective import Objective
from continuized.problems.base import Array
from continuized.process.clock import Events
from continuized.process.random_streams import seed_sequence
from continuized.support import blas
from continuized.support.progress import Bar
from continuized.theory.bounds.network import check_dadao_start
from continuized.theory.moments.edges import check_ridge
from continuized.theory.moments.integrate import LEAST_MOMENT, PERCENT, SHOW_EVERY
from continuized.theory.moments.pair import Moments

MOST_UNKNOWNS = 8  # nodes times dimension
# Times 1/rate, what is exponentiated at once: small moments drown in rounding otherwise.
PIECE_SPAN = 1.0
FLOW_STEP = 0.25  # of time: F is the logarithm of what the flow does in it


class System(NamedTuple):
    """How the distance from the limit moves, in coordinates of the space where it stays."""

    flow: Array
    jumps: Array  # (marks, size, size)
    rates: Array  # of the marks
    start: Array
    basis: Array  # the states, in columns, that the coordinates belong to


def dadao_moments(pair: Any, method: dadao.DADAO, x0: ArrayLike, t: Array, show: Bar) -> Moments:
    """E mean_i |x_i - x*|^2 in `fun`, which `theory.bound` bounds, and E |x~ - x*|^2 in `z2`.

    xx, xz and zz have a column to a node, of x - x* and x~ - x*.  Relative accuracy about 1e-9 for
    L/mu up to 1e4.
    """
    graph, objective = check_ridge(pair, "DADAO", MOST_UNKNOWNS)
    check_dadao_start(x0)
    system, rate = system_of(graph, objective, method), method.rate(graph, objective)
    by_node = system.basis.reshape(graph.nodes, 6, objective.dim, -1)
    x, x_tilde = by_node[:, dadao.X], by_node[:, dadao.X_TILDE]
    pairs, rows = ((x, x), (x, x_tilde), (x_tilde, x_tilde)), np.empty((len(t), 3, graph.nodes))
    for k, M in enumerate(_follow(system, t, PIECE_SPAN / rate, show)):
        rows[k] = [np.einsum("ica,ab,icb->i", u, M, v) for u, v in pairs]
    return Moments.from_rows(t, None, rows[:, 0].mean(axis=1), rows)


def limit(objective: Objective) -> Array:
    """u*, (nodes, 6, dim); see docs/proofs/dadao.md."""
    slopes, x_star = objective.slopes_at_minimiser(), objective.x_star
    u = np.empty((objective.nodes, 6, objective.dim))
    u[:, [dadao.X, dadao.X_TILDE]] = x_star
    u[:, [dadao.Y, dadao.Y_TILDE]] = (slopes - 0.5 * objective.mu * x_star)[:, np.newaxis]
    u[:, [dadao.Z, dadao.Z_TILDE]] = -slopes[:, np.newaxis]
    return u


def system_of(graph: Graph, objective: Objective, method: dadao.DADAO) -> System:
    """The matrices, where the sums of z and z~ over the nodes are 0, as they stay."""
    from scipy.linalg import logm

    from continuized.network.optimisation.node_models import make_nodes
    from continuized.network.simulation.engine import flow_all
    from continuized.network.simulation.instant import InstantEngine

    linear = dataclasses.replace(objective, y=np.zeros_like(objective.y))
    engine = InstantEngine(graph, make_nodes(method, graph, linear), seed_sequence(0))
    state = engine.nodes.model.state

    T = _coordinates(method.steps(graph, objective), state.shape)
    Q = _zero_sums(T, state.shape)

    def find_matrix(act: Callable[[], Any]) -> Array:
        """What an act of the engine does, from what becomes of each column of T."""
        images = np.empty_like(T)
        for column, u in enumerate(T.T):
            engine.reset()
            state[...] = u.reshape(state.shape)
            act()
            images[:, column] = state.ravel()
        return np.asarray(np.linalg.solve(T, images))

    def act_at(mark: int) -> None:
        engine.advance(Events(0, 0.0, np.zeros(1), np.zeros(1), np.array([mark])))

    flow = find_matrix(lambda: flow_all(engine.nodes.model, engine.work, engine.alive, FLOW_STEP))
    jumps = [find_matrix(partial(act_at, mark)) for mark in range(len(engine.rates))]
    with _keep_global_random():
        logarithm = np.real(logm(flow))
    return System(
        Q.T @ logarithm @ Q / FLOW_STEP,
        np.stack([Q.T @ jump @ Q for jump in jumps]),
        engine.rates,
        -Q.T @ np.linalg.solve(T, limit(objective).ravel()),
        T @ Q,
    )


def _coordinates(steps: dadao.Steps, shape: tuple[int, ...]) -> Array:
    """The states of unit coordinates, in columns.

    The coordinates are x, x~ and, divided by c = sqrt(L nu), y, y~, (y + z) / s and z~: all weigh
    about the same in the V of docs/proofs/dadao.md.  In z the moments of y + z, far smaller than
    those of y and z, would lose their digits.
    """
    nodes, _, dim = shape
    s, c = steps.s, math.sqrt(steps.nu) * math.sqrt(steps.L)
    one = np.diag([1.0, 1.0, c, c, s * c, c])
    one[dadao.Z, dadao.Y] = -c
    return np.kron(np.kron(np.eye(nodes), one), np.eye(dim))


def generator(system: System) -> tuple[Array, Array]:
    """M' as a matrix, in an orthonormal basis of the symmetric M; and this basis, in columns."""
    size = len(system.flow)
    one, i, j = np.eye(size), *np.triu_indices(size)
    basis = np.zeros((size * size, len(i)))
    for place in (size * i + j, size * j + i):  # the same on the diagonal
        basis[place, np.arange(len(i))] += np.where(i == j, 0.5, math.sqrt(0.5))
    # What the M lose at events is put into the flow.
    lossy = system.flow - 0.5 * system.rates.sum() * one
    whole = np.kron(lossy, one) + np.kron(one, lossy)
    for J, rate in zip(system.jumps, system.rates.tolist(), strict=True):
        whole += rate * np.kron(J, J)
    return basis.T @ whole @ basis, basis


def _follow(system: System, times: Array, piece: float, show: Bar) -> Iterator[Array]:
    """M at increasing times, one after the other."""
    from scipy.linalg import expm

    work = 0.25 * float(len(system.flow)) ** 6  # a tenth for each product of matrices
    G, basis = blas.compute(work, generator, system)
    m = basis.T @ np.kron(system.start, system.start)
    for gap in np.diff(times, prepend=0.0).tolist():
        pieces = math.ceil(gap / piece)
        if pieces:
            with _keep_global_random():
                ahead = blas.compute(work, expm, gap / pieces * G)
        for done in range(pieces):
            if not float(np.abs(m).max()) > LEAST_MOMENT:
                m = np.zeros_like(m)
                break
            m = ahead @ m
            if done % SHOW_EVERY == 0:
                show(int(PERCENT * done / pieces), f"{done} of {pieces} pieces")
        yield (basis @ m).reshape(system.flow.shape)


@contextmanager
def _keep_global_random() -> Iterator[None]:
    """SciPy estimates norms of matrices with NumPy's global generator.

    Its state is the user's: what comes out does not depend on it, and it is put back.
    """
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _zero_sums(T: Array, shape: tuple[int, ...]) -> Array:
    """An orthonormal basis of the coordinates where the sums of z and z~ over the nodes are 0."""
    from scipy.linalg import null_space

    _, _, dim = shape
    sums = np.zeros((2, dim, *shape))
    for c in range(dim):
        sums[0, c, :, dadao.Z, c] = sums[1, c, :, dadao.Z_TILDE, c] = 1.0
    return np.asarray(null_space(sums.reshape(2 * dim, -1) @ T))
