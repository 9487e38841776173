"""What nodes tell one another."""

from __future__ import annotations

from typing import NamedTuple

from continuized.problems.base import Array

# The kinds.  An exchange is REQUEST, ANSWER, TRANSFER, ACK, all under the initiator's number.
REQUEST, ANSWER, REFUSE, TRANSFER, ACK, JOIN, WELCOME = range(7)
KINDS = range(7)
WITH_VALUES = frozenset({ANSWER, TRANSFER, WELCOME})


class Message(NamedTuple):
    """A message between two nodes; `plain` tells the steps with which a TRANSFER was paid."""

    kind: int
    sender: int
    receiver: int
    seq: int
    plain: bool = False
    values: Array | None = None
