"""Seeded cases on the public names of the package, for `tools/compare_runs.py`.

    PYTHONPATH=TREE/src python tools/compare_cases.py OUT [--only PATTERN] [--list]

Runs every case with the package of that tree and writes OUT.npz (numbers) and OUT.json (words, what
was raised, seconds).  Only public names stand here, so that the same file runs on an old tree and
on a new one.  Sizes are small: a case takes milliseconds once everything is compiled.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import fnmatch
import gzip
import importlib
import importlib.util
import inspect
import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from scipy import optimize, sparse

import continuized as cz
from continuized import network, theory

CASES: dict[str, Callable[[], Any]] = {}
STEPS = 30
DTYPES = {"f64": np.float64, "f32": np.float32}
# What depends on the machine's speed, or is words that may be put better.
LEFT_OUT = {"message", "method", "events_per_s", "root"}


def add(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Register a case, which returns whatever is to be compared."""
    assert name not in CASES, name
    CASES[name] = partial(function, *args, **options)


def seeded(function: Callable[..., Any], *args: Any, seed: Any = 0, **options: Any) -> Any:
    """Call a function with a seed, under the name that its tree has for it."""
    return function(*args, **{seed_name(function): seed}, **options)


def seed_name(function: Callable[..., Any]) -> str:
    """The keyword for randomness: rng, or seed in older trees."""
    return "rng" if "rng" in inspect.signature(function).parameters else "seed"


minimize = partial(seeded, cz.minimize)
simulate = partial(seeded, network.simulate)


# Problems


def table(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, some of them 0, and labels with noise."""
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[:d] += np.eye(d)
    return X, X @ np.linspace(-1.0, 1.0, d) + 0.3 * rng.standard_normal(n)


def user_fun(x: np.ndarray) -> float:
    """A smooth function that is no quadratic."""
    return float(np.sum(np.log(np.cosh(x - 1.0))) + 0.25 * np.sum(x * x))


def user_grad(x: np.ndarray) -> np.ndarray:
    """The gradient of `user_fun`."""
    return np.asarray(np.tanh(x - 1.0) + x.dtype.type(0.5) * x)


@numba.njit
def compiled_grad(x, out):  # type: ignore[no-untyped-def]
    """The gradient of `user_fun`, as Numba compiles it."""
    for i in range(x.size):
        out[i] = math.tanh(x[i] - 1.0) + 0.5 * x[i]


def quadratic(d: int) -> Any:
    """A quadratic of d variables, with condition number 100."""
    return cz.problems.Quadratic(np.geomspace(0.02, 2.0, d), np.linspace(-1.0, 1.0, d))


@cache
def problems() -> dict[str, Any]:
    """Every kind of function that can be minimised, by name."""
    X, y = table(60, 12)
    S, signs, weights = sparse.csr_array(X), np.sign(y), np.linspace(0.5, 1.5, 60)
    classes = np.digitize(y, [-0.7, 0.7])
    least, logistic = cz.problems.LeastSquares, cz.problems.LogisticRegression
    softmax = cz.problems.SoftmaxRegression
    own = [least(X, y, 0.01), logistic(S, signs, 0.01), quadratic(40)]
    names = ("least-squares", "logistic-sparse", "quadratic-40")
    by_python = {
        f"{name}-by-python": cz.Problem(p.fun, p.grad, L=p.L, mu=p.mu, x_star=p.x_star)
        for name, p in zip(names, own, strict=True)
    }
    user = {"L": 1.5, "mu": 0.5}
    return by_python | {
        "quadratic-3": quadratic(3),
        "quadratic-40": quadratic(40),
        "quadratic-200": quadratic(200),
        "least-squares": own[0],
        "least-squares-sparse": least(S, y, 0.01),
        "least-squares-weights": least(X, y, 0.01, weights=weights, intercept=True),
        "logistic": logistic(X, signs, 0.01),
        "logistic-200": logistic(*signed(300, 200), 0.01),
        "logistic-mu-0": logistic(X, signs, 0.0),
        "logistic-sparse": own[1],
        "logistic-weights": logistic(X, signs, 0.01, weights=weights, intercept=True),
        "logistic-sparse-weights": logistic(S, signs, 0.01, weights=weights, intercept=True),
        "softmax": softmax(X, classes, 0.01),
        "softmax-sparse-weights": softmax(S, classes, 0.01, weights=weights, intercept=True),
        "user-python": cz.Problem(user_fun, user_grad, **user),
        "user-compiled": cz.Problem(user_fun, compiled_grad, **user),
        "user-both": cz.Problem(lambda x: (user_fun(x), user_grad(x)), value_and_grad=True, **user),
    }


def signed(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels -1 and 1."""
    X, y = table(n, d)
    return X, np.sign(y)


def start_of(p: Any, dtype: Any = np.float64) -> np.ndarray:
    """Where a run on this problem begins."""
    d = getattr(p, "dim", None) or 5
    return np.linspace(0.3, -0.2, d).astype(dtype)


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


# Known constants: every method on every problem, and every option


def run_known(method: str, problem: str, dtype: Any, **options: Any) -> Any:
    """A run of a method with the problem's own constants."""
    p = problems()[problem]
    chosen = METHODS[method](p.L, p.mu or 0.0)
    options = {"record": "path", "maxiter": STEPS} | options
    return minimize(p, start_of(p, dtype), method=chosen, seed=4, **options)


def run_between() -> Any:
    """The path between events, from either side."""
    r = run_known("continuized-mu", "logistic", np.float64)
    t = float(r.trace.t[7])
    return [r.at(t), r.at(t, "left"), r.at(0.4 * t), r.at(0.0)]


def run_callback(problem: str) -> Any:
    """What a callback is given, until it stops the run."""
    seen: list[Any] = []

    def callback(intermediate_result: Any) -> None:
        got = intermediate_result
        seen.append([got.x.copy(), got.fun, got.nit, got.t])
        if len(seen) == 12:
            raise StopIteration

    return [run_known("continuized", problem, np.float64, callback=callback), seen]


def run_nonfinite(nonfinite: str, **constants: float) -> Any:
    """A gradient that is not finite on a part of the space."""

    def grad(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x - 1.0).max() < 0.4, np.nan, user_grad(x))

    options = {"nonfinite": nonfinite, "maxiter": STEPS}
    return minimize(user_fun, start_of(None), grad, **constants, **options)


def run_sequence(problem: str) -> Any:
    """A seed that is a SeedSequence."""
    p = problems()[problem]
    return minimize(p, start_of(p), seed=np.random.SeedSequence(5), maxiter=STEPS)


def clocks() -> dict[str, Callable[[], Any]]:
    """Clocks without marks, by name."""
    times = np.cumsum(np.random.default_rng(3).exponential(size=50))
    gaps = np.diff(times, prepend=0.0)
    return {
        "poisson": lambda: cz.clock.Poisson(3),
        "poisson-rate": lambda: cz.clock.Poisson(3, 2.5),
        "unit": lambda: cz.clock.Unit(),
        "recorded": lambda: cz.clock.Recorded(times),
        "recorded-gaps": lambda: cz.clock.Recorded(times, gaps),
        "merged": lambda: cz.clock.Merged(
            [cz.clock.Poisson(1, 0.5), cz.clock.Unit(), cz.clock.Poisson(2, 2.0)]
        ),
    }


def add_known() -> None:
    for problem, p in problems().items():
        for method in METHODS:
            if p.mu or "mu" not in method:
                for dtype, kind in DTYPES.items():
                    add(f"known/{method}/{problem}/{dtype}", run_known, method, problem, kind)
    for problem in ("quadratic-40", "logistic", "user-python", "user-compiled"):
        known = partial(run_known, "continuized-mu", problem, np.float64)
        for record in (True, False):
            add(f"options/record-{record}/{problem}", known, record=record)
        add(f"options/tol/{problem}", known, maxiter=None, tol=1e-5, record=True)
        add(f"options/tol-f32/{problem}", run_known, "nesterov", problem, np.float32,
            maxiter=None, tol=1e-3)  # fmt: skip
        add(f"options/noise/{problem}", known, noise=cz.noise.Gaussian(1e-2))
        add(f"options/callback/{problem}", run_callback, problem)
        for name, make in clocks().items():
            add(f"options/clock-{name}/{problem}", lambda k=known, m=make: k(clock=m()))
        add(f"options/seed-sequence/{problem}", run_sequence, problem)
    add("options/generator", lambda: minimize(
        quadratic(3), np.ones(3), seed=np.random.default_rng(8), maxiter=STEPS))  # fmt: skip
    add("options/wrong-L", minimize, quadratic(3), np.zeros(3), L=0.3, maxiter=60)
    add("options/between-events", run_between)
    add("options/shape", minimize, user_fun, np.ones((2, 3)), user_grad, L=1.5, maxiter=STEPS)
    for nonfinite in ("stop", "skip"):
        add(f"options/nonfinite-{nonfinite}", run_nonfinite, nonfinite, L=1.5, mu=0.5)
    add("options/nonfinite-unknown", run_nonfinite, "stop")
    add("options/nonfinite-raise", run_nonfinite, "raise", L=1.5)  # raises FloatingPointError


# Constants that are found, metrics and proximal steps


class OwnMetric:
    """A metric of the user's own."""

    def solve(self, g: np.ndarray) -> np.ndarray:
        """P^-1 g."""
        return np.asarray(g / np.linspace(1.0, 2.0, g.size).reshape(g.shape))


def soft(v: np.ndarray, step: float) -> np.ndarray:
    """The proximal step of 0.05 |x|_1, as a function of the user's own."""
    return np.sign(v) * np.maximum(np.abs(v) - 0.05 * step, 0.0)


def run_unknown(problem: str, dtype: Any = np.float64, **options: Any) -> Any:
    """A run that finds its own constants."""
    p = problems()[problem]
    given = {"maxiter": 40} | options
    if problem.startswith("user") and problem != "user-both":
        return minimize(user_fun, start_of(p, dtype), user_grad, seed=6, **given)
    return minimize(p, start_of(p, dtype), seed=6, **given)


def add_adaptive() -> None:
    for dtype, kind in DTYPES.items():
        add(f"unknown-L/user/{dtype}", run_unknown, "user-python", kind)
        add(f"unknown-L/record/{dtype}", run_unknown, "user-python", kind, record=True, tol=1e-4)
    regressions = [name for name in problems() if name.startswith(("least", "logistic", "softmax"))]
    for problem in (name for name in regressions if not name.endswith("by-python")):
        for metric in ("gram", "nystrom", "diag", "auto"):
            for dtype, kind in DTYPES.items():
                name = f"metric/{metric}/{problem}/{dtype}"
                add(name, run_unknown, problem, kind, metric=metric, record=True)
        add(f"metric/tol/{problem}", run_unknown, problem, metric="gram", tol=1e-7, maxiter=None)
        for prox in ("L1", "Box", "NonNegative", "Simplex"):
            arguments = {"L1": (0.05,), "Box": (-0.1, 0.2)}.get(prox, ())
            h = getattr(cz.prox, prox)(*arguments)
            add(f"prox/{prox}/{problem}", run_unknown, problem, prox=h)
            add(f"prox/{prox}-known/{problem}", run_unknown, problem, prox=h, L=5.0)
    rng = np.random.default_rng(1)
    A = rng.standard_normal((12, 12))
    own = {"vector": np.linspace(0.5, 2.0, 12), "matrix": A @ A.T + np.eye(12), "own": OwnMetric()}
    for name, metric in own.items():
        for problem in ("least-squares", "logistic-sparse"):
            add(f"metric/{name}/{problem}", run_unknown, problem, metric=metric)
            add(f"metric/{name}-known/{problem}", run_unknown, problem, metric=metric, L=9.0,
                mu=1e-3)  # fmt: skip
    add("prox/own", run_unknown, "least-squares", prox=soft)
    for problem in ("least-squares", "logistic-sparse", "quadratic-40", "logistic-200"):
        p = problems()[problem]
        add(f"auto/{problem}", minimize, p, start_of(p), method="auto", tol=1e-6, maxiter=4000)


# Coordinates and rows


def run_marked(problem: Any, method: Any, dtype: Any = np.float64, **options: Any) -> Any:
    """A run of a marked method for some passes."""
    p = problems()[problem] if isinstance(problem, str) else problem()
    given = {"maxiter": 3000} | options
    return minimize(p, start_of(p, dtype), method=method, seed=7, **given)


@cache
def large_logistic() -> Any:
    """More rows than those from which the dual begins with plain passes."""
    rng = np.random.default_rng(5)
    X = sparse.random_array((4200, 20), density=0.2, rng=rng, format="csr")
    labels = np.where(X @ rng.standard_normal(20) > 0.0, 1.0, -1.0)
    return cz.problems.LogisticRegression(X, labels, 1e-3)


@cache
def solvable() -> Any:
    """A linear system that has a solution."""
    X, _ = table(60, 12)
    return cz.problems.LeastSquares(X, X @ np.ones(12))


def merged_marks(problem: str, method: Any) -> Any:
    """A clock for each coordinate."""
    p = problems()[problem]
    law = method.prepare(p, start_of(p)).p
    rings = [cz.clock.Poisson(i, rate) for i, rate in enumerate(law)]
    return run_marked(problem, method, clock=cz.clock.Merged(rings))


def recorded_marks(problem: str, method: Any) -> Any:
    """Events drawn first, and replayed with their marks."""
    p = problems()[problem]
    law = method.prepare(p, start_of(p)).law
    events = cz.clock.Poisson(4, marks=law).stream().draw(300)
    clock = cz.clock.Recorded(events.t, events.dt, events.marks)
    return [events.marks, run_marked(problem, method, clock=clock, maxiter=None)]


def add_marked() -> None:
    parts = [np.arange(0, 12, 2), np.arange(1, 12, 2)]
    primal = {
        "sqrt": cz.CoordinateDescent(),
        "uniform": cz.CoordinateDescent("uniform"),
        "given": cz.CoordinateDescent(np.linspace(1.0, 2.0, 12) / 18.0),
        "start": cz.CoordinateDescent(start=0.0),
        "plain": cz.CoordinateDescent(accelerated=False),
        "blocks": cz.CoordinateDescent(blocks=5),
        "blocks-listed": cz.CoordinateDescent(blocks=parts),
        "blocks-plain": cz.CoordinateDescent(blocks=5, accelerated=False),
    }
    dual = {
        "sqrt": cz.DualCoordinate(),
        "uniform": cz.DualCoordinate("uniform"),
        "plain": cz.DualCoordinate(accelerated=False),
        "start": cz.DualCoordinate(start=1.0),
    }
    tables = ("least-squares", "least-squares-sparse", "logistic", "logistic-sparse")
    for problem in tables:
        for kind, methods in (("coordinate", primal), ("dual", dual)):
            for name, method in methods.items():
                add(f"marked/{kind}-{name}/{problem}", run_marked, problem, method)
            for name, method in (("sqrt", methods["sqrt"]), ("plain", methods["plain"])):
                add(f"marked/{kind}-{name}-f32/{problem}", run_marked, problem, method, np.float32)
        tolerance = {"tol": 1e-6, "maxiter": None, "record": False}
        add(f"marked/coordinate-tol/{problem}", run_marked, problem, primal["sqrt"], **tolerance)
        add(f"marked/dual-tol/{problem}", run_marked, problem, dual["sqrt"], **tolerance)
        add(f"marked/merged/{problem}", merged_marks, problem, primal["sqrt"])
        add(f"marked/recorded/{problem}", recorded_marks, problem, primal["sqrt"])
    for problem in ("quadratic-3", "quadratic-40", "quadratic-200"):
        for name in ("sqrt", "plain", "blocks"):
            add(f"marked/coordinate-{name}/{problem}", run_marked, problem, primal[name])
    add("marked/dual-large", run_marked, large_logistic, dual["sqrt"], maxiter=40_000)
    add("marked/dual-large-plain", run_marked, large_logistic, dual["plain"], maxiter=20_000)
    for kind in (cz.StochasticLeastSquares, cz.Kaczmarz):
        variants = {
            "": kind(),
            "-plain": kind(accelerated=False),
            "-batch": kind(batch=4),
            "-batch-plain": kind(batch=4, accelerated=False),
            "-start": kind(start=1.0),
        }
        for name, method in variants.items():
            add(f"marked/{kind.__name__}{name}", run_marked, solvable, method)
        add(f"marked/{kind.__name__}-f32", run_marked, solvable, kind(), np.float32)
        add(f"marked/{kind.__name__}-tol", run_marked, solvable, kind(), tol=1e-6, maxiter=None)


# Arrays of other libraries


def run_arrays(library: str, dtype: str, method: str | None, **options: Any) -> Any:
    """The process on arrays of another library."""
    if library == "jax":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    xp = importlib.import_module({"jax": "jax.numpy"}.get(library, library))
    x0 = xp.asarray(start_of(None, DTYPES[dtype]).tolist(), dtype=getattr(xp, dtype_name(dtype)))
    if method is not None:
        options = {"method": METHODS[method](1.5, 0.5)} | options

    def fun(x: Any) -> Any:
        return xp.sum(xp.log(xp.cosh(x - 1.0))) + 0.25 * xp.sum(x * x)

    def grad(x: Any) -> Any:
        return xp.tanh(x - 1.0) + 0.5 * x

    given = {"maxiter": STEPS, "record": "path" if method else True} | options
    return minimize(fun, x0, grad, seed=2, **given)


def dtype_name(dtype: str) -> str:
    """The name that array libraries have for a type."""
    return {"f64": "float64", "f32": "float32"}[dtype]


def add_arrays() -> None:
    for library in ("array_api_strict", "torch", "jax"):
        if importlib.util.find_spec(library) is None:
            continue
        for dtype in DTYPES:
            for method in METHODS:
                add(f"arrays/{library}/{method}/{dtype}", run_arrays, library, dtype, method)
            add(f"arrays/{library}/unknown-L/{dtype}", run_arrays, library, dtype, None)
            add(f"arrays/{library}/no-record/{dtype}", run_arrays, library, dtype,
                "continuized-mu", record=False)  # fmt: skip


# Ensembles and checkpoints


def run_ensemble(problem: str, method: str, dtype: Any = np.float64, **options: Any) -> Any:
    """Many runs, and their statistics."""
    p = problems()[problem]
    chosen = METHODS[method](p.L, p.mu or 0.0)
    e = seeded(cz.ensemble, p, chosen, start_of(p, dtype), seed=9, **options)
    some = [] if e.fun is None else e.quantile([0.1, 0.5])
    return [e.t, e.fun, e.mean(), e.standard_error(), e.interval(), e.skewness(), some]


def add_ensembles() -> None:
    for problem in ("quadratic-3", "quadratic-40", "quadratic-200", "least-squares", "logistic",
                    "logistic-sparse", "softmax", "user-python", "user-compiled"):  # fmt: skip
        runs = 5 if "python" in problem else 70
        for method in ("continuized", "continuized-mu", "continuized-mu-start-2", "nesterov-mu"):
            for dtype, kind in DTYPES.items():
                case = partial(run_ensemble, problem, method, kind, runs=runs)
                add(f"ensemble/{problem}/{method}/{dtype}/steps", case, steps=15)
                if "nesterov" not in method:
                    add(f"ensemble/{problem}/{method}/{dtype}/times", case, times=[0.0, 2.5, 9.0])
    case = partial(run_ensemble, "quadratic-40", "continuized-mu", runs=300, steps=12)
    add("ensemble/mean", case, keep="mean")
    add("ensemble/noise", case, noise=cz.noise.Gaussian(1e-2))
    add("ensemble/one-thread", case, threads=1)


def run_resumed(function: Callable[..., Any], *args: Any, short: Any, long: Any, **how: Any) -> Any:
    """Half a run, the rest of it from its checkpoint; both must be the run that never stopped."""
    whole = seeded(function, *args, seed=3, **how, **long)
    with tempfile.TemporaryDirectory() as folder:
        how["checkpoint"] = str(Path(folder) / "run.npz")
        seeded(function, *args, seed=3, **how, **short)
        resumed = seeded(function, *args, seed=3, resume=True, **how, **long)
    one, other = dict(flatten("", whole)), dict(flatten("", resumed))
    wrong = sorted(name for name in one if not same(one[name], other.get(name)))
    if wrong:
        raise AssertionError(f"the resumed run differs in {', '.join(wrong)}")
    return resumed


def add_checkpoints() -> None:
    half = {"short": {"maxiter": 20}, "long": {"maxiter": STEPS}}
    passes = {"short": {"maxiter": 600}, "long": {"maxiter": 3000}}
    for problem in ("quadratic-40", "logistic-sparse", "user-python", "user-compiled"):
        p = problems()[problem]
        for record in (True, False, "path"):
            add(f"checkpoint/{problem}/{record}", run_resumed, cz.minimize, p, start_of(p),
                record=record, **half)  # fmt: skip
        add(f"checkpoint/{problem}/noise", run_resumed, cz.minimize, p, start_of(p),
            noise=cz.noise.Gaussian(1e-3), **half)  # fmt: skip
    p = problems()["logistic"]
    add("checkpoint/unknown-L", run_resumed, cz.minimize, user_fun, start_of(None), user_grad,
        **half)  # fmt: skip
    add("checkpoint/metric", run_resumed, cz.minimize, p, start_of(p), metric="nystrom", **half)
    add("checkpoint/prox", run_resumed, cz.minimize, p, start_of(p), prox=cz.prox.L1(0.01), **half)
    for name, method in (
        ("coordinate", cz.CoordinateDescent()),
        ("blocks", cz.CoordinateDescent(blocks=5)),
        ("dual", cz.DualCoordinate()),
    ):
        add(f"checkpoint/{name}", run_resumed, cz.minimize, p, start_of(p), method=method, **passes)
    for method in (cz.StochasticLeastSquares(), cz.Kaczmarz(batch=3)):
        add(f"checkpoint/{type(method).__name__}", run_resumed, cz.minimize, solvable(),
            np.zeros(12), method=method, **passes)  # fmt: skip


# Theory


def theory_cases() -> dict[str, Callable[[], Any]]:
    """Bounds, exact expectations and their kin, by name."""
    p, x0, t = quadratic(3), np.zeros(3), np.array([0.0, 0.5, 4.0, 30.0])
    known = {name: make(p.L, p.mu) for name, make in METHODS.items()}
    timed = [name for name in known if name.startswith(("continuized", "custom"))]
    cases: dict[str, Callable[[], Any]] = {}
    for name, m in known.items():
        if name in timed:
            cases[f"moments/{name}/t"] = partial(theory.moments, p, m, x0, t)
            cases[f"moments/{name}/t-noise"] = partial(theory.moments, p, m, x0, t, sigma2=0.1)
        cases[f"moments/{name}/k"] = partial(theory.moments, p, m, x0, k=[0, 1, 7, 15])
        cases[f"moments/{name}/k-noise"] = partial(theory.moments, p, m, x0, k=[9], sigma2=0.1)
        if name != "custom":
            cases[f"bound/{name}/k"] = partial(theory.bound, m, p, x0, k=[1, 5, 20])
        if name.startswith("continuized"):
            for function in (theory.bound, theory.log_bound):
                short = f"{function.__name__}/{name}"
                cases[f"{short}/t"] = partial(function, m, p, x0, t=t[1:], sigma2=0.2)
                cases[f"{short}/k-noise"] = partial(function, m, p, x0, k=[2, 9], sigma2=0.2)
            cases[f"weight/{name}"] = partial(run_weights, m, t[1:])
            cases[f"drift/{name}"] = partial(run_drift, m, p)
            cases[f"lyapunov/{name}"] = partial(run_lyapunov, name)
            cases[f"events-to/{name}"] = partial(run_events_to, m, p)
    for d in (40, 200):
        q = quadratic(d)
        both = [cz.Continuized(q.L), cz.Continuized(q.L, q.mu)]
        for m in both:
            name = "mu" if m.mu else "convex"
            cases[f"moments/{name}-{d}/t"] = partial(theory.moments, q, m, np.zeros(d), t)
            cases[f"moments/{name}-{d}/k"] = partial(theory.moments, q, m, np.zeros(d), k=[5])
            cases[f"drift/{name}-{d}"] = partial(run_drift, m, q)
    return cases | marked_theory() | network_theory() | other_theory(p, x0, t)


def marked_theory() -> dict[str, Callable[[], Any]]:
    """Bounds and exact expectations of coordinates and rows."""
    cases: dict[str, Callable[[], Any]] = {}
    q, ridge, clean = quadratic(3), problems()["least-squares"], solvable()
    t = np.array([0.5, 4.0, 30.0])
    for plain in (False, True):
        how: dict[str, Any] = {"accelerated": not plain}
        for name, p, m in (
            ("quadratic", q, cz.CoordinateDescent(**how)),
            ("quadratic-uniform", q, cz.CoordinateDescent("uniform", **how)),
            ("quadratic-blocks", q, cz.CoordinateDescent(blocks=2, **how)),
            ("ridge", ridge, cz.CoordinateDescent(**how)),
            ("ridge-blocks", ridge, cz.CoordinateDescent(blocks=5, **how)),
            ("rows", clean, cz.StochasticLeastSquares(**how)),
            ("rows-batch", clean, cz.StochasticLeastSquares(batch=3, **how)),
            ("kaczmarz", clean, cz.Kaczmarz(**how)),
            ("kaczmarz-batch", clean, cz.Kaczmarz(batch=3, **how)),
            ("dual", ridge, cz.DualCoordinate(**how)),
        ):
            short, x0 = f"{name}{'-plain' if plain else ''}", np.zeros(p.dim)
            if name != "dual":
                cases[f"moments/{short}"] = partial(theory.moments, p, m, x0, t)
            cases[f"bound/{short}/t"] = partial(theory.bound, m, p, x0, t=t)
            if plain or name in ("quadratic", "ridge", "dual"):
                cases[f"bound/{short}/k"] = partial(theory.bound, m, p, x0, k=[1, 9])
    return cases


def network_theory() -> dict[str, Callable[[], Any]]:
    """Bounds, exact expectations and rates of networks."""
    cases: dict[str, Callable[[], Any]] = {}
    values, t = np.arange(12.0), [1.0, 10.0, 40.0]
    for spec in ("cycle:12", "grid:3x4", "star:12"):
        for name, m in GOSSIPS.items():
            cases[f"gossip/{spec}/{name}"] = lambda s=spec, m=m: [
                theory.moments(network.Graph.of(s), m, values, t),
                theory.bound(m, network.Graph.of(s), values, t=t),
                theory.bound(m, network.Graph.of(s), values, k=[3]),
                theory.gossip_rate(s, m),
            ]
    for accelerated in (True, False):
        pair, m = (network.Graph.of("grid:3x4"), parts("ridge")), network.Dual(accelerated)
        cases[f"dual/{accelerated}"] = lambda pair=pair, m=m: [
            theory.moments(pair, m, 0.0, t),
            theory.bound(m, pair, 0.0, t=t),
            theory.bound(m, pair, 0.0, k=[3]),
        ]
        sgd = network.A2CiD2(accelerated=accelerated)
        cases[f"a2cid2/{accelerated}"] = partial(theory.bound, sgd, pair[0], values, t=t)
    few = cz.problems.LeastSquares(*table(30, 2), 0.1)
    small = (network.Graph.of("path:3"), network.split(few, 3))
    cases["dadao"] = lambda: [
        theory.moments(small, network.DADAO(), 0.0, t),
        theory.bound(network.DADAO(), small, 0.0, t=t),
        theory.bound(network.DADAO(), small, 0.0, k=[3]),
    ]
    return cases


def other_theory(p: Any, x0: np.ndarray, t: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Scaling limits, event times, tuning and the parameters themselves."""
    flat, ones = cz.problems.Quadratic([0.0, 0.2, 1.0], np.ones(3)), np.ones(2)
    narrow = cz.problems.Quadratic([0.2, 1.0])
    return {
        "scaling-limit/mu": partial(theory.scaling_limit, p, x0, t),
        "scaling-limit/convex": partial(theory.scaling_limit, flat, x0, t),
        "scaling-limit/logistic": lambda: theory.scaling_limit(
            problems()["logistic"], np.zeros(12), t
        ),
        "scaling-distance": partial(
            seeded, theory.scaling_distance, narrow, ones, 2.0, [1e2, 1e3], runs=20
        ),
        "expected-scaling-distance": partial(
            theory.expected_scaling_distance, narrow, ones, 3.0, [1e3, 1e4]
        ),
        "event-times": lambda: [
            theory.event_time_quantile([1, 10, 1000], 0.95),
            theory.event_count_quantile([0.5, 20.0, 3000.0], [0.05, 0.5, 0.95]),
            theory.expected_gradients(t),
        ],
        "noise-tuned-L": lambda: [
            theory.noise_tuned_L(q, x0, s, horizon)
            for q in (p, flat)
            for s, horizon in ((0.01, 30.0), (1.0, 300.0))
        ],
        "parameters": lambda: [
            getattr(cz.parameters, name)(s, 1.7, mu, start)
            for name in ("eta", "eta_prime", "gamma_prime", "log_A", "log_B")
            for mu, start in ((0.0, 0.0), (0.0, 3.0), (0.2, math.inf), (0.2, 0.0), (0.2, 2.5))
            for s in (0.3, 1.0, 17.0)
        ],
        "metric": lambda: [
            cz.metric.given_metric(P, (3,)).solve(np.arange(3.0))
            for P in (np.array([1.0, 2.0, 3.0]), np.eye(3) + 0.1)
        ],
        "marks": lambda: [
            law.draw(np.random.default_rng(0), 50)
            for law in (
                cz.marks.Categorical([0.2, 0.3, 0.5]),
                cz.marks.Stratified([0.2, 0.3, 0.5]),
                cz.marks.Batches(cz.marks.Categorical([0.2, 0.3, 0.5]), 3),
            )
        ],
    } | {f"events/{name}": lambda m=make: m().stream().draw(40) for name, make in clocks().items()}


def run_weights(m: Any, t: np.ndarray) -> Any:
    """The weights of Theorem 5."""
    return [theory.weight(m, t), theory.log_weight(m, t)]


def run_drift(m: Any, p: Any) -> Any:
    """The drift of the Lyapunov function at some states, and its expected change."""
    rng = np.random.default_rng(2)
    x, z = rng.standard_normal((2, 6, p.dim))
    t = np.linspace(0.5, 8.0, 6)
    drifts = [theory.drift(m, p, t, x, z), theory.drift(m, p, t, x, z, sigma2=0.1)]
    return [*drifts, theory.supermartingale_gap(m, p, t, x, z)]


def run_lyapunov(method: str) -> Any:
    """The Lyapunov function along a run."""
    phi = theory.lyapunov(run_known(method, "quadratic-3", np.float64), problems()["quadratic-3"])
    return {name: item for name, item in vars(phi).items() if isinstance(item, np.ndarray)}


def run_events_to(m: Any, p: Any) -> Any:
    """Events and times to a precision."""
    return [theory.events_to(m, p, np.zeros(3), 1e-3), theory.time_to(m, p, np.zeros(3), 1e-3)]


# Networks

GOSSIPS = {
    "accelerated": network.Gossip(),
    "damping-1": network.Gossip(damping=1.0),
    "plain": network.Gossip(accelerated=False),
}
FAULTS = {
    "none": network.Faults(),
    "delay": network.Faults(delay=0.3),
    "delay-constant": network.Faults(delay=0.3, law="constant"),
    "loss": network.Faults(loss=0.2),
    "duplication": network.Faults(duplication=0.2),
    "skew": network.Faults(skew=0.3),
    "skew-given": network.Faults(skew=np.linspace(-0.2, 0.4, 12)),
    "timeout": network.Faults(delay=0.3, loss=0.1, timeout=2.0),
    "deaths": network.Faults(deaths=((20.0, 3), (50.0, 7))),
    "joins": network.Faults(joins=((15.0, 2),)),
    "all": network.Faults(
        delay=0.2, loss=0.1, duplication=0.1, skew=0.2,
        deaths=((20.0, 3), (50.0, 7), (90.0, 3)), joins=((35.0, 3), (15.0, 2)),
    ),
}  # fmt: skip


@cache
def parts(kind: str) -> Any:
    """The rows of a regression, dealt out to 12 nodes."""
    X, y = table(96, 4)
    if kind == "ridge":
        return network.split(cz.problems.LeastSquares(X, y, 0.1), 12)
    return network.split(cz.problems.LogisticRegression(X, np.sign(y), 0.1), 12)


def run_gossip(method: Any, faults: Any, spec: str = "grid:3x4", **options: Any) -> Any:
    """A simulation with its log, and its replay."""
    values = np.random.default_rng(4).standard_normal((12, 2))
    given = {"tol": 0.0, "events": 600, "log": True, "snapshots": [5.0, 40.0]} | options
    r = simulate(spec, values, method, faults=faults, seed=11, **given)
    return [r, None if r.log is None else network.replay(spec, values, method, r.log)]


def run_learning(kind: str, method: Any, faults: Any, **options: Any) -> Any:
    """Decentralised optimisation."""
    given = {"tol": 0.0, "events": 1500, "record": 50} | options
    arguments = ("grid:3x4", parts(kind), method)
    return seeded(network.minimize, *arguments, faults=faults, seed=5, **given)


def run_graph(spec: str) -> Any:
    """A graph and its constants."""
    random = spec.startswith(("regular", "erdos", "geometric", "smallworld"))
    g = seeded(network.Graph.of, spec, seed=3) if random else network.Graph.of(spec)
    constants = [g.mu_g_range, g.R_range, g.chi_1, g.chi_2, g.theta, g.speedup]
    found = [g.edges, g.P, g.positions, *constants]
    if g.nodes > 30:
        return found
    found.append(g.resistances())
    best = g.optimise_rates(tol=0.01, maxiter=20)
    limits = [network.delay_limit(g), network.share_limit(g), network.exchange_share(g, 0.5)]
    return [*found, best.graph.P, best.theta, best.bound, *limits]


def add_networks() -> None:
    for name, gossip in GOSSIPS.items():
        add(f"gossip/{name}/at-once", run_gossip, gossip, None)
        for what, faults in FAULTS.items():
            add(f"gossip/{name}/{what}", run_gossip, gossip, faults)
    for what in ("at-once", "all"):
        faults = FAULTS.get(what)
        add(f"gossip/tol/{what}", run_gossip, "accelerated", faults, tol=1e-5, events=None)
        add(f"gossip/until/{what}", run_gossip, "plain", faults, events=None, until=80.0)
        add(f"gossip/no-log/{what}", run_gossip, "accelerated", faults, log=False, record=20)
    numbers = np.random.default_rng(6).standard_normal((400, 1))
    for what in (None, FAULTS["loss"]):
        name = f"gossip/regular/{'at-once' if what is None else 'loss'}"
        add(name, simulate, "regular:4x400", numbers, faults=what, events=20_000, tol=0.0)
    methods = {
        "dual": network.Dual(),
        "plain-dual": network.Dual(accelerated=False),
        "dadao": network.DADAO(),
        "a2cid2": network.A2CiD2(),
        "a2cid2-batch": network.A2CiD2(step=0.05, batch=3, communications=2.0),
        "plain-sgd": network.A2CiD2(accelerated=False),
    }
    for kind in ("ridge", "logistic"):
        for name, method in methods.items():
            add(f"learning/{name}/{kind}/at-once", run_learning, kind, method, None)
            for what in ("none", "loss", "skew-given", "timeout", "all"):
                # The clock of DADAO and A2CiD2 runs about ten times faster than that of gossip.
                case = run_learning if "dual" in name else run_fast_learning
                add(f"learning/{name}/{kind}/{what}", case, kind, method, FAULTS[what])
        add(f"learning/tol/{kind}", run_learning, kind, "dual", None, tol=1e-4, events=None)
    speeds = np.linspace(0.5, 2.0, 12)
    add("learning/speeds", run_learning, "ridge", "dadao", None, speeds=speeds)
    for faults in (None, FAULTS["all"]):
        kind = "at-once" if faults is None else "all"
        short, long = {"events": 300}, {"events": 900}
        limits: dict[str, Any] = {"short": short, "long": long, "tol": 0.0, "faults": faults}
        values = np.arange(12.0)
        add(f"checkpoint/gossip/{kind}", run_resumed, network.simulate, "grid:3x4", values,
            log=True, **limits)  # fmt: skip
        for name in ("dual", "dadao", "a2cid2"):
            add(f"checkpoint/{name}/{kind}", run_resumed, network.minimize, "grid:3x4",
                parts("ridge"), name, **limits)  # fmt: skip
    for spec in ("path:10", "cycle:9", "grid:4x5", "complete:6", "star:7", "regular:3x20",
                 "erdos:20:0.3", "geometric:25:0.4", "smallworld:20:4:0.1", "grid:40x40"):  # fmt: skip
        add(f"graph/{spec}", run_graph, spec)
    add("network/rates", lambda: network.Graph.of([(0, 1), (1, 2), (0, 2)], [3, 1, 2]).resistances())
    add("network/workers", lambda: network.study_workers(100.0, workers=[1, 2])._asdict())
    add("network/delay-study", lambda: seeded(
        network.delay_study, "path:6", [0.5, 2.0], runs=2))  # fmt: skip
    add("network/race", lambda: seeded(
        network.race, "grid:3x4", parts("ridge"), np.linspace(0.5, 2.0, 12)))  # fmt: skip
    add("network/too-stale", lambda: bool(network.too_stale("path:10", "accelerated", 9.0)))


def run_fast_learning(kind: str, method: Any, faults: Any) -> Any:
    """The same faults, for methods whose nodes take a gradient in a unit of time."""
    times = {"delay": 0.02 * faults.delay}
    if faults.timeout is not None:
        times["timeout"] = 0.02 * faults.timeout
    for name in ("deaths", "joins"):
        times[name] = tuple((0.1 * t, node) for t, node in getattr(faults, name))
    return run_learning(kind, method, dataclasses.replace(faults, **times))


# Files and other libraries


def run_read(suffix: str) -> Any:
    """A file is written and read."""
    X, y = table(40, 7)
    rows = sparse.csr_array(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        if suffix == ".npz":
            np.savez(path, X=X, y=y)
        elif suffix == "-sparse.npz":
            kept = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
            np.savez(path, **kept, shape=rows.shape, format=b"csr", y=y)
        elif suffix == ".npy":
            np.save(path, np.column_stack([X, y]))
        else:
            text = csv_text(X, y) if ".csv" in suffix else svmlight_text(rows, y)
            opened = gzip.open(path, "wt") if suffix.endswith(".gz") else path.open("w")
            with opened as file:
                file.write(text)
        return cz.problems.read(path)


def csv_text(X: np.ndarray, y: np.ndarray) -> str:
    """The table, with a header."""
    lines = [",".join(f"{v:.17g}" for v in (*row, label)) for row, label in zip(X, y, strict=True)]
    return "\n".join([",".join([*"abcdefg"[: X.shape[1]], "y"]), *lines]) + "\n"


def svmlight_text(rows: Any, y: np.ndarray) -> str:
    """The table, as LIBSVM has it."""
    lines = []
    for i, label in enumerate(y):
        entries = range(rows.indptr[i], rows.indptr[i + 1])
        lines.append(" ".join(
            [f"{label:.17g}", *(f"{rows.indices[k] + 1}:{rows.data[k]:.9g}" for k in entries)]
        ))  # fmt: skip
    return "\n".join(lines) + "\n"


def run_scipy(**how: Any) -> Any:
    """Through scipy.optimize.minimize."""
    options = {seed_name(cz.scipy_method): 1, "maxiter": 40} | how.pop("options", {})
    given = {"jac": user_grad, "method": cz.scipy_method, "options": options} | how
    return optimize.minimize(user_fun, start_of(None), **given)


def run_sklearn(kind: str, sparsely: bool, **how: Any) -> Any:
    """An estimator, fitted."""
    adapter = importlib.import_module("continuized.adapters.sklearn")
    X, y = table(80, 6)
    y = y if kind == "ContinuizedRidge" else np.digitize(y, [-0.5, 0.5][: how.pop("cuts", 1)])
    weights = np.linspace(0.5, 1.5, 80)
    model = getattr(adapter, kind)(random_state=2, **how)
    model.fit(sparse.csr_array(X) if sparsely else X, y, sample_weight=weights)
    return [model.coef_, model.intercept_, model.n_iter_, model.predict(X)]


def run_torch(dtype: str, **how: Any) -> Any:
    """Steps of the optimiser for PyTorch, the learning rate changing on the way."""
    torch = importlib.import_module("torch")
    adapter = importlib.import_module("continuized.adapters.torch")
    x = torch.linspace(-1.0, 1.0, 6, dtype=getattr(torch, dtype_name(dtype))).requires_grad_()
    optimizer = seeded(adapter.Continuized, [x], lr=0.5, seed=3, **how)
    seen = []
    for k in range(12):
        optimizer.param_groups[0]["lr"] = 0.5 if k < 6 else 0.3
        optimizer.zero_grad()
        (torch.cosh(x - 0.5).log().sum() + 0.25 * (x * x).sum()).backward()
        optimizer.step()
        with optimizer.evaluating():
            seen.append(x.detach().clone())
    return [seen, x.detach()]


def run_jax(dtype: str, **how: Any) -> Any:
    """The loop compiled by JAX, and where L is found on the way."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    adapter = importlib.import_module("continuized.adapters.jax")
    x0 = jax.numpy.linspace(-1.0, 1.0, 6, dtype=dtype_name(dtype))
    r = adapter.minimize(jax_loss, x0, key=3, maxiter=STEPS, **how)
    return [r._asdict(), adapter.gaps(3, 10)]


def jax_loss(x: Any) -> Any:
    """`user_fun` in JAX."""
    jnp = importlib.import_module("jax.numpy")
    return jnp.sum(jnp.log(jnp.cosh(x - 0.5))) + 0.25 * jnp.sum(x * x)


def run_optax(dtype: str, **how: Any) -> Any:
    """Steps of the optimiser for optax."""
    jax, optax = importlib.import_module("jax"), importlib.import_module("optax")
    jax.config.update("jax_enable_x64", True)
    adapter = importlib.import_module("continuized.adapters.optax")
    optimiser = adapter.continuized(0.5, key=3, **how)
    params = jax.numpy.linspace(-1.0, 1.0, 6, dtype=dtype_name(dtype))
    state, seen = optimiser.init(params), []
    for _ in range(8):
        updates, state = optimiser.update(jax.grad(jax_loss)(params), state, params)
        params = optax.apply_updates(params, updates)
        seen.append(adapter.continuized_eval_params(state, params))
    return [seen, params]


def add_edges() -> None:
    for suffix in (".csv", ".csv.gz", ".svm", ".svm.gz", ".npy", ".npz", "-sparse.npz"):
        add(f"read/{suffix}", run_read, suffix)
    constants = {"options": {"L": 1.5, "mu": 0.5}}
    add("scipy/unknown-L", run_scipy)
    add("scipy/known", run_scipy, **constants)
    add("scipy/bounds", run_scipy, bounds=[(0.0, 0.4)] * 5)
    add("scipy/differences", run_scipy, jac=None)
    if importlib.util.find_spec("sklearn"):
        for sparsely in (False, True):
            add(f"sklearn/ridge/{sparsely}", run_sklearn, "ContinuizedRidge", sparsely)
            for cuts in (1, 2):
                add(f"sklearn/logistic-{cuts}/{sparsely}", run_sklearn,
                    "ContinuizedLogisticRegression", sparsely, cuts=cuts)  # fmt: skip
    mu = {"mu-0": {}, "mu": {"mu": 0.5}, "mu-start": {"mu": 0.5, "start": 1.0}}
    for library, run in (("torch", run_torch), ("jax", run_jax), ("optax", run_optax)):
        if importlib.util.find_spec(library):
            for name, how in mu.items():
                for dtype in DTYPES:
                    L = {"L": 1.5} if library == "jax" else {}
                    add(f"{library}/{name}/{dtype}", run, dtype, **how, **L)
    if importlib.util.find_spec("jax"):
        add("jax/unknown-L", run_jax, "f64")


# Numbers and words of a result


def flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(field, array or word) of everything in a result, whatever it is made of."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif isinstance(value, cz.Result) or type(value).__name__ == "OptimizeResult":
        value = {key: value[key] for key in value if not callable(value[key])}
    elif type(value).__name__ == "Trace":
        value = dict(vars(value))
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in LEFT_OUT and not str(key).startswith("_"):
                yield from flatten(f"{name}.{key}", item)
    elif isinstance(value, enum.Enum):
        yield name, value.name
    elif value is None or isinstance(value, str):
        if value is None or " " not in value:  # a sentence may be put better
            yield name, value
    elif sparse.issparse(value):
        yield from flatten(name, {k: getattr(value, k) for k in ("data", "indices", "indptr")})
    elif isinstance(value, list | tuple) and not all(isinstance(v, int | float) for v in value):
        for i, item in enumerate(value):
            yield from flatten(f"{name}[{i}]", item)
    else:
        yield name, as_numpy(value)


def as_numpy(value: Any) -> np.ndarray:
    """An array of any library, or a number, as NumPy's; refuses objects."""
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
        value = np.from_dlpack(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"cannot compare {type(value).__name__}")
    return array


def same(a: Any, b: Any) -> bool:
    """Whether two numbers, arrays or words are the same, bit for bit; NaN is NaN."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return type(a) is type(b) and bool(a == b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.tobytes() == b.tobytes():
        return True
    unlike = (a != b) | (np.signbit(a) != np.signbit(b)) if a.dtype.kind == "f" else a != b
    return not np.any(unlike & ~(np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else unlike)


def chosen_cases(pattern: str | None) -> dict[str, Callable[[], Any]]:
    """The cases whose names contain the pattern, or match it as a glob."""
    for fill in (
        add_known,
        add_adaptive,
        add_marked,
        add_arrays,
        add_ensembles,
        add_checkpoints,
        add_networks,
        add_edges,
    ):
        fill()
    for name, case in theory_cases().items():
        add(f"theory/{name}", case)
    if pattern is None:
        return CASES
    return {
        name: case
        for name, case in CASES.items()
        if pattern in name or fnmatch.fnmatchcase(name, pattern)
    }


def run_case(name: str, case: Callable[[], Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The numbers and the words of one case."""
    numbers: dict[str, np.ndarray] = {}
    words: dict[str, Any] = {}
    began = time.perf_counter()
    raised = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for field, value in flatten("", case()):
                if isinstance(value, np.ndarray):
                    numbers[f"{name}|{field}"] = value
                else:
                    words[field] = value
        except Exception as error:
            raised = [type(error).__name__, str(error)]
    ours = {w.category.__name__ for w in caught if w.category.__module__.startswith("continuized")}
    words["warnings"] = sorted(ours)
    about = {"words": words, "raised": raised, "seconds": time.perf_counter() - began}
    return numbers, about


def main() -> None:
    """Run the cases, and write what they gave."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--only", metavar="PATTERN")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    cases = chosen_cases(options.only)
    if options.list or options.out is None:
        print("\n".join(cases))
        return
    numbers: dict[str, np.ndarray] = {}
    about: dict[str, Any] = {}
    for name, case in cases.items():
        found, about[name] = run_case(name, case)
        numbers |= found
    np.savez(options.out.with_suffix(".npz"), **numbers)
    tree = str(Path(cz.__file__).resolve().parents[2])
    options.out.with_suffix(".json").write_text(json.dumps({"tree": tree, "cases": about}))


if __name__ == "__main__":
    main()
