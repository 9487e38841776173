"""A worker that is a fork of this process, for nodes whose functions are Python objects.

A fork has all that its parent has, so that nothing need be written down to be read again: functions
of the user's own, closures and what they refer to among it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Mapping
from subprocess import TimeoutExpired
from typing import IO, Any

LOOK_EVERY = 0.005  # seconds
IS_SAFE = hasattr(os, "fork") and sys.platform != "darwin"  # system libraries of macOS forbid it


class ForkedProcess:
    """What a transport asks of a `subprocess.Popen`, of a fork that runs the worker's loop.

    objects: the Python objects of the worker's nodes.  pipes: those that this process has to other
    workers, which the new one closes, for a worker ends when nobody holds its pipe any more.
    """

    def __init__(
        self, objects: Mapping[int, Mapping[str, Any]], pipes: Iterable[IO[bytes]]
    ) -> None:
        order_end, self_orders = os.pipe()
        self_reports, report_end = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both processes write what stands in the buffer
        with warnings.catch_warnings():
            # Python warns of the threads that a fork does not have: ours only wait for reports.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _run_worker(order_end, report_end, [self_orders, self_reports], objects, pipes)
        os.close(order_end)
        os.close(report_end)
        self.stdin: IO[bytes] | None = os.fdopen(self_orders, "wb")
        self.stdout: IO[bytes] | None = os.fdopen(self_reports, "rb")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended, as `subprocess` does; None while it runs."""
        if self.returncode is None:
            number, status = os.waitpid(self.pid, os.WNOHANG)
            if number:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; TimeoutExpired where it does not come in time."""
        limit = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if limit is not None and time.monotonic() >= limit:
                raise TimeoutExpired("a worker", timeout or 0.0)
            time.sleep(LOOK_EVERY)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """End it at once."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _run_worker(
    orders: int,
    reports: int,
    ends: list[int],
    objects: Mapping[int, Mapping[str, Any]],
    pipes: Iterable[IO[bytes]],
) -> None:
    """Run a worker in the new process, and never come back."""
    try:
        for end in [*ends, *(pipe.fileno() for pipe in pipes if not pipe.closed)]:
            os.close(end)
        from threadpoolctl import threadpool_limits

        from continuized.network.runtime.transports.local_worker import serve

        with threadpool_limits(1):  # the workers share the cores
            serve(os.fdopen(orders, "rb"), os.fdopen(reports, "wb", buffering=0), objects)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
