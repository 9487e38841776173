"""A few threads for compiled code that releases the GIL.

Not Numba's own threads: some of its threading layers abort the process when two Python
threads run parallel code at once.  The work here never waits for other work, so that any
number of threads may call `in_parts` together.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Answer = TypeVar("Answer")


def inner(u: NDArray[Any], v: NDArray[Any]) -> float:
    """<u, v> of vectors, without BLAS: its threads go on spinning for milliseconds after a call,
    on the cores that the passes here want next (a pass took twice as long)."""
    return float(np.einsum("i,i->", u, v))


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_lock = threading.Lock()
_limits: list[Any] = []  # one for each block under way: the first limits, the last restores


@contextmanager
def blas_on_one_thread() -> Iterator[None]:
    """While the block runs, BLAS keeps to the calling thread, for the reason above."""
    with _lock:
        limit = _limits[0] if _limits else _libraries().limit(limits=1, user_api="blas")
        _limits.append(limit)
    try:
        yield
    finally:
        with _lock:
            _limits.pop()
            if not _limits:
                limit.restore_original_limits()


def norm(v: NDArray[Any]) -> float:
    """The Euclidean norm of an array, without BLAS as `inner`."""
    flat = v.ravel()
    return math.sqrt(inner(flat, flat))


def count() -> int:
    """How many threads this process may run at once."""
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
