"""The exact rate of DADAO in mean square, on ridge, read off its own compiled events.

On ridge the flow and every event are affine in the state u of all nodes.  With F the flow's matrix
and J_m that of the event of mark m, the moments M = E (u - u*)(u - u*)^T obey

    M' = F M + M F^T + sum_m rate_m (J_m M J_m^T - M).

The kernels are run on unit vectors to find F and the J_m: no formula stands a second time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from continuized import seeds
from continuized.clock.stream import Events
from continuized.network import DADAO, Graph, Objective
from continuized.network.optimisation.crews import crew_of
from continuized.network.optimisation.dadao import Z_TILDE, Z
from continuized.network.optimisation.events import flow_all
from continuized.network.optimisation.optimisers import AtOnce
from continuized.problems.base import Array

STEP = 0.25  # of time: F is the logarithm of what the flow does in it


def dadao_rate(graph: Graph, objective: Objective, method: DADAO) -> float:
    """r where the mean square of the distance to the limit is as e^{-rt} in the end.

    From almost every start where the sums of z and z~ are 0, as they stay.  For few nodes: the
    generator has (6 nodes dim)^4 entries.
    """
    from scipy.linalg import logm

    engine = AtOnce(graph, crew_of(method, graph, objective), seeds.seed_sequence(0))
    state = engine.crew.nodes.state

    def flow() -> Array:
        flow_all(engine.crew.nodes, engine.work, STEP)
        return np.asarray(state)

    def event(mark: int) -> Callable[[], Array]:
        at_once = Events(0, 0.0, np.zeros(1), np.zeros(1), np.array([mark]))

        def after() -> Array:
            engine.advance(at_once)
            return np.asarray(state)

        return after

    Q = _zero_sums(state.shape)
    F = Q.T @ np.real(logm(_matrix(engine, flow))) @ Q / STEP
    one = np.eye(len(F))
    generator = np.kron(F, one) + np.kron(one, F)
    for mark, rate in enumerate(engine.rates.tolist()):
        J = Q.T @ _matrix(engine, event(mark)) @ Q
        generator += rate * (np.kron(J, J) - np.eye(len(generator)))
    return -float(np.linalg.eigvals(generator).real.max())


def _matrix(engine: AtOnce, after: Callable[[], Array]) -> Array:
    """The linear part of what is done to the engine's state."""

    state = engine.crew.nodes.state

    def image(u: Array) -> Array:
        engine.reset()
        state[...] = u.reshape(state.shape)
        return after().ravel().copy()

    origin = image(np.zeros(state.size))
    return np.column_stack([image(u) - origin for u in np.eye(state.size)])


def _zero_sums(shape: tuple[int, ...]) -> Array:
    """Orthonormal columns that span the states where the sums of z and z~ over the nodes are 0."""
    from scipy.linalg import null_space

    _, _, dim = shape
    sums = np.zeros((2, dim, *shape))
    for c in range(dim):
        sums[0, c, :, Z, c] = sums[1, c, :, Z_TILDE, c] = 1.0
    return np.asarray(null_space(sums.reshape(2 * dim, -1)))
