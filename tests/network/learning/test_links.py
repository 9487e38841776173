"""A link by itself: what it sends while much waits, and whose messages it takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from continuized.network.learning.links import GONE, PARTIAL_SUM, Link, make_codec
from continuized.network.protocol.transitions import ACK, ANSWER, TRANSFER, Message
from continuized.network.workers.frames import MOST_BUFFERED
from tests.helpers.learning_nodes import KEY

VALUES = np.array([1.0, 0.0])


def make_link(buffered: int = 0) -> tuple[Link, list[bytes], list[Message]]:
    """The link of rank 0 to rank 1, what it writes, and what its owner is given."""
    written: list[bytes] = []
    taken: list[Message] = []
    owner: Any = SimpleNamespace(
        codec=make_codec(KEY, 1, np.float64), membership=SimpleNamespace(rank=0),
        sent_bytes=0, received_bytes=0, receive=taken.append,
    )  # fmt: skip
    link = Link(owner, 1)
    link.transport = SimpleNamespace(
        is_closing=lambda: False, get_write_buffer_size=lambda: buffered,
        write=lambda data: written.append(bytes(data)), abort=lambda: None,
    )  # fmt: skip
    return link, written, taken


@pytest.mark.parametrize(
    ("kind", "values", "sent"),
    [(ANSWER, VALUES, False), (TRANSFER, VALUES, False), (ACK, None, True), (GONE, None, True),
     (PARTIAL_SUM, VALUES, True)],
)  # fmt: skip
def test_exchanges_alone_are_dropped_while_much_waits(
    kind: int, values: np.ndarray | None, sent: bool
) -> None:
    """As if they were lost: a node sends them again.  Nobody sends the others again."""
    message = Message(kind, 0, 1, 3, values=values)
    link, written, _ = make_link(buffered=MOST_BUFFERED + 1)
    link.send(message)
    assert bool(written) == sent
    link, written, _ = make_link()
    link.send(message)
    assert written


def test_a_neighbour_speaks_for_itself_and_to_this_worker() -> None:
    link, _, taken = make_link()
    codec = make_codec(KEY, 1, np.float64)
    for sender, receiver in ((2, 0), (1, 2), (1, 0)):
        link.data_received(bytes(codec.encode(Message(ACK, sender, receiver, 3))))
    assert [(message.sender, message.receiver) for message in taken] == [(1, 0)]
