"""The event log of a run: what its entries mean, and how the logs of many nodes become one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuized.problems.base import Array

# The kinds of entries of a log.
LOG_ANSWER, LOG_PAY, LOG_APPLY, LOG_JOIN, LOG_FALL, LOG_STEP = range(6)


class Log(NamedTuple):
    """Every change of a node's state, in an order in which causes stand before effects.

    - LOG_ANSWER: `node` mixed to `time` and sent its x to `peer`, the initiator of exchange `seq`;
    - LOG_PAY: `node`, the initiator, mixed to `time`, fixed d = x - (the x sent) and paid;
    - LOG_APPLY: `node`, that had answered, mixed to `time` and was paid;
    - LOG_JOIN: `node` came at `time` with the x that `peer` sent it (-1: with its own), and z = x;
    - LOG_FALL: `node` (and `peer`, for there is none) mixed to `time` and went on as plain gossip;
    - LOG_STEP: `node` (and `peer`) mixed to `time` and took a gradient, with the draws of `seq`.

    The columns are `kind`, `node`, `peer`, `seq` and `time`, an entry for each change.  Times are
    each node's own; (initiator, seq) names an exchange.

    >>> from continuized import network
    >>> r = network.simulate("path:3", [0.0, 1.0, 2.0], events=4, tol=0.0, rng=0, log=True)
    >>> [int(np.sum(r.log.kind == kind)) for kind in (LOG_ANSWER, LOG_PAY, LOG_APPLY)]
    [4, 4, 4]
    """

    kind: Array
    node: Array
    peer: Array
    seq: Array
    time: Array

    def __repr__(self) -> str:
        return f"Log({len(self.kind)} entries: kind, node, peer, seq, time)"


# An entry of a node's log as it travels.
ENTRY = np.dtype(
    [("kind", "u1"), ("node", "<u4"), ("peer", "<u4"), ("seq", "<u8"), ("time", "<f8")]
)
NO_ENTRIES = np.zeros(0, ENTRY)


def merge_logs(entries: NDArray[Any]) -> Log | None:
    """Merge entries into one log: each node's in order, LOG_ANSWER before LOG_PAY before LOG_APPLY.

    A node's entries must come in its own order; nothing else is asked of the order given.  The
    answer is None where an effect has no cause in the log: a worker that was killed took a part
    of the log with it.
    """
    order = _sort_causally(entries)
    if order is None:
        return None
    kept = entries[order]
    kind, node, peer, seq = (
        kept[name].astype(np.int64) for name in ("kind", "node", "peer", "seq")
    )
    return Log(kind, node, peer, seq, kept["time"].copy())


def _sort_causally(entries: NDArray[Any]) -> list[int] | None:
    causes = _find_causes(entries)
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


def _find_causes(entries: NDArray[Any]) -> list[int | None]:
    """Find the entry that must stand before each one.

    Where that is missing, the entry is its own cause, and so never gets its turn.  An exchange
    is named by its initiator, its other end and its number.
    """
    columns = (entries[name].tolist() for name in ("kind", "node", "peer", "seq"))
    names = [
        (kind, *((i, j) if kind in (LOG_PAY, LOG_JOIN) else (j, i)), seq)
        for kind, i, j, seq in zip(*columns, strict=True)
    ]
    position = {name: k for k, name in enumerate(names)}
    return [
        None
        if kind in (LOG_ANSWER, LOG_FALL, LOG_STEP)
        else position.get((LOG_PAY if kind == LOG_APPLY else LOG_ANSWER, *name), k)
        for k, (kind, *name) in enumerate(names)
    ]
