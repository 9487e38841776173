"""How many threads BLAS has, and products on our own."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from continuized.solver.metric import factor, multiply_rows
from continuized.support import blas, threads
from continuized.support.jit import HAS_NUMBA

# The threads of BLAS.  Its library may have one alone, on one core: it is given two.


@pytest.fixture
def libraries() -> Iterator[list[Any]]:
    found = blas._libraries(blas.SCIPYS in sys.modules)
    before = [library.num_threads for library in found]
    assert found
    for library in found:
        blas._set_number(library, 2)
    yield found
    for library, number in zip(found, before, strict=True):
        blas._set_number(library, number)


def numbers(libraries: list[Any]) -> set[int]:
    return {library.num_threads for library in libraries}


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_blas_keeps_to_one_thread_whichever_thread_asks(libraries: list[Any]) -> None:
    def ask() -> tuple[set[int], set[int]]:
        with blas.on_one_thread():
            within = numbers(libraries)
        return within, numbers(libraries)

    for (
        library
    ) in libraries:  # newer versions of threadpoolctl obey the first thread that asked alone
        library.set_num_threads(2)
    assert ask() == in_a_thread(ask) == ({1}, {2})


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_blas_has_its_threads_again_after_overlapping_blocks(
    libraries: list[Any], first_ends_first: bool
) -> None:
    first, second = blas.on_one_thread(), blas.on_one_thread()
    first.__enter__()
    in_a_thread(second.__enter__)
    assert numbers(libraries) == {1}
    ends = [
        lambda: first.__exit__(None, None, None),
        lambda: in_a_thread(lambda: second.__exit__(None, None, None)),
    ]
    for end in ends if first_ends_first else ends[::-1]:
        assert numbers(libraries) == {1}
        end()
    assert numbers(libraries) == {2}


def test_long_work_has_all_threads_of_blas_within_a_block_too(libraries: list[Any]) -> None:
    with blas.by_size(blas.ALL_THREADS_FROM / 2.0):
        assert numbers(libraries) == {1}
    with blas.by_size(blas.ALL_THREADS_FROM):
        assert numbers(libraries) == {2}
    with blas.on_one_thread():
        with blas.by_size(blas.ALL_THREADS_FROM):
            assert numbers(libraries) == {2}
        assert numbers(libraries) == {1}
    assert numbers(libraries) == {2}


def test_strict_blocks_have_one_thread_whatever_other_threads_ask(libraries: list[Any]) -> None:
    strict, long = blas.always_on_one_thread(), blas.by_size(blas.ALL_THREADS_FROM)
    with blas.by_size(blas.ALL_THREADS_FROM):
        in_a_thread(strict.__enter__)
        assert numbers(libraries) == {1}
        in_a_thread(long.__enter__)
        assert numbers(libraries) == {1}
        in_a_thread(lambda: strict.__exit__(None, None, None))
    with blas.by_size(blas.ALL_THREADS_FROM):
        assert numbers(libraries) == {2}
    in_a_thread(lambda: long.__exit__(None, None, None))
    assert numbers(libraries) == {2}


def test_a_library_that_is_loaded_within_a_block_is_held_by_the_next(
    libraries: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = blas._libraries(True)[-1]
    monkeypatch.setattr(
        blas, "_libraries", lambda has_scipy: libraries if has_scipy else libraries[:-1]
    )
    module = sys.modules.pop(blas.SCIPYS)
    try:
        with blas.on_one_thread():
            assert late.num_threads == 2
            sys.modules[blas.SCIPYS] = module
            with blas.on_one_thread():
                assert late.num_threads == 1
        assert numbers(libraries) == {2}
    finally:
        sys.modules[blas.SCIPYS] = module


QUIET_FITS = """
import os, sys

def tasks():
    return set(os.listdir("/proc/self/task"))

def switches(task):
    with open(f"/proc/self/task/{task}/status") as lines:
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)

before = tasks()
import numpy as np
import scipy.linalg
workers = tasks() - before
if not workers:
    sys.exit(77)  # BLAS starts its threads later, if it has any

import time
import continuized as cz
from continuized.adapters import sklearn as models

SPIN = 0.25  # seconds, more than they do

rng = np.random.default_rng(0)
X, few = rng.standard_normal((6000, 90)), rng.standard_normal((300, 2000))
score = X[:, 0] + 0.1 * rng.standard_normal(6000)
classes = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1.0, 1.0, 9))
options = dict(random_state=0, tol=1e-8)
fits = {
    "softmax": lambda: models.ContinuizedLogisticRegression(**options).fit(X, classes),
    "logistic": lambda: models.ContinuizedLogisticRegression(**options).fit(X, score > 0.0),
    "l1": lambda: models.ContinuizedLogisticRegression(l1_ratio=1.0, **options).fit(
        few, few[:, 0] > 0.0),
    "ridge": lambda: models.ContinuizedRidge(**options).fit(X, score),
    "ridge, wide": lambda: models.ContinuizedRidge(**options).fit(few, few[:, 0]),
    "lasso": lambda: models.ContinuizedLasso(alpha=1e-3, **options).fit(X, score),
    "Huber": lambda: models.ContinuizedHuberRegressor(**options).fit(X, score),
    "Poisson": lambda: models.ContinuizedPoissonRegressor(**options).fit(
        X, np.abs(np.round(score))),
    "few columns": lambda: cz.minimize(
        cz.problems.SoftmaxRegression(X[:4900, :20], classes[:4900], 1e-2),
        np.zeros(20 * (classes.max() + 1)),
        method="auto", tol=1e-8, rng=0),
    "rows": lambda: cz.minimize(
        cz.problems.LogisticRegression(few, np.sign(few[:, 0]), 1e-2), np.zeros(2000),
        metric="rows", tol=1e-8, rng=0),
}
time.sleep(SPIN)  # they were started just now
asleep = sum(map(switches, workers))
for name, fit in fits.items():
    fit()
    time.sleep(SPIN)  # a switch is counted when they go to sleep
    now = sum(map(switches, workers))
    assert now == asleep, f"{name}: the threads of BLAS woke {now - asleep} times"
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts what Linux tells of them")
def test_no_fit_wakes_the_threads_of_blas() -> None:
    """Awake, they spin for up to a tenth of a second on the cores of our own."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", QUIET_FITS], capture_output=True, text=True, env=environment
    )
    if done.returncode == 77:
        pytest.skip("this BLAS has no threads, or starts them later")
    assert done.returncode == 0, done.stderr


# Products on our own threads


@pytest.fixture(params=[1, 3])
def shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "ON_ONE_ANYWAY", 0.0)
    monkeypatch.setattr(blas, "SHARED_FROM", 0.0)
    monkeypatch.setattr(blas, "ENTRIES_AT_ONCE", 35)
    monkeypatch.setattr(threads, "count", lambda: request.param)


@pytest.mark.parametrize("shape", [(40, 7), (2, 9), (1, 1), (5, 0)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_those_of_numpy(shared: None, shape: tuple[int, int], dtype: Any) -> None:
    rng, (n, d) = np.random.default_rng(0), shape
    # Of small whole numbers: every sum is exact, in whatever order.
    X = rng.integers(-9, 9, shape).astype(dtype)
    v, V, u = rng.integers(-9, 9, d), rng.integers(-9, 9, (d, 3)), rng.integers(-9, 9, n)
    for given in (X, scipy.sparse.csr_array(X)):
        np.testing.assert_array_equal(blas.product(given, v.astype(dtype)), X @ v)
        np.testing.assert_array_equal(blas.product(given, V.astype(dtype)), X @ V)
        np.testing.assert_array_equal(blas.transposed_product(given, u.astype(dtype)), u @ X)
    S = X.astype(float)
    kept = S.copy()
    found = blas.gram(n, d, lambda rows: S[rows])
    np.testing.assert_array_equal(found, S.T @ S)
    np.testing.assert_array_equal(S, kept)


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_a_sum_in_order_is_the_same_for_any_number_of_threads(shared: None, parts: int) -> None:
    terms = np.random.default_rng(0).standard_normal((parts, 5)) * 1e3 ** np.arange(parts)[:, None]
    total = terms[0].copy()
    for term in terms[1:]:
        total += term
    np.testing.assert_array_equal(blas.add_in_order(parts, lambda i: terms[i].copy()), total)


@pytest.mark.parametrize("how", ["ignore", "warn", "raise"])
def test_what_overflows_in_a_product_is_told_as_the_caller_wants(shared: None, how: Any) -> None:
    X = np.full((6, 2), 1e308)
    for multiply, v in (
        (blas.product, np.full(2, 10.0)),
        (blas.transposed_product, np.full(6, 10.0)),
    ):
        with warnings.catch_warnings(record=True) as seen, np.errstate(over=how):
            warnings.simplefilter("always")
            if how == "raise":
                with pytest.raises(FloatingPointError):
                    multiply(X, v)
            else:
                assert np.all(np.isinf(multiply(X, v)))
        assert bool(seen) is (how == "warn")


def test_the_parts_of_a_gram_matrix_are_no_larger_than_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "count", lambda: 64)
    monkeypatch.setattr(blas, "SHARED_FROM", 0.0)
    for n, size, most in ((1000, 300, 3), (200, 300, 1)):
        asked: list[slice] = []
        S = np.random.default_rng(0).standard_normal((n, size))

        def scale(rows: slice, S: Any = S, asked: Any = asked) -> Any:
            asked.append(rows)
            return S[rows]

        np.testing.assert_allclose(blas.gram(n, size, scale), S.T @ S, rtol=1e-12, atol=1e-10)
        assert len(asked) == most
        assert sum(rows.stop - rows.start for rows in asked) == n


def test_large_factors_and_products_say_how_long_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a size, BLAS is to have all its threads."""
    told: list[float] = []
    by_size = blas.by_size

    def note(operations: float) -> Any:
        told.append(operations)
        return by_size(operations)

    monkeypatch.setattr(blas, "by_size", note)
    factor(np.eye(300))
    multiply_rows(np.ones((40, 50)))
    assert told == ([300.0**3 / 3.0] if HAS_NUMBA else []) + [40.0**2 * 50.0]


def test_a_fork_within_a_block_of_another_thread_leaves_no_lock(libraries: list[Any]) -> None:
    blas._lock.acquire()
    try:
        blas._after_fork()  # in the child
        with blas.on_one_thread():
            assert numbers(libraries) == {1}
        assert numbers(libraries) == {2}
    finally:
        assert not blas._lock.locked()
