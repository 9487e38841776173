"""The registries: every method and every problem that the tests run through, listed once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq

import continuized as cz
from continuized.process.random_streams import seed_sequence
from continuized.support.jit import HAS_NUMBA, njit

START = 0.25  # every entry of x0, unless a test says otherwise
STEPS = 25  # of `run`


def convex_process(L: float) -> cz.CustomContinuized:
    """The paper's convex process, its parameters given as the user's own functions."""
    return cz.CustomContinuized(
        eta=lambda t: 2.0 / t if t > 0.0 else math.inf,
        eta_prime=lambda t: 0.0,
        gamma=lambda t: 1.0 / L,
        gamma_prime=lambda t: t / (2.0 * L),
        L=L,
    )


METHODS: dict[str, Callable[[float, float], Any]] = {
    "gradient-descent": lambda L, mu: cz.GradientDescent(L),
    "nesterov, mu = 0": lambda L, mu: cz.Nesterov(L),
    "nesterov, mu > 0": lambda L, mu: cz.Nesterov(L, mu),
    "continuized, mu = 0, start = 0": lambda L, mu: cz.Continuized(L),
    "continuized, mu = 0, start = 0.3": lambda L, mu: cz.Continuized(L, start=0.3),
    "continuized, mu = 0, start = 5": lambda L, mu: cz.Continuized(L, start=5.0),
    "continuized, mu > 0, start = 0": lambda L, mu: cz.Continuized(L, mu, 0.0),
    "continuized, mu > 0, start = 0.3": lambda L, mu: cz.Continuized(L, mu, 0.3),
    "continuized, mu > 0, start = 5": lambda L, mu: cz.Continuized(L, mu, 5.0),
    "continuized, mu > 0, start = inf": lambda L, mu: cz.Continuized(L, mu, math.inf),
    "sharp": lambda L, mu: cz.SharpContinuized(L, mu),
    "custom": lambda L, mu: convex_process(L),
}


# psi, in whose domains x0_of(p) is.
PENALTIES: dict[str, Any] = {
    "L1": cz.prox.L1(0.1),
    "elastic net": cz.prox.ElasticNet(0.1, 0.2),
    "box": cz.prox.Box(-0.5, 0.4),
    "non-negative": cz.prox.NonNegative(),
    "ball": cz.prox.L2Ball(10.0),
    "a function": lambda v, step: v / (1.0 + 0.3 * step),
}


def data(n: int = 30, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(20)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[:d] += np.eye(d)
    return X, rng.standard_normal(n)


EIGENVALUES = np.array([0.5, 1.0, 2.0])


def user_fun(x: np.ndarray) -> float:
    """A smooth function, not quadratic: log cosh, plus a quadratic."""
    return float(np.sum(np.log(np.cosh(x - 1.0))) + 0.25 * np.sum(x * x))


def user_grad(x: np.ndarray) -> np.ndarray:
    return np.tanh(x - 1.0) + 0.5 * x


def user_both(x: np.ndarray) -> tuple[float, np.ndarray]:
    return user_fun(x), user_grad(x)


@njit
def numba_grad(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = math.tanh(x[i] - 1.0) + 0.5 * x[i]


if not HAS_NUMBA:
    numba_grad = user_grad


USER = {"L": 1.5, "mu": 0.5}
USER_STAR = np.full(3, brentq(lambda x: math.tanh(x - 1.0) + 0.5 * x, 0.0, 1.0, xtol=1e-16))


def large_problems(d: int) -> dict[str, Any]:
    """A quadratic and a dense and a sparse regression in d dimensions.  Their condition numbers are
    from 12 to 100, so that the tolerances of d = 3 hold: what loops in SIMD lanes and sums of many
    products differ by is some 10 eps."""
    X, y = data(3 * d, d)
    rng = np.random.default_rng(d)
    labels = np.where(y > 0.0, 1.0, -1.0)
    return {
        f"quadratic, d = {d}": cz.problems.Quadratic(
            np.geomspace(0.02, 2.0, d), rng.standard_normal(d)
        ),
        f"least squares, d = {d}": cz.problems.LeastSquares(X, y, l2=0.01),
        f"logistic, sparse, d = {d}": cz.problems.LogisticRegression(
            sparse.csr_array(X), labels, l2=0.01
        ),
    }


@cache
def problems() -> dict[str, Any]:
    X, y = data()
    labels = np.where(y > 0.0, 1.0, -1.0)
    return {
        "paper convex": cz.problems.paper_convex(),
        "paper strongly convex": cz.problems.paper_strongly_convex(),
        "quadratic": cz.problems.Quadratic(EIGENVALUES, [1.0, -2.0, 0.5]),
        "quadratic, mu = 0": cz.problems.Quadratic([0.0, 1e-3, 3.0], [1.0, 1.0, 1.0]),
        "quadratic, one variable": cz.problems.Quadratic([2.0], [1.0]),
        "least squares": cz.problems.LeastSquares(X, y),
        "least squares, sparse": cz.problems.LeastSquares(sparse.csr_array(X), y, l2=0.1),
        "logistic": cz.problems.LogisticRegression(X, labels, l2=0.01),
        "logistic, sparse": cz.problems.LogisticRegression(sparse.csr_array(X), labels),
        "huber": cz.problems.HuberRegression(X, y, l2=0.01, delta=0.5),
        "user": cz.Problem(user_fun, user_grad, **USER, x_star=USER_STAR),
        "user, Numba gradient": cz.Problem(user_fun, numba_grad, **USER, x_star=USER_STAR),
        "user, value and gradient": cz.Problem(
            user_both, **USER, x_star=USER_STAR, value_and_grad=True
        ),
        **large_problems(40),
        **large_problems(200),
    }


PROBLEMS = tuple(problems())
# A method for mu > 0 on a problem of mu = 0 is a wrong constant, and rightly warned of.
PAIRS = [
    (name, on)
    for on in PROBLEMS
    for name in METHODS
    if METHODS[name](1.0, 0.5).mu == 0.0 or problems()[on].mu
]
# Every method and every problem, but not each with each: 5 and their numbers have no common factor.
SOME_PAIRS = PAIRS[::5]
PYTHON_PROBLEMS = ("user", "user, value and gradient")

every_penalty = pytest.mark.parametrize("penalty", PENALTIES)
every_method = pytest.mark.parametrize("name", METHODS)
every_pair = pytest.mark.parametrize(("name", "on"), PAIRS)
some_pairs = pytest.mark.parametrize(("name", "on"), SOME_PAIRS)


def problem(name: str) -> Any:
    return problems()[name]


def method(name: str, p: Any) -> Any:
    return METHODS[name](p.L, p.mu)


def x0_of(p: Any, dtype: Any = np.float64) -> np.ndarray:
    return np.full(p.dim, START, dtype)


def oracle_of(p: Any) -> Callable[[Any, Any], Any]:
    """The gradient as `method.step` asks for it: (x, mark) -> g, the mark added if any."""
    return lambda x, mark: p.grad(x) if mark is None else p.grad(x) + mark


def plain_loop(
    m: Any, p: Any, x0: np.ndarray, events: Any, marks: Any = None, move: Any = None
) -> list[Any]:
    """The states of a run, by nothing but `init` and `step`."""
    states = [m.init(x0)]
    for i, event in enumerate(events.each()):
        mark = None if marks is None else marks[i]
        states.append(m.step(states[-1], event._replace(mark=mark), oracle_of(p), move)[0])
    return states


def events_of(m: Any, seed: Any, n: int) -> Any:
    """The events that `minimize` with this seed runs on."""
    return m.clock(seed_sequence(seed)).stream().draw(n)


def run(m: Any, p: Any, **options: Any) -> Any:
    settings = {"rng": 4, "maxiter": STEPS, "record": "path"} | options
    return cz.minimize(p, settings.pop("x0", x0_of(p)), method=m, **settings)


def same_bits(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
