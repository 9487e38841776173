"""Checks that what a user gives is a graph: pairs, rates, components."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs import families
from continuized.network.graphs.files import Edges
from continuized.problems.base import Array
from continuized.support import validation as check

MANY = 1_000_000  # nodes: to find the components takes a second and more


def checked_pairs(graph: Any) -> Array:
    """Pairs of nodes as an array of integers (m, 2)."""
    what = "a spec, a file, a networkx graph or pairs (i, j) of nodes"
    listed = graph if isinstance(graph, np.ndarray) else check.sequence(graph, "a graph", what)
    pairs = check.array(listed, "a graph", noun=what)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise check.refusal(TypeError, "a graph", what, graph)
    # Among integers NumPy takes True for 1.
    given = itertools.chain.from_iterable(listed) if isinstance(listed, list) else ()
    if any(isinstance(node, bool | np.bool_) for node in given):
        raise check.refusal(TypeError, "a graph", what, graph, "True and False are no nodes")
    if pairs.dtype.kind == "f" and not np.array_equal(pairs, np.floor(pairs)):
        raise ValueError("nodes must be integers >= 0, but some are fractions, NaN or infinite")
    if pairs.min(initial=0) < 0 or pairs.max(initial=0) >= 2**31:
        raise ValueError("nodes must be numbered 0, 1, ..., at most 2^31 - 1")
    return pairs.astype(np.int64)


def check_simple(nodes: int, edges: Array, labels: tuple[Any, ...] | None = None) -> None:
    """Refuse fewer than two nodes, loops, and edges given twice."""
    if nodes < 2:
        raise ValueError(f"a graph needs at least two nodes, joined by an edge, got {nodes}")
    low, high = edges.min(axis=1), edges.max(axis=1)
    loops = np.flatnonzero(low == high)
    if loops.size:
        node = label_of(low[loops[0]], labels)
        raise ValueError(f"node {node} is joined to itself ({loops.size} such loops): remove them")
    keys = np.sort(low * nodes + high)
    twice = keys[1:][keys[1:] == keys[:-1]]
    if twice.size:
        i, j = (label_of(end, labels) for end in divmod(int(twice[0]), nodes))
        raise ValueError(
            f"the edge ({i}, {j}) stands more than once ({twice.size} repetitions): "
            "keep one, with the sum of the rates"
        )


def check_connected(
    nodes: int, edges: Array, name: str, labels: tuple[Any, ...] | None = None
) -> None:
    """Refuse a graph in several components, and name them."""
    if len(edges) < nodes - 1 and nodes > MANY:
        raise ValueError(
            f"the graph{' ' + name if name else ''} is not connected: {len(edges)} edges cannot "
            f"join {nodes} nodes; number them 0, 1, ... without gaps, or add edges"
        )
    families.check_nodes(nodes)
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    joined = coo_matrix((np.ones(len(edges), np.int8), edges.T), shape=(nodes, nodes))
    count, component = connected_components(joined, directed=False)
    if count == 1:
        return
    sizes = np.bincount(component)
    shown = []
    for k in np.argsort(-sizes, kind="stable")[:4]:
        some = ", ".join(str(label_of(i, labels)) for i in np.flatnonzero(component == k)[:3])
        shown.append(f"{sizes[k]} ({some}{', ...' if sizes[k] > 3 else ''})")
    rest = f" and {count - 4} more" if count > 4 else ""
    raise ValueError(
        f"the graph{' ' + name if name else ''} is not connected: it has {count} components, of "
        f"sizes (and nodes) {', '.join(shown)}{rest}; {families.advise(name)}"
    )


def checked_P(rates: ArrayLike, edges: Array) -> Array:
    """Rates as probabilities."""
    P = check.array(rates, "rates", dtype=np.float64)
    check.shape(P, "rates", (len(edges),), each="edge")
    wrong = np.flatnonzero(~(np.isfinite(P) & (P > 0.0)))
    if wrong.size:
        raise ValueError(
            f"rates must be finite and > 0, but that of the edge {tuple(edges[wrong[0]].tolist())} "
            f"is {P[wrong[0]]:g} ({wrong.size} such); remove edges that never ring"
        )
    P = P / P.max()  # their sum may overflow
    return np.asarray(P / P.sum())


def read_networkx(graph: Any) -> Edges:
    """Read the edges of a networkx graph, in its own order."""
    if graph.is_directed() or graph.is_multigraph():
        raise TypeError(
            f"a graph must be a plain networkx.Graph, got {type(graph).__name__}; "
            "convert it with networkx.Graph(graph)"
        )
    number = {node: k for k, node in enumerate(graph.nodes)}
    rows = [(number[i], number[j], data.get("weight")) for i, j, data in graph.edges(data=True)]
    with_rate = sum(rate is not None for *_, rate in rows)
    if with_rate not in (0, len(rows)):
        raise ValueError(f'{with_rate} of {len(rows)} edges have a "weight"; give all or none')
    pairs = np.array([row[:2] for row in rows], dtype=np.int64).reshape(-1, 2)
    rates = None
    if with_rate:
        given = [rate for *_, rate in rows]
        rates = check.array(given, 'the attribute "weight"', dtype=np.float64)
    plain = list(graph.nodes) == list(range(len(number)))
    return Edges(len(number), pairs, rates, None if plain else tuple(graph.nodes))


def label_of(node: Any, labels: tuple[Any, ...] | None) -> Any:
    """Return the name that the user has for a node."""
    return int(node) if labels is None else labels[int(node)]
