"""Compiled: what is on its way, in the order of its arrival.

A binary heap by (time, order): of two entries for the same time the one pushed first comes
first.  `when` holds the times and `what`, in its first two columns, the order and the slot of
each place of the heap; the slots at the places behind the heap are free.  The other columns of
`what`, and the rows of `body`, are the entries themselves, by slot.
"""

from __future__ import annotations

from continuized.network.simulation.node_models.interface import inline_before_typing
from continuized.problems.base import Array

ORDER, SLOT, KIND, EDGE, SEQ, EPOCH = range(6)  # the columns of `what`
COLUMNS = EPOCH + 1
SIZE, PUSHED = 0, 1  # the first two entries of `counts`


@inline_before_typing
def push(
    when: Array, what: Array, counts: Array, time: float, kind: int, edge: int, seq: int, epoch: int
) -> int:
    """Add an entry; returns its slot, for the body.  There must be room."""
    place = counts[SIZE]
    counts[SIZE] += 1
    counts[PUSHED] += 1
    slot = what[place, SLOT]
    what[slot, KIND], what[slot, EDGE], what[slot, SEQ], what[slot, EPOCH] = kind, edge, seq, epoch
    while place > 0:
        above = (place - 1) // 2
        if when[above] <= time:
            break  # those above were pushed before, so that they come first at the same time
        when[place] = when[above]
        what[place, ORDER], what[place, SLOT] = what[above, ORDER], what[above, SLOT]
        place = above
    when[place] = time
    what[place, ORDER], what[place, SLOT] = counts[PUSHED], slot
    return int(slot)


@inline_before_typing
def pop(when: Array, what: Array, counts: Array) -> int:
    """Take out the first entry; returns its slot, which stays as it is until the next push."""
    counts[SIZE] -= 1
    last = counts[SIZE]
    first = what[0, SLOT]
    time, order, slot = when[last], what[last, ORDER], what[last, SLOT]
    place = 0
    while 2 * place + 1 < last:
        child = 2 * place + 1
        other = child + 1
        if other < last and (
            when[other] < when[child]
            or (when[other] == when[child] and what[other, ORDER] < what[child, ORDER])
        ):
            child = other
        if time < when[child] or (time == when[child] and order < what[child, ORDER]):
            break
        when[place] = when[child]
        what[place, ORDER], what[place, SLOT] = what[child, ORDER], what[child, SLOT]
        place = child
    when[place] = time
    what[place, ORDER], what[place, SLOT] = order, slot
    what[last, SLOT] = first
    return int(first)
