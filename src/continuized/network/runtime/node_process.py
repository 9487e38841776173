"""A worker's nodes, without its sockets: frames and commands in, frames and reports out.

Transports carry its bytes: local processes by TCP and pipes, Ray by calls of actors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.faults import Links
from continuized.network.logs.entries import ENTRY, NO_ENTRIES
from continuized.network.protocol.node import Entry, Node
from continuized.network.protocol.node_model import NodeModelSpec, check_numbers, read_estimate
from continuized.network.protocol.transitions import Message
from continuized.network.runtime.saved_nodes import (
    from_record,
    restore_model,
    save_nodes,
    to_record,
)
from continuized.network.runtime.scheduler import FaultyLink, NodeScheduler, describe_error
from continuized.network.runtime.sketch import Sketch
from continuized.network.workers.frames import Codec
from continuized.network.workers.records import Record
from continuized.problems.base import Array

# What is reported of a node, whole at the start and at the end: x, z, what it has found (its
# answer, where the model does not say), the x + z it began with, what it has of the dead.  In
# between, sketches of all of them.
STATE = ("x", "z", "answer", "start", "of_dead")
LINK_KEY = 0xFFFFFFFF  # of a link's own random stream; the keys of nodes are their numbers


class NodeProcess:
    """Runs the nodes of one worker, as its order says (see `RunPlan.write_order`)."""

    def __init__(
        self, order: Record, objects: Mapping[int, Mapping[str, Any]] = MappingProxyType({})
    ) -> None:
        header, arrays = order
        self.worker = int(header["worker"])
        self.codec = Codec(bytes.fromhex(header["key"]), int(header["dim"]))
        self.worker_of = {int(node): int(worker) for node, worker in header["assignments"]}
        self.pause = 0  # the number of the pause in which nodes are quiet; 0: they are not
        self.strangers = 0  # connections that were ended, for nothing of this run came over them
        self._internal: list[Message] = []  # between nodes of this worker
        self._entries: list[Entry] = []
        self._sketch = Sketch(self.codec.dim, header["seed"])
        random = np.random.default_rng([*header["seed"], LINK_KEY, self.worker])
        link = FaultyLink(random, Links(*header["links"]))
        nodes: dict[int, Node] = {}
        failures = []
        saved = from_record(order)
        for given, factory, names, options in header["nodes"]:
            number = given["number"]
            try:
                own = {name: arrays[f"{number}/{name}"] for name in names}
                model = NodeModelSpec(factory, own, options, objects.get(number, {})).make()
                if str(number) in saved:
                    restore_model(model, saved[str(number)])
                random = np.random.default_rng([*header["seed"], number, given["life"]])
                dim, log = self.codec.dim, self._entries
                nodes[number] = Node(model=model, random=random, dim=dim, log=log, **given)
            except Exception as error:  # a model is the user's code: only its own node dies of it
                failures.append((number, describe_error(error)))
        speed, stride = float(header["speed"]), float(header["stride"])
        self.scheduler = NodeScheduler(nodes, speed, stride, link, float(header["t"]))
        self.scheduler.failures += failures

    def take_turn(self, wall: float, messages: Iterable[Message]) -> dict[int, bytes]:
        """Let time pass and take messages in; return the frames to send, by worker."""
        internal, self._internal = self._internal, []
        self.scheduler.advance(wall)
        frames: dict[int, list[bytearray]] = {}
        for message in self.scheduler.receive([*internal, *messages]):
            worker = self.worker_of.get(message.receiver)
            if worker == self.worker:
                self._internal.append(message)
            elif worker is not None:
                frames.setdefault(worker, []).append(self.codec.encode(message))
        return {worker: b"".join(parts) for worker, parts in frames.items()}

    def seconds_to_wait(self) -> float:
        """Return the seconds of wall time until something is due."""
        return 0.0 if self._internal else self.scheduler.seconds_to_sleep()

    def obey(self, command: dict[str, Any]) -> None:
        """Obey a command: who died or came back, to go on as plain gossip, to be quiet or not."""
        for node in self.scheduler.nodes.values():
            for peer, deaths, back in command.get("deaths", ()):
                node.note_deaths(peer, deaths, back)
            if command.get("plain") and not node.model.plain:
                node.fall_back(self.scheduler.local_time(node))
        if "quiet" in command:
            self.pause = int(command["quiet"])
            self.scheduler.set_quiet(self.pause > 0)

    def take_log(self) -> NDArray[Any]:
        """Return the entries of the log since the last call."""
        fresh = np.array(self._entries, ENTRY) if self._entries else NO_ENTRIES
        self._entries.clear()
        return fresh

    def make_report(self, final: bool = False, whole: bool = False, saving: bool = False) -> Record:
        """Report the counts of every node so far and sketches of its state.

        At the end, and where it is asked for, the states are whole; at the end there is also what
        is owed.  With `saving`, all that is needed to go on with the nodes is added.
        """
        nodes, states = self._read_states(whole or final)
        failures, self.scheduler.failures = self.scheduler.failures, []
        idle = all(node.quiet and node.idle for node in nodes) and not self._internal
        header = {
            "t": self.scheduler.t,
            "idle": self.pause if idle else 0,
            "failures": failures,
            "dropped": self.codec.dropped + self.strangers,
            "strangers": self.strangers,
            "final": final,
        }
        arrays = {
            "number": np.array([node.number for node in nodes], np.int64),
            "counts": np.array([list(vars(node.counts).values()) for node in nodes], np.float64),
            "states" if whole or final else "seen": states,
        }
        if final:
            arrays |= self._list_owed(nodes)
        if saving:
            of_saved, saved_arrays = to_record(save_nodes(nodes))
            header |= {**of_saved, "saved_in": self.pause}
            arrays |= saved_arrays
        return header, arrays

    def _read_states(self, whole: bool) -> tuple[list[Node], Array]:
        """Find the nodes that have a value, and read their STATE, (5, nodes, dim), or sketches of
        it, (5, nodes, size)."""
        nodes: list[Node] = []
        size = self.codec.dim if whole else self._sketch.size
        states = np.zeros((len(STATE), len(self.scheduler.nodes), size))
        for number, node in list(self.scheduler.nodes.items()):
            if not node.joining:
                try:
                    # Rows of a node that fails are written again, by the next one, or left out.
                    for rows, part in zip(states, self._read_parts(node), strict=True):
                        rows[len(nodes)] = part if whole else self._sketch.apply(part)
                except Exception as error:  # as above
                    self.scheduler.fail(number, error)
                else:
                    nodes.append(node)
        return nodes, states[:, : len(nodes)]

    def _read_parts(self, node: Node) -> list[Array]:
        """Read the STATE of one node."""
        dim = self.codec.dim
        found = check_numbers(read_estimate(node.model), dim, "answer")
        x, z = (check_numbers(part, dim, "state") for part in node.model.state())
        return [x, z, found, node.began, np.zeros(dim) + node.of_dead]

    def _list_owed(self, nodes: list[Node]) -> dict[str, NDArray[Any]]:
        """List what was paid and not acknowledged, and the last numbers that were applied."""
        owed = [(n.number, peer, o.seq) for n in nodes for peer, o in n.owed.items()]
        amounts = [n.find_moved(o.d, o.plain) for n in nodes for o in n.owed.values()]
        applied = [(n.number, peer, seq) for n in nodes for peer, seq in n.last_applied.items()]
        return {
            "owed": np.array(owed, np.int64).reshape(-1, 3),
            "amount": np.array(amounts).reshape(-1, self.codec.dim),
            "applied": np.array(applied, np.int64).reshape(-1, 3),
        }
