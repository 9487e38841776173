"""What a step of `minimize` costs, beside the gradient alone, at d = 100.

    python benchmarks/step.py

Two gradients of the same quadratic: one in NumPy, one a Numba function g(x, out).  The
things compared are timed in turn within each round, so that a busy machine slows all of
them alike; the minimum over the rounds is kept.  Aims: a step with the NumPy gradient
costs at most 3 gradients, a step with the Numba gradient at most 0.3 microseconds, its
stopping test included.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import numpy as np

import continuized as cz

DIM, STEPS, ROUNDS = 100, 20_000, 15
EIGENVALUES = np.linspace(0.01, 1.0, DIM)
X_STAR = np.linspace(-1.0, 1.0, DIM)
TOL = 1e-300  # never met: the test runs at every step


def fun(x):
    return 0.5 * float(np.sum(EIGENVALUES * (x - X_STAR) ** 2))


def grad(x):
    return EIGENVALUES * (x - X_STAR)


@numba.njit
def compiled_grad(x, out):
    for i in range(x.size):
        out[i] = EIGENVALUES[i] * (x[i] - X_STAR[i])


def call_alone(function: Callable[..., object], *arguments: object) -> Callable[[], None]:
    def work() -> None:
        for _ in range(STEPS):
            function(*arguments)

    return work


@numba.njit
def compiled_alone(x, out):
    for _ in range(STEPS):
        compiled_grad(x, out)
        x[0] = out[0]  # or the loop is optimised away


def solve(problem: cz.Problem, **options: object) -> Callable[[], None]:
    def work() -> None:
        r = cz.minimize(problem, np.zeros(DIM), seed=0, maxiter=STEPS, record=False, **options)
        assert r.nit == STEPS, r.message

    return work


def contenders() -> dict[str, Callable[[], None]]:
    python = cz.Problem(fun, grad, L=1.0, mu=0.01, x_star=X_STAR)
    compiled = cz.Problem(fun, compiled_grad, L=1.0, mu=0.01, x_star=X_STAR)
    return {
        "NumPy gradient alone": call_alone(grad, np.zeros(DIM)),
        "minimize, NumPy gradient": solve(python),
        "minimize, NumPy gradient, tol": solve(python, tol=TOL),
        "Numba gradient alone": lambda: compiled_alone(np.zeros(DIM), np.zeros(DIM)),
        "minimize, Numba gradient": solve(compiled),
        "minimize, Numba gradient, tol": solve(compiled, tol=TOL),
    }


def microseconds_per_step(works: dict[str, Callable[[], None]]) -> dict[str, float]:
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()  # compile
    for _ in range(ROUNDS):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            best[name] = min(best[name], (time.perf_counter() - started) / STEPS * 1e6)
    return best


def main() -> None:
    best = microseconds_per_step(contenders())
    print(f"d = {DIM}, {STEPS} steps, minimum of {ROUNDS} interleaved rounds")
    for name, cost in best.items():
        alone = best["NumPy gradient alone" if "NumPy" in name else "Numba gradient alone"]
        print(f"{name:32}{cost:8.3f} us a step{cost / alone:8.2f} x the gradient alone")


if __name__ == "__main__":
    main()
