"""What the cases share: seeds, data, problems, methods."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numba
import numpy as np
from scipy import sparse

import continuized as cz

Cases = Iterator[tuple[str, Callable[[], Any]]]
DTYPES = {"float64": np.float64, "float32": np.float32}
STEPS = 30


def seed_name(function: Callable[..., Any]) -> str:
    """The keyword for randomness: rng, or seed in older trees."""
    return "seed" if "seed" in inspect.signature(function).parameters else "rng"


def seeded(function: Callable[..., Any], *args: Any, seed: Any = 0, **options: Any) -> Any:
    """Call a function with a seed, under the name that its tree has for it."""
    return function(*args, **{seed_name(function): seed}, **options)


minimize = partial(seeded, cz.minimize)


def table(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, some of them 0, and labels with noise."""
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[:d] += np.eye(d)
    return X, X @ np.linspace(-1.0, 1.0, d) + 0.3 * rng.standard_normal(n)


def user_fun(x: np.ndarray) -> float:
    """A smooth function that is no quadratic: L = 1.5, mu = 0.5."""
    return float(np.sum(np.log(np.cosh(x - 1.0))) + 0.25 * np.sum(x * x))


def user_grad(x: np.ndarray) -> np.ndarray:
    """The gradient of `user_fun`."""
    return np.asarray(np.tanh(x - 1.0) + x.dtype.type(0.5) * x)


@numba.njit
def compiled_grad(x, out):  # type: ignore[no-untyped-def]
    """The gradient of `user_fun`, for Numba."""
    for i in range(x.size):
        out[i] = math.tanh(x[i] - 1.0) + 0.5 * x[i]


def quadratic(d: int) -> Any:
    """A quadratic of d variables, with condition number 100."""
    return cz.problems.Quadratic(np.geomspace(0.02, 2.0, d), np.linspace(-1.0, 1.0, d))


@cache
def problems() -> dict[str, Any]:
    """Every kind of function that can be minimised, by name."""
    (X, y), (wide, wide_y) = table(60, 12), table(300, 200)
    S, signs, classes = sparse.csr_array(X), np.sign(y), np.digitize(y, [-0.7, 0.7])
    least, logistic = cz.problems.LeastSquares, cz.problems.LogisticRegression
    softmax = cz.problems.SoftmaxRegression
    how: dict[str, Any] = {"weights": np.linspace(0.5, 1.5, 60), "intercept": True}
    user = {"L": 1.5, "mu": 0.5}
    found = {
        "quadratic-3": quadratic(3),
        "quadratic-40": quadratic(40),
        "quadratic-200": quadratic(200),
        "least-squares": least(X, y, 0.01),
        "least-squares-sparse": least(S, y, 0.01),
        "least-squares-weights": least(X, y, 0.01, **how),
        "logistic": logistic(X, signs, 0.01),
        "logistic-200": logistic(wide, np.sign(wide_y), 0.01),
        "logistic-mu-0": logistic(X, signs, 0.0),
        "logistic-sparse": logistic(S, signs, 0.01),
        "logistic-weights": logistic(X, signs, 0.01, **how),
        "logistic-sparse-weights": logistic(S, signs, 0.01, **how),
        "softmax": softmax(X, classes, 0.01),
        "softmax-sparse-weights": softmax(S, classes, 0.01, **how),
        "user-python": cz.Problem(user_fun, user_grad, **user),
        "user-compiled": cz.Problem(user_fun, compiled_grad, **user),
        "user-both": cz.Problem(lambda x: (user_fun(x), user_grad(x)), value_and_grad=True, **user),
    }
    for name in ("quadratic-40", "least-squares", "logistic-sparse"):  # not compiled
        p = found[name]
        known = {"L": p.L, "mu": p.mu, "x_star": p.x_star}
        found[f"{name}-python"] = cz.Problem(p.fun, p.grad, **known)
    return found


@cache
def solvable() -> Any:
    """A linear system that has a solution."""
    X, _ = table(60, 12)
    return cz.problems.LeastSquares(X, X @ np.ones(12))


def start_of(p: Any = None, dtype: Any = np.float64) -> np.ndarray:
    """Where a run on this problem begins."""
    return np.linspace(0.3, -0.2, getattr(p, "dim", None) or 5).astype(dtype)


def custom(L: float) -> Any:
    """The paper's convex process, its parameters given as functions of the user's own."""
    return cz.CustomContinuized(
        eta=lambda t: 2.0 / t if t > 0.0 else math.inf,
        eta_prime=lambda t: 0.0,
        gamma=lambda t: 1.0 / L,
        gamma_prime=lambda t: t / (2.0 * L),
        L=L,
    )


METHODS: dict[str, Callable[[float, float], Any]] = {
    "gradient-descent": lambda L, mu: cz.GradientDescent(L),
    "nesterov": lambda L, mu: cz.Nesterov(L),
    "nesterov-mu": lambda L, mu: cz.Nesterov(L, mu),
    "continuized": lambda L, mu: cz.Continuized(L),
    "continuized-start-5": lambda L, mu: cz.Continuized(L, start=5.0),
    "continuized-mu": lambda L, mu: cz.Continuized(L, mu),
    "continuized-mu-start-0": lambda L, mu: cz.Continuized(L, mu, 0.0),
    "continuized-mu-start-2": lambda L, mu: cz.Continuized(L, mu, 2.0),
    "custom": lambda L, mu: custom(L),
}


def run_known(method: str, problem: str, dtype: Any = np.float64, **options: Any) -> Any:
    """A run of a method with the problem's own constants."""
    p = problems()[problem]
    chosen = METHODS[method](p.L, p.mu or 0.0)
    given = {"record": "path", "maxiter": STEPS, "seed": 4} | options
    return minimize(p, start_of(p, dtype), method=chosen, **given)


def clocks() -> dict[str, Callable[[], Any]]:
    """Clocks without marks, by name."""
    times = np.cumsum(np.random.default_rng(3).exponential(size=50))
    parts = (cz.clock.Poisson(1, 0.5), cz.clock.Unit(), cz.clock.Poisson(2, 2.0))
    return {
        "poisson": lambda: cz.clock.Poisson(3),
        "poisson-rate": lambda: cz.clock.Poisson(3, 2.5),
        "unit": lambda: cz.clock.Unit(),
        "recorded": lambda: cz.clock.Recorded(times),
        "recorded-gaps": lambda: cz.clock.Recorded(times, np.diff(times, prepend=0.0)),
        "merged": lambda: cz.clock.Merged(parts),
    }
