"""Actors of Ray, on this machine or on a cluster.

Ray carries bytes: the same frames between actors, the same records to and from the run, as the
processes of `local`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from typing import Any

from continuized.network.runtime import wire_format as records
from continuized.network.runtime.transport import Event, Plan

REPORT_EVERY = 0.1  # seconds
START_WITHIN = 120.0
LONGEST_REST = 1.0
MOST_WAITING = 1 << 20  # bytes for one place: above, frames are dropped, as if lost
NAMESPACE = "continuized"

# On one machine Ray stays on 127.0.0.1, and tells no one that it runs.
_QUIET = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def _ray() -> Any:
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


class Actor:
    """A process of nodes: what `transports.worker` is for local processes."""

    def __init__(self, order: bytes) -> None:
        from continuized.network.runtime.node_process import Station

        self._station = Station(records.unpack(order))
        self._stream = self._station.stream()
        self._inbox: list[Any] = []
        self._waiting: dict[int, bytearray] = {}  # frames that wait for the call before them
        self._names: dict[int, str] = {}
        self._handles: dict[int, Any] = {}
        self._busy: set[asyncio.Task[None]] = set()
        self._wakes = asyncio.Event()
        self._ended = False
        self._turning: asyncio.Task[None] | None = None

    async def deliver(self, frames: bytes) -> None:
        """Frames from another actor."""
        self._inbox += self._stream.feed(frames)
        if self._stream.broken:
            self._stream = self._station.stream()
        self._wakes.set()

    async def tell(self, command: bytes) -> None:
        """A command of the run."""
        header, _ = records.unpack(command)
        for place, name in header.get("names", ()):
            if self._names.get(place) != name:
                self._names[place] = name
                self._handles.pop(place, None)
        self._station.command(header)
        self._ended = self._ended or bool(header.get("end"))
        if self._turning is None:
            self._turning = asyncio.get_running_loop().create_task(self._turns())
        self._wakes.set()

    async def poll(self, first: bool) -> bytes:
        """A report, the first at once, others after a while."""
        if not first and not self._ended:
            await asyncio.sleep(REPORT_EVERY)
        header, arrays = self._station.report(final=self._ended)
        if first:
            header["started"] = True
        return records.pack(header, {**arrays, "entries": self._station.log()})

    async def _turns(self) -> None:
        while not self._ended:
            self._wakes.clear()
            inbox, self._inbox = self._inbox, []
            for place, data in self._station.turn(time.monotonic(), inbox).items():
                self._send(place, data)
            rest = min(self._station.wait(), LONGEST_REST)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakes.wait(), rest) if rest else await asyncio.sleep(0)

    def _send(self, place: int, data: bytes) -> None:
        # One call at a time for each place: what comes up meanwhile goes with the next.
        if place in self._waiting:
            if len(self._waiting[place]) < MOST_WAITING:
                self._waiting[place] += data
            return
        self._waiting[place] = bytearray(data)
        task = asyncio.get_running_loop().create_task(self._calls(place))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _calls(self, place: int) -> None:
        ray = _ray()
        try:
            while self._waiting[place]:
                data = bytes(self._waiting[place])
                self._waiting[place].clear()
                if place not in self._handles:
                    name = self._names[place]
                    self._handles[place] = ray.get_actor(name, namespace=NAMESPACE)
                await self._handles[place].deliver.remote(data)
        except (ray.exceptions.RayError, ValueError, KeyError):
            pass  # it is dead, or not there yet: its frames are lost, and sent again by the node
        finally:
            del self._waiting[place]


class RayCrew:
    """An actor for each place; none is restarted, and no call is repeated, by Ray itself."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._ray = _ray()
        self._ours = False
        self._actors: dict[int, Any] = {}
        self._polls: dict[Any, int] = {}
        self._names: dict[int, str] = {}
        self._run = secrets.token_hex(8)

    def start(self, plan: Plan) -> None:
        self._plan = plan
        if not self._ray.is_initialized():
            self._ray.init(**self._options(len(plan.places)))
            self._ours = True
        for place in range(len(plan.places)):
            self._spawn(place, 0)
        refs = list(self._polls)
        ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=START_WITHIN)
        if len(ready) < len(refs):
            raise TimeoutError(
                f"{len(refs) - len(ready)} of {len(refs)} actors did not start within "
                f"{START_WITHIN:.0f} s: give fewer with processes="
            )
        self._meet()

    def revive(self, place: int, life: int) -> None:
        self._spawn(place, life)
        self._meet()

    def tell(self, header: dict[str, Any]) -> None:
        for actor in self._actors.values():
            actor.tell.remote(records.pack(header))

    def next(self, timeout: float) -> Event | None:
        ready, _ = self._ray.wait(list(self._polls), timeout=max(timeout, 0.0))
        if not ready:
            return None
        place = self._polls.pop(ready[0])
        try:
            record = records.unpack(self._ray.get(ready[0]))
        except self._ray.exceptions.RayActorError as error:
            self._actors.pop(place, None)
            return Event(place, None, _why(error))
        if not record[0]["final"]:
            self._polls[self._actors[place].poll.remote(False)] = place
        return Event(place, record)

    def kill(self, place: int) -> None:
        if place in self._actors:
            self._ray.kill(self._actors[place], no_restart=True)

    def close(self) -> None:
        if not self._ray.is_initialized():
            return
        actors, self._actors = self._actors, {}
        self._polls.clear()
        for actor in actors.values():
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor, no_restart=True)
        if self._ours:
            self._ours = False
            self._ray.shutdown()

    def _options(self, places: int) -> dict[str, Any]:
        options: dict[str, Any] = {
            "namespace": NAMESPACE,
            "log_to_driver": False,
            "logging_level": "error",
        }
        if self._address is not None:
            return {**options, "address": self._address}
        return {
            **options,
            "address": "local",
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }

    def _spawn(self, place: int, life: int) -> None:
        self._names[place] = f"{self._run}-{place}-{life}"
        remote = self._ray.remote(
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1000,
            namespace=NAMESPACE,
            name=self._names[place],
        )
        actor = remote(Actor).remote(records.pack(*self._plan.order(place, life)))
        self._actors[place] = actor
        self._polls[actor.poll.remote(True)] = place

    def _meet(self) -> None:
        self.tell({"names": list(self._names.items()), "home": self._plan.home()})


def _why(error: Exception) -> str:
    """The first sentence of what Ray says."""
    return f"{type(error).__name__}: " + str(error).strip().split("\n", 1)[0]
