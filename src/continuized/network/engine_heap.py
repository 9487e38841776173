"""Compiled: what is on its way, in the order of its arrival.

Entries are kept in slots; a binary heap of (time, order) gives the next one.  Of two entries
for the same time the one pushed first comes first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.jit import jit
from continuized.problems.base import Array

SIZE, ORDER = 0, 1  # the entries of `counts`


class Heap(NamedTuple):
    """The first counts[SIZE] of time, order and slot are the heap; the slots from there on are
    free.  An entry is about an exchange over a directed edge (or a node), see `engine_protocol`.
    """

    counts: Array
    time: Array
    order: Array
    slot: Array
    kind: Array
    edge: Array
    seq: Array
    epoch: Array
    payload: Array  # (slots, dim)

    @property
    def room(self) -> int:
        return int(self.time.size - self.counts[SIZE])


def empty(slots: int, dim: int) -> Heap:
    """A heap with room for so many entries."""
    whole = [np.zeros(slots, np.int64) for _ in range(5)]
    order, kind, edge, seq, epoch = whole
    counts, slot = np.zeros(2, np.int64), np.arange(slots)
    return Heap(
        counts, np.zeros(slots), order, slot, kind, edge, seq, epoch, np.zeros((slots, dim))
    )


def grown(heap: Heap) -> Heap:
    """The same entries, with room for twice as many."""
    old = heap.time.size
    larger = empty(2 * old, heap.payload.shape[1])
    for mine, theirs in zip(larger[1:], heap[1:], strict=True):
        mine[:old] = theirs
    return larger._replace(counts=heap.counts)


@jit
def before(heap: Any, a: int, b: int) -> bool:
    """Whether the entry at place a comes before the one at place b."""
    if heap.time[a] != heap.time[b]:
        return bool(heap.time[a] < heap.time[b])
    return bool(heap.order[a] < heap.order[b])


@jit
def swap(heap: Any, a: int, b: int) -> None:
    """Exchange two places."""
    heap.time[a], heap.time[b] = heap.time[b], heap.time[a]
    heap.order[a], heap.order[b] = heap.order[b], heap.order[a]
    heap.slot[a], heap.slot[b] = heap.slot[b], heap.slot[a]


@jit
def push(heap: Any, time: float, kind: int, edge: int, seq: int, epoch: int) -> int:
    """Add an entry; returns its slot, for the payload.  There must be room."""
    place = heap.counts[SIZE]
    heap.counts[SIZE] += 1
    heap.counts[ORDER] += 1
    heap.time[place], heap.order[place] = time, heap.counts[ORDER]
    slot = heap.slot[place]
    heap.kind[slot], heap.edge[slot], heap.seq[slot], heap.epoch[slot] = kind, edge, seq, epoch
    while place > 0 and before(heap, place, (place - 1) // 2):
        swap(heap, place, (place - 1) // 2)
        place = (place - 1) // 2
    return int(slot)


@jit
def pop(heap: Any) -> int:
    """Take out the first entry; returns its slot, which stays as it is until the next push."""
    heap.counts[SIZE] -= 1
    last = heap.counts[SIZE]
    swap(heap, 0, last)
    place = 0
    while 2 * place + 1 < last:
        child = 2 * place + 1
        if child + 1 < last and before(heap, child + 1, child):
            child += 1
        if not before(heap, child, place):
            break
        swap(heap, place, child)
        place = child
    return int(heap.slot[last])
