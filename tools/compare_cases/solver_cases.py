"""Cases of `minimize` and `ensemble`: methods, problems, engines, options, checkpoints."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    DTYPES,
    METHODS,
    STEPS,
    Cases,
    clocks,
    minimize,
    problems,
    quadratic,
    run_known,
    seeded,
    solvable,
    start_of,
    user_fun,
    user_grad,
)
from flattening import flatten
from scipy import sparse

import continuized as cz

NOISE = cz.noise.Gaussian(1e-2)


def known() -> Cases:
    """Known constants: every method on every problem."""
    for problem, p in problems().items():
        for method in METHODS:
            for dtype in DTYPES if p.mu or "mu" not in method else ():
                case = partial(run_known, method, problem, DTYPES[dtype])
                yield f"known/{method}/{problem}/{dtype}", case


def options() -> Cases:
    """Known constants: every option, on every engine."""
    for problem in ("quadratic-40", "logistic", "user-python", "user-compiled"):
        known = partial(run_known, "continuized-mu", problem)
        sequence = np.random.SeedSequence(5)
        for name, given in {
            "recorded": {"record": True},
            "not-recorded": {"record": False},
            "tol": {"maxiter": None, "tol": 1e-5},
            "noise": {"noise": NOISE},
            "seed-sequence": {"seed": sequence},
        }.items():
            yield f"options/{name}/{problem}", partial(known, **given)
        yield f"options/callback/{problem}", partial(run_callback, problem)
        for name, make in clocks().items():
            yield f"options/clock-{name}/{problem}", lambda k=known, m=make: k(clock=m())
    yield (
        "options/generator",
        lambda: run_known("continuized", "quadratic-3", seed=np.random.default_rng(8)),
    )
    yield "options/wrong-L", partial(minimize, quadratic(3), np.zeros(3), L=0.3, maxiter=60)
    yield "options/between-events", run_between
    matrix = np.ones((2, 3))
    yield "options/matrix", partial(minimize, user_fun, matrix, user_grad, L=1.5, maxiter=STEPS)
    for nonfinite in ("stop", "skip"):
        yield f"options/nonfinite-{nonfinite}", partial(run_nonfinite, nonfinite, L=1.5, mu=0.5)
    yield "options/nonfinite-unknown", partial(run_nonfinite, "stop")
    yield "options/nonfinite-raise", partial(run_nonfinite, "raise", L=1.5)  # and so it does


def run_between() -> Any:
    """The path between events, from either side."""
    r = run_known("continuized-mu", "logistic")
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

    return [run_known("continuized", problem, callback=callback), seen]


def run_nonfinite(nonfinite: str, **constants: float) -> Any:
    """A gradient that is not finite on a part of the space."""

    def grad(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x - 1.0).max() < 0.4, np.nan, user_grad(x))

    given = {"nonfinite": nonfinite, "maxiter": STEPS} | constants
    return minimize(user_fun, start_of(), grad, **given)


class OwnMetric:
    """A metric of the user's own."""

    def solve(self, g: np.ndarray) -> np.ndarray:
        """P^-1 g."""
        return np.asarray(g / np.linspace(1.0, 2.0, g.size).reshape(g.shape))


def soft(v: np.ndarray, step: float) -> np.ndarray:
    """The proximal step of 0.05 |x|_1, as a function of the user's own."""
    return np.sign(v) * np.maximum(np.abs(v) - 0.05 * step, 0.0)


def run_on(problem: Any, dtype: Any = np.float64, **options: Any) -> Any:
    """A run with whatever options on a problem, or on what a function makes."""
    p = problems()[problem] if isinstance(problem, str) else problem()
    return minimize(p, start_of(p, dtype), **{"seed": 6, "maxiter": 40} | options)


def run_composite(problem: str, prox: Any) -> Any:
    """A run on f + psi with a known L, which begins in the domain of psi."""
    p = problems()[problem]
    return minimize(p, prox(start_of(p), 1.0), prox=prox, L=5.0, seed=6, maxiter=40)


def adaptive() -> Cases:
    """Constants that are found, metrics and proximal steps."""
    for dtype, kind in DTYPES.items():
        for name, given in {"steps": {"maxiter": 40}, "tol": {"tol": 1e-4}}.items():
            x0 = start_of(None, kind)
            case = partial(minimize, user_fun, x0, user_grad, seed=6, **given)
            yield f"unknown-L/{name}/{dtype}", case
    proxes = {
        "L1": cz.prox.L1(0.05),
        "Box": cz.prox.Box(-0.1, 0.2),
        "NonNegative": cz.prox.NonNegative(),
        "Simplex": cz.prox.Simplex(),
        "own": soft,
    }
    A = np.random.default_rng(1).standard_normal((12, 12))
    metrics = {
        "vector": np.linspace(0.5, 2, 12),
        "matrix": A @ A.T + np.eye(12),
        "own": OwnMetric(),
    }
    for problem in problems():
        if problem.startswith(("quadratic", "user")) or problem.endswith("-python"):
            continue
        for metric in ("gram", "nystrom", "diag", "auto"):
            for dtype, kind in DTYPES.items():
                case = partial(run_on, problem, kind, metric=metric)
                yield f"metric/{metric}/{problem}/{dtype}", case
        case = partial(run_on, problem, metric="gram", tol=1e-7, maxiter=None)
        yield f"metric/tol/{problem}", case
        for name, prox in proxes.items():
            yield f"prox/{name}/{problem}", partial(run_on, problem, prox=prox)
            yield f"prox/{name}-known/{problem}", partial(run_composite, problem, prox)
    for problem in ("least-squares", "logistic-sparse"):
        for name, own in metrics.items():
            yield f"metric/{name}/{problem}", partial(run_on, problem, metric=own)
            case = partial(run_on, problem, metric=own, L=9.0, mu=1e-3)
            yield f"metric/{name}-known/{problem}", case
    for problem in ("least-squares", "logistic-sparse", "quadratic-40", "logistic-200"):
        case = partial(run_on, problem, method="auto", tol=1e-6, maxiter=4000)
        yield f"auto/{problem}", case


@cache
def large_logistic() -> Any:
    """More rows than those from which the dual begins with plain passes."""
    rng = np.random.default_rng(5)
    X = sparse.random_array((4200, 20), density=0.2, rng=rng, format="csr")
    labels = np.where(X @ rng.standard_normal(20) > 0.0, 1.0, -1.0)
    return cz.problems.LogisticRegression(X, labels, 1e-3)


def run_clocks(problem: str, recorded: bool) -> Any:
    """Uniform coordinates by a clock for each of them, or events drawn first and replayed."""
    shares = np.full(12, 1.0 / 12.0)
    if recorded:
        events = cz.clock.Poisson(4, marks=cz.marks.Categorical(shares)).stream().draw(300)
        clock: Any = cz.clock.Recorded(events.t, events.dt, events.marks)
    else:
        clock = cz.clock.Merged([cz.clock.Poisson(i, rate) for i, rate in enumerate(shares)])
    return run_on(problem, method=cz.CoordinateDescent("uniform"), clock=clock, maxiter=300)


def marked() -> Cases:
    """Coordinates and rows."""
    halves = [np.arange(0, 12, 2), np.arange(1, 12, 2)]
    coordinate = {
        "": cz.CoordinateDescent(),
        "-uniform": cz.CoordinateDescent("uniform"),
        "-given": cz.CoordinateDescent(np.linspace(1.0, 2.0, 12) / 18.0),
        "-start": cz.CoordinateDescent(start=0.0),
        "-plain": cz.CoordinateDescent(accelerated=False),
        "-blocks": cz.CoordinateDescent(blocks=5),
        "-blocks-listed": cz.CoordinateDescent(blocks=halves),
        "-blocks-plain": cz.CoordinateDescent(blocks=5, accelerated=False),
    }
    dual = {
        "": cz.DualCoordinate(),
        "-uniform": cz.DualCoordinate("uniform"),
        "-plain": cz.DualCoordinate(accelerated=False),
        "-start": cz.DualCoordinate(start=300.0),
    }
    to_tol = {"tol": 1e-6, "maxiter": None, "record": False}
    for problem in ("least-squares", "least-squares-sparse", "logistic", "logistic-sparse"):
        for kind, variants in (("coordinate", coordinate), ("dual", dual)):
            for name, method in variants.items():
                for dtype in DTYPES if name in ("", "-plain") else ("float64",):
                    how = {"method": method, "maxiter": 3000}
                    case = partial(run_on, problem, DTYPES[dtype], **how)
                    yield f"marked/{kind}{name}/{problem}/{dtype}", case
            case = partial(run_on, problem, method=variants[""], **to_tol)
            yield f"marked/{kind}-tol/{problem}", case
        yield f"marked/merged/{problem}", partial(run_clocks, problem, recorded=False)
        yield f"marked/recorded/{problem}", partial(run_clocks, problem, recorded=True)
    for problem in ("quadratic-3", "quadratic-40", "quadratic-200"):
        for name in ("", "-plain", "-blocks"):
            case = partial(run_on, problem, method=coordinate[name], maxiter=3000)
            yield f"marked/coordinate{name}/{problem}", case
    for name in ("", "-plain"):
        case = partial(run_on, large_logistic, method=dual[name], maxiter=30_000)
        yield f"marked/dual-large{name}", case
    for kind in (cz.StochasticLeastSquares, cz.Kaczmarz):
        for given in (
            {},
            {"accelerated": False},
            {"batch": 4},
            {"batch": 4, "accelerated": False},
            {"start": 1.0},
        ):
            name = "-".join([kind.__name__, *given])
            for dtype in DTYPES:
                how = {"method": kind(**given), "maxiter": 3000}
                yield f"marked/{name}/{dtype}", partial(run_on, solvable, DTYPES[dtype], **how)
        yield f"marked/{kind.__name__}-tol", partial(run_on, solvable, method=kind(), **to_tol)


def run_arrays(library: str, dtype: str, **options: Any) -> Any:
    """The process on arrays of another library."""
    if library == "jax":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    xp = importlib.import_module("jax.numpy" if library == "jax" else library)
    x0 = xp.asarray(start_of().tolist(), dtype=getattr(xp, dtype))

    def fun(x: Any) -> Any:
        return xp.sum(xp.log(xp.cosh(x - 1.0))) + 0.25 * xp.sum(x * x)

    def grad(x: Any) -> Any:
        return xp.tanh(x - 1.0) + 0.5 * x

    return minimize(fun, x0, grad, seed=2, maxiter=STEPS, **options)


def arrays() -> Cases:
    """Arrays of other libraries, where there are any."""
    for library in filter(importlib.util.find_spec, ("array_api_strict", "torch", "jax")):
        for dtype in DTYPES:
            run, name = partial(run_arrays, library, dtype), f"arrays/{library}"
            for method, make in METHODS.items():
                case = partial(run, method=make(1.5, 0.5), record="path")
                yield f"{name}/{method}/{dtype}", case
            yield f"{name}/unknown-L/{dtype}", run
            yield f"{name}/not-recorded/{dtype}", partial(run, L=1.5, record=False)


def run_ensemble(problem: str, method: str, dtype: Any = np.float64, **options: Any) -> Any:
    """Many runs, and their statistics."""
    p = problems()[problem]
    chosen = METHODS[method](p.L, p.mu or 0.0)
    e = seeded(cz.ensemble, p, chosen, start_of(p, dtype), seed=9, **options)
    some = None if e.fun is None else e.quantile([0.1, 0.5])
    return [e.t, e.fun, e.mean(), e.standard_error(), e.interval(), e.skewness(), some]


def ensembles() -> Cases:
    """Many runs at once."""
    for problem in problems():
        runs = 5 if problem in ("user-python", "user-both") else 70
        if problem.endswith(("-weights", "mu-0", "0-python", "s-python", "e-python")):
            continue
        for method in ("continuized", "continuized-mu", "continuized-mu-start-2", "nesterov-mu"):
            for dtype, kind in DTYPES.items():
                name = f"ensemble/{method}/{problem}/{dtype}"
                case = partial(run_ensemble, problem, method, kind, runs=runs)
                yield f"{name}/steps", partial(case, steps=15)
                if "nesterov" not in method:
                    yield f"{name}/times", partial(case, times=[0.0, 2.5, 9.0])
    case = partial(run_ensemble, "quadratic-40", "continuized-mu", runs=300, steps=12)
    for name, given in {
        "mean": {"keep": "mean"},
        "noise": {"noise": NOISE},
        "one-thread": {"threads": 1},
    }.items():
        yield f"ensemble/{name}", partial(case, **given)


def run_resumed(
    function: Callable[..., Any], *args: Any, limit: str, most: tuple[int, int], **how: Any
) -> Any:
    """A part of a run and the rest from its checkpoint, which must be the run never stopped."""
    run = partial(seeded, function, *args, seed=3, **how)
    whole = run(**{limit: most[1]})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.npz")
        run(**{limit: most[0]}, checkpoint=path)
        resumed = run(**{limit: most[1]}, checkpoint=path, resume=True)
    one, other = (
        {k: v.tobytes() if isinstance(v, np.ndarray) else v for k, v in flatten("", r)}
        for r in (whole, resumed)
    )
    if one != other:
        wrong = sorted(name for name in one if one[name] != other.get(name))
        raise AssertionError(f"the resumed run differs in {', '.join(wrong)}")
    return resumed


def checkpoints() -> Cases:
    """Runs that are interrupted and resumed."""
    steps: dict[str, Any] = {"limit": "maxiter", "most": (20, STEPS)}
    for problem in ("quadratic-40", "logistic-sparse", "user-python", "user-compiled"):
        p = problems()[problem]
        case = partial(run_resumed, cz.minimize, p, start_of(p), **steps)
        for record in (True, False, "path"):
            yield f"checkpoint/{problem}/{record}", partial(case, record=record)
        yield f"checkpoint/{problem}/noise", partial(case, noise=NOISE)
    yield (
        "checkpoint/unknown-L",
        partial(run_resumed, cz.minimize, user_fun, start_of(), user_grad, **steps),
    )
    p = problems()["logistic"]
    case = partial(run_resumed, cz.minimize, p, start_of(p))
    yield "checkpoint/metric", partial(case, metric="nystrom", **steps)
    yield "checkpoint/prox", partial(case, prox=cz.prox.L1(0.01), **steps)
    passes: dict[str, Any] = {"limit": "maxiter", "most": (600, 3000)}
    for method in (cz.CoordinateDescent(), cz.CoordinateDescent(blocks=5), cz.DualCoordinate()):
        name = type(method).__name__ + ("-blocks" if getattr(method, "blocks", None) else "")
        yield f"checkpoint/{name}", partial(case, method=method, **passes)
    case = partial(run_resumed, cz.minimize, solvable(), np.zeros(12), **passes)
    for rows in (cz.StochasticLeastSquares(), cz.Kaczmarz(batch=3)):
        yield f"checkpoint/{type(rows).__name__}", partial(case, method=rows)


CASES = (known, options, adaptive, marked, arrays, ensembles, checkpoints)
