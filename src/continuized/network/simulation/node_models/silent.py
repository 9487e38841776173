"""Nodes that say nothing: their exchanges are only counted."""

from __future__ import annotations

from typing import NamedTuple

from continuized.network.simulation.engine import NodeSet


class Silent(NamedTuple):
    """A node model with nothing but the times of events."""

    nothing: int = 0


def make_nodes() -> NodeSet:
    """Make nodes that say nothing."""
    return NodeSet(Silent(), 0)
