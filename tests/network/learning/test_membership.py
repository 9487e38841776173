"""Who is there, and what is left of the graph."""

from __future__ import annotations

import numpy as np
import pytest

from continuized.network import A2CiD2, Graph
from continuized.network.gossip import Constants
from continuized.network.graphs.families import give_size
from continuized.network.learning.membership import Membership


def test_what_is_left_has_the_constants_of_its_own_graph() -> None:
    """The edges keep their rates: a cycle of 5 without a node is a path of 4 with 4 rates of 5."""
    whole = Membership(Graph.of("cycle:5"), 0, A2CiD2(communications=1.0))
    assert whole.constants() == A2CiD2(communications=1.0).constants(Graph.of("cycle:5"))
    whole.dead.append(2)
    wanted = A2CiD2(communications=3.0 / 4.0).constants(Graph.of("path:4"))
    np.testing.assert_allclose(whole.constants(), wanted, rtol=1e-12)
    assert whole.find_reachable() == [0, 1, 3, 4]
    assert whole.find_cut_off() == []
    whole.left.append(4)
    assert whole.find_reachable() == [0, 1]
    assert whole.find_cut_off() == [3]
    whole.dead.append(1)
    assert whole.constants() == Constants(0.0, 0.5, 0.5)


def test_all_find_the_same_tree_and_it_reaches_everybody() -> None:
    graph = Graph.of("grid:3x4")
    members = [Membership(graph, rank, A2CiD2()) for rank in range(12)]
    for member in members:
        member.dead += [0, 5]
    trees = {m.rank: m.find_tree() for m in members if m.rank not in m.gone}
    assert [rank for rank, (parent, _) in trees.items() if parent is None] == [1]
    for rank, (_, children) in trees.items():
        for child in children:
            assert trees[child][0] == rank
            assert child in members[rank].neighbours
    assert sorted(c for _, children in trees.values() for c in children) == sorted(set(trees) - {1})


@pytest.mark.parametrize(
    ("spec", "nodes", "wanted"),
    [
        ("cycle", 8, "cycle:8"),
        (" star ", 5, "star:5"),
        ("grid", 6, "grid:2x3"),
        ("grid", 7, "grid:1x7"),
        ("regular:3", 8, "regular:3x8"),
        ("regular:3:7", 8, "regular:3:7"),
        ("erdos:0.5", 8, "erdos:8:0.5"),
        ("smallworld:4:0.1", 9, "smallworld:9:4:0.1"),
        ("cycle:5", 8, "cycle:5"),
        ("grid:2x2", 8, "grid:2x2"),
        ("a file.txt", 8, "a file.txt"),
    ],
)
def test_a_family_takes_its_size_from_the_world(spec: str, nodes: int, wanted: str) -> None:
    assert give_size(spec, nodes) == wanted


def test_a_cycle_of_two_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="a cycle needs at least 3 nodes, got 2; use path:2"):
        Graph.of(give_size("cycle", 2))
