"""The gradient of a logistic regression, beside the time to read its data once.

    python benchmarks/gradient.py [dense|sparse]

Dense, 50,000 x 500: aims are at most 1.25 times a sum over X with all threads, and to be at
least 1.7 times quicker than scikit-learn's own loss and gradient at its best thread count.
Sparse, 100,000 x 50,000 with 50 entries a row: beside a sum over the entries and their
indices with all threads, and SciPy's X @ w and X.T @ c alone, without any loss.

The things compared are timed in turn within each round, so that a busy machine slows all of
them alike; the minimum over the rounds is kept.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numba
import numpy as np
from scipy import sparse

import continuized as cz
from continuized.problems import threads

ROUNDS = 40
Work = Callable[[], object]


@numba.njit(nogil=True, fastmath={"reassoc"})
def total(entries, first, last):
    part = entries[first:last]
    s = 0.0
    for i in range(part.size):
        s += part[i]
    return s


def stream(*arrays: np.ndarray) -> Work:
    """A compiled sum over the arrays with all threads: the least that reading them costs."""
    parts = threads.count()
    flats = [a.reshape(-1) for a in arrays]

    def part(i: int) -> float:
        return sum(total(a, a.size * i // parts, a.size * (i + 1) // parts) for a in flats)

    return lambda: threads.in_parts(part, parts)


def by_sklearn(X: object, y: np.ndarray, l2: float, w: np.ndarray, n_threads: int) -> Work:
    from sklearn._loss.loss import HalfBinomialLoss
    from sklearn.linear_model._linear_loss import LinearModelLoss

    model = LinearModelLoss(base_loss=HalfBinomialLoss(), fit_intercept=False)
    labels = np.where(y > 0.0, 1.0, 0.0)
    return lambda: model.loss_gradient(w, X, labels, l2_reg_strength=l2, n_threads=n_threads)


def dense() -> dict[str, Work]:
    rng = np.random.default_rng(0)
    n, d, l2 = 50_000, 500, 1e-4
    X, y = rng.standard_normal((n, d)), np.sign(rng.standard_normal(n))
    w = 0.1 * rng.standard_normal(d)
    p = cz.problems.LogisticRegression(X, y, l2)
    theirs = by_sklearn(X, y, l2, w, 1)()
    ours = p.value_and_gradient(w)
    assert np.isclose(ours[0], theirs[0], rtol=1e-12)
    assert np.allclose(ours[1], theirs[1], rtol=1e-9, atol=1e-12)
    works = {"stream X": stream(X), "value and gradient": lambda: p.value_and_gradient(w)}
    works["gradient"] = lambda: p.grad(w)
    for count in range(1, threads.count() + 1):
        works[f"scikit-learn, {count} threads"] = by_sklearn(X, y, l2, w, count)
    single = cz.problems.LogisticRegression(X.astype(np.float32), y, l2)
    works["stream X, float32"] = stream(single.X)
    works["value and gradient, float32"] = lambda: single.value_and_gradient(w)
    return works


def sparse_() -> dict[str, Work]:
    rng = np.random.default_rng(0)
    n, d, per_row = 100_000, 50_000, 50
    indices = rng.integers(0, d, n * per_row, dtype=np.int32)
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    X = sparse.csr_array((rng.standard_normal(n * per_row), indices, indptr), shape=(n, d))
    X.sum_duplicates()
    y, w = np.sign(rng.standard_normal(n)), 0.1 * rng.standard_normal(d)
    p = cz.problems.LogisticRegression(X, y, 1e-4)
    c = -y / (1.0 + np.exp(y * (X @ w))) / n
    assert np.allclose(p.grad(w), X.T @ c + 1e-4 * w, rtol=1e-9, atol=1e-12)
    return {
        "stream X": stream(p.X.data, p.X.indices),
        "value and gradient": lambda: p.value_and_gradient(w),
        "gradient": lambda: p.grad(w),
        "SciPy, X @ w and X.T @ c": lambda: (X @ w, X.T @ c),
        **{
            f"scikit-learn, {count} threads": by_sklearn(X, y, 1e-4, w, count)
            for count in range(1, threads.count() + 1)
        },
    }


def milliseconds(works: dict[str, Work]) -> dict[str, float]:
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()  # compile
    for _ in range(ROUNDS):
        for name, work in works.items():
            time.sleep(0.05)  # threads of BLAS and OpenMP spin for a while after their work
            work()  # so that every one finds the caches as it leaves them, not as its neighbour
            started = time.perf_counter()
            work()
            best[name] = min(best[name], (time.perf_counter() - started) * 1e3)
    return best


def main() -> None:
    for name, make in (("dense", dense), ("sparse", sparse_)):
        if sys.argv[1:] not in ([], [name]):
            continue
        best = milliseconds(make())
        ours = best["value and gradient"]
        print(f"{name}: minimum of {ROUNDS} interleaved rounds, {threads.count()} threads")
        for what, cost in best.items():
            print(f"  {what:32}{cost:8.2f} ms{cost / best['stream X']:8.2f} x the stream", end="")
            print(f"{cost / ours:8.2f} x ours")


if __name__ == "__main__":
    main()
