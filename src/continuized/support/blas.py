"""Products of vectors and matrices beside our own threads, and how many threads BLAS has.

The threads of BLAS go on spinning for up to a tenth of a second after a call, on the cores that our
own passes want next: these take twice as long then.  So sums over vectors do without BLAS, and what
a run asks of it keeps to the calling thread (`on_one_thread`); long rows are shared out among our
own threads, each of which calls BLAS (`product` and what follows it).  A run as a whole does not
keep BLAS to one thread, but those of the estimators: a gradient of the user's own may want all.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuized.support import threads

try:
    # What np.einsum calls, without a look for arrays of other libraries, which takes longer than a
    # short sum.
    from numpy._core.multiarray import c_einsum as _einsum
except ImportError:
    _einsum = np.einsum

# Operations
ON_ONE_ANYWAY = 1.5e5  # BLAS takes no other thread for fewer
SHARED_FROM = 2e7  # here another thread of ours gains more than it takes to wake it
ALL_THREADS_FROM = 2e9  # here the threads of BLAS gain more than they cost when they spin
PER_ENTRY = 20.0  # in the time in which an entry of a matrix comes from memory

ENTRIES_AT_ONCE = 2**22  # of rows that are made for a product
SCIPYS = "scipy.linalg._fblas"  # is known once SciPy's own BLAS is loaded


def inner(u: NDArray[Any], v: NDArray[Any]) -> float:
    """<u, v> of vectors, without BLAS."""
    return float(_einsum("i,i->", u, v))


def norm(v: NDArray[Any]) -> float:
    """The Euclidean norm of an array, without BLAS."""
    flat = v.ravel()
    return math.sqrt(inner(flat, flat))


# How many threads BLAS has: a number of the whole process.


@cache
def _libraries(has_scipy: bool) -> list[Any]:
    """The libraries of linear algebra that are loaded, by whether SciPy's own may be one."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_number(library: Any, number: int) -> None:
    """Let a library have so many threads, whichever thread asks: threadpoolctl's own way, since
    3.7, does nothing in any other than the first that ever asked, and the lock below is enough."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)


_lock = threading.Lock()
_depth = 0  # blocks under way, in all threads,
_strict = 0  # and of these, the ones in which none may have more threads
# While there are any: each library, by its file, and how many threads it had before.
_held: dict[str, tuple[Any, int]] = {}


def _after_fork() -> None:
    """Forget the blocks of threads that a process does not have after it was forked; the next block
    to end gives BLAS its threads back."""
    global _lock, _depth, _strict
    _lock, _depth, _strict = threading.Lock(), 0, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def on_one_thread() -> Iterator[None]:
    """While the block runs, BLAS keeps to the calling thread.

    Not by threadpoolctl's own block: what it finds out of the libraries takes longer than a small
    product.
    """
    global _depth
    if not threads.HAS_THREADS:
        yield
        return
    with _lock:
        for library in _libraries(SCIPYS in sys.modules):
            if library.filepath not in _held:
                _held[library.filepath] = library, library.num_threads
                _set_number(library, 1)
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth = max(_depth - 1, 0)  # of a process that was forked meanwhile it is 0
            if not _depth:
                for library, number in _held.values():
                    _set_number(library, number)
                _held.clear()


@contextmanager
def always_on_one_thread() -> Iterator[None]:
    """While the block runs, BLAS keeps to the calling thread, also where long work of another
    thread would have more (`by_size`).

    For the constants of problems: a checkpoint knows its run by them, and how many threads make a
    product decides on its last bits.
    """
    global _strict
    with on_one_thread():
        with _lock:
            _strict += 1
            for library, _ in _held.values():
                _set_number(library, 1)
        try:
            yield
        finally:
            with _lock:
                _strict = max(_strict - 1, 0)  # of a process that was forked meanwhile it is 0


@contextmanager
def by_size(operations: float) -> Iterator[None]:
    """While the block runs, BLAS keeps to the calling thread, unless the work is so long that its
    own threads gain more than they cost: then it has all that it had, even within `on_one_thread`.

    Blocks of other threads have them too for that time; where one of these must not, nobody has.
    """
    with on_one_thread():
        is_long = operations >= ALL_THREADS_FROM and threads.HAS_THREADS
        if is_long:
            with _lock:
                if not _strict:
                    for library, number in _held.values():
                        _set_number(library, number)
        try:
            yield
        finally:
            if is_long:
                with _lock:
                    for library, _ in _held.values():
                        _set_number(library, 1)


Answer = TypeVar("Answer")


def compute(operations: float, work: Callable[..., Answer], *arguments: Any) -> Answer:
    """work(*arguments), which takes about so many operations, most of them of linear algebra.

    BLAS has as many threads as they are worth (`by_size`), and long work can be interrupted
    (`threads.interruptible`).
    """
    with by_size(operations):
        return threads.interruptible(operations, work, *arguments)


# Products on our own threads


def product(X: Any, v: NDArray[Any]) -> NDArray[Any]:
    """X v for a vector or for few columns, the rows of a dense X shared out."""
    if not isinstance(X, np.ndarray):
        return np.asarray(X @ v)
    operations = float(X.size) * PER_ENTRY * (v.shape[1] if v.ndim == 2 else 1)
    if v.ndim == 1:
        parts = _by_parts(len(X), operations, lambda rows: X[rows] @ v)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    # BLAS is twice as quick with the few columns of v as rows.
    columns = np.ascontiguousarray(v.T)
    parts = _by_parts(len(X), operations, lambda rows: columns @ X[rows].T)
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)).T


def transposed_product(X: Any, u: NDArray[Any]) -> NDArray[Any]:
    """X^T u for a vector, the rows of a dense X shared out."""
    if not isinstance(X, np.ndarray):
        return np.asarray(u @ X)
    return sum_by_parts(len(X), float(X.size) * PER_ENTRY, lambda rows: u[rows] @ X[rows])


def gram(n: int, size: int, scale: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
    """S^T S of an S of n rows of this size, which are shared out: scale(rows) makes some of them,
    for beside rows that are mapped from a file, all together may find no room.

    A part has as many rows as entries in each, at least: its own S^T S is no larger than it.
    """
    most = max(n // max(size, 1), 1)
    at_once = max(ENTRIES_AT_ONCE // (max(size, 1) * min(threads.count(), most)), 1)

    def multiply(rows: slice) -> NDArray[Any]:
        total = np.zeros((0, 0))
        for start in range(rows.start, max(rows.stop, rows.start + 1), at_once):
            S = scale(slice(start, min(start + at_once, rows.stop)))
            if start == rows.start:
                total = S.T @ S
            else:
                total += S.T @ S
        return total

    return sum_by_parts(n, float(n) * size * size, multiply, most)


def sum_by_parts(
    n: int, operations: float, work: Callable[[slice], NDArray[Any]], most: int | None = None
) -> NDArray[Any]:
    """The sum of work(part) over parts of range(n), a part for each of our threads, at most so
    many.

    operations: what BLAS does for all of them; it keeps to one thread in each.
    """
    total, *others = _by_parts(n, operations, work, most)
    for other in others:
        total += other
    return total


def add_in_order(parts: int, work: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """work(0) + work(1) + ..., added in this order, each by one thread of BLAS: to the last bit the
    same, however many cores there are.  Our own threads share the parts out.

    work(i) gives an array of its own, which may be written into.
    """
    state = np.geterr()

    def of_part(i: int) -> NDArray[Any]:
        with np.errstate(**state):  # the caller's, which other threads do not have
            return work(i)

    with always_on_one_thread():
        answers = threads.in_order(of_part, parts)
        total = next(answers)
        for answer in answers:
            total += answer
    return total


def _by_parts(
    n: int, operations: float, work: Callable[[slice], NDArray[Any]], most: int | None = None
) -> list[NDArray[Any]]:
    """What `sum_by_parts` adds up."""
    if operations < ON_ONE_ANYWAY:
        return [work(slice(0, n))]
    parts = 1 if operations < SHARED_FROM else max(min(threads.count(), most or n), 1)
    if parts == 1:
        with by_size(operations):
            return [work(slice(0, n))]
    cuts, state = threads.cut(n, parts), np.geterr()

    def of_part(i: int) -> NDArray[Any]:
        with np.errstate(**state):  # the caller's, which other threads do not have
            return work(slice(cuts[i], cuts[i + 1]))

    with on_one_thread():
        return threads.in_parts(of_part, parts)
