"""The logs of many nodes in one order, in which causes stand before effects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.result import ANSWER, APPLY, FALL, JOIN, PAY, Log


def merged(entries: NDArray[Any]) -> Log | None:
    """One log: each node's entries in its own order, ANSWER before PAY before APPLY.

    A node's entries must come in its order; nothing else is asked of the order given.  None
    where an effect has no cause in the log: then a process took a part of it to its grave.
    """
    order = _order(entries)
    if order is None:
        return None
    kept = entries[order]
    kind, node, peer, seq = (
        kept[name].astype(np.int64) for name in ("kind", "node", "peer", "seq")
    )
    return Log(kind, node, peer, seq, kept["time"].copy())


def _order(entries: NDArray[Any]) -> list[int] | None:
    causes = _causes(entries)
    own: dict[int, list[int]] = {}
    for k, i in enumerate(entries["node"].tolist()):
        own.setdefault(i, []).append(k)
    done = [False] * len(causes)
    waiting: dict[int, list[int]] = {}  # nodes by the entry they wait for
    reached = dict.fromkeys(own, 0)
    order: list[int] = []
    ready = list(own)
    while ready:
        i = ready.pop()
        while reached[i] < len(own[i]):
            k = own[i][reached[i]]
            cause = causes[k]
            if cause is not None and not done[cause]:
                waiting.setdefault(cause, []).append(i)
                break
            done[k] = True
            order.append(k)
            reached[i] += 1
            ready += waiting.pop(k, [])
    return order if len(order) == len(causes) else None


def _causes(entries: NDArray[Any]) -> list[int | None]:
    """The entry that must stand before each; itself, so that it never can, where that is missing.

    An exchange is named by its initiator, its other end and its number.
    """
    columns = (entries[name].tolist() for name in ("kind", "node", "peer", "seq"))
    names = [
        (kind, *((i, j) if kind in (PAY, JOIN) else (j, i)), seq)
        for kind, i, j, seq in zip(*columns, strict=True)
    ]
    place = {name: k for k, name in enumerate(names)}
    return [
        None if kind in (ANSWER, FALL) else place.get((PAY if kind == APPLY else ANSWER, *name), k)
        for k, (kind, *name) in enumerate(names)
    ]
