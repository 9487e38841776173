"""Processes on this machine, that talk over 127.0.0.1."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from continuized.network.runtime import wire_format as records
from continuized.network.runtime.transport import Event, Plan

START_WITHIN = 120.0  # seconds for all to answer, imports from a cold disk included
END_WITHIN = 2.0
WORKER = "continuized.network.runtime.transports.worker"


class LocalCrew:
    """A process for each place.

    Each is started with a pipe as its standard input, through which it gets its orders and the
    run's key, and ends when that pipe does: no process outlives this one, however it ends.
    """

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._events: queue.SimpleQueue[tuple[subprocess.Popen[bytes], Event]] = queue.SimpleQueue()
        self._ports: dict[int, int] = {}
        self._threads: list[threading.Thread] = []
        self._first: list[Event] = []  # the reports with which processes started

    def start(self, plan: Plan) -> None:
        self._plan = plan
        for place in range(len(plan.places)):
            self._spawn(place, 0)
        self._await_ports(range(len(plan.places)))
        self.tell({"ports": list(self._ports.items()), "home": plan.home()})

    def revive(self, place: int, life: int) -> None:
        self._spawn(place, life)
        self._ports.pop(place, None)

    def tell(self, header: dict[str, Any]) -> None:
        for place in list(self._processes):
            self._tell(place, header)

    def next(self, timeout: float) -> Event | None:
        if self._first:
            return self._first.pop()
        try:
            process, event = self._events.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            return None
        if self._processes.get(event.place) is not process:
            return None  # of a process that was replaced
        if event.record is None:
            del self._processes[event.place]
            _hang_up(process)
            process.wait()
            return Event(event.place, None, _why(process.returncode))
        header = event.record[0]
        if "failed" in header:
            raise _refused(header, self._plan.port, event.place)
        if "port" in header:  # it came back
            self._ports[event.place] = header["port"]
            self.tell({"ports": list(self._ports.items()), "home": self._plan.home()})
        return event

    def kill(self, place: int) -> None:
        if place in self._processes:
            self._processes[place].kill()

    def close(self) -> None:
        processes, self._processes = list(self._processes.values()), {}
        for process in processes:
            _hang_up(process)
        limit = time.monotonic() + END_WITHIN
        for process in processes:
            try:
                process.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for thread in self._threads:
            thread.join(END_WITHIN)
        self._threads.clear()

    def _spawn(self, place: int, life: int) -> None:
        # One thread of BLAS in each: they have short vectors and share the cores.
        single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._processes[place] = process
        thread = threading.Thread(target=self._read, args=(place, process), daemon=True)
        thread.start()
        self._threads.append(thread)
        header, arrays = self._plan.order(place, life)
        self._tell(place, header, arrays)

    def _read(self, place: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as stdout:
            while (record := records.read(stdout)) is not None:
                self._events.put((process, Event(place, record)))
        self._events.put((process, Event(place, None)))

    def _tell(self, place: int, header: dict[str, Any], arrays: Any = None) -> None:
        stdin = self._processes[place].stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended: its reader will say so
            stdin.write(records.pack(header, arrays))
            stdin.flush()

    def _await_ports(self, places: range) -> None:
        limit = time.monotonic() + START_WITHIN
        while len(self._ports) < len(places):
            left = limit - time.monotonic()
            if left <= 0.0:
                raise TimeoutError(
                    f"{len(places) - len(self._ports)} of {len(places)} processes did not start "
                    f"within {START_WITHIN:.0f} s: give fewer with processes="
                )
            try:
                _, event = self._events.get(timeout=left)
            except queue.Empty:
                continue
            if event.record is None:
                raise RuntimeError(
                    f"a process of nodes ended as it started ({_why(self._code(event.place))}): "
                    "its error stands on standard error"
                )
            header = event.record[0]
            if "failed" in header:
                raise _refused(header, self._plan.port, event.place)
            self._ports[event.place] = header["port"]
            self._first.append(event)

    def _code(self, place: int) -> int:
        return self._processes[place].wait()


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe of its orders: it ends, if it has not."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # what was not sent cannot be any more
        process.stdin.close()


def _refused(header: dict[str, Any], port: int | None, place: int) -> OSError:
    if port is not None and header["errno"] == errno.EADDRINUSE:
        text = (
            f"port {port + place} of 127.0.0.1 is in use: give another port=, "
            "or none to take free ones"
        )
    else:
        text = f"a process of nodes cannot listen on 127.0.0.1: {header['failed']}"
    return OSError(text)


def _why(code: int) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"its process ended with exit code {code}"
