"""Workers as actors of Ray, on this machine or on a cluster.

Ray carries bytes: the same frames between workers, and the same records to and from the run, as
with `local`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from continuized.network.runtime.transport import RunPlan, WorkerReport
from continuized.network.runtime.transports.worker import Worker
from continuized.network.workers import records
from continuized.network.workers.frames import MOST_BUFFERED, FrameReader
from continuized.network.workers.ray_cluster import (
    NAMESPACE,
    RayCluster,
    first_line,
    import_ray,
    kill_actor,
)
from continuized.network.workers.ray_options import Ray

# Seconds that an actor may be out of reach before it is given up, and between two attempts.
UNAVAILABLE, ASK_AGAIN = 5.0, 0.2


class Actor(Worker):
    """A worker that is called by Ray; the address of another one is its name."""

    def __init__(
        self, order: bytes, objects: dict[int, Any], names: list[str], *arrays: Any
    ) -> None:
        # Copies: what comes from the object store is shared, and cannot be written.
        own = {name: array.copy() for name, array in zip(names, arrays, strict=True)}
        super().__init__((records.unpack(order)[0], own), objects)
        self._waiting: dict[int, bytearray] = {}  # frames that wait for the call before them
        self._busy: set[asyncio.Task[None]] = set()
        self._to_save = False

    async def deliver(self, frames: bytes) -> None:
        """Take frames from another actor, all of them whole."""
        self.receive(list(FrameReader(self.process.codec).feed(frames)))

    async def obey_packed(self, command: bytes) -> None:
        """Obey a command of the run."""
        header = records.unpack(command)[0]
        self._to_save = self._to_save or bool(header.get("save"))
        self.obey(header)

    async def poll(self, name: str = "") -> bytes:
        """Report: the first time at once and with its name, later after a while."""
        if not name and not self._ended:
            await asyncio.sleep(self._report_after)
        saving, self._to_save = self._to_save, False
        header, arrays = self.report(whole=bool(name) or saving, saving=saving)
        if name:
            header["address"] = name
        return records.pack(header, {**arrays, "entries": self.process.take_log()})

    def _send(self, frames: dict[int, bytes]) -> None:
        # One call at a time for each worker: what comes up meanwhile goes with the next.
        for worker, data in frames.items():
            if worker not in self._waiting:
                self._waiting[worker] = bytearray(data)
                task = asyncio.get_running_loop().create_task(self._deliver_waiting(worker))
                self._busy.add(task)
                task.add_done_callback(self._busy.discard)
            elif len(self._waiting[worker]) < MOST_BUFFERED:
                self._waiting[worker] += data

    async def _deliver_waiting(self, worker: int) -> None:
        ray = import_ray()
        try:
            while self._waiting[worker]:
                data = bytes(self._waiting[worker])
                self._waiting[worker].clear()
                if worker not in self._links:
                    name = self._addresses[worker]
                    self._links[worker] = ray.get_actor(name, namespace=NAMESPACE)
                await self._links[worker].deliver.remote(data)
        except (ray.exceptions.RayError, ValueError, KeyError):
            pass  # it is dead, or not there yet: its frames are lost, and sent again by the node
        finally:
            del self._waiting[worker]


class RayTransport:
    """Runs each worker as an actor; Ray itself restarts none, and repeats no call."""

    def __init__(self, options: Ray) -> None:
        self._options = options
        self._cluster = RayCluster(options)
        self._ray = self._cluster.ray
        self._actors: dict[int, Any] = {}
        self._polls: dict[Any, int] = {}
        self._unavailable: dict[int, float] = {}  # since when
        self._to_ask: dict[int, float] = {}  # when
        self._run, self._count = secrets.token_hex(8), 0

    def start(self, plan: RunPlan) -> None:
        self._plan = plan
        self._cluster.connect()
        for worker in range(len(plan.workers)):
            self.spawn(worker)

    def spawn(self, worker: int, lives: Mapping[int, int] | None = None) -> None:
        self._count += 1
        name = f"{self._run}-{worker}-{self._count}"
        remote = self._ray.remote(
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1000,
            namespace=NAMESPACE,
            name=name,
            **self._options.options_of(worker, len(self._plan.workers)),
        )
        header, arrays = self._plan.write_order(worker, lives)
        # Each array by itself: large ones go through the object store, as they are.
        refs = [self._ray.put(array) for array in arrays.values()]
        objects = self._plan.objects_of(worker)  # which Ray hands over as it does
        actor = remote(Actor).remote(records.pack(header), objects, list(arrays), *refs)
        self._actors[worker] = actor
        self._polls[actor.poll.remote(name)] = worker

    def broadcast(self, command: dict[str, Any]) -> None:
        for actor in self._actors.values():
            actor.obey_packed.remote(records.pack(command))

    def next_report(self, timeout: float) -> WorkerReport | None:
        self._ask_again()
        if not self._polls:
            time.sleep(timeout)
            return None
        ready, _ = self._ray.wait(list(self._polls), timeout=timeout)
        if not ready:
            return None
        worker = self._polls.pop(ready[0])
        try:
            record = records.unpack(self._ray.get(ready[0]))
        except self._ray.exceptions.ActorUnavailableError as error:
            # Its machine has gone, or the network for a while: Ray will know.
            since = self._unavailable.setdefault(worker, time.monotonic())
            if time.monotonic() - since < UNAVAILABLE:
                self._to_ask[worker] = time.monotonic() + ASK_AGAIN
                return None
            return self._lose(worker, error)
        except self._ray.exceptions.RayActorError as error:
            return self._lose(worker, error)
        self._unavailable.pop(worker, None)
        if not record[0]["final"]:
            self._polls[self._actors[worker].poll.remote()] = worker
        return WorkerReport(worker, record)

    def _ask_again(self) -> None:
        """Ask those for reports that could not be reached a moment ago."""
        for worker in [w for w, due in self._to_ask.items() if due <= time.monotonic()]:
            del self._to_ask[worker]
            self._polls[self._actors[worker].poll.remote()] = worker

    def _lose(self, worker: int, error: Exception) -> WorkerReport:
        """Report the end of an actor, which is then sure."""
        self._unavailable.pop(worker, None)
        actor = self._actors.pop(worker, None)
        if actor is not None:
            kill_actor(self._ray, actor)
        return WorkerReport(worker, None, first_line(error))

    def advise_absence(self, workers: Sequence[int]) -> str:
        totals = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for worker in workers:
            asked = self._options.resources_of(worker, len(self._plan.workers))
            if not any(all(total.get(r, 0.0) >= n for r, n in asked.items()) for total in totals):
                what = ", ".join(f"{name} {amount:g}" for name, amount in asked.items())
                return f"no machine of the cluster has what process {worker} asks for, {what}"
        return "see `ray status` for what they wait for, or give fewer with processes="

    def kill(self, worker: int) -> None:
        if worker in self._actors:
            kill_actor(self._ray, self._actors[worker])

    def close(self) -> None:
        actors, self._actors = self._actors, {}
        self._polls.clear()
        self._to_ask.clear()
        if self._ray.is_initialized():
            for actor in actors.values():
                kill_actor(self._ray, actor)
        self._cluster.close()
