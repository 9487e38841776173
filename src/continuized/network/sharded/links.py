"""Links to workers: requests go out, answers come back, and a worker that ended is noticed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any, Protocol

from continuized.network.runtime import wire_format
from continuized.network.runtime.ray_options import Ray
from continuized.network.runtime.transports.local import END_WITHIN, describe_exit
from continuized.network.runtime.wire_format import Record

WORKER = "continuized.network.sharded.worker"


class LinkEnded(Exception):
    """The worker has ended; the message says how."""


class Link(Protocol):
    """A worker, and the way to it: one request at a time, and its answer."""

    def send(self, request: Record, dataset: Any = None) -> None:
        """Send a request; nothing is raised where the worker has ended."""

    def receive(self) -> Record:
        """Wait for the answer; LinkEnded where none will come."""

    def end(self, *, at_once: bool = False) -> None:
        """End the worker, and wait until it has ended; at once, even in the middle of its work."""


class LocalLink:
    """A process of this machine, reached through pipes that nobody else holds."""

    def __init__(self) -> None:
        # BLAS has one thread in each worker: they share the cores.
        single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.send(({"path": [str(folder) for folder in sys.path]}, {}))

    def send(self, request: Record, dataset: Any = None) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `receive` will say so
            for part in wire_format.pack_parts(*request):
                self.process.stdin.write(part)
            self.process.stdin.flush()

    def receive(self) -> Record:
        assert self.process.stdout is not None
        record = wire_format.read(self.process.stdout)
        if record is None:
            self.end(at_once=True)
            raise LinkEnded(describe_exit(self.process.returncode))
        return record

    def end(self, *, at_once: bool = False) -> None:
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):  # what was not sent cannot be any more
            process.stdin.close()
        try:
            process.wait(0.0 if at_once and process.poll() is None else END_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class ShardActor:
    """The worker as an actor of Ray, which carries the same bytes."""

    def __init__(self, path: list[str]) -> None:
        sys.path += [folder for folder in path if folder not in sys.path]
        from continuized.network.sharded.shard import Shard

        self._shard = Shard()

    def answer(self, request: bytes, dataset: Any = None) -> bytes:
        """Answer a request."""
        return wire_format.pack(*self._shard.answer(wire_format.unpack(request), dataset))


class RayCluster:
    """The Ray of a run: one that it starts on this machine, or one that it joins."""

    def __init__(self, options: Ray, count: int) -> None:
        from continuized.network.runtime.transports.ray import RayTransport

        options.check_count(count)
        self._options, self._count = options, count
        self._transport = RayTransport(options)
        try:
            self._ray = self._transport.connect()
        except BaseException:
            self._transport.close()
            raise

    def link(self, number: int) -> Link:
        """Start the actor of a shard; if nothing else is asked for, the machines have as many."""
        options = {
            "scheduling_strategy": "SPREAD",
            **self._options.options_of(number, self._count),
            "max_restarts": 0,
        }
        return RayLink(self._ray, options)

    def close(self) -> None:
        """End the cluster, if it was started for this run, or leave it."""
        self._transport.close()


class RayLink:
    """An actor of Ray, which Ray itself does not restart."""

    def __init__(self, ray: Any, options: dict[str, Any]) -> None:
        self._ray, self._answer = ray, None
        path = [str(folder) for folder in sys.path]
        self._actor = ray.remote(**options)(ShardActor).remote(path)

    def send(self, request: Record, dataset: Any = None) -> None:
        more = () if dataset is None else (dataset,)
        self._answer = self._actor.answer.remote(wire_format.pack(*request), *more)

    def receive(self) -> Record:
        try:
            return wire_format.unpack(self._ray.get(self._answer))
        except self._ray.exceptions.RayActorError as error:
            raise LinkEnded(str(error).strip().split("\n", 1)[0].rstrip(".")) from error

    def end(self, *, at_once: bool = False) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor, no_restart=True)
