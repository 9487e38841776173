"""Ctrl-C while foreign code runs, what becomes of the work that was given up, and how many threads
BLAS has."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import continuized as cz
from continuized import network, theory
from continuized.network.simulation import engine
from continuized.support import threads
from continuized.support.threads import interruptible
from tests.helpers.interrupts import assert_interrupted

LONG, SHORT = 1e12, 1.0  # operations
ENDS_WITHIN = 30.0  # seconds, of a thread that was given up


def test_work_gives_its_answer_and_its_error_long_or_short() -> None:
    def divide(a: float, b: float) -> float:
        return a / b

    for operations in (LONG, SHORT):
        assert interruptible(operations, divide, 6.0, 3.0) == 2.0
        with pytest.raises(ZeroDivisionError):
            interruptible(operations, divide, 6.0, 0.0)


def test_long_work_has_a_thread_of_its_own_unless_nobody_could_hear() -> None:
    main = threading.current_thread()
    assert interruptible(SHORT, threading.current_thread) is main
    assert interruptible(LONG, threading.current_thread) is not main
    # Within another thread, no Ctrl-C comes.
    assert interruptible(LONG, lambda: interruptible(LONG, threading.current_thread) is not main)
    other: list[Any] = []
    thread = threading.Thread(target=lambda: other.append(interruptible(LONG, threading.get_ident)))
    thread.start()
    thread.join()
    assert other == [thread.ident]


def test_long_work_keeps_the_callers_errstate() -> None:
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("error")
        assert interruptible(LONG, lambda: np.float64(1e308) * 10.0) == np.inf


def test_work_that_was_given_up_ends_at_its_next_line() -> None:
    began = threading.Event()

    def work() -> None:
        began.set()
        while True:
            time.sleep(0.01)

    assert_interrupted(lambda: interruptible(LONG, work))
    assert began.is_set()
    thread, ended = threads._given_up[-1]
    assert ended.wait(ENDS_WITHIN)
    thread.join(ENDS_WITHIN)
    assert not thread.is_alive()


GIVE_UP_AND_EXIT = """
import os, signal, sys, threading
import numpy as np
from continuized.support import threads

A = np.random.default_rng(0).standard_normal((600, 600))

def work():
    for _ in range(4):  # a call of LAPACK is not left before its end
        np.linalg.svd(A)

threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    threads.interruptible(1e12, work)
except KeyboardInterrupt:
    assert not threads._given_up[-1][1].is_set()
    print("heard", flush=True)
"""


def test_a_process_exits_in_order_though_lapack_still_runs() -> None:
    # Without the wait at exit it crashes or hangs, at half of the attempts or more.
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", GIVE_UP_AND_EXIT], capture_output=True, timeout=120
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"heard\n", b"")


# Each takes seconds in one call of foreign code, or in one of ours that is compiled.
def call_gossip_rate() -> None:
    theory.gossip_rate("cycle:1200", tol=1e-10)


def call_graph() -> None:
    while True:
        _ = network.Graph.of("complete:1400").R_range


def call_optimal_rates() -> None:
    network.Graph.of("complete:120").optimise_rates(tol=1e-12, maxiter=10**6)


def call_least_squares() -> None:
    X = np.random.default_rng(0).standard_normal((3000, 1500))
    while True:
        _ = cz.problems.LeastSquares(X, X[:, 0]).x_star


def call_dense_metric() -> None:
    P = np.eye(2500)
    while True:
        cz.metric.Dense.of(P)


@pytest.mark.parametrize(
    "call",
    [call_gossip_rate, call_graph, call_optimal_rates, call_least_squares, call_dense_metric],
    ids=lambda call: call.__name__[5:],
)
def test_dense_linear_algebra_hears_ctrl_c(call: Callable[[], None]) -> None:
    assert_interrupted(call)
    assert all(ended.wait(ENDS_WITHIN) for _, ended in threads._given_up)


def test_an_event_that_takes_long_has_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, str]] = []

    def listen(operations: float, work: Any, *arguments: Any) -> Any:
        asked.append((operations, work.__name__))
        return work(*arguments)

    monkeypatch.setattr(engine, "interruptible", listen)
    monkeypatch.setattr(engine.time, "perf_counter", iter(np.arange(0.0, 1e4, 0.5)).__next__)
    network.simulate("path:3", [0.0, 1.0, 2.0], events=5, rng=0)
    sliced = [operations for operations, name in asked if name == "run_slice"]
    assert len(sliced) >= 5  # one event a slice: each takes half a second, by this clock
    assert min(sliced) > threads.QUICK


# The threads of BLAS.  Its library may have one alone, on one core: it is given two.


@pytest.fixture
def blas() -> Iterator[list[Any]]:
    libraries = threads._libraries("scipy.linalg" in sys.modules)
    before = [library.num_threads for library in libraries]
    assert libraries
    for library in libraries:
        threads._set_number(library, 2)
    yield libraries
    for library, number in zip(libraries, before, strict=True):
        threads._set_number(library, number)


def numbers(blas: list[Any]) -> set[int]:
    return {library.num_threads for library in blas}


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_blas_keeps_to_one_thread_whichever_thread_asks(blas: list[Any]) -> None:
    def ask() -> tuple[set[int], set[int]]:
        with threads.blas_on_one_thread():
            within = numbers(blas)
        return within, numbers(blas)

    for library in blas:  # newer versions of threadpoolctl obey the first thread that asked alone
        library.set_num_threads(2)
    assert ask() == in_a_thread(ask) == ({1}, {2})


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_blas_has_its_threads_again_after_overlapping_blocks(
    blas: list[Any], first_ends_first: bool
) -> None:
    first, second = threads.blas_on_one_thread(), threads.blas_on_one_thread()
    first.__enter__()
    in_a_thread(second.__enter__)
    assert numbers(blas) == {1}
    ends = [
        lambda: first.__exit__(None, None, None),
        lambda: in_a_thread(lambda: second.__exit__(None, None, None)),
    ]
    for end in ends if first_ends_first else ends[::-1]:
        assert numbers(blas) == {1}
        end()
    assert numbers(blas) == {2}


def test_long_work_has_all_threads_of_blas_within_a_block_too(blas: list[Any]) -> None:
    with threads.blas_for(threads.LONG / 2.0):
        assert numbers(blas) == {1}
    with threads.blas_for(threads.LONG):
        assert numbers(blas) == {2}
    with threads.blas_on_one_thread():
        with threads.blas_for(threads.LONG):
            assert numbers(blas) == {2}
        assert numbers(blas) == {1}
    assert numbers(blas) == {2}


def test_a_library_that_is_loaded_within_a_block_is_held_by_the_next(
    blas: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = threads._libraries(True)[-1]
    monkeypatch.setattr(threads, "_libraries", lambda with_scipy: blas if with_scipy else blas[:-1])
    module = sys.modules.pop("scipy.linalg")
    try:
        with threads.blas_on_one_thread():
            assert late.num_threads == 2
            sys.modules["scipy.linalg"] = module
            with threads.blas_on_one_thread():
                assert late.num_threads == 1
        assert numbers(blas) == {2}
    finally:
        sys.modules["scipy.linalg"] = module


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
assert workers, "BLAS has no threads of its own"

import time
import continuized as cz
from continuized.adapters import sklearn as models

SPIN = 0.25  # seconds, more than they do

rng = np.random.default_rng(0)
X, few = rng.standard_normal((6000, 90)), rng.standard_normal((300, 2000))
score = X[:, 0] + 0.1 * rng.standard_normal(6000)
classes = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1.0, 1.0, 9))
regressor = dict(random_state=0, tol=1e-8)
fits = {
    "softmax": lambda: models.ContinuizedLogisticRegression(**regressor).fit(X, classes),
    "logistic": lambda: models.ContinuizedLogisticRegression(**regressor).fit(X, score > 0.0),
    "l1": lambda: models.ContinuizedLogisticRegression(l1_ratio=1.0, **regressor).fit(
        few, few[:, 0] > 0.0),
    "ridge": lambda: models.ContinuizedRidge(**regressor).fit(X, score),
    "ridge, wide": lambda: models.ContinuizedRidge(**regressor).fit(few, few[:, 0]),
    "lasso": lambda: models.ContinuizedLasso(alpha=1e-3, **regressor).fit(X, score),
    "Huber": lambda: models.ContinuizedHuberRegressor(**regressor).fit(X, score),
    "Poisson": lambda: models.ContinuizedPoissonRegressor(**regressor).fit(
        X, np.abs(np.round(score))),
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
    pytest.importorskip("sklearn")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", QUIET_FITS], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


# Products on our own threads


@pytest.fixture(params=[1, 3])
def shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "FEW", 0.0)
    monkeypatch.setattr(threads, "SHARED", 0.0)
    monkeypatch.setattr(threads, "BLOCK", 35)
    monkeypatch.setattr(threads, "count", lambda: request.param)


@pytest.mark.parametrize("shape", [(40, 7), (2, 9), (1, 1), (5, 0)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_those_of_numpy(shared: None, shape: tuple[int, int], dtype: Any) -> None:
    rng, (n, d) = np.random.default_rng(0), shape
    # Of small whole numbers: every sum is exact, in whatever order.
    X = rng.integers(-9, 9, shape).astype(dtype)
    v, V, u = rng.integers(-9, 9, d), rng.integers(-9, 9, (d, 3)), rng.integers(-9, 9, n)
    for given in (X, scipy.sparse.csr_array(X)):
        np.testing.assert_array_equal(threads.product(given, v.astype(float)), X @ v)
        np.testing.assert_array_equal(threads.product(given, V.astype(float)), X @ V)
        np.testing.assert_array_equal(threads.product_of_rows(u.astype(float), given), u @ X)
    S = X.astype(float)
    kept = S.copy()
    found = threads.gram_of_rows(n, d, lambda rows: S[rows])
    np.testing.assert_array_equal(found, S.T @ S)
    np.testing.assert_array_equal(S, kept)


def test_what_overflows_in_a_product_is_seen_in_the_answer(shared: None) -> None:
    X = np.full((6, 2), 1e308)
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("error")
        assert np.all(np.isinf(threads.product(X, np.full(2, 10.0))))
        assert np.all(np.isinf(threads.product_of_rows(np.full(6, 10.0), X)))
