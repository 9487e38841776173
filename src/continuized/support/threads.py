"""Our own threads: for parts of work, for an answer ahead of time, and for long foreign work, so
that Ctrl-C is heard meanwhile.

Not Numba's own threads: some of its threading layers abort the process when two Python
threads run parallel code at once.  The work here never waits for other work, so that any
number of threads may call `in_parts` together; what is a part of work may not call it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

Answer = TypeVar("Answer")

QUICK = 1e8  # operations of linear algebra, some 10 to 50 ms: for fewer, Ctrl-C can wait
HAS_THREADS = sys.platform not in ("emscripten", "wasi")  # a browser's Python can start none
LISTEN_EVERY = 0.1  # seconds: not on every system does a wait hear Ctrl-C by itself

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


def _submit(workers: int, work: Callable[..., Answer], *arguments: Any) -> Future[Answer] | None:
    """Let one of so many threads do some work; None where none can be started, as at the end of the
    interpreter."""
    answer: Future[Answer] = Future()

    def run() -> None:
        if answer.set_running_or_notify_cancel():
            try:
                answer.set_result(work(*arguments))
            except BaseException as error:
                answer.set_exception(error)

    try:
        _pool(os.getpid(), workers).submit(run)
    except RuntimeError:
        # The pool may have kept it for another thread, which is to do nothing then.
        if answer.cancel():
            return None
    return answer


def cut(n: int, parts: int) -> list[int]:
    """Where parts of range(n) begin, and n."""
    return [n * part // parts for part in range(parts + 1)]


def in_parts(work: Callable[[int], Answer], parts: int) -> list[Answer]:
    """[work(0), ..., work(parts - 1)], at the same time; the caller's thread does the first."""
    if parts == 1:
        return [work(0)]
    others = [_submit(parts - 1, work, part) for part in range(1, parts)]
    first = work(0)
    return [first] + [work(part) if begun is None else begun.result()
                      for part, begun in enumerate(others, 1)]  # fmt: skip


def in_order(work: Callable[[int], Answer], parts: int) -> Iterator[Answer]:
    """Yield work(0), ..., work(parts - 1), as many found at the same time as there are threads: of
    more parts than these, no more answers are kept."""
    at_once = count()
    for first in range(0, parts, at_once):

        def work_on(i: int, first: int = first) -> Answer:
            return work(first + i)

        yield from in_parts(work_on, min(at_once, parts - first))


class Ahead:
    """One answer that another thread finds before it is asked for, if it is.

    Whoever asks says what for, as whoever began: nothing else is ever given.
    """

    def __init__(self) -> None:
        self._begun: tuple[Any, int, Future[Any]] | None = None

    def __reduce__(self) -> Any:  # a copy begins anew: threads are not copied
        return Ahead, ()

    def begin(self, question: Any, work: Callable[[], Any]) -> None:
        """Let another thread, if there is one, find the answer to this question."""
        begun = _submit(1, work) if count() > 1 else None
        self._begun = None if begun is None else (question, os.getpid(), begun)

    def take(self, question: Any) -> Any:
        """Return the answer to this question; None where no thread has begun to look for it."""
        begun, self._begun = self._begun, None
        # A process that was forked has none of the threads.
        if begun is None or begun[:2] != (question, os.getpid()) or begun[2].cancel():
            return None
        return begun[2].result()


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
