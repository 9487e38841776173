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
from collections.abc import Callable, Iterable, Iterator
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
LONG = 2e9  # operations, beyond which threads of BLAS that spin afterwards are the lesser evil
FEW = 1.5e5  # operations, which BLAS does on one thread anyway
SHARED = 2e7  # operations, beyond which another thread gains more than it takes to wake it
ENTRY = 20.0  # operations in the time in which an entry comes from memory
BLOCK = 2**22  # entries of rows that are made at once
HAS_THREADS = sys.platform not in ("emscripten", "wasi")  # a browser's Python can start none
LISTEN_EVERY = 0.1  # seconds: not on every system does a wait hear Ctrl-C by itself


def inner(u: NDArray[Any], v: NDArray[Any]) -> float:
    """<u, v> of vectors, without BLAS: its threads go on spinning for milliseconds after a call,
    on the cores that the passes here want next (a pass took twice as long)."""
    return float(_einsum("i,i->", u, v))


@cache
def _libraries(with_scipy: bool) -> list[Any]:
    """The libraries of linear algebra that are loaded, SciPy's own among them or not yet."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_number(library: Any, number: int) -> None:
    """Let a library have so many threads, whichever thread asks: threadpoolctl's own way, since
    3.7, does nothing in any other than the first that ever asked, and the lock below is enough."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)


_lock = threading.Lock()
_blocks: list[None] = []  # those under way
# While there are any: each library, by its file, and how many threads it had before.
_held: dict[str, tuple[Any, int]] = {}


@contextmanager
def blas_on_one_thread() -> Iterator[None]:
    """While the block runs, BLAS keeps to the calling thread, for the reason above."""
    if not HAS_THREADS:
        yield
        return
    with _lock:
        # Not threadpoolctl's own block: what it finds out of the libraries takes longer than a
        # small product.
        for library in _libraries("scipy.linalg" in sys.modules):
            if library.filepath not in _held:
                _held[library.filepath] = library, library.num_threads
                _set_number(library, 1)
        _blocks.append(None)
    try:
        yield
    finally:
        with _lock:
            _blocks.pop()
            if not _blocks:
                for library, number in _held.values():
                    _set_number(library, number)
                _held.clear()


@contextmanager
def blas_for(operations: float) -> Iterator[None]:
    """While the block runs, BLAS keeps to the calling thread, unless the work is so long that its
    own threads gain more than they cost: then it has all that it had, even within such a block."""
    with blas_on_one_thread():
        is_long = operations >= LONG and HAS_THREADS
        if is_long:
            with _lock:
                for library, number in _held.values():
                    _set_number(library, number)
        try:
            yield
        finally:
            if is_long:
                with _lock:
                    for library, _ in _held.values():
                        _set_number(library, 1)


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


def begin(work: Callable[[], Answer]) -> Future[Answer]:
    """Begin work on a thread of ours, whose answer is asked for later, if at all, and in this
    process."""
    return _pool(os.getpid(), 1).submit(work)


def in_parts(work: Callable[[int], Answer], parts: int) -> list[Answer]:
    """[work(0), ..., work(parts - 1)], at the same time; the caller's thread does the first."""
    if parts == 1:
        return [work(0)]
    pool = _pool(os.getpid(), parts - 1)
    others = [pool.submit(work, part) for part in range(1, parts)]
    return [work(0)] + [other.result() for other in others]


def product(X: Any, v: NDArray[Any]) -> NDArray[Any]:
    """X v for a vector or for few columns, a dense X on our own threads: BLAS on one each, for the
    reason of `inner`."""
    if not isinstance(X, np.ndarray):
        return np.asarray(X @ v)
    work = float(X.size) * ENTRY * (v.shape[1] if v.ndim == 2 else 1)
    if v.ndim == 1:
        parts = _by_rows(len(X), work, lambda rows: X[rows] @ v)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    # BLAS is twice as quick with the few columns of v as rows.
    columns = np.ascontiguousarray(v.T)
    parts = _by_rows(len(X), work, lambda rows: columns @ X[rows].T)
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)).T


def product_of_rows(u: NDArray[Any], X: Any) -> NDArray[Any]:
    """The vector u^T X, as `product`."""
    if not isinstance(X, np.ndarray):
        return np.asarray(u @ X)
    return sum_by_rows(len(X), float(X.size) * ENTRY, lambda rows: u[rows] @ X[rows])


def gram_of_rows(n: int, size: int, scale: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
    """S^T S on our own threads, as `product`, of an S of n rows of this size: scale(rows) makes
    some of them, for all together may be too many."""
    at_once = max(BLOCK // max(size, 1), 1)

    def multiply(rows: slice) -> NDArray[Any]:
        starts = range(rows.start, max(rows.stop, rows.start + 1), at_once)
        blocks = (scale(slice(start, min(start + at_once, rows.stop))) for start in starts)
        return _add_up(S.T @ S for S in blocks)

    return sum_by_rows(n, float(n) * size * size, multiply)


def sum_by_rows(n: int, operations: float, work: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
    """The sum of work(rows) over the parts of n rows for our threads; BLAS, which takes so many
    operations for all of them, keeps to one thread in each."""
    return _add_up(_by_rows(n, operations, work))


def _add_up(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """The sum, in place of the first."""
    left = iter(parts)
    total = next(left)
    for other in left:
        total += other
    return total


def _by_rows(n: int, operations: float, work: Callable[[slice], Answer]) -> list[Answer]:
    """The answers that `sum_by_rows` adds up, that of the first rows first."""
    if operations < FEW:
        return [work(slice(0, n))]
    parts = 1 if operations < SHARED else count()
    with blas_on_one_thread():
        if parts == 1:
            return [work(slice(0, n))]
        cuts = [n * part // parts for part in range(parts + 1)]

        # The threads of a pool do not have the caller's.  What overflows is seen in the answer.
        @np.errstate(over="ignore", invalid="ignore")
        def of_part(i: int) -> Answer:
            return work(slice(cuts[i], cuts[i + 1]))

        return in_parts(of_part, parts)


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
