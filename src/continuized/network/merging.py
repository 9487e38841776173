"""The logs of many nodes in one order, in which causes stand before effects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.outcome import ANSWER, APPLY, PAY, Log


def merged(entries: NDArray[Any]) -> Log | None:
    """One log: each node's entries in its own order, ANSWER before PAY before APPLY.

    A node's entries must come in its order; nothing else is asked of the order given.  None
    where an effect has no cause in the log: then a process took a part of it to its grave.
    """
    kind, node = entries["kind"], entries["node"].astype(np.int64)
    # The cause of a PAY is the peer's ANSWER, that of an APPLY the peer's PAY.
    names = list(zip(kind.tolist(), node.tolist(), entries["seq"].tolist(), strict=True))
    peers = entries["peer"].tolist()
    place_of = {
        (k, i if k == PAY else j, s): place
        for place, ((k, i, s), j) in enumerate(zip(names, peers, strict=True))
    }
    order = _order(names, peers, place_of)
    if order is None:
        return None
    kept = entries[order]
    return Log(
        kept["kind"].astype(np.int8),
        kept["node"].astype(np.int64),
        kept["peer"].astype(np.int64),
        kept["seq"].astype(np.int64),
        kept["time"].copy(),
    )


def _order(
    names: list[tuple[int, int, int]], peers: list[int], place_of: dict[tuple[int, int, int], int]
) -> list[int] | None:
    own: dict[int, list[int]] = {}
    for place, (_, i, _) in enumerate(names):
        own.setdefault(i, []).append(place)
    done = [False] * len(names)
    waiting: dict[int, list[int]] = {}  # nodes by the entry they wait for
    reached = dict.fromkeys(own, 0)
    order: list[int] = []
    ready = list(own)
    while ready:
        i = ready.pop()
        while reached[i] < len(own[i]):
            place = own[i][reached[i]]
            cause = _cause(names[place], peers[place], place_of)
            if cause == -1:
                return None
            if cause is not None and not done[cause]:
                waiting.setdefault(cause, []).append(i)
                break
            done[place] = True
            order.append(place)
            reached[i] += 1
            ready += waiting.pop(place, [])
    return order if len(order) == len(names) else None


def _cause(
    name: tuple[int, int, int], peer: int, place_of: dict[tuple[int, int, int], int]
) -> int | None:
    """The entry that must stand before; None if there is none, -1 if it is missing."""
    kind, i, seq = name
    if kind == ANSWER:
        return None
    initiator = i if kind == PAY else peer
    return place_of.get((PAY if kind == APPLY else ANSWER, initiator, seq), -1)
