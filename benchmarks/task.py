"""What the contestants of `loop` minimise: one function, in NumPy, in JAX and as a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import continuized as cz
from benchmarks import data
from continuized.problems.base import Array


class Run(NamedTuple):
    """Where a contestant ended, and how many gradients it took."""

    x: Array
    gradients: int


@dataclass
class Recorder:
    """f after each gradient."""

    values: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """A function to be minimised from 0 with so many gradients; dtype is that of x.

    `in_jax(jnp)` gives the function in JAX.  With a recorder, a contestant notes f as it goes;
    without, it is timed.
    """

    title: str
    problem: Any
    fun: Callable[[Array], float]
    grad: Callable[[Array], Array]
    in_jax: Callable[[Any], Callable[[Any], Any]]
    gradients: int
    f_star: float
    recorder: Recorder | None = None
    dtype: Any = np.float64

    @property
    def x0(self) -> Array:
        return np.zeros(self.problem.dim, self.dtype)

    @property
    def momentum(self) -> float:
        """Nesterov's, (1 - q) / (1 + q) with q = sqrt(mu / L)."""
        q = float(np.sqrt(self.problem.mu / self.problem.L))
        return (1.0 - q) / (1.0 + q)

    def above(self, x: Array) -> float:
        """(f(x) - f*) / (f(x0) - f*)."""
        return float(self.relative(np.array([self.fun(np.asarray(x, dtype=np.float64))]))[0])

    def relative(self, values: Array) -> Array:
        """The same, of values of f."""
        shown: Array = (values - self.f_star) / (self.fun(self.x0) - self.f_star)
        return shown


def quadratic(dim: int, gradients: int, least: float = 0.01, dtype: Any = np.float64) -> Task:
    """1/2 sum_i c_i (x_i - x*_i)^2, c from the least to 1."""
    curvatures, x_star = np.linspace(least, 1.0, dim), np.linspace(-1.0, 1.0, dim)
    name = np.dtype(dtype).name

    def in_jax(jnp: Any) -> Callable[[Any], Any]:
        c, star = jnp.asarray(curvatures, dtype), jnp.asarray(x_star, dtype)
        return lambda x: 0.5 * jnp.sum(c * (x - star) ** 2)

    return Task(
        title=f"quadratic, d = {dim:,}" + ("" if name == "float64" else f", {name}"),
        problem=cz.problems.Quadratic(curvatures, x_star),
        fun=lambda x: 0.5 * float(np.sum(curvatures * (x - x_star) ** 2)),
        grad=lambda x: curvatures * (x - x_star),
        in_jax=in_jax,
        gradients=gradients,
        f_star=0.0,
        dtype=dtype,
    )


def logistic(n: int, d: int, gradients: int) -> Task:
    """Mean logistic loss on dense rows, with l2 = 1/n."""
    X, y = data.dense(n, d, rotated=True)
    problem = cz.problems.LogisticRegression(X, y, l2=1.0 / n)

    def fun(w: Array) -> float:
        return float(np.logaddexp(0.0, -y * (X @ w)).mean() + 0.5 / n * (w @ w))

    def grad(w: Array) -> Array:
        slopes = -y / (1.0 + np.exp(y * (X @ w)))
        g: Array = X.T @ slopes / n + w / n
        return g

    def in_jax(jnp: Any) -> Callable[[Any], Any]:
        signed = jnp.asarray(y[:, None] * X)
        return lambda w: jnp.logaddexp(0.0, -(signed @ w)).mean() + 0.5 / n * (w @ w)

    best = cz.minimize(problem, np.zeros(d), method="auto", tol=1e-14, rng=0, record=False)
    return Task(
        title=f"logistic regression, dense {n:,} x {d:,}",
        problem=problem,
        fun=fun,
        grad=grad,
        in_jax=in_jax,
        gradients=gradients,
        f_star=fun(best.x),
    )
