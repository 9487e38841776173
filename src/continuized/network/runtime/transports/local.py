"""Workers as processes of this machine, which talk over 127.0.0.1."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from continuized.network.runtime.transport import RunPlan, WorkerReport
from continuized.network.runtime.transports.forked import ForkedProcess
from continuized.network.workers import records
from continuized.network.workers.processes import (
    END_WITHIN,
    Process,
    close_orders,
    describe_exit,
    end_worker,
    send,
    start_worker,
)

WORKER_MODULE = "continuized.network.runtime.transports.local_worker"


class LocalTransport:
    """Runs each worker as a process of its own, or, where nodes have Python objects, as a fork."""

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
        send(process, *self._plan.write_order(worker, lives))

    def _start_process(self, objects: dict[int, Any]) -> Process:
        if not objects:
            return start_worker(WORKER_MODULE)
        others = self._processes.values()
        pipes = [pipe for p in others for pipe in (p.stdin, p.stdout) if pipe is not None]
        return ForkedProcess(objects, pipes)

    def broadcast(self, command: dict[str, Any]) -> None:
        for process in list(self._processes.values()):
            send(process, command)

    def next_report(self, timeout: float) -> WorkerReport | None:
        try:
            process, report = self._reports.get(timeout=timeout)
        except queue.Empty:
            return None
        if self._processes.get(report.worker) is not process:
            return None  # of a process that was replaced
        if report.record is None:
            del self._processes[report.worker]
            close_orders(process)
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
            close_orders(process)
        limit = time.monotonic() + END_WITHIN
        for process in processes:
            end_worker(process, limit - time.monotonic())
        for thread in self._threads:
            thread.join(END_WITHIN)
        self._threads.clear()

    def _read_reports(self, worker: int, process: Process) -> None:
        assert process.stdout is not None
        with process.stdout as stdout:
            while (record := records.read(stdout)) is not None:
                self._reports.put((process, WorkerReport(worker, record)))
        self._reports.put((process, WorkerReport(worker, None)))
