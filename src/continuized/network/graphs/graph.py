"""Graphs whose edges tick: nodes, edges, rates, and the constants of gossip on them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs import families, optimal_rates, spectrum
from continuized.network.graphs.files import Edges, read_edges, read_networkx, read_pairs
from continuized.problems.base import Array
from continuized.process.random_streams import Seed
from continuized.support import validation as check
from continuized.support.display import show_html, show_line

MANY_NODES = 1_000_000  # to find the components takes a second and more


@dataclass(frozen=True, eq=False)
class Graph:
    """A connected graph; edge e joins edges[e, 0] and edges[e, 1] and ticks with probability P[e].

    Lambda = sum_e P_e (e_i - e_j)(e_i - e_j)^T, and

    - mu_g = lambda_2(Lambda), the spectral gap, and chi_1 = 1 / mu_g;
    - R = max_e (e_i - e_j)^T Lambda^+ (e_i - e_j), the largest effective resistance, and
      chi_2 = R / 2;
    - theta = sqrt(mu_g / (2R)), the rate of accelerated gossip; that of plain gossip is mu_g / 2.

    Up to 1500 nodes they are exact to rounding.  Beyond, and where rates differ so much (by some
    1e10) that rounding shows, mu_g is bounded from below and R from above, which is what the
    theorem needs, and `mu_g_range` and `R_range` say how well.  ValueError where rates differ even
    more (by some 1e14), so that nothing is left of mu_g.

    nodes: how many.  name: as in messages.  positions, labels: where to draw the nodes, and what
    they were called, where known.  Make one with `Graph.of`.

    >>> g = Graph.of("path:3")
    >>> round(g.mu_g, 12), round(g.R, 12), round(g.theta, 12)
    (0.5, 2.0, 0.353553390593)
    """

    nodes: int
    edges: Array = field(repr=False)  # (m, 2), integers
    P: Array = field(repr=False)  # (m,), sums to 1
    name: str = ""
    positions: Array | None = field(default=None, repr=False)  # (nodes, 2), for drawing
    labels: tuple[Any, ...] | None = field(default=None, repr=False)  # names of nodes 0, 1, ...

    @classmethod
    def of(cls, graph: Any, rates: ArrayLike | None = None, *, rng: Seed = None) -> Graph:
        """Make a Graph from a spec, pairs of nodes, a file, a graph of networkx, or a Graph.

        - A spec: path:N, cycle:N, grid:RxC, complete:N, star:N, regular:DxN (degree D),
          erdos:N:P, geometric:N:R (in the unit square), smallworld:N:K:P (K neighbours on a
          ring, rewired with probability P).  The last four are random, with `rng`, or :SEED at
          the end of the spec, else 0.
        - Pairs: an array or a sequence (i, j) of nodes 0, 1, ..., n - 1.
        - A file, its path as a str or a Path: see `network.graphs.files.read_edges`.
        - networkx.Graph: the attribute "weight" gives rates where every edge has one.

        rates: a number > 0 for each edge, in the order of `edges`; P is proportional to them.
        They replace the rates that the graph came with.  By default all are equal.

        Raises ValueError where the graph has fewer than two nodes, a loop, an edge twice or
        more than one component, or a rate is not a finite number > 0; TypeError for anything
        else than the above.

        >>> Graph.of([(0, 1), (1, 2)], rates=[3.0, 1.0]).P.tolist()
        [0.75, 0.25]
        """
        name = ""
        if isinstance(graph, str) and families.is_spec(graph):
            found, name = families.parse(graph, rng)
        elif rng is not None:
            raise ValueError("rng= is for random specs such as erdos:100:0.1")
        elif isinstance(graph, Graph):
            return graph if rates is None else replace(graph, P=_normalise(rates, graph.edges))
        elif isinstance(graph, str | Path):
            if isinstance(graph, str) and not os.path.isfile(graph):  # for names of any length
                families.parse(graph)  # says what a spec looks like
            found, name = read_edges(Path(graph)), str(graph)
        elif callable(getattr(graph, "is_directed", None)) and hasattr(graph, "nodes"):
            found, name = read_networkx(graph), str(graph.name or "")
        else:
            found = read_pairs(graph)
        families.check_nodes(found.nodes, len(found.edges) / max(found.nodes, 1))
        _check_simple(found)
        _check_connected(found, name)
        chosen = found.rates if rates is None else rates
        P = _normalise(np.ones(len(found.edges)) if chosen is None else chosen, found.edges)
        return cls(found.nodes, found.edges, P, name, found.positions, found.labels)

    def _facts(self) -> dict[str, Any]:
        """Tell what is shown of it; constants only where they were asked for already."""
        facts: dict[str, Any] = {"name": self.name} if self.name else {}
        facts |= {"nodes": self.nodes, "edges": len(self.edges)}
        known = {"mu_g": "mu_g_range", "R": "R_range"}
        return facts | {name: getattr(self, name) for name in known if known[name] in vars(self)}

    __repr__ = show_line
    _repr_html_ = show_html

    @cached_property
    def mu_g_range(self) -> tuple[float, float]:
        """Bounds of the spectral gap of Lambda."""
        return spectrum.bound_gap(self.nodes, self.edges, self.P)

    @cached_property
    def R_range(self) -> tuple[float, float]:
        """Bounds of the largest effective resistance of an edge."""
        return spectrum.bound_resistance(self.nodes, self.edges, self.P, self.mu_g)

    @property
    def mu_g(self) -> float:
        """The spectral gap of Lambda, from below."""
        return self.mu_g_range[0]

    @property
    def R(self) -> float:
        """The largest effective resistance of an edge, from above."""
        return self.R_range[1]

    @property
    def chi_1(self) -> float:
        """1 / mu_g."""
        return 1.0 / self.mu_g

    @property
    def chi_2(self) -> float:
        """R / 2."""
        return 0.5 * self.R

    @property
    def theta(self) -> float:
        """sqrt(mu_g / (2R)), the rate of accelerated gossip."""
        return math.sqrt(self.mu_g) / math.sqrt(2.0 * self.R)

    @property
    def speedup(self) -> float:
        """theta / (mu_g / 2): how much faster acceleration is, as the theorems predict.

        >>> round(Graph.of("path:100").speedup, 1), round(Graph.of("complete:10").speedup, 1)
        (45.0, 1.0)
        """
        return self.theta / (0.5 * self.mu_g)

    def label_of(self, node: Any) -> Any:
        """Return what a node is called: its number, where it has no name.

        >>> Graph.of("path:3").label_of(2)
        2
        """
        return int(node) if self.labels is None else self.labels[int(node)]

    def resistances(self) -> Array:
        """Compute (e_i - e_j)^T Lambda^+ (e_i - e_j) of every edge, exact to rounding."""
        if self.nodes <= spectrum.EXACT_UP_TO:
            _ = self.mu_g_range  # refuses rates of which rounding leaves nothing
        return spectrum.resistances(self.nodes, self.edges, self.P)

    def optimise_rates(self, tol: float = 1e-3, maxiter: int = 500) -> optimal_rates.Optimised:
        """Find the rates with the largest theta, with a bound that certifies them; small graphs.

        `.graph` of the answer is the graph with them.  It stops when theta >= (1 - tol) bound, or
        after maxiter steps with what there is.

        Raises ValueError for more than 300 nodes, and where tol is not in (0, 1).

        >>> g = Graph.of("grid:4x4")
        >>> round(g.optimise_rates().theta / g.theta, 2)
        1.05
        """
        return optimal_rates.optimise(self, tol, maxiter)


def list_directed(graph: Graph) -> tuple[Array, Array]:
    """List source and target of both directions of every edge: all edges, then all reversed."""
    i, j = graph.edges.T
    return np.concatenate([i, j]), np.concatenate([j, i])


def list_neighbours(graph: Graph) -> list[tuple[list[int], list[float]]]:
    """List, for every node, its neighbours in the order of the edges, and the P_ij of these."""
    (source, target), edge = list_directed(graph), np.tile(np.arange(len(graph.P)), 2)
    order = np.lexsort((edge, source))
    cuts = np.searchsorted(source[order], np.arange(1, graph.nodes))
    parts = (np.split(a[order], cuts) for a in (target, graph.P[edge]))
    return [(peers.tolist(), P.tolist()) for peers, P in zip(*parts, strict=True)]


def _check_simple(found: Edges) -> None:
    """Refuse fewer than two nodes, loops, and edges given twice."""
    nodes, edges = found.nodes, found.edges
    if nodes < 2:
        raise ValueError(f"a graph needs at least two nodes, joined by an edge, got {nodes}")
    low, high = edges.min(axis=1), edges.max(axis=1)
    loops = np.flatnonzero(low == high)
    if loops.size:
        node = found.label_of(low[loops[0]])
        raise ValueError(f"node {node} is joined to itself ({loops.size} such loops): remove them")
    keys = np.sort(low * nodes + high)
    twice = keys[1:][keys[1:] == keys[:-1]]
    if twice.size:
        i, j = (found.label_of(end) for end in divmod(int(twice[0]), nodes))
        raise ValueError(
            f"the edge ({i}, {j}) stands more than once ({twice.size} repetitions): "
            "keep one, with the sum of the rates"
        )


def find_components(nodes: int, edges: Array) -> Array:
    """Number the component of each node, in the order of their first nodes.

    Without SciPy, whose import takes longer than a small graph.
    """
    root, (i, j) = np.arange(nodes), edges.T
    while i.size:
        a, b = root[i], root[j]
        apart = a != b
        i, j, low, high = i[apart], j[apart], np.minimum(a, b)[apart], np.maximum(a, b)[apart]
        # Every root that has smaller neighbours is joined to the smallest of them, ...
        np.minimum.at(root, high, low)
        # ... and every node to the root of its own.
        while not np.array_equal(root, root[root]):
            root = root[root]
    return np.unique(root, return_inverse=True)[1]


def count_parts(graph: Graph, alive: Array) -> int:
    """Count the components that the living nodes are in."""
    joined = graph.edges[alive[graph.edges].all(axis=1)]
    return len(np.unique(find_components(graph.nodes, joined)[alive]))


def _check_connected(found: Edges, name: str) -> None:
    """Refuse a graph in several components, and name them."""
    if len(found.edges) < found.nodes - 1 and found.nodes > MANY_NODES:
        raise ValueError(
            f"the graph{' ' + name if name else ''} is not connected: {len(found.edges)} edges "
            f"cannot join {found.nodes} nodes; number them 0, 1, ... without gaps, or add edges"
        )
    component = find_components(found.nodes, found.edges)
    sizes = np.bincount(component)
    count = len(sizes)
    if count == 1:
        return
    shown = []
    for k in np.argsort(-sizes, kind="stable")[:4]:
        some = ", ".join(str(found.label_of(i)) for i in np.flatnonzero(component == k)[:3])
        shown.append(f"{sizes[k]} ({some}{', ...' if sizes[k] > 3 else ''})")
    rest = f" and {count - 4} more" if count > 4 else ""
    raise ValueError(
        f"the graph{' ' + name if name else ''} is not connected: it has {count} components, of "
        f"sizes (and nodes) {', '.join(shown)}{rest}; {families.advise(name)}"
    )


def _normalise(rates: ArrayLike, edges: Array) -> Array:
    """Check a rate for each edge, and make probabilities of them."""
    P = check.array(rates, "rates", dtype=np.float64)
    check.shape(P, "rates", (len(edges),), each="edge")
    wrong = np.flatnonzero(~(np.isfinite(P) & (P > 0.0)))
    if wrong.size:
        raise ValueError(
            f"rates must be finite and > 0, but that of the edge {tuple(edges[wrong[0]].tolist())} "
            f"is {P[wrong[0]]:g} ({wrong.size} such); remove edges that never tick"
        )
    P = P / P.max()  # their sum may overflow
    return np.asarray(P / P.sum())
