"""`loop`: what a gradient step costs, beside the accelerated methods of other libraries.

Every contestant takes K gradients of the same function, in its own way, and its time is divided
by the gradients it took; those in NumPy are given the gradient in NumPy, those in JAX the function
in JAX.  Whoever is not below gradient descent after a quarter as many does not solve the problem;
a quarter, for a peer may ask for two gradients a step.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import continuized as cz
from benchmarks import loop_peers
from benchmarks.outcome import TIMED, Contest, Curve, Panel, Suite
from benchmarks.peers import first_line
from benchmarks.task import Recorder, Run, Task, logistic, quadratic
from benchmarks.timing import Contestant, Say, Work, WrongError, compete, quietly

NOTE = (
    "Time for one gradient and the step that it is for; compilation is not counted. Ours tests "
    "every gradient: that it is finite, does not grow for ever and does not contradict L and mu, "
    "unless the eigenvalues of a quadratic prove these, as here; the loop of optax tests nothing. "
    "The L-BFGS-B of SciPy is another method, not told L."
)


NOTE_COMPILED = (
    "The same for compiled loops alone, by the number of variables, in float64 and in float32. "
    "They run so long that a call itself (ours takes 0.2 ms, and 0.8 where its code is not in the "
    "caches) is some per cent at most. The bare loop makes the same steps as ours and tests "
    "nothing; its random times are drawn before it starts, ours meanwhile, by another thread. "
    "Gradients of one's own, of which nothing is known, are each compared with the last."
)
NOTE_NUMPY = (
    "The time of a step whose gradient is a function in NumPy, beside that of calling the function "
    "as often at one point."
)
FLAT = 1e-12  # the least curvature there: nobody gets to the end, where a gradient is zero


class Size(NamedTuple):
    """How much is done.

    dims, numbers: of compiled loops, which take numbers / dim steps.  dims_in_numpy: of gradients
    in NumPy.
    """

    dim: int
    rows: int
    gradients: int  # of the quadratic; of the logistic regression, a hundredth
    repeats: int
    dims: tuple[int, ...] = (10, 100, 1_000, 10_000)
    numbers: int = 4 * 10**7
    dims_in_numpy: tuple[int, ...] = (10, 100, 1_000)


FULL = Size(dim=100, rows=2000, gradients=40_000, repeats=7)
QUICK = Size(dim=100, rows=2000, gradients=20_000, repeats=5)


def run(size: Size, say: Say) -> Suite:
    """The contests of this suite."""
    tasks = [
        quadratic(size.dim, size.gradients),
        logistic(size.rows, size.dim, max(size.gradients // 100, 20)),
    ]
    contests, panels = [], []
    for task in tasks:
        makers = {racer.name: racer.make for racer in contestants(task)}
        contest = time_makers("a gradient step", task, makers, size.repeats, NOTE, say)
        contests.append(contest)
        panels += convergence(task, contest, say)
    for dtype, dim in itertools.product((np.float64, np.float32), size.dims):
        task = quadratic(dim, size.numbers // dim, least=FLAT, dtype=dtype)
        contests.append(
            time_makers("the compiled step", task, COMPILED, size.repeats, NOTE_COMPILED, say)
        )
    for dim in size.dims_in_numpy:
        task = quadratic(dim, size.gradients, least=FLAT)
        contests.append(
            time_makers(
                "a gradient in NumPy and its step", task, WITH_NUMPY, size.repeats, NOTE_NUMPY, say
            )
        )
    return Suite(contests, panels)


def time_makers(
    work: str, task: Task, makers: dict[str, loop_peers.Make], repeats: int, note: str, say: Say
) -> Contest:
    """Time these makers at one task."""
    return compete(
        f"{work}, {task.title}",
        [Contestant(name, partial(make, task)) for name, make in makers.items()],
        repeats=repeats,
        check=partial(below_gradient_descent, task),
        note=note,
        say=say,
    )


@dataclass(frozen=True)
class Racer:
    """A contestant that can also say where it stands after each gradient."""

    name: str
    task: Task
    make: loop_peers.Make

    def prepare(self) -> Work:
        """The work to be timed, without anything recorded."""
        return self.make(self.task)

    def values(self) -> np.ndarray:
        """f after each gradient, as far as it goes."""
        recorder = Recorder()
        quietly(self.make(replace(self.task, recorder=recorder)))
        return np.array(recorder.values)


def contestants(task: Task) -> list[Racer]:
    """Ours first."""
    makers = {
        "continuized": _compiled,
        "continuized, gradient in NumPy": _in_numpy,
        **loop_peers.MAKERS,
    }
    return [Racer(name, task, make) for name, make in makers.items()]


def _compiled(task: Task) -> Work:
    return lambda: ours(task, task.problem)


def _in_numpy(task: Task) -> Work:
    problem = cz.Problem(task.fun, task.grad, L=task.problem.L, mu=task.problem.mu)
    return lambda: ours(task, problem)


def _own_gradient(task: Task) -> Work:
    import numba

    p = task.problem
    eigenvalues, x_star = p.eigenvalues.astype(task.dtype), p.x_star.astype(task.dtype)

    @numba.njit
    def grad(x: Any, out: Any) -> None:
        for c in range(x.size):
            out[c] = eigenvalues[c] * (x[c] - x_star[c])

    problem = cz.Problem(task.fun, grad, L=task.problem.L, mu=task.problem.mu)
    return lambda: ours(task, problem)


COMPILED: dict[str, loop_peers.Make] = {
    "continuized": _compiled,
    "continuized, a compiled gradient of one's own": _own_gradient,
    "a bare loop in Numba": loop_peers.bare_loop,
    "optax, Nesterov": loop_peers.optax_nesterov,
    "jaxopt, accelerated": loop_peers.jaxopt_accelerated,
}


def _gradient_alone(task: Task) -> Work:
    def work() -> Run:
        grad, x = task.grad, task.x0
        for _ in range(task.gradients):
            grad(x)
        # It minimises nothing; x_star passes the check.
        return Run(task.problem.x_star, task.gradients)

    return work


WITH_NUMPY: dict[str, loop_peers.Make] = {
    "continuized": _in_numpy,
    "the gradient alone": _gradient_alone,
}


def ours(task: Task, problem: cz.Problem, method: str = "continuized") -> Run:
    """K steps of one of our methods."""
    recorder = task.recorder
    r = cz.minimize(
        problem, task.x0, method=method, maxiter=task.gradients, rng=0,
        record=recorder is not None,
    )  # fmt: skip
    if recorder is not None:
        recorder.values.extend(r.trace.fun[1:].tolist())
    return Run(r.x, r.nit)


def below_gradient_descent(task: Task, answer: Run) -> float:
    """The gradients taken; WrongError if gradient descent is below after a quarter of them."""
    quarter = replace(task, gradients=max(task.gradients // 4, 1), recorder=None)
    after = task.above(ours(quarter, task.problem, "gradient-descent").x)
    value = task.above(answer.x)
    if not value <= max(after, 1e-12):
        raise WrongError(f"f is {value:.2g} f(x_0) above f*, gradient descent {after:.2g}")
    return float(answer.gradients)


def convergence(task: Task, contest: Contest, say: Say) -> list[Panel]:
    """Against gradients, and against time: gradients times the time of one, as measured."""
    steps, seconds, missing = [], [], []
    for racer, entry in zip(contestants(task), contest.entries, strict=True):
        if entry.status != TIMED or entry.amount is None:
            continue
        say(f"the curve of {racer.name}, {task.title}")
        try:
            above = task.relative(racer.values())
        except Exception as error:  # a peer may fail here that did not when it was timed
            missing.append(f"No curve of {racer.name}: {first_line(error)}.")
            continue
        k = np.arange(1, len(above) + 1.0)
        steps.append(Curve(racer.name, k, above))
        seconds.append(Curve(racer.name, k * entry.amount, above))
    return [
        Panel(task.title, "gradients", tuple(steps), note=" ".join(missing)),
        Panel(task.title, "seconds", tuple(seconds)),
    ]
