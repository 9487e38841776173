"""What nodes minimise together: the mean of their own functions, each a regression on own rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.protocol.node_model import NodeModelSpec
from continuized.network.result import EPSILON, ROUNDINGS
from continuized.problems import LeastSquares, LogisticRegression
from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.process.random_streams import MARKS, Seed, generator, seed_sequence
from continuized.support import blas
from continuized.support import validation as check
from continuized.support.display import show_html, show_line
from continuized.support.files import check_memory

NodeRegression = LeastSquares | LogisticRegression
REGRESSIONS: tuple[type[NodeRegression], ...] = (LeastSquares, LogisticRegression)
NODE_FACTORY = "continuized.network.optimisation.node_models:make_single_node"
REGRESSION_OF_LOSS = {kind.loss: kind for kind in REGRESSIONS}


class MeanFunction:
    """The mean of the nodes' functions: what an `Objective` and `Functions` share."""

    nodes: int
    dim: int
    local_mu: Array
    x_star: Array

    def fun(self, w: Array) -> float:
        """Return F(w)."""
        raise NotImplementedError

    def describe(self) -> Any:
        """Return what a checkpoint knows it by."""
        return self

    def specify_nodes(self, kind: str, numbers: dict[str, float]) -> list[NodeModelSpec]:
        """Specify the model of each real node, for a method's `kind` of nodes and its numbers."""
        raise NotImplementedError

    @cached_property
    def f_star(self) -> float:
        """The minimum of F."""
        return self.fun(self.x_star)

    def error(self, w: Array, target: Array | None = None) -> float:
        """Return mean_i |w_i - x*|^2, relative to |x*|^2 (absolute where that is 0): 1 at w = 0.

        target: another point than x* to be near to.
        """
        gaps = w - (self.x_star if target is None else target)
        size = float(self.x_star @ self.x_star)
        return float(np.vdot(gaps, gaps)) / len(w) / (size if size > 0.0 else 1.0)


def is_rounding(terms: Array) -> bool:
    """Tell whether the sums over the first axis are 0, but for rounding.

    Each term comes with some roundings of its own size, and those of many add up like steps of a
    random walk.  Where this is so of the terms of a gradient at 0, the minimiser is 0: what a
    solver finds there is made of these roundings alone, and nothing can be measured relative to
    its size.

    >>> is_rounding(np.array([0.1, 0.2, -0.3])), is_rounding(np.array([0.1, 0.2, -0.3 + 1e-12]))
    (True, False)
    """
    bound = (ROUNDINGS + math.sqrt(len(terms))) * EPSILON * np.abs(terms).sum(axis=0)
    return bool(np.all(np.abs(terms.sum(axis=0)) <= bound))


ASKS_FOR_NONE = 'or use method="a2cid2", which asks for none'  # what to do without convexity


def check_fits(graph: Graph, objective: MeanFunction) -> None:
    """Raise ValueError unless there is a function for each node."""
    if graph.nodes != objective.nodes:
        raise ValueError(
            f"the graph has {graph.nodes} nodes, but {objective.nodes} functions were given"
        )


def check_convexity(objective: MeanFunction, otherwise: str = "") -> None:
    """Raise ValueError where some function is not known to be strongly convex."""
    known = np.nan_to_num(objective.local_mu)
    weakest = int(np.argmin(known))
    if not known[weakest] > 0.0:
        what = "regressions with l2 > 0" if isinstance(objective, Objective) else "mu= > 0"
        raise ValueError(
            f"the function of node {weakest} is not strongly convex; give {what}"
            + (otherwise and f", {otherwise}")
        )


@dataclass(frozen=True, eq=False)
class Objective(MeanFunction):
    """F(w) = mean over the nodes of f_i(w), where f_i is known to node i only,

        f_i(w) = scale_i sum_{rows r of node i} loss(<x_r, w>, y_r) + l2_i/2 |w|^2.

    Node i has the rows starts[i], ..., starts[i + 1] - 1 of X and of y; scale and l2 have a number
    for each node, and `loss` tells the kind of regression.  Every f_i is L-smooth and mu-strongly
    convex, mu > 0 or 0.  Make one with `split`, or with `Objective.of`.

    >>> F = split(LeastSquares([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], l2=0.1), nodes=3)
    >>> F.nodes, F.dim, round(F.L, 9), round(F.mu, 9), F.x_star.round(6).tolist()
    (3, 1, 9.1, 1.1, [0.979021])
    """

    loss: float
    X: Array = field(repr=False)  # (rows, dim)
    y: Array = field(repr=False)
    starts: Array = field(repr=False)  # (nodes + 1,)
    scale: Array = field(repr=False)  # (nodes,)
    l2: Array = field(repr=False)  # (nodes,)

    def __post_init__(self) -> None:
        # As compiled code takes them, which has other types for arrays that are read-only.
        for name in ("X", "y"):
            array = np.require(getattr(self, name), np.float64, ("C", "A", "W"))
            object.__setattr__(self, name, array)

    def _facts(self) -> dict[str, Any]:
        kind = REGRESSION_OF_LOSS[self.loss].__name__
        return {"kind": kind, "nodes": self.nodes, "rows": len(self.y), "dim": self.dim}

    __repr__ = show_line
    _repr_html_ = show_html

    @classmethod
    def of(cls, problems: Any) -> Objective:
        """Make one from a regression for each node: F is the mean of them.

        Raises TypeError for anything else than `LeastSquares` or `LogisticRegression`,
        ValueError where they differ in kind or dimension, or have weights or an intercept.

        >>> parts = [LeastSquares([[1.0]], [1.0], l2=0.5), LeastSquares([[2.0]], [0.0], l2=0.5)]
        >>> Objective.of(parts).x_star.round(12).tolist()
        [0.166666666667]
        """
        if isinstance(problems, Objective):
            return problems
        listed = _check_regressions(problems)
        X = _dense_rows([p.X for p in listed])
        sizes = np.array([len(p.y) for p in listed])
        return cls(
            listed[0].loss,
            X,
            np.concatenate([p.y for p in listed]).astype(np.float64),
            np.concatenate([[0], np.cumsum(sizes)]),
            1.0 / sizes,
            np.array([p.l2 for p in listed]),
        )

    @property
    def nodes(self) -> int:  # type: ignore[override]
        """How many functions there are."""
        return len(self.scale)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The number of variables."""
        return int(self.X.shape[1])

    def rows(self, i: int) -> slice:
        """Return the rows of node i."""
        return slice(int(self.starts[i]), int(self.starts[i + 1]))

    def specify_nodes(self, kind: str, numbers: dict[str, float]) -> list[NodeModelSpec]:
        """Specify the model of each real node: its function travels as arrays."""
        options = {"kind": kind, "numbers": numbers, "loss": self.loss}
        each = (self._cut_out(i) for i in range(self.nodes))
        return [NodeModelSpec(NODE_FACTORY, arrays, options) for arrays in each]

    def _cut_out(self, i: int) -> dict[str, Array]:
        """Return the arrays of an Objective whose one function is that of node i."""
        X, y = self.X[self.rows(i)], self.y[self.rows(i)]
        one = {"scale": self.scale[i : i + 1], "l2": self.l2[i : i + 1]}
        return {"X": X, "y": y, "starts": np.array([0, len(y)]), **one}

    # Constants

    @cached_property
    def _extremes(self) -> tuple[Array, Array]:
        """The smallest and largest eigenvalue of scale_i X_i^T X_i, for each node."""
        return blas.compute(self.X.size * float(self.dim), self._find_extremes)

    def _find_extremes(self) -> tuple[Array, Array]:
        found = np.empty((2, self.nodes))
        for i in range(self.nodes):
            rows = self.X[self.rows(i)]
            wide = rows.shape[0] < rows.shape[1]
            gram = rows @ rows.T if wide else rows.T @ rows
            ends = self.scale[i] * np.linalg.eigvalsh(gram)[[0, -1]]
            found[:, i] = (0.0 if wide else max(ends[0], 0.0)), max(ends[1], 0.0)
        return found[0], found[1]

    @property
    def local_L(self) -> Array:
        """An upper bound of the smoothness of each f_i."""
        largest: Array = REGRESSION_OF_LOSS[self.loss].curvature * self._extremes[1] + self.l2
        return largest

    @property
    def local_mu(self) -> Array:  # type: ignore[override]
        """A lower bound of the strong convexity of each f_i; of a logistic loss, what l2 gives."""
        if self.loss == SQUARED:
            return np.asarray(self._extremes[0] + self.l2)
        return self.l2.copy()

    @property
    def L(self) -> float:
        """The largest of local_L."""
        return float(self.local_L.max())

    @property
    def mu(self) -> float:
        """The smallest of local_mu."""
        return float(self.local_mu.min())

    # The function itself

    @cached_property
    def row_scale(self) -> Array:
        """What each row's loss counts in the sum of the f_i."""
        return np.repeat(self.scale, np.diff(self.starts))

    def fun(self, w: Array) -> float:
        """Return F(w)."""
        from continuized.network.optimisation.local_solver import value

        return float(value(*self._whole, w))

    def grad(self, w: Array) -> Array:
        """Return the gradient of F at w."""
        from continuized.network.optimisation.local_solver import compiled_slope

        out = np.empty_like(w)
        compiled_slope(*self._whole, w, out)
        return out

    @property
    def _whole(self) -> tuple[float, Array, Array, Array, float]:
        """F as compiled code takes it: the loss, all rows, what each counts, and l2."""
        return self.loss, self.X, self.y, self.row_scale / self.nodes, float(self.l2.mean())

    def hessians(self) -> Array:
        """Return the Hessians of the f_i with the squared loss, (nodes, dim, dim)."""
        shape = self.nodes, self.dim, self.dim
        check_memory(8.0 * math.prod(shape), "the nodes' Hessians", "fewer nodes or columns")
        return blas.compute(self.X.size * float(self.dim), self._find_hessians)

    def _find_hessians(self) -> Array:
        found = np.empty((self.nodes, self.dim, self.dim))
        for i in range(self.nodes):
            rows = self.X[self.rows(i)]
            found[i] = self.scale[i] * (rows.T @ rows) + self.l2[i] * np.eye(self.dim)
        return found

    @cached_property
    def x_star(self) -> Array:  # type: ignore[override]
        """The minimiser of F, to rounding: what a single machine with all rows would find.

        Where that is rounding alone it is 0, so that `error` has a unit (see `is_rounding`).
        """
        from continuized.network.optimisation.local_solver import find_minimiser

        return find_minimiser(*self._whole)

    def slopes_at_minimiser(self) -> Array:
        """Return grad f_i(x*), (nodes, dim): y*, where the dual function is least."""
        from continuized.network.optimisation.local_solver import compiled_gradient, make_data

        data, out = make_data(self, conjugates=False), np.empty((self.nodes, self.dim))
        for i in range(self.nodes):
            compiled_gradient(data, i, self.x_star, out[i])
        # Their sum is 0 but for rounding, which is taken off.
        return np.asarray(out - out.mean(axis=0))

    def find_agreement(self, alive: Array, tilt: Array) -> Array:
        """Find the minimiser of the living nodes' sum f_i(w) - <tilt, w>."""
        from continuized.network.optimisation.local_solver import find_minimiser

        rows = np.repeat(alive, np.diff(self.starts))
        weights, l2 = self.row_scale[rows], float(self.l2[alive].sum())
        return find_minimiser(self.loss, self.X[rows], self.y[rows], weights, l2, tilt)


def split(problem: NodeRegression, nodes: int, rng: Seed = 0) -> Objective:
    """Deal the rows of a regression out to nodes: F is the regression's own function.

    Rows are shuffled with `rng` first; with None they stay in their order, and node i has the
    i-th part of them.  f_i(w) = (nodes/rows) sum over its rows of the loss + l2/2 |w|^2.

    Parameters
    ----------
    problem : LeastSquares or LogisticRegression, without weights and intercept
    nodes : int
        From 1 to the number of rows.
    rng : int, SeedSequence, Generator or None

    Returns
    -------
    Objective

    Raises
    ------
    TypeError, ValueError
        For other problems or numbers of nodes.

    >>> parts = split(LeastSquares([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], l2=0.1), nodes=2)
    >>> parts.starts.tolist(), parts.scale.round(3).tolist()
    ([0, 2, 3], [0.667, 0.667])
    """
    (checked,) = _check_regressions([problem])
    count = len(checked.y)
    advice = f"there are {count} rows"
    nodes = check.whole(nodes, "nodes", minimum=1, maximum=count, advice=advice)
    order = np.arange(count)
    if rng is not None:
        order = generator(seed_sequence(rng), MARKS).permutation(count)
    sizes = [len(part) for part in np.array_split(order, nodes)]
    return Objective(
        checked.loss,
        _dense_rows([checked.X])[order],
        checked.y[order].astype(np.float64),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.full(nodes, nodes / count),
        np.full(nodes, checked.l2),
    )


def _check_regressions(problems: Any) -> list[NodeRegression]:
    if isinstance(problems, str) or not isinstance(problems, Sequence) or len(problems) == 0:
        what = "an Objective (see network.split) or a regression for each node"
        raise check.refusal(TypeError, "problems", what, problems)
    for i, p in enumerate(problems):
        if type(p) not in REGRESSIONS:
            what = "LeastSquares or LogisticRegression"
            raise check.refusal(TypeError, f"the problem of node {i}", what, p)
        if not p.is_plain:
            raise ValueError(
                f"the problem of node {i} has weights or an intercept; give one without"
            )
        if type(p) is not type(problems[0]) or p.dim != problems[0].dim:
            raise ValueError(
                f"all problems must be of one kind and dimension, but those of nodes 0 and {i} "
                "differ"
            )
    return list(problems)


def _dense_rows(parts: Sequence[Any]) -> Array:
    entries = sum(part.shape[0] for part in parts) * parts[0].shape[1]
    check_memory(8.0 * entries, "the rows, held dense,", "fewer columns")
    dense = [part if isinstance(part, np.ndarray) else part.toarray() for part in parts]
    return np.ascontiguousarray(np.concatenate(dense), dtype=np.float64)
