"""`gradient`: the loss of a logistic regression and its gradient, beside reading the data once.

The stream is a compiled sum over the data with all threads: the least that a gradient can cost.
Dense data of four sizes, the gradient alone and with the loss: from what stays near a core to what
leaves every cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import continuized as cz
from benchmarks import data
from benchmarks.outcome import Contest, Suite
from benchmarks.peers import in_doubles, load
from benchmarks.timing import Contestant, Say, Work, WrongError, compete
from continuized.problems.base import Array
from continuized.support import threads

L2 = 1e-4
NOTE = "The stream only adds up the data, with all threads."


class Size(NamedTuple):
    """How much is done."""

    dense: tuple[tuple[int, int], ...]
    sparse: tuple[int, int]
    repeats: int


SMALL = ((200, 20), (2_000, 100), (20_000, 200))
FULL = Size(dense=(*SMALL, (50_000, 500)), sparse=(100_000, 50_000), repeats=20)
QUICK = Size(dense=SMALL, sparse=(20_000, 20_000), repeats=7)


class Data(NamedTuple):
    """The data of a contest, and the point at which all differentiate."""

    X: Any
    y: Array
    w: Array


def run(size: Size, say: Say) -> Suite:
    """The contests of this suite."""
    contests = []
    for n, d in size.dense:
        given = make_point(*data.dense(n, d, rotated=False))
        for value in (False, True):
            contests.append(race(given, value, size.repeats, say))
    given = make_point(*data.sparse(*size.sparse))
    contests.append(race(given, True, size.repeats, say))
    return Suite(contests, [])


def make_point(X: Any, y: Array) -> Data:
    """The data, and a point that is the same at every call."""
    return Data(X, y, 0.1 * np.random.default_rng(1).standard_normal(X.shape[1]))


def race(given: Data, value: bool, repeats: int, say: Say) -> Contest:
    """Time the gradient, or with `value` the loss and the gradient."""
    n, d = given.X.shape
    is_sparse = not isinstance(given.X, np.ndarray)
    what, form = "loss and gradient" if value else "gradient", "sparse" if is_sparse else "dense"
    expected = in_numpy(given)
    return compete(
        f"{what}, {form} {n:,} x {d:,}",
        contestants(given, value),
        repeats=repeats,
        check=partial(_agrees, expected),
        note=NOTE,
        say=say,
    )


def contestants(given: Data, value: bool) -> list[Contestant]:
    """Ours first."""
    is_sparse = not isinstance(given.X, np.ndarray)
    numpy = in_numpy if value else gradient_in_numpy
    ours_and_plain = [
        Contestant("continuized", lambda: ours(given, value)),
        Contestant("stream", lambda: _stream(given, is_sparse)),
        Contestant("SciPy" if is_sparse else "NumPy", lambda: lambda: numpy(given)),
        Contestant("JAX", lambda: _jax(given, _margins(given, is_sparse), value)),
    ]
    if not value:  # scikit-learn's gradient alone takes as long as with the loss
        return ours_and_plain
    counts = {1: "1 thread", threads.count(): "all threads"}
    return ours_and_plain + [
        Contestant(f"scikit-learn, {words}", partial(_sklearn, given, count))
        for count, words in counts.items()
    ]


def _agrees(expected: tuple[float, Array], answer: tuple[float, Array] | None) -> float:
    """1; WrongError where the loss, unless it is None, or the gradient is another.

    The stream gives None for both.
    """
    if answer is not None:
        value, gradient = answer
        if not (value is None or np.isclose(value, expected[0], rtol=1e-10, atol=0.0)):
            raise WrongError(f"its loss is {value:.15g}, and not {expected[0]:.15g}")
        if not np.allclose(gradient, expected[1], rtol=1e-8, atol=1e-12):
            raise WrongError("its gradient is another")
    return 1.0


def in_numpy(given: Data) -> tuple[float, Array]:
    """In NumPy, and with the products of SciPy where X is sparse."""
    X, y, w = given
    margins = y * (X @ w)
    value = np.logaddexp(0.0, -margins).mean() + 0.5 * L2 * (w @ w)
    return float(value), _slope(given, margins)


def gradient_in_numpy(given: Data) -> tuple[None, Array]:
    """The gradient alone."""
    return None, _slope(given, given.y * (given.X @ given.w))


def _slope(given: Data, margins: Array) -> Array:
    X, y, w = given
    slopes = -y / (1.0 + np.exp(margins)) / len(y)
    return np.asarray(X.T @ slopes + L2 * w)


def ours(given: Data, value: bool) -> Work:
    """Our gradient, or with `value` the loss and the gradient."""
    problem = cz.problems.LogisticRegression(given.X, given.y, L2)
    if value:
        return lambda: problem.value_and_gradient(given.w)
    return lambda: (None, problem.grad(given.w))


def _stream(given: Data, is_sparse: bool) -> Work:
    from continuized.support.jit import jit

    def total(entries: Array, first: int, last: int) -> float:
        part = entries[first:last]
        s = 0.0
        for i in range(part.size):
            s += part[i]
        return s

    compiled, parts = jit(total, cached=False), threads.count()
    flats = [given.X.data, given.X.indices] if is_sparse else [given.X.reshape(-1)]

    def part(i: int) -> float:
        return math.fsum(compiled(a, a.size * i // parts, a.size * (i + 1) // parts) for a in flats)

    return lambda: threads.in_parts(part, parts) and None


def _sklearn(given: Data, count: int) -> Work:
    loss = load("scikit-learn", "_loss.loss").HalfBinomialLoss()
    linear = load("scikit-learn", "linear_model._linear_loss")
    model = linear.LinearModelLoss(base_loss=loss, fit_intercept=False)
    labels = np.where(given.y > 0.0, 1.0, 0.0)
    options = {"l2_reg_strength": L2, "n_threads": count}
    return lambda: model.loss_gradient(given.w, given.X, labels, **options)


def _margins(given: Data, is_sparse: bool) -> Callable[[Any], Any]:
    """The margins y_i <x_i, w> of all rows, as a function in JAX of w."""

    def dense(jax: Any) -> Any:
        signed = jax.numpy.asarray(given.y[:, None] * given.X)
        return lambda w: signed @ w

    def by_entries(jax: Any) -> Any:
        n = len(given.y)
        numbers = np.repeat(np.arange(n, dtype=np.int32), np.diff(given.X.indptr))
        rows, columns = jax.numpy.asarray(numbers), jax.numpy.asarray(given.X.indices)
        entries = jax.numpy.asarray(given.y[numbers] * given.X.data)

        def margins(w: Any) -> Any:
            return jax.ops.segment_sum(
                entries * w[columns], rows, num_segments=n, indices_are_sorted=True
            )

        return margins

    return by_entries if is_sparse else dense


def _jax(given: Data, make: Callable[[Any], Any], with_value: bool) -> Work:
    jax = load("jax")

    def prepare() -> Any:
        margins, jnp = make(jax), jax.numpy

        def fun(w: Any) -> Any:
            return jnp.logaddexp(0.0, -margins(w)).mean() + 0.5 * L2 * (w @ w)

        return jax.jit(jax.value_and_grad(fun) if with_value else jax.grad(fun))

    compiled = in_doubles(prepare)()

    def work() -> tuple[float | None, Array]:
        answer = jax.block_until_ready(compiled(given.w))
        value, gradient = answer if with_value else (None, answer)
        return None if value is None else float(value), np.asarray(gradient)

    return in_doubles(work)
