"""The values of nodes on the way, from the event log of a run: `along`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graph import Graph
from continuized.network.methods import Gossip
from continuized.network.outcome import PAY, Log
from continuized.network.replaying import replay
from continuized.problems.base import Array


def along(
    graph: Graph, values: ArrayLike, method: Gossip, log: Log, messages: Sequence[int]
) -> list[Array]:
    """x of every node, each at its own last event, after so many exchanges of the log.

    An exchange counts when its initiator has paid; what the other has not yet been paid then is on
    its way.  Real nodes have no common time, but their log has an order.

    >>> from continuized.network import simulate
    >>> g, start = Graph.of("path:3"), [1.0, 0.0, 0.0]
    >>> r = simulate(g, start, seed=0, log=True)
    >>> [x.tolist() for x in along(g, start, Gossip(), r.log, [0])]
    [[1.0, 0.0, 0.0]]
    """
    paid = np.cumsum(log.kind == PAY)
    states = []
    for count in messages:
        # As many entries as come before the next payment: a beginning of the log is a log.
        end = int(np.searchsorted(paid, count, side="right"))
        states.append(replay(graph, values, method, Log(*(column[:end] for column in log)))[0])
    return states
