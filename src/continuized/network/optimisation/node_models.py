"""The node models of the dual method, DADAO, A²CiD² (see `simulation/node_models/interface.py`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation import dadao, local_solver
from continuized.network.optimisation.a2cid2 import A2CiD2
from continuized.network.optimisation.dadao import DADAO, X_TILDE, Y_TILDE, Z_TILDE, Steps, X, Y, Z
from continuized.network.optimisation.dual import Dual
from continuized.network.optimisation.functions import Functions
from continuized.network.optimisation.local_solver import LocalData, Newton
from continuized.network.optimisation.objective import Objective
from continuized.network.simulation.engine import NodeSet, OwnGradients
from continuized.network.simulation.node_models.interface import TIME, node_model
from continuized.network.simulation.node_models.single_node import SingleNode
from continuized.problems.base import Array
from continuized.problems.losses import loss_slope
from continuized.process.flow import equal_weights, mix
from continuized.process.methods import jump
from continuized.support.jit import compile_formulas, uncounted

compile_formulas(*dadao.FORMULAS)


def make_nodes(
    method: Dual | DADAO | A2CiD2,
    graph: Graph,
    objective: Objective | Functions,
    speeds: Array | None = None,
) -> NodeSet:
    """Make the nodes at the start, where all is 0.

    `speeds` are the rates of their gradients, by default 1.
    """
    numbers = method.numbers(graph, objective)
    made: NodeSet = MAKERS[method.kind](objective, **numbers)
    nodes = made._replace(edge_rate=method.edge_rate(graph))
    if method.takes_gradients and speeds is not None:
        nodes = nodes._replace(step_rates=speeds)
    return nodes


def make_single_node(
    kind: str, numbers: dict[str, float], loss: float | None = None, function: Any = None,
    **arrays: Array,
) -> SingleNode:  # fmt: skip
    """Make the model of one real node: of a method's `kind`, with the numbers that all nodes know.

    Its function is that of an `Objective` with this loss and these arrays, or a Problem.
    """
    if loss is None:
        return SingleNode(MAKERS[kind](Functions((function,), dim=int(arrays["dim"])), **numbers))
    own = Objective(loss, **{name: np.array(array) for name, array in arrays.items()})
    return SingleNode(MAKERS[kind](own, **numbers))


def make_dual_nodes(objective: Objective, **constants: float) -> NodeSet:
    """Make the nodes of the dual method."""
    y, z, w = np.zeros((3, objective.nodes, objective.dim))
    data, newton = local_solver.make_data(objective, True), local_solver.make_newton_for(objective)
    nodes = DualNodes(Constants(**constants), data, y, z, w, newton)
    # Where they agree, y = z = grad f(w).
    return NodeSet(nodes, objective.dim, ("y", "z", "w"), tilt=0.5)


def make_dadao_nodes(objective: Objective | Functions, **steps: float) -> NodeSet:
    """Make the nodes of DADAO."""
    dim, state = objective.dim, np.zeros((objective.nodes, 6, objective.dim))
    own, slope = None, np.zeros(dim)
    if isinstance(objective, Functions):
        own = OwnGradients(objective.gradient, state[:, X], slope)
        model: Any = OwnDadaoNodes(Steps(**steps), None, state, slope)
    else:
        data = local_solver.make_data(objective, conjugates=False)
        model = DadaoNodes(Steps(**steps), data, state, slope)
    rates, tilt = np.ones(objective.nodes), -1.0 / 3.0  # where they agree, z = z~ = -grad f(w)
    return NodeSet(model, dim, ("state",), step_rates=rates, tilt=tilt, own=own)


def make_sgd_nodes(
    objective: Objective | Functions, length: float, batch: int, **constants: float
) -> NodeSet:
    """Make the nodes of A²CiD²."""
    x, x_tilde, moved = np.zeros((3, objective.nodes, objective.dim))
    own, g = None, np.zeros(objective.dim)
    numbers, rest = Constants(**constants), (length, batch, x, x_tilde, moved, g)
    if isinstance(objective, Functions):
        own = OwnGradients(objective.gradient, x, g)
        model: Any = OwnSgdNodes(numbers, None, *rest)
    else:
        model = SgdNodes(numbers, local_solver.make_data(objective, conjugates=False), *rest)
    rates, changing = np.ones(objective.nodes), ("x", "x_tilde", "moved")
    return NodeSet(model, objective.dim, changing, step_rates=rates, own=own)


MAKERS: dict[str, Any] = {
    "dual": make_dual_nodes,
    "dadao": make_dadao_nodes,
    "a2cid2": make_sgd_nodes,
}


@uncounted
def mix_pair(x: Array, z: Array, work: Array, i: int, time: float, theta: float) -> None:
    """Mix the pair of node i up to its own `time`, in place."""
    if theta > 0.0:
        a, b = equal_weights(theta, time - work[i, TIME])
        for c in range(x.shape[1]):
            x[i, c], z[i, c] = mix(x[i, c], z[i, c], a, b)
    work[i, TIME] = time


@node_model
class DualNodes(NamedTuple):
    """y, z and w (nodes, dim); w is grad f*(y) of the last time that it was asked for."""

    constants: Constants
    data: LocalData
    y: Array
    z: Array
    w: Array
    newton: Newton | None

    def flow_to(nodes, work: Array, i: int, time: float) -> None:
        """Mix y and z."""
        mix_pair(nodes.y, nodes.z, work, i, time, nodes.constants.theta)

    def find_answer(nodes, work: Array, i: int) -> bool:
        """Find w = grad f*(y)."""
        y, w = nodes.y[i], nodes.w[i]
        return bool(local_solver.gradient_of_conjugate(nodes.data, i, y, w, nodes.newton))

    def message(nodes, work: Array, i: int, c: int) -> float:
        return float(nodes.w[i, c])

    def pay(nodes, work: Array, i: int, c: int, d: float) -> None:
        """Take gamma d off y and gamma' d off z."""
        y, z, (_, gamma, gamma_prime) = nodes.y, nodes.z, nodes.constants
        y[i, c], z[i, c] = jump(y[i, c], z[i, c], d, gamma, gamma_prime)

    def conserved_per_transfer(nodes) -> float:
        return nodes.constants.gamma + nodes.constants.gamma_prime

    def conserved_parts(nodes, work: Array, i: Any, c: Any) -> tuple[Any, Any]:
        """Return y and z."""
        return nodes.y[i, c], nodes.z[i, c]

    def start_from(nodes, work: Array, i: int, answer: Array, answered: bool) -> None:
        """Start from nothing, as at the start: a neighbour's w says nothing of this node's y."""
        for c in range(nodes.y.shape[1]):
            nodes.y[i, c], nodes.z[i, c], nodes.w[i, c] = 0.0, 0.0, 0.0


@node_model
class DadaoNodes(NamedTuple):
    """state (nodes, 6, dim); slope (dim,) is room for a gradient."""

    steps: Steps
    data: Any  # LocalData, or None of functions of the user's own
    state: Array
    slope: Array

    def flow_to(nodes, work: Array, i: int, time: float) -> None:
        """Let all six vectors flow."""
        u, s, nu = nodes.state[i], nodes.steps.s, nodes.steps.nu
        by = dadao.decay(time - work[i, TIME], s)
        for c in range(u.shape[1]):
            (
                u[X, c], u[X_TILDE, c], u[Y, c], u[Y_TILDE, c], u[Z, c], u[Z_TILDE, c]
            ) = dadao.flow_node(
                u[X, c], u[X_TILDE, c], u[Y, c], u[Y_TILDE, c], u[Z, c], u[Z_TILDE, c], by, s, nu
            )  # fmt: skip
        work[i, TIME] = time

    def message(nodes, work: Array, i: int, c: int) -> float:
        return float(nodes.state[i, Y, c] + nodes.state[i, Z, c])

    def pay(nodes, work: Array, i: int, c: int, d: float) -> None:
        """Take d/2 off z and (2 chi_1/s) d off z~."""
        nodes.state[i, Z, c] -= 0.5 * d
        nodes.state[i, Z_TILDE, c] -= dadao.pull(nodes.steps) * d

    def step(nodes, work: Array, i: int, rng: Any) -> None:
        """Take a step with the gradient of f at x."""
        local_solver.gradient(nodes.data, i, nodes.state[i, X], nodes.slope)
        take_dadao_step(nodes, i)

    def conserved_per_transfer(nodes) -> float:
        """Return 1/2 + 2 (2 chi_1/s)."""
        return 0.5 + 2.0 * dadao.pull(nodes.steps)

    def conserved_parts(nodes, work: Array, i: Any, c: Any) -> tuple[Any, Any]:
        """Return z and 2 z~, whose sum the flow leaves and gradients do not touch."""
        return nodes.state[i, Z, c], 2.0 * nodes.state[i, Z_TILDE, c]

    def start_from(nodes, work: Array, i: int, answer: Array, answered: bool) -> None:
        """Start with a neighbour's x and no z of its own: x = x~ and y = y~ = -nu x stand still."""
        u = nodes.state
        for c in range(u.shape[2]):
            x = answer[c] if answered else 0.0
            u[i, X, c], u[i, X_TILDE, c] = x, x
            u[i, Y, c], u[i, Y_TILDE, c] = -nodes.steps.nu * x, -nodes.steps.nu * x
            u[i, Z, c], u[i, Z_TILDE, c] = 0.0, 0.0

    def estimate(nodes, work: Array, i: int, c: int) -> float:
        return float(nodes.state[i, X, c])


@uncounted
def take_dadao_step(nodes: DadaoNodes, i: int) -> None:
    """Take the step of node i with the gradient in `slope`."""
    u, slope = nodes.state, nodes.slope
    for c in range(slope.size):
        u[i, X, c], u[i, X_TILDE, c], u[i, Y_TILDE, c] = dadao.take_gradient(
            u[i, X, c], u[i, X_TILDE, c], u[i, Y_TILDE, c], slope[c], nodes.steps
        )


@node_model
class OwnDadaoNodes(DadaoNodes):
    """Nodes of DADAO whose functions are the user's own."""

    def step(nodes, work: Array, i: int, rng: Any) -> None:
        """Leave it to Python: see `take_slope`."""

    def asks_python(nodes) -> bool:
        return True

    def take_slope(nodes, work: Array, i: int) -> None:
        take_dadao_step(nodes, i)


@node_model
class SgdNodes(NamedTuple):
    """x and x~ (nodes, dim); g (dim,) is room for a gradient.

    moved (nodes, dim): what gradients have added to x + x~, which exchanges only move.
    """

    constants: Constants
    data: Any  # LocalData, or None of functions of the user's own
    length: float  # of a gradient step
    batch: int
    x: Array
    x_tilde: Array
    moved: Array
    g: Array

    def flow_to(nodes, work: Array, i: int, time: float) -> None:
        """Mix x and x~."""
        mix_pair(nodes.x, nodes.x_tilde, work, i, time, nodes.constants.theta)

    def message(nodes, work: Array, i: int, c: int) -> float:
        return float(nodes.x[i, c])

    def pay(nodes, work: Array, i: int, c: int, d: float) -> None:
        """Take d/2 off x and alpha~ d off x~."""
        x, x_tilde, (_, alpha, alpha_tilde) = nodes.x, nodes.x_tilde, nodes.constants
        x[i, c], x_tilde[i, c] = jump(x[i, c], x_tilde[i, c], d, alpha, alpha_tilde)

    def step(nodes, work: Array, i: int, rng: Any) -> None:
        """Take the same step of x and x~, along a stochastic gradient."""
        if nodes.batch == 0:
            local_solver.gradient(nodes.data, i, nodes.x[i], nodes.g)
        else:
            batch_slope(nodes, i, rng)
        take_sgd_step(nodes, i)

    def conserved_per_transfer(nodes) -> float:
        """Return 1/2 + alpha~."""
        return nodes.constants.gamma + nodes.constants.gamma_prime

    def conserved_parts(nodes, work: Array, i: Any, c: Any) -> tuple[Any, Any]:
        """Return x + x~, and less what its gradients have added to it."""
        return nodes.x[i, c] + nodes.x_tilde[i, c], -nodes.moved[i, c]

    def start_from(nodes, work: Array, i: int, answer: Array, answered: bool) -> None:
        """Start with a neighbour's x, and x~ = x."""
        for c in range(nodes.x.shape[1]):
            if answered:
                nodes.x[i, c] = answer[c]
            nodes.x_tilde[i, c], nodes.moved[i, c] = nodes.x[i, c], 0.0


@uncounted
def take_sgd_step(nodes: SgdNodes, i: int) -> None:
    """Take the step of node i with the gradient in `g`."""
    x, x_tilde, g, length = nodes.x, nodes.x_tilde, nodes.g, nodes.length
    for c in range(g.size):
        x[i, c], x_tilde[i, c] = jump(x[i, c], x_tilde[i, c], g[c], length, length)
        nodes.moved[i, c] -= 2.0 * length * g[c]


@node_model
class OwnSgdNodes(SgdNodes):
    """Nodes of A²CiD² whose functions are the user's own, which draw what they draw themselves."""

    def step(nodes, work: Array, i: int, rng: Any) -> None:
        """Leave it to Python: see `take_slope`."""

    def asks_python(nodes) -> bool:
        return True

    def take_slope(nodes, work: Array, i: int) -> None:
        take_sgd_step(nodes, i)


@uncounted
def batch_slope(nodes: SgdNodes, i: int, rng: Any) -> None:
    """Write the mean over drawn rows of (number of rows) times the gradient of one: unbiased."""
    data, batch, w, out = nodes.data, nodes.batch, nodes.x[i], nodes.g
    start, count, l2 = data.starts[i], data.starts[i + 1] - data.starts[i], data.l2[i]
    for c in range(w.size):
        out[c] = 0.0
    for _ in range(batch):
        r = start + min(int(rng.random() * count), count - 1)
        slope = loss_slope(data.kind, local_solver.inner(data.X[r], w), data.y[r])
        push = data.weights[r] * count * slope
        for c in range(w.size):
            out[c] += (push * data.X[r, c] + l2 * w[c]) / batch
