"""Functions of the user's own for nodes to minimise together, by their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.optimisation.objective import (
    NODE_FACTORY,
    REGRESSIONS,
    MeanFunction,
    Objective,
    is_rounding,
)
from continuized.network.protocol.node_model import NodeModelSpec
from continuized.problems.base import Array, Problem, check_gradient
from continuized.support import validation as check
from continuized.support.display import show_html, show_line

WANTED = "an Objective (see network.split), or a Problem or a pair (fun, jac) for each node"
DENSE_UP_TO = 2**24  # entries of X, above which sparse rows are not made dense for gradients alone
SPARSE_SHARE = 0.1  # of them that are not zero, at most
# The minimiser is found to a gradient of so much of the first one, and accepted at the second.
WANTED_SLOPE, ACCEPTED_SLOPE = 1e-13, 1e-7


@dataclass(frozen=True, eq=False)
class Functions(MeanFunction):
    """F(w) = mean over the nodes of f_i(w), where f_i is a `Problem` known to node i only.

    local_L and local_mu have a number for each node, NaN where it is not known.
    """

    problems: tuple[Problem, ...]
    dim: int
    local_L: Array = field(default_factory=lambda: np.empty(0))
    local_mu: Array = field(default_factory=lambda: np.empty(0))

    def _facts(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "dim": self.dim}

    __repr__ = show_line
    _repr_html_ = show_html

    @property
    def nodes(self) -> int:  # type: ignore[override]
        """How many functions there are."""
        return len(self.problems)

    @property
    def L(self) -> float:
        """The largest of local_L; ValueError where one is not known."""
        unknown = np.flatnonzero(np.isnan(self.local_L))
        if len(unknown):
            raise ValueError(
                f"the smoothness of the function of node {unknown[0]} is not known; give L=, a "
                "number or one for each node (A2CiD2 is content with A2CiD2(step=...))"
            )
        return float(self.local_L.max())

    @property
    def mu(self) -> float:
        """The smallest of local_mu, 0 where one is not known."""
        return float(np.nan_to_num(self.local_mu).min())

    def describe(self) -> list[str]:
        """Return what a checkpoint knows it by: values and slopes at a point."""
        return [p.fingerprint(np.zeros(self.dim)) for p in self.problems]

    def specify_nodes(self, kind: str, numbers: dict[str, float]) -> list[NodeModelSpec]:
        """Specify the model of each real node: its function is handed over as it is."""
        arrays, options = {"dim": np.array(self.dim)}, {"kind": kind, "numbers": numbers}
        each = ({"function": p} for p in self.problems)
        return [NodeModelSpec(NODE_FACTORY, arrays, options, objects) for objects in each]

    def gradient(self, i: int, w: Array) -> Array:
        """Return the gradient of f_i at w, which it may keep."""
        return check_gradient(self.problems[i].grad(w), (self.dim,))[0]

    def fun(self, w: Array) -> float:
        """Return F(w)."""
        return float(np.mean([p.fun(w.copy()) for p in self.problems]))

    @cached_property
    def x_star(self) -> Array:  # type: ignore[override]
        """The minimiser of F: what a single machine that knows all f_i finds."""
        return self.find_agreement(np.ones(self.nodes, np.bool_), np.zeros(self.dim))

    def find_agreement(self, alive: Array, tilt: Array) -> Array:
        """Find the minimiser of the living nodes' sum f_i(w) - <tilt, w>.

        Quasi-Newton steps come near; what their line searches cannot see is left to Nesterov's
        method, which asks for gradients alone.
        """
        from scipy.optimize import minimize as find_near

        from continuized.solver.minimize import minimize

        living = np.flatnonzero(alive).tolist()

        def both(w: Array) -> tuple[float, Array]:
            values = sum(self.problems[i].fun(w.copy()) for i in living) - float(tilt @ w)
            slopes = np.sum([self.gradient(i, w.copy()) for i in living], axis=0) - tilt
            return values / len(living), slopes / len(living)

        origin = np.zeros(self.dim)
        if is_rounding(np.array([*(self.gradient(i, origin.copy()) for i in living), -tilt])):
            return origin
        first = float(np.linalg.norm(both(origin)[1]))
        near = {"gtol": WANTED_SLOPE * first, "ftol": 0.0, "maxiter": 2000, "maxfun": 3000}
        w = np.asarray(
            find_near(both, np.zeros(self.dim), jac=True, method="L-BFGS-B", options=near).x
        )
        constants = self.local_L[living].mean(), self.local_mu[living].mean()
        if np.isfinite(constants).all() and constants[1] > 0.0:
            L, mu = map(float, constants)
            p = Problem(both, L=L, mu=min(mu, L), value_and_grad=True)
            steps = math.ceil(math.sqrt(L / mu) * math.log(1.0 / WANTED_SLOPE))
            w = minimize(p, w, method="nesterov", tol=WANTED_SLOPE * first, maxiter=steps).x
        if not float(np.linalg.norm(both(w)[1])) <= ACCEPTED_SLOPE * first:
            raise ArithmeticError(
                "the minimiser of the nodes' mean was not found from their values and gradients: "
                "there may be none, or jac is not the gradient of fun"
            )
        return np.asarray(w)


def as_objective(
    functions: Any,
    *,
    sparse: bool = False,
    L: ArrayLike | None = None,
    mu: ArrayLike | None = None,
    dim: int | None = None,
) -> Objective | Functions:
    """Make what nodes minimise of what `network.minimize` is given.

    Regressions of one kind, without weights and intercept, become an `Objective`, whose loops are
    compiled; all else `Functions`.  With `sparse`, large sparse regressions do, too: their own
    gradients leave them sparse.
    """
    if isinstance(functions, Objective | Functions):
        _check_unneeded(L=L, mu=mu, dim=dim)
        return functions
    if isinstance(functions, str) or not isinstance(functions, Sequence) or len(functions) == 0:
        raise check.refusal(TypeError, "functions", WANTED, functions)
    if is_plain(functions) and not (sparse and _is_large_and_sparse(functions)):
        _check_unneeded(L=L, mu=mu, dim=dim)
        return Objective.of(functions)
    n = len(functions)
    given = [_check_constant(value, name, n) for name, value in (("L", L), ("mu", mu))]
    problems = tuple(_as_problem(each, i) for i, each in enumerate(functions))
    known = np.array([[_number(p.L) for p in problems], [_number(p.mu) for p in problems]])
    local_L, local_mu = np.where(np.isnan(known), given, known)
    return Functions(problems, _find_dim(problems, dim), local_L, local_mu)


def is_plain(functions: Sequence[Any]) -> bool:
    """Tell whether these are regressions of one kind and dimension that an `Objective` takes."""
    first = functions[0]
    return all(
        type(p) in REGRESSIONS and p.is_plain and type(p) is type(first) and p.dim == first.dim
        for p in functions
    )


def _is_large_and_sparse(functions: Sequence[Any]) -> bool:
    matrices = [p.X for p in functions]
    entries = sum(math.prod(X.shape) for X in matrices)
    stored = sum(X.nnz if hasattr(X, "nnz") else X.size for X in matrices)
    return bool(entries > DENSE_UP_TO and stored <= SPARSE_SHARE * entries)


def _as_problem(given: Any, i: int) -> Problem:
    """Return a problem, made of a pair where it is one."""
    if isinstance(given, Problem):
        return given
    if isinstance(given, tuple | list) and len(given) == 2 and all(map(callable, given)):
        return Problem(*given)
    raise check.refusal(
        TypeError, f"the function of node {i}", "a Problem or a pair (fun, jac)", given
    )


def _find_dim(problems: Sequence[Problem], dim: Any) -> int:
    known = {int(p.dim) for p in problems if p.dim is not None}
    if dim is not None:
        known.add(check.whole(dim, "dim", minimum=1, other="None"))
    if len(known) > 1:
        raise ValueError(f"the functions must have one number of variables, got {sorted(known)}")
    if not known:
        raise ValueError("the number of variables is not known: give dim=")
    return known.pop()


def _check_constant(value: Any, name: str, nodes: int) -> Array:
    """Return a constant for each node; NaN where none is given."""
    if value is None:
        return np.full(nodes, math.nan)
    given = check.array(value, name, dtype=np.float64, finite=True, minimum=0.0)
    if given.ndim == 0:
        return np.full(nodes, float(given))
    return np.asarray(check.shape(given, name, (nodes,), each="node"))


def _check_unneeded(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}= is for functions that do not know it; regressions do")


def _number(constant: float | None) -> float:
    return math.nan if constant is None else float(constant)
