"""Workers as processes of this machine, which talk over 127.0.0.1."""

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

from continuized.network.runtime import wire_format
from continuized.network.runtime.transport import RunPlan, WorkerReport

START_WITHIN = 120.0  # seconds for all to answer, imports from a cold disk included
END_WITHIN = 2.0
WORKER = "continuized.network.runtime.transports.worker"


class LocalTransport:
    """Runs each worker as a process.

    A worker is started with a pipe as its standard input, through which it gets its orders and
    the run's key, and it ends when that pipe ends: no worker outlives this process, however
    this process ends.
    """

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._reports: queue.SimpleQueue[tuple[subprocess.Popen[bytes], WorkerReport]]
        self._reports = queue.SimpleQueue()
        self._ports: dict[int, int] = {}
        self._threads: list[threading.Thread] = []
        self._first: list[WorkerReport] = []  # the reports with which workers started
        self._started = False  # whether all workers were there

    def start(self, plan: RunPlan) -> None:
        self._plan = plan
        for worker in range(len(plan.workers)):
            self._spawn(worker, 0)
        limit = time.monotonic() + START_WITHIN
        while (missing := len(plan.workers) - len(self._ports)) > 0:
            report = self._receive(limit - time.monotonic())
            if report is not None and report.record is None:
                raise RuntimeError(
                    f"a process of nodes ended as it started ({report.reason}): "
                    "its error stands on standard error"
                )
            if report is not None:
                self._first.append(report)
            elif time.monotonic() >= limit:
                raise TimeoutError(
                    f"{missing} of {len(plan.workers)} processes did not start "
                    f"within {START_WITHIN:.0f} s: give fewer with processes="
                )
        self._started = True
        self.broadcast({"addresses": list(self._ports.items())})

    def revive(self, worker: int, life: int) -> None:
        self._spawn(worker, life)
        self._ports.pop(worker, None)

    def broadcast(self, command: dict[str, Any]) -> None:
        for worker in list(self._processes):
            self._send(worker, command)

    def next_report(self, timeout: float) -> WorkerReport | None:
        return self._first.pop() if self._first else self._receive(timeout)

    def _receive(self, timeout: float) -> WorkerReport | None:
        try:
            process, report = self._reports.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            return None
        if self._processes.get(report.worker) is not process:
            return None  # of a process that was replaced
        if report.record is None:
            del self._processes[report.worker]
            _close_orders(process)
            process.wait()
            return WorkerReport(report.worker, None, _describe_exit(process.returncode))
        header = report.record[0]
        if "failed" in header:
            raise _port_error(header, self._plan.port, report.worker)
        if "port" in header:
            self._ports[report.worker] = header["port"]
            if self._started:  # it came back
                self.broadcast({"addresses": list(self._ports.items())})
        return report

    def kill(self, worker: int) -> None:
        if worker in self._processes:
            self._processes[worker].kill()

    def close(self) -> None:
        processes, self._processes = list(self._processes.values()), {}
        for process in processes:
            _close_orders(process)
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

    def _spawn(self, worker: int, life: int) -> None:
        # One thread of BLAS in each: they have short vectors and share the cores.
        single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._processes[worker] = process
        thread = threading.Thread(target=self._read_reports, args=(worker, process), daemon=True)
        thread.start()
        self._threads.append(thread)
        header, arrays = self._plan.write_order(worker, life)
        self._send(worker, header, arrays)

    def _read_reports(self, worker: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as stdout:
            while (record := wire_format.read(stdout)) is not None:
                self._reports.put((process, WorkerReport(worker, record)))
        self._reports.put((process, WorkerReport(worker, None)))

    def _send(self, worker: int, header: dict[str, Any], arrays: Any = None) -> None:
        stdin = self._processes[worker].stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the worker ended: its reader will say so
            stdin.write(wire_format.pack(header, arrays))
            stdin.flush()


def _close_orders(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe of a worker's orders: it ends, if it has not ended yet."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # what was not sent cannot be any more
        process.stdin.close()


def _port_error(header: dict[str, Any], port: int | None, worker: int) -> OSError:
    if port is not None and header["errno"] == errno.EADDRINUSE:
        text = (
            f"port {port + worker} of 127.0.0.1 is in use: give another port=, "
            "or none to take free ones"
        )
    else:
        text = f"a process of nodes cannot listen on 127.0.0.1: {header['failed']}"
    return OSError(text)


def _describe_exit(code: int) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"its process ended with exit code {code}"
