"""The peers of `loop`: each makes K gradients of a task, as its documentation shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import continuized as cz
from benchmarks.peers import in_doubles, load
from benchmarks.task import Run, Task
from benchmarks.timing import Work
from continuized.problems.base import Array
from continuized.process.compiled import coefficients as event_coefficients
from continuized.support.alignment import LINE, aligned_zeros

Make = Callable[[Task], Work]


class Counted:
    """f and its gradient in NumPy, with a count; with a recorder, f is noted."""

    def __init__(self, task: Task) -> None:
        self.task, self.count = task, 0

    def __call__(self, x: Array) -> tuple[float, Array]:
        self.count += 1
        value = self.task.fun(x)
        if self.task.recorder is not None:
            # A method may try a point and leave it: the best so far is what it has.
            best = min(value, *self.task.recorder.values[-1:], np.inf)
            self.task.recorder.values.append(best)
        return value, self.task.grad(x)


def scipy_lbfgs(task: Task) -> Work:
    """L-BFGS-B, until it can go no further or has had its gradients."""
    from scipy.optimize import minimize

    def work() -> Run:
        f = Counted(task)
        options = {"maxiter": task.gradients, "maxfun": task.gradients, "ftol": 0.0, "gtol": 0.0}
        r = minimize(f, task.x0, jac=True, method="L-BFGS-B", options=options)
        return Run(r.x, f.count)

    return work


def copt_accelerated(task: Task) -> Work:
    """FISTA with a fixed step.  Each iteration asks for two gradients."""
    copt, step = load("copt"), 1.0 / task.problem.L

    def work() -> Run:
        f = Counted(task)
        r = copt.minimize_proximal_gradient(
            f, task.x0, jac=True, step=lambda state: step, accelerated=True,
            max_iter=max(task.gradients // 2, 1), tol=0.0,
        )  # fmt: skip
        return Run(r.x, f.count)

    return work


def optax_nesterov(task: Task) -> Work:
    """SGD with Nesterov's momentum, in a compiled loop."""
    jax, optax = load("jax"), load("optax")
    keep = task.recorder is not None

    def prepare() -> Any:
        fun = task.in_jax(jax.numpy)
        method = optax.sgd(1.0 / task.problem.L, momentum=task.momentum, nesterov=True)

        def step(carried: Any, _: Any) -> Any:
            x, state = carried
            updates, state = method.update(jax.grad(fun)(x), state)
            x = optax.apply_updates(x, updates)
            return (x, state), fun(x) if keep else None

        def whole(x: Any) -> Any:
            (x, _), values = jax.lax.scan(step, (x, method.init(x)), length=task.gradients)
            return x, task.gradients, values

        return jax.jit(whole)

    return _through_jax(task, in_doubles(prepare)())


def optimistix_nesterov(task: Task) -> Work:
    """The same method, driven by optimistix.

    It iterates as optax does, and so shares its curve.
    """
    if task.recorder is not None:
        return optax_nesterov(task)
    jax, optax, optimistix = load("jax"), load("optax"), load("optimistix")

    def prepare() -> Any:
        fun = task.in_jax(jax.numpy)
        method = optax.sgd(1.0 / task.problem.L, momentum=task.momentum, nesterov=True)
        solver = optimistix.OptaxMinimiser(method, rtol=0.0, atol=0.0)

        def whole(x: Any) -> Any:
            r = optimistix.minimise(
                lambda x, args: fun(x), solver, x, max_steps=task.gradients, throw=False
            )
            return r.value, r.stats["num_steps"], None

        return jax.jit(whole)

    return _through_jax(task, in_doubles(prepare)())


def jaxopt_accelerated(task: Task) -> Work:
    """Gradient descent with FISTA's momentum and a fixed step."""
    jax, jaxopt = load("jax"), load("jaxopt")

    def prepare() -> Any:
        fun = task.in_jax(jax.numpy)
        solver = jaxopt.GradientDescent(
            fun, stepsize=1.0 / task.problem.L, acceleration=True, maxiter=task.gradients, tol=0.0
        )

        def until_done(x: Any) -> Any:
            r = solver.run(x)
            return r.params, r.state.iter_num, None

        if task.recorder is None:
            return jax.jit(until_done)

        def step(carried: Any, _: Any) -> Any:
            x, state = solver.update(*carried)
            return (x, state), fun(x)

        def whole(x: Any) -> Any:
            (x, _), values = jax.lax.scan(step, (x, solver.init_state(x)), length=task.gradients)
            return x, task.gradients, values

        return jax.jit(whole)

    return _through_jax(task, in_doubles(prepare)())


def _through_jax(task: Task, compiled: Any) -> Work:
    """Call what gives (x, how many gradients it took, f after each of them or None)."""
    jax = load("jax")

    def work() -> Run:
        x, taken, values = jax.block_until_ready(compiled(jax.numpy.asarray(task.x0)))
        if task.recorder is not None:
            task.recorder.values.extend(np.asarray(values).tolist())
        return Run(np.asarray(x), int(taken))  # one that finds the gradient to be zero ends there

    return in_doubles(work)


def bare_loop(task: Task) -> Work:
    """Our own steps of a quadratic in Numba, nothing tested: what the arithmetic alone takes.

    The times of the events are drawn, and the coefficients made of them, before the clock starts.
    """
    import numba

    p = task.problem
    method = cz.Continuized(p.L, p.mu)
    events = method.clock(0).stream().draw(task.gradients)
    coefficients = np.ascontiguousarray(event_coefficients(method, events, 0.0), task.dtype)

    @numba.njit(fastmath={"reassoc", "contract"})
    def loop(eigenvalues: Any, x_star: Any, x: Any, z: Any, coefficients: Any) -> None:
        for i in range(coefficients.shape[0]):
            a, b = coefficients[i, 0], coefficients[i, 1]
            gamma, gamma_prime = coefficients[i, 2], coefficients[i, 3]
            for c in range(x.size):
                y = x[c] + a * (z[c] - x[c])
                w = z[c] + b * (x[c] - z[c])
                g = eigenvalues[c] * (y - x_star[c])
                x[c], z[c] = y - gamma * g, w - gamma_prime * g

    # Each begins with a cache line: otherwise its time would depend on where memory happens to be.
    line = LINE // np.dtype(task.dtype).itemsize
    rows = aligned_zeros((4, -(-p.dim // line) * line), task.dtype)
    eigenvalues, x_star, x, z = rows[:, : p.dim]
    eigenvalues[:], x_star[:] = p.eigenvalues, p.x_star

    def work() -> Run:
        x[:] = z[:] = task.x0
        loop(eigenvalues, x_star, x, z, coefficients)
        return Run(x.copy(), task.gradients)

    return work


MAKERS: dict[str, Make] = {
    "optax, Nesterov": optax_nesterov,
    "optimistix, Nesterov of optax": optimistix_nesterov,
    "jaxopt, accelerated": jaxopt_accelerated,
    "copt, accelerated": copt_accelerated,
    "SciPy, L-BFGS-B": scipy_lbfgs,
}
