"""Workers as processes of this machine, which talk over 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from continuized.network.runtime import wire_format
from continuized.network.runtime.transport import RunPlan, WorkerReport
from continuized.network.runtime.transports.forked import ForkedProcess

END_WITHIN = 2.0  # seconds
WORKER = "continuized.network.runtime.transports.worker"
Process = subprocess.Popen[bytes] | ForkedProcess


class LocalTransport:
    """Runs each worker as a process of its own, or, where nodes have Python objects, as a fork.

    A worker is started with a pipe as its standard input, through which it gets its orders and
    the run's key, and it ends when that pipe ends: no worker outlives this process, however
    this process ends.
    """

    def __init__(self) -> None:
        self._processes: dict[int, Process] = {}
        self._reports: queue.SimpleQueue[tuple[Process, WorkerReport]]
        self._reports = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def start(self, plan: RunPlan) -> None:
        self._plan = plan
        for worker in range(len(plan.workers)):
            self.spawn(worker)

    def spawn(self, worker: int, lives: Mapping[int, int] | None = None) -> None:
        process = self._start_process(self._plan.objects_of(worker))
        self._processes[worker] = process
        thread = threading.Thread(target=self._read_reports, args=(worker, process), daemon=True)
        thread.start()
        self._threads.append(thread)
        header, arrays = self._plan.write_order(worker, lives)
        self._send(worker, header, arrays)

    def _start_process(self, objects: dict[int, Any]) -> Process:
        if objects:
            others = self._processes.values()
            pipes = [pipe for p in others for pipe in (p.stdin, p.stdout) if pipe is not None]
            return ForkedProcess(objects, pipes)
        # One thread of BLAS in each: they have short vectors and share the cores.
        single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def broadcast(self, command: dict[str, Any]) -> None:
        for worker in list(self._processes):
            self._send(worker, command)

    def next_report(self, timeout: float) -> WorkerReport | None:
        try:
            process, report = self._reports.get(timeout=timeout)
        except queue.Empty:
            return None
        if self._processes.get(report.worker) is not process:
            return None  # of a process that was replaced
        if report.record is None:
            del self._processes[report.worker]
            _close_orders(process)
            return WorkerReport(report.worker, None, describe_exit(process.wait()))
        if "failed" in report.record[0]:
            raise OSError(report.record[0]["failed"])
        return report

    def advise_absence(self, workers: Sequence[int]) -> str:
        return "give fewer with processes="

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

    def _read_reports(self, worker: int, process: Process) -> None:
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


def _close_orders(process: Process) -> None:
    """Close the pipe of a worker's orders: it ends, if it has not ended yet."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # what was not sent cannot be any more
        process.stdin.close()


def describe_exit(code: int) -> str:
    """Say how a process ended."""
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"its process ended with exit code {code}"
