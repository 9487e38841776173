"""Workers as actors of Ray, on this machine or on a cluster.

Ray carries bytes: the same frames between workers, and the same records to and from the run, as
with `local`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from continuized.network.runtime import wire_format
from continuized.network.runtime.ray_options import Ray
from continuized.network.runtime.transport import RunPlan, WorkerReport
from continuized.network.runtime.transports import ray_watch
from continuized.network.runtime.transports.worker import HOST, MOST_BUFFERED, Worker

NAMESPACE = "continuized"
ANSWER_WITHIN = 5.0  # seconds for a cluster's address; Ray itself would try for minutes
# Seconds that an actor may be out of reach before it is given up, and between two attempts.
UNAVAILABLE, ASK_AGAIN = 5.0, 0.2

# On one machine Ray stays on 127.0.0.1, and tells no one that it runs.
_QUIET = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def _import_ray() -> Any:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            'transport="ray" needs Ray, which is not installed: pip install "continuized[ray]"',
            name="ray",
        ) from error
    return ray


class Actor(Worker):
    """A worker that is called by Ray; the address of another one is its name."""

    def __init__(
        self, order: bytes, objects: dict[int, Any], names: list[str], *arrays: Any
    ) -> None:
        # Copies: what comes from the object store is shared, and cannot be written.
        own = {name: array.copy() for name, array in zip(names, arrays, strict=True)}
        super().__init__((wire_format.unpack(order)[0], own), objects)
        self._waiting: dict[int, bytearray] = {}  # frames that wait for the call before them
        self._busy: set[asyncio.Task[None]] = set()
        self._to_save = False

    async def deliver(self, frames: bytes) -> None:
        """Take frames from another actor, all of them whole."""
        self.receive(list(wire_format.FrameReader(self.process.codec).feed(frames)))

    async def obey_packed(self, command: bytes) -> None:
        """Obey a command of the run."""
        header = wire_format.unpack(command)[0]
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
        return wire_format.pack(header, {**arrays, "entries": self.process.take_log()})

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
        ray = _import_ray()
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
        self._ray = _import_ray()
        self._ours = False
        self._watch: subprocess.Popen[bytes] | None = None
        self._actors: dict[int, Any] = {}
        self._polls: dict[Any, int] = {}
        self._unavailable: dict[int, float] = {}  # since when
        self._to_ask: dict[int, float] = {}  # when
        self._run, self._count = secrets.token_hex(8), 0

    def start(self, plan: RunPlan) -> None:
        self._plan = plan
        self.connect()
        for worker in range(len(plan.workers)):
            self.spawn(worker)

    def connect(self) -> Any:
        """Start Ray, or join a cluster, unless this process has already; return its module."""
        if not self._ray.is_initialized():
            if self._options.address is None:
                self._start_own()
            else:
                self._join(self._options.address)
        return self._ray

    def _start_own(self) -> None:
        """Start a cluster of this machine, which ends with this process, however that ends."""
        own: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": HOST}
        try:
            if sys.platform == "linux":
                own["_temp_dir"] = self._start_watch()
            self._init(address="local", **own)
        except Exception as error:
            raise RuntimeError(
                f"Ray did not start on this machine ({_first_line(error)}); see whether "
                '`ray.init()` works by itself, or give transport="local"'
            ) from error
        host = str(self._ray.get_runtime_context().gcs_address).rpartition(":")[0]
        if host != HOST:
            raise RuntimeError(
                f"Ray listens at {host}, where others may reach it, and not at {HOST} as asked: it "
                "was ended; set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before Ray is imported"
            )

    def _start_watch(self) -> str:
        """Make a folder for Ray, and start what ends its processes; return the folder."""
        # Short, for the names of sockets in it may have 107 letters.
        folder = tempfile.mkdtemp(prefix="cz-ray-", dir=os.environ.get("RAY_TMPDIR", "/tmp"))
        self._watch = subprocess.Popen(
            [sys.executable, "-P", ray_watch.__file__, folder],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is not for it
        )
        return folder

    def _join(self, address: str) -> None:
        """Join a cluster; ConnectionError, with what may be the reason, where that fails."""
        host, _, port = address.rpartition(":")
        try:
            if host and port.isdigit() and "/" not in host:
                with socket.create_connection((host.strip("[]"), int(port)), ANSWER_WITHIN):
                    pass
            self._init(address=address)
        except Exception as error:
            raise ConnectionError(
                f"the Ray cluster at {address!r} cannot be joined ({_first_line(error)}); give "
                "the address that `ray start --head` tells, which may not be 127.0.0.1, and if the "
                "cluster wants a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to it (the file "
                "~/.ray/auth_token where `ray start` was called)"
            ) from error

    def _init(self, **where: Any) -> None:
        self._ray.init(namespace=NAMESPACE, log_to_driver=False, logging_level="error", **where)
        self._ours = True

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
        actor = remote(Actor).remote(wire_format.pack(header), objects, list(arrays), *refs)
        self._actors[worker] = actor
        self._polls[actor.poll.remote(name)] = worker

    def broadcast(self, command: dict[str, Any]) -> None:
        for actor in self._actors.values():
            actor.obey_packed.remote(wire_format.pack(command))

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
            record = wire_format.unpack(self._ray.get(ready[0]))
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
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor, no_restart=True)
        return WorkerReport(worker, None, _first_line(error))

    def advise_absence(self, workers: Sequence[int]) -> str:
        totals = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for worker in workers:
            asked = self._options.resources_of(worker, len(self._plan.workers))
            if not any(all(its.get(r, 0.0) >= n for r, n in asked.items()) for its in totals):
                what = ", ".join(f"{name} {amount:g}" for name, amount in asked.items())
                return f"no machine of the cluster has what process {worker} asks for, {what}"
        return "see `ray status` for what they wait for, or give fewer with processes="

    def kill(self, worker: int) -> None:
        if worker in self._actors:
            self._ray.kill(self._actors[worker], no_restart=True)

    def close(self) -> None:
        actors, self._actors = self._actors, {}
        self._polls.clear()
        self._to_ask.clear()
        if self._ray.is_initialized():
            for actor in actors.values():
                with contextlib.suppress(self._ray.exceptions.RayError):
                    self._ray.kill(actor, no_restart=True)
            if self._ours:
                self._ours = False
                self._ray.shutdown()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.communicate()  # it ends what is left


def _first_line(error: Exception) -> str:
    """Take the first line of what Ray says."""
    return f"{type(error).__name__}: " + str(error).strip().split("\n", 1)[0].rstrip(".")
