"""A few threads for compiled code that releases the GIL.

Not Numba's own threads: some of its threading layers abort the process when two Python
threads run parallel code at once.  The work here never waits for other work, so that any
number of threads may call `in_parts` together.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

try:
    # What np.einsum calls, without a look for arrays of other libraries, which takes longer than a
    # short sum.
    from numpy._core.multiarray import c_einsum as _einsum
except ImportError:
    _einsum = np.einsum

Answer = TypeVar("Answer")

QUICK = 1e8  # operations of linear algebra: some 10 to 50 ms
HAS_THREADS = sys.platform not in ("emscripten", "wasi")  # a browser's Python can start none
LISTEN_EVERY = 0.1  # seconds: not on every system does a wait hear Ctrl-C by itself


def inner(u: NDArray[Any], v: NDArray[Any]) -> float:
    """<u, v> of vectors, without BLAS: its threads go on spinning for milliseconds after a call,
    on the cores that the passes here want next (a pass took twice as long)."""
    return float(_einsum("i,i->", u, v))


@cache
def _libraries() -> list[Any]:
    """The libraries of linear algebra that are loaded."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


_lock = threading.Lock()
# For each block under way, what is to be restored: the first limits, the last restores.
_limits: list[list[tuple[Any, int]]] = []


@contextmanager
def blas_on_one_thread() -> Iterator[None]:
    """While the block runs, BLAS keeps to the calling thread, for the reason above."""
    if not HAS_THREADS:
        yield
        return
    with _lock:
        # Not threadpoolctl's own block: what it finds out of the libraries takes longer than a
        # small product.
        before = _limits[0] if _limits else [(each, each.num_threads) for each in _libraries()]
        is_first = not _limits
        _limits.append(before)
    try:
        if is_first:
            for library, _ in before:
                library.set_num_threads(1)
        yield
    finally:
        with _lock:
            _limits.pop()
            if not _limits:
                for library, number in before:
                    library.set_num_threads(number)


def norm(v: NDArray[Any]) -> float:
    """The Euclidean norm of an array, without BLAS as `inner`."""
    flat = v.ravel()
    return math.sqrt(inner(flat, flat))


_most: list[int] = []  # threads, where this process shares the machine with others of its run


def limit(most: int) -> None:
    """Let this process run at most so many threads at once from now on."""
    _most[:] = [most]


def count() -> int:
    """How many threads this process may run at once."""
    if not HAS_THREADS:
        return 1
    if _most:
        return _most[0]
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    # By process: after a fork the child has none of the threads.
    return ThreadPoolExecutor(workers, thread_name_prefix="continuized")


def in_parts(work: Callable[[int], Answer], parts: int) -> list[Answer]:
    """[work(0), ..., work(parts - 1)], at the same time; the caller's thread does the first."""
    if parts == 1:
        return [work(0)]
    pool = _pool(os.getpid(), parts - 1)
    others = [pool.submit(work, part) for part in range(1, parts)]
    return [work(0)] + [other.result() for other in others]


# Work that may still be in foreign code: its thread, and what it sets when it ends.
_given_up: list[tuple[threading.Thread, threading.Event]] = []


def interruptible(operations: float, work: Callable[..., Answer], *arguments: Any) -> Answer:
    """work(*arguments), which takes about so many operations, most of them in foreign code.

    LAPACK and the like do not hear Ctrl-C: long work is done on a thread of its own, so that this
    one does.  The thread of work that was given up ends when it next comes to a line of Python;
    nobody should use what it changes.
    """
    # Ctrl-C comes to the main thread only.
    hears = HAS_THREADS and threading.current_thread() is threading.main_thread()
    if operations < QUICK or not hears:
        return work(*arguments)
    answer: Future[Answer] = Future()
    ended = threading.Event()

    def run() -> None:
        try:
            answer.set_result(work(*arguments))
        except BaseException as error:
            answer.set_exception(error)
        finally:
            ended.set()

    # Python's own wait for threads, at exit, ends with a second Ctrl-C: hence a daemon.
    thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True)
    thread.start()
    try:
        while not ended.wait(LISTEN_EVERY):
            pass
    except BaseException:
        _give_up(thread, ended)
        raise
    return answer.result()


def _give_up(thread: threading.Thread, ended: threading.Event) -> None:
    """Let a thread end at its next line of Python: SystemExit is the error that is not printed."""
    _given_up[:] = [left for left in _given_up if not left[1].is_set()]
    _given_up.append((thread, ended))
    identity, error = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, error)


@atexit.register
def _wait_for_what_was_given_up() -> None:
    """A process that exits in order while BLAS runs may crash or hang: wait for it.

    Another Ctrl-C ends the process at once, by the signal.
    """
    for thread, ended in _given_up:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        while thread.is_alive() and not ended.wait(LISTEN_EVERY):
            pass
