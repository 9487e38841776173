"""Which nodes to kill, when only their number was given: `drawn`."""

from __future__ import annotations

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.graphs.spectrum import laplacian


def drawn(graph: Graph, count: int, random: np.random.Generator) -> list[int]:
    """`count` different nodes, drawn one after the other from those without which the rest are
    still connected.

    Raises ValueError where fewer than two nodes would be left.

    >>> nodes = drawn(Graph.of("path:5"), 2, np.random.default_rng(0))
    >>> sorted(nodes) in ([0, 1], [0, 4], [3, 4])
    True
    """
    from scipy.sparse.csgraph import connected_components

    if not 0 <= count <= graph.nodes - 2:
        raise ValueError(
            f"{count} of {graph.nodes} nodes cannot be killed: two at least must be left"
        )
    joined = laplacian(graph.nodes, graph.edges, graph.P)
    living = np.arange(graph.nodes)
    chosen: list[int] = []
    while len(chosen) < count:
        # Every connected graph has such a node: one that is farthest from some other.
        for node in random.permutation(living).tolist():
            rest = living[living != node]
            if connected_components(joined[rest][:, rest], directed=False)[0] == 1:
                chosen.append(node)
                living = rest
                break
    return chosen
