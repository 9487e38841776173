"""Every adapter takes the steps of `cz.minimize`: one list of problems, the same event times.

To add an adapter, write a function (case, dtype, events) -> the points x_0, x_1, ..., x_n as
rows of a NumPy array, and give it a line in ADAPTERS.  It is run on every case in float64 and
float32, and its rows must be those of `cz.minimize`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.optimize

import continuized as cz
from continuized.process.clock import Event

STEPS = 60
SEED = 7
# Of the largest entry of any x_k, in the dtype of the run.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


class Case(NamedTuple):
    """A problem in any namespace: fun(xp, x, *data) and grad(xp, x, *data).

    xp has exp, log1p, tanh, abs, sum and where; x and data are its arrays (`case.data` are
    NumPy's, in float64: an adapter makes its own of them, in the dtype of the run).
    """

    fun: Callable[..., Any]
    grad: Callable[..., Any]
    data: tuple[np.ndarray, ...]
    x0: np.ndarray
    L: float
    mu: float
    start: float | None
    is_sharp: bool = False

    @property
    def method(self) -> cz.Method:
        if self.is_sharp:
            return cz.SharpContinuized(self.L, self.mu)
        return cz.Continuized(self.L, self.mu, self.start)


class Events(NamedTuple):
    """The event times T_1 < T_2 < ... and the gaps as drawn; the parameters of event k are those
    at t[k - 1], and the flow before it is over gaps[k - 1]."""

    t: np.ndarray
    gaps: np.ndarray

    @property
    def clock(self) -> cz.clock.Recorded:
        return cz.clock.Recorded(self.t, self.gaps)


# The problems


def quadratic(xp: Any, x: Any, eigenvalues: Any, x_star: Any) -> Any:
    return 0.5 * xp.sum(eigenvalues * (x - x_star) ** 2)


def quadratic_grad(xp: Any, x: Any, eigenvalues: Any, x_star: Any) -> Any:
    return eigenvalues * (x - x_star)


def least_squares(xp: Any, w: Any, X: Any, y: Any) -> Any:
    r = X @ w - y
    return 0.5 * (r @ r) / X.shape[0]


def least_squares_grad(xp: Any, w: Any, X: Any, y: Any) -> Any:
    return X.T @ (X @ w - y) / X.shape[0]


L2 = 0.01


def logistic(xp: Any, w: Any, X: Any, y: Any) -> Any:
    m = y * (X @ w)
    losses = xp.log1p(xp.exp(-xp.abs(m))) + xp.where(m < 0.0, -m, 0.0 * m)
    return xp.sum(losses) / X.shape[0] + 0.5 * L2 * (w @ w)


def logistic_grad(xp: Any, w: Any, X: Any, y: Any) -> Any:
    m = y * (X @ w)
    return X.T @ (-0.5 * y * (1.0 - xp.tanh(0.5 * m))) / X.shape[0] + L2 * w


def log_cosh(xp: Any, x: Any, weights: Any, x_star: Any) -> Any:
    r = xp.abs(x - x_star)
    return xp.sum(weights * (r + xp.log1p(xp.exp(-2.0 * r)) - math.log(2.0)))


def log_cosh_grad(xp: Any, x: Any, weights: Any, x_star: Any) -> Any:
    return weights * xp.tanh(x - x_star)


@cache
def cases() -> dict[str, Case]:
    rng = np.random.default_rng(11)
    X, y = rng.standard_normal((40, 6)), rng.standard_normal(40)
    labels = np.where(y > 0.0, 1.0, -1.0)
    spectrum = np.linalg.eigvalsh(X.T @ X / 40)
    # Not so mild that a gradient is exactly zero after some of the steps: that ends a run.
    mild, wide = np.array([0.05, 1.0, 2.0]), np.logspace(-4.0, 1.0, 6)
    few, many = np.array([1.0, -2.0, 0.5]), rng.standard_normal(6)
    wider, far = np.geomspace(0.05, 2.0, 40), rng.standard_normal(40)
    X200, labels200 = rng.standard_normal((300, 200)), np.sign(rng.standard_normal(300))
    L200 = float(0.25 * np.linalg.eigvalsh(X200.T @ X200 / 300)[-1] + L2)
    logistic_L = float(0.25 * spectrum[-1] + L2)
    functions = {
        "quadratic": (quadratic, quadratic_grad, (mild, few), few.size, 2.0, 0.05),
        "least squares": (
            least_squares,
            least_squares_grad,
            (X, y),
            6,
            float(spectrum[-1]),
            float(spectrum[0]),
        ),
        "logistic": (logistic, logistic_grad, (X, labels), 6, logistic_L, L2),
        "log cosh": (log_cosh, log_cosh_grad, (mild, few), few.size, 2.0, 0.0),
        "quadratic, condition 1e5": (quadratic, quadratic_grad, (wide, many), 6, 10.0, 1e-4),
    }
    functions |= {
        "quadratic, d = 40": (quadratic, quadratic_grad, (wider, far), 40, 2.0, 0.05),
        "logistic, d = 200": (logistic, logistic_grad, (X200, labels200), 200, L200, L2),
    }
    found = {}
    for name, (fun, grad, data, dim, L, mu) in functions.items():
        for its_mu in sorted({0.0, mu}):
            for start in (None, 2.0):
                case = Case(fun, grad, data, np.full(dim, 0.25), L, its_mu, start)
                found[f"{name}, mu = {its_mu:.2g}, start = {start}"] = case
    for name, mu in (("quadratic", 0.05), ("logistic", L2)):
        case = found[f"{name}, mu = {mu:.2g}, start = None"]
        found[f"{name}, sharp"] = case._replace(is_sharp=True)
    return found


@cache
def reference(name: str, dtype: str) -> tuple[Events, np.ndarray]:
    """The events, and the points x_0, ..., x_n of `cz.minimize` in NumPy, one a row."""
    case = cases()[name]
    data = [array.astype(dtype) for array in case.data]
    r = cz.minimize(
        lambda x: case.fun(np, x, *data),
        case.x0.astype(dtype),
        lambda x: case.grad(np, x, *data),
        method=case.method,
        rng=SEED,
        maxiter=STEPS,
        record="path",
    )
    return Events(r.path.t[1:], r.path.dt[1:]), r.path.x


# The adapters


def method_step(case: Case, dtype: str, events: Events) -> np.ndarray:
    """No adapter: `method.step` by itself, in NumPy."""
    data = [array.astype(dtype) for array in case.data]
    state = case.method.init(case.x0.astype(dtype))
    rows = [state.x]
    for k, (t, dt) in enumerate(zip(events.t.tolist(), events.gaps.tolist(), strict=True), 1):
        state, _ = case.method.step(state, Event(k, t, dt), lambda x, mark: case.grad(np, x, *data))
        rows.append(state.x)
    return np.array(rows)


def scipy_minimize(case: Case, dtype: str, events: Events) -> np.ndarray:
    data = [array.astype(dtype) for array in case.data]
    rows = [case.x0.astype(dtype)]
    options = {"L": case.L, "mu": case.mu, "start": case.start, "clock": events.clock}
    options["method"] = case.method.name
    scipy.optimize.minimize(
        lambda x, *data: case.fun(np, x, *data),
        case.x0.astype(dtype),
        tuple(data),
        method=cz.scipy_method,
        jac=lambda x, *data: case.grad(np, x, *data),
        tol=0.0,
        callback=rows.append,
        options={**options, "maxiter": len(events.t)},
    )
    return np.array(rows)


def array_api(xp: Any, case: Case, dtype: str, events: Events) -> np.ndarray:
    """`cz.minimize` on arrays of another library, and their path."""
    data = [xp.asarray(array.astype(dtype)) for array in case.data]
    r = cz.minimize(
        lambda x: case.fun(xp, x, *data),
        xp.asarray(case.x0.astype(dtype)),
        lambda x: case.grad(xp, x, *data),
        method=case.method,
        clock=events.clock,
        record="path",
    )
    assert type(r.x) is type(data[0])
    return np.from_dlpack(r.path.x)


def array_api_torch(case: Case, dtype: str, events: Events) -> np.ndarray:
    import torch

    return array_api(torch, case, dtype, events)


def array_api_strict(case: Case, dtype: str, events: Events) -> np.ndarray:
    import array_api_strict

    return array_api(array_api_strict, case, dtype, events)


def torch_optimizer(case: Case, dtype: str, events: Events) -> np.ndarray:
    import torch

    from continuized.adapters.torch import Continuized

    data = [torch.tensor(array.astype(dtype)) for array in case.data]
    w = torch.tensor(case.x0.astype(dtype), requires_grad=True)
    own = {"mu": case.mu, "start": case.start, "method": case.method.name, "rng": SEED}
    optimizer = Continuized([w], lr=1.0 / case.L, **own)
    rows = [w.detach().numpy().copy()]
    for _ in events.t:
        optimizer.zero_grad()
        case.fun(torch, w, *data).backward()
        optimizer.step()
        with optimizer.evaluating():
            rows.append(w.detach().numpy().copy())
    return np.array(rows)


@cache
def in_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """One object a function: JAX compiles anew for another."""
    import jax.numpy as jnp

    return partial(function, jnp)


def optax_rows(grad: Any, x0: Any, data: Any, constants: Any, gaps: Any) -> Any:
    import jax
    import optax

    from continuized.adapters.optax import continuized, continuized_eval_params

    L, mu, start = constants
    optimiser = continuized(1.0 / L, mu, start, clock=gaps)

    def step(carry: Any, _: Any) -> Any:
        y, state = carry
        updates, state = optimiser.update(grad(y, *data), state, y)
        return (optax.apply_updates(y, updates), state), continuized_eval_params(state, y)

    return jax.lax.scan(step, (x0, optimiser.init(x0)), length=STEPS)[1]


def optax_transformation(case: Case, dtype: str, events: Events) -> np.ndarray:
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(optax_rows, static_argnums=0)
    with jax.enable_x64(dtype == "float64"):
        x0, *data, gaps = (jnp.asarray(a, dtype) for a in (case.x0, *case.data, events.gaps))
        constants = [jnp.asarray(c, dtype) for c in case.method.constants]
        rows = compiled(in_jax(case.grad), x0, data, constants, gaps)
        return np.concatenate([x0[None], rows])


def jax_minimize(case: Case, dtype: str, events: Events) -> np.ndarray:
    """Runs of 0, 1, ..., n steps."""
    import jax
    import jax.numpy as jnp

    from continuized.adapters.jax import minimize

    with jax.enable_x64(dtype == "float64"):
        x0, *data = (jnp.asarray(a, dtype) for a in (case.x0, *case.data))
        options = {"L": case.L, "mu": case.mu, "start": case.start, "method": case.method.name}
        options["clock"] = events.clock
        run = partial(minimize, in_jax(case.fun), x0, tuple(data), **options)
        return np.array([run(maxiter=n).x for n in range(STEPS + 1)])


ADAPTERS: dict[str, Callable[[Case, str, Events], np.ndarray]] = {
    "method.step": method_step,
    "scipy.optimize.minimize": scipy_minimize,
    "array API, torch": array_api_torch,
    "array API, array-api-strict": array_api_strict,
    "PyTorch optimizer": torch_optimizer,
    "optax": optax_transformation,
    "JAX": jax_minimize,
}
NEEDS = {
    "array API, torch": ["torch"],
    "array API, array-api-strict": ["array_api_strict"],
    "PyTorch optimizer": ["torch"],
    "optax": ["jax", "optax"],
    "JAX": ["jax"],
}
every_adapter = pytest.mark.parametrize(
    "adapter",
    [
        pytest.param(each, marks=pytest.mark.needs(*NEEDS[each])) if each in NEEDS else each
        for each in ADAPTERS
    ],
)


def takes(adapter: str, case: Case) -> bool:
    """Whether an adapter has the method of a case: that of optax has the paper's only."""
    return not (adapter == "optax" and case.is_sharp)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", cases())
@every_adapter
def test_the_steps_are_those_of_minimize(adapter: str, name: str, dtype: str) -> None:
    if not takes(adapter, cases()[name]):
        return
    events, expected = reference(name, dtype)
    rows = ADAPTERS[adapter](cases()[name], dtype, events)
    assert rows.dtype == expected.dtype == dtype
    assert rows.shape == expected.shape
    assert np.abs(rows - expected).max() <= TOLERANCE[dtype] * np.abs(expected).max()
