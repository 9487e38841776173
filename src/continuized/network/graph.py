"""Graphs whose edges ring: nodes, edges, rates, and the constants of gossip on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network import specs, spectrum
from continuized.problems.base import Array


@dataclass(frozen=True, eq=False)
class Graph:
    """A connected graph; edge e joins edges[e, 0] and edges[e, 1] and rings with probability P[e].

    Lambda = sum_e P_e (e_i - e_j)(e_i - e_j)^T, and

    - mu_g = lambda_2(Lambda), the spectral gap;
    - R = max_e (e_i - e_j)^T Lambda^+ (e_i - e_j), the largest effective resistance.

    Make one with `Graph.of`.

    >>> round(Graph.of("path:3").mu_g, 12)
    0.5
    """

    nodes: int
    edges: Array  # (m, 2), integers
    P: Array  # (m,), sums to 1
    name: str = ""
    positions: Array | None = field(default=None, repr=False)  # (nodes, 2), for drawing

    @classmethod
    def of(cls, graph: Any, rates: ArrayLike | None = None) -> Graph:
        """From a Graph, a spec such as "grid:30x30", or pairs of nodes."""
        if isinstance(graph, Graph):
            return graph
        if isinstance(graph, str):
            made = specs.parse(graph)
            nodes, edges, name, positions = made.nodes, made.edges, graph, made.positions
        else:
            edges = np.asarray(graph, dtype=np.int64)
            nodes, name, positions = int(edges.max()) + 1, "", None
        P = np.ones(len(edges)) if rates is None else np.asarray(rates, dtype=np.float64)
        return cls(nodes, edges, P / P.sum(), name, positions)

    @cached_property
    def mu_g(self) -> float:
        """The spectral gap of Lambda."""
        return spectrum.gap(self.nodes, self.edges, self.P)

    @cached_property
    def R(self) -> float:
        """The largest effective resistance of an edge."""
        return float(spectrum.resistances(self.nodes, self.edges, self.P).max())
