"""Checks of what runs of a network are given, with sentences that say what is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.graphs.graph import Graph
from continuized.problems.base import Array
from continuized.support.validation import as_float, brief, is_real, is_whole

EVENTS_FACTOR = 20.0  # times what the theorem promises, where no limit is given
NO_LIMIT = 2**62  # exchanges


def checked_values(values: ArrayLike, graph: Graph) -> Array:
    """A fresh float64 array, a row for each node."""
    try:
        given = np.asarray(values)
    except ValueError as error:  # ragged
        raise ValueError(
            f"values must be numbers, equally many for each node, got {brief(values)}"
        ) from error
    if given.dtype.kind not in "fiu":
        raise TypeError(f"values must be real numbers, got {brief(values)}")
    if given.ndim not in (1, 2) or given.shape[0] != graph.nodes or given.size == 0:
        raise ValueError(
            f"values must have shape ({graph.nodes},) or ({graph.nodes}, dim), a row for each "
            f"node, got {given.shape}"
        )
    start = given.astype(np.float64)
    if not np.all(np.isfinite(start)):
        node = int(np.argwhere(~np.isfinite(start))[0, 0])
        raise ValueError(f"values must be finite, but those of node {node} are not")
    return start


def as_gossip(method: Any) -> Gossip:
    """The method that a name stands for."""
    if isinstance(method, Gossip):
        return method
    if isinstance(method, str) and method in ("accelerated", "plain"):
        return Gossip(accelerated=method == "accelerated")
    raise ValueError(f'method must be "accelerated", "plain" or a Gossip, got {brief(method)}')


def checked_limits(tol: Any, events: Any, until: Any) -> tuple[float, int, float]:
    """tol, the most exchanges and the end, where none is given as good as infinite."""
    if not (is_real(tol) and 0.0 <= tol < 1.0):
        raise ValueError(f"tol must be a number in [0, 1), got {brief(tol)}")
    if events is not None and not (is_whole(events) and events >= 0):
        raise ValueError(f"events must be a number of exchanges >= 0, got {brief(events)}")
    if until is not None and not (is_real(until) and 0.0 <= as_float(until) < math.inf):
        raise ValueError(f"until must be a finite time >= 0, got {brief(until)}")
    most = NO_LIMIT if events is None else min(int(events), NO_LIMIT)
    return float(tol), most, math.inf if until is None else float(until)


def enough_events(graph: Graph, gossip: Gossip, tol: float) -> int:
    """Return EVENTS_FACTOR times the events that bring the theorem's bound down to tol."""
    return math.ceil(
        EVENTS_FACTOR * (math.log(2.0 / max(tol, 1e-30)) / gossip.rate(graph) + graph.nodes)
    )


def checked_times(given: Any) -> list[float]:
    """The times of snapshots, in order."""
    try:
        times = list(given)
    except TypeError as error:
        raise TypeError(f"snapshots must be a sequence of times, got {brief(given)}") from error
    if not all(is_real(t) for t in times):
        raise TypeError(f"snapshots must be a sequence of times, got {brief(given)}")
    if not all(0.0 <= as_float(t) < math.inf for t in times):
        raise ValueError(f"snapshots must be finite times >= 0, got {brief(given)}")
    return sorted({float(t) for t in times})
