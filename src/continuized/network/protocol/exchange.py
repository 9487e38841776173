"""What a node remembers of its exchanges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from continuized.network.protocol.node_model import Array

Entry = tuple[int, int, int, int, float]  # kind, node, peer, seq, time: a line of the log


class Exchange(NamedTuple):
    """The one a node is in: as the initiator, who waits for an answer, or locked by an answer."""

    peer: int
    seq: int
    asking: bool
    since: float
    deadline: float


@dataclass
class Owed:
    """A transfer that was paid and is not acknowledged."""

    seq: int
    d: Array
    plain: bool
    resend: float


@dataclass
class Counts:
    """What happened to a node; ages are those of its answers when the transfer was applied."""

    exchanges: int = 0
    refused: int = 0
    given_up: int = 0
    resent: int = 0
    strange: int = 0
    ages: int = 0
    age_sum: float = 0.0
    age_largest: float = 0.0

    def aged(self, age: float) -> None:
        """A transfer was applied, so long after the answer it rests on."""
        self.ages += 1
        self.age_sum += age
        self.age_largest = max(self.age_largest, age)
