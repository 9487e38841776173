"""Links to workers: requests go out, answers come back, and a worker that ended is noticed."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from continuized.network.workers import records
from continuized.network.workers.processes import describe_exit, end_worker, send, start_worker
from continuized.network.workers.ray_cluster import first_line, kill_actor
from continuized.network.workers.records import Record

WORKER_MODULE = "continuized.network.sharded.worker"


class LinkEnded(Exception):
    """The worker has ended; the message says how."""


class WorkerLink(Protocol):
    """A worker, and the way to it: one request at a time, and its answer."""

    def send(self, request: Record, dataset: Any = None) -> None:
        """Send a request; nothing is raised where the worker has ended."""

    def receive(self) -> Record:
        """Wait for the answer; LinkEnded where none will come."""

    def end(self) -> None:
        """End the worker at once, even in the middle of its work, and wait until it has ended."""


class LocalLink:
    """A process of this machine, reached through pipes that nobody else holds."""

    def __init__(self) -> None:
        self.process = start_worker(WORKER_MODULE)
        send(self.process, {"path": [str(folder) for folder in sys.path]})

    def send(self, request: Record, dataset: Any = None) -> None:
        send(self.process, *request)

    def receive(self) -> Record:
        assert self.process.stdout is not None
        record = records.read(self.process.stdout)
        if record is None:
            code = end_worker(self.process)
            self.process.stdout.close()
            raise LinkEnded(describe_exit(code))
        return record

    def end(self) -> None:
        assert self.process.stdout is not None
        self.process.kill()  # first: closing its orders waits until it has read them
        end_worker(self.process)
        self.process.stdout.close()


class ShardActor:
    """The worker as an actor of Ray, which carries the same bytes."""

    def __init__(self, path: list[str]) -> None:
        sys.path += [folder for folder in path if folder not in sys.path]
        from continuized.network.sharded.shard import Shard

        self._shard = Shard()

    def answer(self, request: bytes, dataset: Any = None) -> bytes:
        """Answer a request."""
        return records.pack(*self._shard.answer(records.unpack(request), dataset))


class RayLink:
    """An actor of Ray, which Ray itself does not restart; where its options (`Ray.options_of`) do
    not say it, all machines get as many."""

    def __init__(self, ray: Any, options: dict[str, Any]) -> None:
        self._ray, self._answer = ray, None
        options = {"scheduling_strategy": "SPREAD", **options, "max_restarts": 0}
        path = [str(folder) for folder in sys.path]
        self._actor = ray.remote(**options)(ShardActor).remote(path)

    def send(self, request: Record, dataset: Any = None) -> None:
        more = () if dataset is None else (dataset,)
        self._answer = self._actor.answer.remote(records.pack(*request), *more)

    def receive(self) -> Record:
        try:
            return records.unpack(self._ray.get(self._answer))
        except self._ray.exceptions.RayActorError as error:
            raise LinkEnded(first_line(error)) from error

    def end(self) -> None:
        kill_actor(self._ray, self._actor)
