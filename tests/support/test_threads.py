"""Ctrl-C while foreign code runs, and what becomes of the work that was given up."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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


class NoThreads:
    """A pool that can start no thread."""

    def submit(self, *_: Any) -> Any:
        raise RuntimeError("can't start new thread")


def test_where_no_thread_can_be_started_the_caller_does_it_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_pool", lambda *_: NoThreads())
    monkeypatch.setattr(threads, "count", lambda: 3)
    done: list[int] = []
    threads.in_parts(done.append, 3)
    assert done == [0, 1, 2]
    ahead = threads.Ahead()
    ahead.begin("question", lambda: 1)
    assert ahead.take("question") is None


def test_what_a_pool_keeps_without_a_thread_is_not_done_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[Callable[[], None]] = []

    class Full(NoThreads):
        """A pool that cannot start a thread for the work that it has taken."""

        def submit(self, work: Callable[[], None]) -> Any:
            kept.append(work)
            return super().submit(work)

    class TakenUp(NoThreads):
        """One of whose other threads takes the work at once."""

        def submit(self, work: Callable[[], None]) -> Any:
            work()
            return super().submit(work)

    for pool in (Full(), TakenUp()):
        done: list[int] = []
        monkeypatch.setattr(threads, "_pool", lambda *_, pool=pool: pool)
        threads.in_parts(done.append, 2)
        for work in kept:  # by a thread that was started later
            work()
        kept.clear()
        assert sorted(done) == [0, 1]


def test_an_answer_ahead_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "count", lambda: 2)
    ahead = threads.Ahead()
    for question, answer in (("question", 1), ("another", None)):
        ahead.begin("question", lambda: 1)
        assert ahead._begun is not None
        ahead._begun[-1].result()
        assert ahead.take(question) == answer
        assert ahead._begun is None
        assert ahead.take("question") is None
