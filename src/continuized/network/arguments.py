"""Checks of what runs of a network are given, with sentences that say what is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.graphs.graph import Graph
from continuized.problems.base import Array
from continuized.support import validation as check

EVENTS_FACTOR = 20.0  # times what the theorem promises, where no limit is given
NO_LIMIT = 2**62  # exchanges


def checked_values(values: ArrayLike, graph: Graph) -> Array:
    """A fresh float64 array, a row for each node."""
    given = check.array(values, "values", dtype=np.float64, finite=True)
    if given.ndim not in (1, 2) or given.shape[0] != graph.nodes or given.size == 0:
        raise ValueError(
            f"values must have shape ({graph.nodes},) or ({graph.nodes}, dim), a row for each "
            f"node, got {given.shape}"
        )
    return given


def as_gossip(method: Any) -> Gossip:
    """The method that a name stands for."""
    if isinstance(method, Gossip):
        return method
    name = check.one_of(method, "method", ("accelerated", "plain"), other="a Gossip")
    return Gossip(accelerated=name == "accelerated")


def checked_limits(tol: Any, events: Any, until: Any) -> tuple[float, int, float]:
    """tol, the most exchanges and the end, where none is given as good as infinite."""
    most, end = NO_LIMIT, math.inf
    if events is not None:
        most = min(check.whole(events, "events", minimum=0, other="None"), NO_LIMIT)
    if until is not None:
        end = check.real(until, "until", minimum=0.0, noun="a finite time", other="None")
    return check.real(tol, "tol", minimum=0.0, below=1.0), most, end


def enough_events(graph: Graph, gossip: Gossip, tol: float) -> int:
    """Return EVENTS_FACTOR times the events that bring the theorem's bound down to tol."""
    return math.ceil(
        EVENTS_FACTOR * (math.log(2.0 / max(tol, 1e-30)) / gossip.rate(graph) + graph.nodes)
    )


def checked_times(given: Any) -> list[float]:
    """The times of snapshots, in order."""
    listed = check.sequence(given, "snapshots", "a sequence of times")
    return sorted(set(check.times(listed, "snapshots").tolist()))
