"""Workers as processes of this machine: how they are started and ended, and what each does first.

A worker is started with a pipe as its standard input, through which its orders come, and a pipe as
its standard output for its reports, both as `records`.  It ends when the pipe of its orders does:
no worker outlives whoever started it, however that one ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, BinaryIO, Protocol

from continuized.network.workers import records
from continuized.network.workers.records import Record

END_WITHIN = 2.0  # seconds


class Process(Protocol):
    """What is asked of a worker's process: `subprocess.Popen` has it."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; `subprocess.TimeoutExpired` where it does not come in time."""

    def kill(self) -> None:
        """End it at once."""


# On the side of whoever starts a worker


def start_worker(module: str) -> subprocess.Popen[bytes]:
    """Start a worker, the `main` of a module, with all that this process can import."""
    # One thread of BLAS in each: they share the cores.
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def send(process: Process, header: dict[str, Any], arrays: Any = None) -> None:
    """Send a record to a worker; nothing is raised where it has ended: its reader will say so."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        records.write(process.stdin, header, arrays)


def close_orders(process: Process) -> None:
    """Close the pipe of a worker's orders: it ends, if it has not ended yet."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # what was not sent cannot be any more
        process.stdin.close()


def end_worker(process: Process, within: float = END_WITHIN) -> int:
    """End a worker, by force where it does not end by itself in time; return its exit code."""
    close_orders(process)
    try:
        return process.wait(max(0.0, within))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def describe_exit(code: int) -> str:
    """Say how a process ended."""
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"its process ended with exit code {code}"


# On the side of the worker


def open_reports() -> BinaryIO:
    """Keep the standard output for reports: what users' code prints goes to standard error."""
    reports = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return reports


def read_first_order(orders: BinaryIO) -> Record | None:
    """Read the order that starts this worker, and import from where its starter can; None where
    no order comes.

    Whoever started this process ends it: signals that come to the whole group are not for it.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    order = records.read(orders)
    if order is not None:
        sys.path[:] = order[0]["path"]
    return order


def follow_orders(orders: BinaryIO, take: Callable[[Record], object]) -> None:
    """Give `take` each order that comes, in a thread; end this process at once with the orders."""

    def read() -> None:
        while (record := records.read(orders)) is not None:
            take(record)
        os._exit(0)  # whoever started this process has ended it, or is gone

    # In a thread: pipes cannot be waited for on every system.
    threading.Thread(target=read, daemon=True).start()


def report(reports: BinaryIO, header: dict[str, Any], arrays: Any = None) -> None:
    """Send a record to whoever started this process; end with it, if it is gone."""
    try:
        records.write(reports, header, arrays)
    except BrokenPipeError:
        os._exit(1)
