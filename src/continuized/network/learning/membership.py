"""Who is there: what a worker has heard of the others, and the part of the graph that is left."""

from __future__ import annotations

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.graphs.graph import Graph, find_components, list_neighbours
from continuized.network.optimisation.a2cid2 import A2CiD2


class Membership:
    """The workers of a graph as worker `rank` knows them; `method` gives the constants.

    dead, left: those that died and those that said goodbye, in the order in which it heard of
    them.  done: those that have finished and wait for the others.
    """

    def __init__(self, graph: Graph, rank: int, method: A2CiD2) -> None:
        self.graph, self.rank, self.method = graph, rank, method
        self.dead: list[int] = []
        self.left: list[int] = []
        self.done: set[int] = set()
        self.neighbours, P = list_neighbours(graph)[rank]
        self.rates = [method.edge_rate(graph) * p for p in P]  # of its edges, per own step

    @property
    def gone(self) -> set[int]:
        """Those that died or left."""
        return {*self.dead, *self.left}

    def find_reachable(self) -> list[int]:
        """List the workers that are there and joined to this one, itself among them, in order."""
        keep = ~np.isin(self.graph.edges, list(self.gone)).any(axis=1)
        component = find_components(self.graph.nodes, self.graph.edges[keep])
        return [int(i) for i in np.flatnonzero(component == component[self.rank])]

    def find_cut_off(self) -> list[int]:
        """List the workers that are there, as far as this one knows, and out of its reach."""
        return sorted(set(range(self.graph.nodes)) - self.gone - set(self.find_reachable()))

    def constants(self) -> Constants:
        """Return the constants for what is left of the graph, whose edges keep their rates."""
        ranks = self.find_reachable()
        if len(ranks) == 1:
            return Constants(0.0, 0.5, 0.5)
        if len(ranks) == self.graph.nodes:
            return self.method.constants(self.graph)
        inside = np.isin(self.graph.edges, ranks).all(axis=1)
        part = Graph.of(np.searchsorted(ranks, self.graph.edges[inside]), self.graph.P[inside])
        rate = self.method.edge_rate(self.graph) * float(self.graph.P[inside].sum())
        return A2CiD2(
            communications=rate / part.nodes, accelerated=self.method.accelerated
        ).constants(part)

    def find_tree(self) -> tuple[int | None, list[int]]:
        """Return its parent and its children in the tree by which sums are taken.

        It goes out from the first worker in reach, along shortest ways, and every worker that has
        heard of the same others finds the same one.
        """
        around = list_neighbours(self.graph)
        ranks = self.find_reachable()
        parents: dict[int, int | None] = {ranks[0]: None}
        for rank in (order := [ranks[0]]):
            for peer in sorted(around[rank][0]):
                if peer in ranks and peer not in parents:
                    parents[peer] = rank
                    order.append(peer)
        return parents[self.rank], [rank for rank in order if parents[rank] == self.rank]
