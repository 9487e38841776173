"""What run it is: a few words for each part, by which a checkpoint is recognised."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from continuized.problems import (
    LeastSquares,
    LogisticRegression,
    Problem,
    Quadratic,
    SoftmaxRegression,
)
from continuized.problems.base import Array
from continuized.process.methods import Method
from continuized.process.oracle import Exact
from continuized.support.checkpoints import checkpointer as checkpoints

# Two events, (k, t0, t, dt): a method is told by its coefficients there, whatever it is made of.
EVENTS = ((1, 0.0, 0.7, 0.7), (2, 0.7, 1.9, 1.2))
LONGEST = 300


def keeper(
    path: Path | None, every: float, resume: bool, who: Callable[[], dict[str, str]]
) -> checkpoints.AnyKeeper:
    """The keeper of the run that who() says it is; without a path nothing is asked, or kept."""
    if path is None:
        return checkpoints.nowhere
    return checkpoints.Keeper(path, float(every), bool(resume), who())


def of_run(
    problem: Problem,
    x0: Array,
    method: Any,
    constants: dict[str, Any] | None,
    noise: Any,
    clock: Any,
    rng: Any,
    record: Any,
    tol: float | None,
) -> dict[str, str]:
    """Everything but maxiter, the size of tol and the callback: those may change on resuming."""
    parts = {
        "x0": words(x0),
        "method": words(method),
        "constants": words(_coefficients(method) if constants is None else constants),
        "noise": "none" if noise is None else f"{words(noise)} of {noise.sigma2(x0.size)!r}",
        "clock": words(clock),
        "rng": words(rng),
        "record": words(record),
        "tol": "none" if tol is None else "given",
        "problem": _problem(problem, x0),
    }
    return {name: _shortened(text) for name, text in parts.items()}


def of_parts(**parts: Any) -> dict[str, str]:
    """Each part in words."""
    return {name: words(value) for name, value in parts.items()}


def words(value: Any) -> str:
    """A description that is the same in every process; of large arrays, a checksum.

    >>> words(np.zeros(2)), words([1, None, "two"])
    ('float64 (2,) 374708fff7719dd5', "[1, None, 'two']")
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {digest[:16]}"
    if hasattr(value, "entropy"):  # a seed sequence
        return words([value.entropy, value.spawn_key])
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(words, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{name} = {words(its)}" for name, its in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f.name for f in dataclasses.fields(value) if f.init]
        return f"{type(value).__qualname__}({words({n: getattr(value, n) for n in fields})})"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def probe(x0: Array) -> Array:
    """A vector with no symmetry, to ask a problem, a metric or a prox who they are."""
    return np.asarray(np.cos(np.arange(x0.size)).astype(x0.dtype).reshape(x0.shape))


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:60]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _coefficients(method: Method) -> list[Any]:
    carry = method.init(0.0).carry
    return [method.coefficients(*event, carry) for event in EVENTS]


def _problem(problem: Problem, x0: Array) -> str:
    """The kind, f, and the gradient's norm at a point, to nine digits."""
    ours = type(problem) in (Quadratic, LeastSquares, LogisticRegression, SoftmaxRegression)
    # Ours may be asked anywhere, and at 0 would hide much; the user's where the run asks it too.
    point = x0 + probe(x0) if ours else x0
    with np.errstate(all="ignore"):
        value = problem.fun(point.copy())
        slope = float(np.linalg.norm(Exact(problem, x0)(point.copy())))
    return f"{type(problem).__qualname__} with f = {value:.9g} and |grad f| = {slope:.9g}"
