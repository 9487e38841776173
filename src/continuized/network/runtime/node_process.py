"""A process of nodes, without its sockets: frames and commands in, frames and reports out.

Transports carry its bytes: local processes by TCP and pipes, Ray by calls of actors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.protocol.messages import Message
from continuized.network.protocol.node import Entry, Node
from continuized.network.protocol.node_model import Array, RuleSpec
from continuized.network.runtime.faulty_link import Link
from continuized.network.runtime.scheduler import Host, sentence
from continuized.network.runtime.wire_format import Codec, Record, Stream

ENTRY = np.dtype(
    [("kind", "u1"), ("node", "<u4"), ("peer", "<u4"), ("seq", "<u8"), ("time", "<f8")]
)
NOTHING = np.zeros(0, ENTRY)
LINK = 0xFFFFFFFF  # the key of a link's own random stream; nodes have their numbers


class Station:
    """The nodes of one process, made from an order (see `crew.Plan.order`)."""

    def __init__(self, order: Record) -> None:
        header, arrays = order
        self.place = int(header["place"])
        self.codec = Codec(bytes.fromhex(header["key"]), int(header["dim"]))
        self.home: dict[int, int] = {}  # the place of each node
        self._loose: list[Message] = []  # between nodes of this place
        self._entries: list[Entry] = []
        link = Link(
            _generator([*header["seed"], LINK, self.place]),
            *(float(header[name]) for name in ("loss", "duplication", "delay")),
        )
        nodes, fell = {}, []
        for told in header["nodes"]:
            try:
                nodes[told["number"]] = self._made(told, arrays, header)
            except Exception as error:  # a rule is the user's code: only its own node dies of it
                fell.append((told["number"], sentence(error)))
        skews = {told["number"]: float(told["skew"]) for told in header["nodes"]}
        self.host = Host(nodes, skews, float(header["speed"]), float(header["stride"]), link)
        self.host.fell += fell

    def stream(self) -> Stream:
        """For the bytes of one connection."""
        return Stream(self.codec)

    def turn(self, wall: float, messages: Iterable[Message] = ()) -> dict[int, bytes]:
        """Let time pass, take messages in; the frames to send, by place."""
        loose, self._loose = self._loose, []
        self.host.advance(wall)
        out = self.host.receive([*loose, *messages])
        out += self.host.turn()
        frames: dict[int, list[bytes]] = {}
        for message in out:
            place = self.home.get(message.receiver)
            if place == self.place:
                self._loose.append(message)
            elif place is not None:
                frames.setdefault(place, []).append(self.codec.encode(message))
        return {place: b"".join(parts) for place, parts in frames.items()}

    def wait(self) -> float:
        """Seconds of wall time until something is due."""
        return 0.0 if self._loose else self.host.rest()

    def command(self, header: dict[str, Any]) -> None:
        """What the run tells: where nodes are, who died or came back, to fall back, to finish."""
        self.home.update({int(number): int(place) for number, place in header.get("home", ())})
        for number, node in self.host.nodes.items():
            for peer, lives in header.get("dead", ()):
                node.bury(peer, lives)
            for peer in header.get("back", ()):
                node.greet(peer)
            if header.get("plain") and not node.rule.plain:
                node.fall_back(max(node.now, self.host.own_time(number)))
            node.quiet = node.quiet or bool(header.get("quiet"))

    def log(self) -> NDArray[Any]:
        """The entries since the last call."""
        fresh = np.array(self._entries, ENTRY) if self._entries else NOTHING
        self._entries.clear()
        return fresh

    def report(self, final: bool = False) -> Record:
        """The state of every node, and what happened so far; at the end, what is still owed."""
        states = self._states()
        nodes = [self.host.nodes[number] for number in states]
        fell, self.host.fell = self.host.fell, []
        header = {
            "t": self.host.t,
            "idle": all(node.quiet and node.idle for node in nodes) and not self._loose,
            "fell": fell,
            "dropped": self.codec.dropped,
            "final": final,
        }
        arrays = {
            "number": np.array([node.number for node in nodes], np.int64),
            "counts": np.array([list(vars(node.counts).values()) for node in nodes], np.float64),
            **self._rows(states),
        }
        return header, {**arrays, **self._owed(nodes)} if final else arrays

    def _states(self) -> dict[int, tuple[Array, Array, Array]]:
        """(x, z, answer) of every node that has a value."""
        states = {}
        for number, node in list(self.host.nodes.items()):
            if not node.joining:
                try:
                    states[number] = (*node.rule.state(), node.rule.answer())
                except Exception as error:  # as above
                    self.host.fail(number, error)
        return states

    def _rows(self, states: dict[int, tuple[Array, Array, Array]]) -> dict[str, NDArray[Any]]:
        names = ("x", "z", "answer", "start", "of_dead")
        rows = {name: np.zeros((len(states), self.codec.dim)) for name in names}
        for k, (number, (x, z, answer)) in enumerate(states.items()):
            rows["x"][k], rows["z"][k], rows["answer"][k] = x, z, answer
            node = self.host.nodes[number]
            rows["start"][k], rows["of_dead"][k] = node.began, node.of_dead
        return rows

    def _owed(self, nodes: list[Node]) -> dict[str, NDArray[Any]]:
        """What was paid and not acknowledged, and the last numbers that were applied."""
        owed = [(n.number, peer, o.seq) for n in nodes for peer, o in n.owed.items()]
        worth = [n.rule.worth(o.plain) * o.d for n in nodes for o in n.owed.values()]
        applied = [(n.number, peer, seq) for n in nodes for peer, seq in n.applied.items()]
        return {
            "owed": np.array(owed, np.int64).reshape(-1, 3),
            "worth": np.array(worth).reshape(-1, self.codec.dim),
            "applied": np.array(applied, np.int64).reshape(-1, 3),
        }

    def _made(self, told: dict[str, Any], arrays: dict[str, Any], header: dict[str, Any]) -> Node:
        number = int(told["number"])
        given = {name: arrays[f"{number}/{name}"] for name in told["arrays"]}
        rule = RuleSpec(told["factory"], given, told["options"]).make()
        return Node(
            number,
            rule,
            told["neighbours"],
            told["P"],
            _generator([*header["seed"], number, told["life"]]),
            timeout=float(header["timeout"]),
            life=int(told["life"]),
            logging=bool(header["log"]),
            joining=bool(told["joining"]),
            log=self._entries,
        )


def _generator(key: list[int]) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(key))
