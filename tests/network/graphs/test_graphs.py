"""Graphs: what can be given, what is refused, and the random families.

Chance: the counts of the random families are tested at a fixed seed, 5 standard deviations wide:
6e-7 each if it were drawn anew, for 3 of them; nothing else here is left to chance.
"""

import json
import warnings

import networkx as nx
import numpy as np
import pytest

from continuized.network import Graph
from continuized.network.graphs import families
from continuized.network.graphs.files import read_edges
from continuized.network.graphs.graph import count_parts, find_components


def pairs(graph):
    return {tuple(sorted(edge)) for edge in graph.edges.tolist()}


SAME = {
    "path:7": nx.path_graph(7),
    "cycle:7": nx.cycle_graph(7),
    "complete:6": nx.complete_graph(6),
    "star:6": nx.star_graph(5),
    "grid:3x4": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4)),
    "smallworld:11:4:0": nx.watts_strogatz_graph(11, 4, 0.0),
    "erdos:6:1": nx.complete_graph(6),
    "regular:5x6": nx.complete_graph(6),
    "geometric:5:2": nx.complete_graph(5),
}


@pytest.mark.parametrize("spec", SAME)
def test_a_spec_is_the_graph_it_names(spec):
    g, other = Graph.of(spec), SAME[spec]
    assert g.nodes == other.number_of_nodes()
    assert len(g.edges) == other.number_of_edges()
    assert pairs(g) == {tuple(sorted(edge)) for edge in other.edges}
    np.testing.assert_allclose(g.P, 1.0 / len(g.edges))


def test_components_are_those_of_networkx():
    rng = np.random.default_rng(0)
    for nodes in (1, 2, 3, 10, 200, 3000):
        chain = rng.permutation(nodes)
        star = np.stack([np.full(nodes - 1, nodes - 1), np.arange(nodes - 1)], axis=1)
        for edges in (
            rng.integers(nodes, size=(nodes // 2, 2)),
            rng.integers(nodes, size=(2 * nodes, 2)),
            np.stack([chain[:-1], chain[1:]], axis=1),
            star[rng.permutation(nodes - 1)],
            np.empty((0, 2), np.int64),
        ):
            graph = nx.Graph()
            graph.add_nodes_from(range(nodes))
            graph.add_edges_from(edges.tolist())
            expected = np.empty(nodes, np.int64)
            for number, members in enumerate(sorted(nx.connected_components(graph), key=min)):
                expected[list(members)] = number
            np.testing.assert_array_equal(find_components(nodes, edges), expected)


def test_parts_are_counted_among_the_living():
    path, alive = Graph.of("path:5"), np.ones(5, np.bool_)
    assert count_parts(path, alive) == 1
    alive[[0, 2]] = False
    assert count_parts(path, alive) == 2
    alive[1] = False
    assert count_parts(path, alive) == 1


@pytest.mark.blas
def test_positions_stand_where_a_drawing_is_natural():
    for spec in ("path:5", "cycle:5", "grid:2x3", "star:5", "complete:5", "geometric:50:0.5"):
        g = Graph.of(spec)
        assert g.positions.shape == (g.nodes, 2)
        assert len(np.unique(g.positions.round(12), axis=0)) == g.nodes
    assert Graph.of("erdos:20:0.5").positions is None
    g = Graph.of("geometric:50:0.3")
    ends = g.positions[g.edges]
    assert np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).max() <= 0.3


@pytest.mark.parametrize("spec", ["regular:3x200", "regular:8x30", "regular:20x31", "regular:4x9"])
def test_regular_graphs_are_simple_and_regular(spec):
    d = int(spec.split(":")[1].split("x")[0])
    for seed in range(5):
        g = Graph.of(spec, rng=seed)
        assert len(pairs(g)) == len(g.edges)
        assert np.all(np.bincount(g.edges.ravel(), minlength=g.nodes) == d)


def test_erdos_has_as_many_edges_as_it_should_and_every_pair_alike():
    n, p = 2000, 0.01
    i, j = Graph.of(f"erdos:{n}:{p}").edges.T
    count = n * (n - 1) / 2
    assert abs(i.size - p * count) <= 5.0 * np.sqrt(count * p * (1.0 - p))
    first = np.sum(np.maximum(i, j) < n // 2)  # both ends in the first half
    half = (n // 2) * (n // 2 - 1) / 2
    assert abs(first - p * half) <= 5.0 * np.sqrt(half * p * (1.0 - p))


def test_pairs_are_numbered_without_gaps_or_rounding():
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(
        families._pairs(np.arange(6)), [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]
    )
    i = np.concatenate([[2, 2**31 - 1], rng.integers(2, 2**31, 1000)])
    for j in (0 * i, i - 1):  # where a square root is most easily rounded to the next row
        found = families._pairs(i * (i - 1) // 2 + j)
        np.testing.assert_array_equal(found, np.column_stack([j, i]))


def test_small_worlds_keep_their_edges_and_rewire_a_share():
    n, k, p = 2000, 6, 0.3
    g = Graph.of(f"smallworld:{n}:{k}:{p}")
    assert len(pairs(g)) == len(g.edges) == n * k // 2
    i, j = g.edges.T
    far = np.minimum((i - j) % n, (j - i) % n) > k // 2
    expected, m = p * (1.0 - k / n), n * k / 2
    assert abs(far.sum() - m * expected) <= 5.0 * np.sqrt(m * expected * (1.0 - expected))


def test_the_seed_makes_the_graph():
    one, again = Graph.of("erdos:50:0.2:7"), Graph.of("erdos:50:0.2", rng=7)
    np.testing.assert_array_equal(one.edges, again.edges)
    assert one.name == again.name == "erdos:50:0.2:7"
    assert Graph.of("erdos:50:0.2").name == "erdos:50:0.2:0"
    assert pairs(Graph.of("erdos:50:0.2:8")) != pairs(one)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    Graph.of("regular:3x50:1")
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_a_million_nodes_are_drawn_in_vectors():
    g = Graph.of("regular:3x300000")
    assert np.all(np.bincount(g.edges.ravel()) == 3)


def test_from_networkx_with_weights_and_names():
    G = nx.Graph()
    G.add_edge("b", "a", weight=3.0)
    G.add_edge("a", "c", weight=1.0)
    g = Graph.of(G)
    assert g.labels == ("b", "a", "c")
    assert g.edges.tolist() == [[0, 1], [1, 2]]
    assert g.P.tolist() == [0.75, 0.25]
    assert Graph.of(nx.path_graph(4)).labels is None
    with pytest.raises(TypeError, match=r"networkx\.Graph\(graph\)"):
        Graph.of(nx.DiGraph([(0, 1)]))
    del G["a"]["c"]["weight"]
    with pytest.raises(ValueError, match="1 of 2 edges"):
        Graph.of(G)


def test_rates_are_scaled_and_the_given_arrays_left_alone():
    edges, rates = np.array([[0, 1], [1, 2]]), np.array([3e300, 1e300])
    g = Graph.of(edges, rates)
    np.testing.assert_allclose(g.P, [0.75, 0.25])
    assert edges.tolist() == [[0, 1], [1, 2]]
    assert rates.tolist() == [3e300, 1e300]
    edges[0, 0] = 5
    assert g.edges[0, 0] == 0
    again = Graph.of(g, rates=[1.0, 1.0])
    assert again.P.tolist() == [0.5, 0.5]
    assert Graph.of(g) is g
    assert Graph.of(iter([(0, 1), (1, 2)])).nodes == 3


FILES = {
    "edges.txt": "# a triangle\n0 1 2.0\n\n1\t2 1.0  # slow\n2 0 1\n",
    "edges.csv": "source,target,rate\n0,1,2.0\n1, 2,1.0\n\n2,0,1\n",
    "edges.json": json.dumps({"edges": [[0, 1, 2.0], [1, 2, 1.0], [2, 0, 1]]}),
}


@pytest.mark.parametrize("name", FILES)
def test_from_a_file(name, tmp_path):
    path = tmp_path / name
    path.write_text(FILES[name])
    for given in (path, str(path)):
        g = Graph.of(given)
        assert g.edges.tolist() == [[0, 1], [1, 2], [2, 0]]
        assert g.P.tolist() == [0.5, 0.25, 0.25]
        assert g.labels is None


def test_nodes_of_a_file_may_have_names_or_any_numbers(tmp_path):
    path = tmp_path / "names"
    path.write_text("zoe adam\nadam bob\n")
    assert Graph.of(path).labels == ("zoe", "adam", "bob")
    path.write_text("10 30\n20 10\n")
    g = Graph.of(path)
    assert g.labels == (10, 20, 30)
    assert g.edges.tolist() == [[0, 2], [1, 0]]
    (tmp_path / "a.csv").write_text("source,target\nx,y\n")
    assert Graph.of(tmp_path / "a.csv").labels == ("x", "y")
    (tmp_path / "a.json").write_text('[["x", 1], [1, "y"]]')
    assert Graph.of(tmp_path / "a.json").labels == ("x", "1", "y")


WRITERS = {
    "a.edgelist": nx.write_edgelist,
    "a.weighted.edgelist": nx.write_weighted_edgelist,
    "a.graphml": nx.write_graphml,
    "a.gml": nx.write_gml,
    "a.json": lambda graph, path: path.write_text(
        json.dumps(nx.node_link_data(graph, edges="edges"))
    ),
}


def made_in_networkx(names):
    graph = nx.Graph()
    for i, j, weight in ((0, 1, 2.0), (1, 2, 1), (2, 0, 1.0)):
        graph.add_edge(names[i], names[j], weight=weight, color="#ff0000", size=3)
    return graph


@pytest.mark.parametrize("names", [(0, 1, 2), ("zoe", "adam", "bob"), (7, 3, 5)], ids=str)
@pytest.mark.parametrize("kind", WRITERS)
def test_what_networkx_writes_is_the_graph_that_it_had(kind, names, tmp_path):
    graph = made_in_networkx(names)
    WRITERS[kind](graph, tmp_path / kind)
    read, direct = Graph.of(tmp_path / kind), Graph.of(graph)
    called = [{frozenset(g.label_of(end) for end in edge): p for edge, p in
               zip(g.edges, g.P.tolist(), strict=True)} for g in (read, direct)]  # fmt: skip
    assert called[0] == called[1]
    assert sorted(map(str, called[0].values())) == ["0.25", "0.25", "0.5"]
    assert read.labels == {0: None, "zoe": names, 7: (3, 5, 7)}[names[0]]


def test_an_adjacency_list_names_an_edge_at_one_end_or_at_both(tmp_path):
    path, graph = (
        tmp_path / "a.adjlist",
        nx.relabel_nodes(nx.cycle_graph(5), dict(enumerate("abcde"))),
    )
    nx.write_adjlist(graph, path)
    once = Graph.of(path)
    assert set(once.labels) == set("abcde")
    path.write_text("".join(f"{node} {' '.join(graph[node])}\n" for node in graph))
    for g in (once, Graph.of(path)):
        ends = {frozenset(g.label_of(end) for end in edge) for edge in g.edges}
        assert ends == {frozenset(edge) for edge in graph.edges}
    path.write_text("0 1 2\n1\n2\n")  # no rate
    assert Graph.of(path).edges.tolist() == [[0, 1], [0, 2]]


def test_a_file_that_networkx_must_read_says_so_without_it(monkeypatch, tmp_path):
    import sys

    nx.write_gml(nx.path_graph(3), tmp_path / "a.gml")
    assert Graph.of(tmp_path / "a.gml").labels is None
    (tmp_path / "b.gml").write_text(
        "graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]"
    )
    assert Graph.of(tmp_path / "b.gml").nodes == 2
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r'pip install "continuized\[network\]"') as error:
        Graph.of(tmp_path / "a.gml")
    assert error.value.name == "networkx"


BAD_FILES = [
    ("a", "0 1 {'weight': 1}\n1 2 {'weight': }\n", "line 2: a line must be `i j`"),
    ("a", "0 1 {'weight': -2}\n", "line 1: a rate must be a number > 0, got '-2'"),
    ("a", "0 1 {'weight': 1}\n1 2 {}\n", "1 of 2 edges have a rate"),
    ("a", "0 1 {1, 2}\n", "line 1: a line must be `i j`"),
    ("a.adjlist", "a b b\n", "the edge (a, b) stands more than once"),
    ("a.adjlist", "a a b\n", "node a is joined to itself"),
    ("a.graphml", "<graphml", "a.graphml cannot be read as graphml: "),
    ("a.gml", "graph [", "a.gml cannot be read as gml: "),
    (
        "a.gml",
        'graph [ directed 1 node [ id 0 label "a" ] node [ id 1 label "b" ] '
        "edge [ source 0 target 1 ] ]",
        "its edges must have no direction",
    ),
    (
        "a.gml",
        'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ] '
        "edge [ source 0 target 1 weight -1 ] ]",
        "a weight must be a finite number > 0, got -1",
    ),
    ("a.json", '{"links": [{"source": 1}]}', "edge 1 must be"),
    (
        "a",
        "0 1\n1 2 3 4\n",
        "line 2: a line must be `i j`, `i j rate` or `i j {'weight': rate}`, got '1 2 3 4'",
    ),
    ("a", "0 1 2\n1 2 -1\n", "line 2: a rate must be a number > 0, got '-1'"),
    (
        "a",
        "new york rome\n",
        "a rate must be a number > 0 (and names are without spaces), got 'rom",
    ),
    (
        "a.gexf",
        "<?xml version='1.0'?>\n",
        ".gexf files are not read; write it as .graphml, or as ed",
    ),
    ("a", "0 1 2\n1 2 nan\n", "line 2: a rate must be a number > 0, got 'nan'"),
    ("a", "0 1 2\n1 2\n", "1 of 2 edges have a rate"),
    ("a", "# nothing\n", "at least two nodes"),
    ("a", "0\n", "line 1"),
    ("a.json", "[[0, 1], 5]", "edge 2 must be"),
    ("a.json", "[[0, null]]", "edge 1 must be"),
    ("a.json", '{"nodes": 3}', "must hold a list"),
    ("a.json", "[[0, 1]", "is no JSON"),
    ("a.csv", "0,1,2,3\n", "line 1"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD_FILES)
def test_a_bad_file_is_refused_with_its_line(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=r".") as error:
        Graph.of(tmp_path / name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_file_of_text(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="no text file"):
        read_edges(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        Graph.of(tmp_path / "missing")


BAD = [
    ("ring:5", "path:N, cycle:N, grid:RxC, complete:N, star:N, regular:DxN, erdos:N:P"),
    ("missing.txt", "unknown graph 'missing.txt': give a file that exists, or path:N"),
    ("path", "not of the form path:N"),
    ("path:5:3", "not of the form path:N"),
    ("path:-5", "'-5' is no integer > 0; write path:N"),
    ("path:2x3", "'2x3' is no integer > 0; write path:N"),
    ("grid:5", "not of the form grid:RxC"),
    ("erdos:10", "not of the form erdos:N:P or with :SEED behind"),
    ("erdos:10:x", "'x' is no number"),
    ("erdos:10:nan", "'nan' is no number"),
    ("erdos:10:1.5", "probability 0 < P <= 1, got 1.5"),
    ("erdos:10:0.5:-1", "'-1' is no seed"),
    ("geometric:10:0", "R > 0"),
    ("smallworld:10:3:0.1", "even K"),
    ("smallworld:10:4:2", "0 <= P <= 1"),
    ("smallworld:7:6:1", "no room to rewire"),
    ("regular:3x5", "D N even"),
    ("cycle:2", "at least 3 nodes"),
    ("path:1", "at least two nodes"),
    ("star:1", "at least two nodes"),
    ("complete:1", "at least two nodes"),
    ("grid:1x1", "at least two nodes"),
    ("complete:10000000", "would take"),
    ("path:99999999", "a graph of 99999999 nodes"),
    ([(0, 10**8)], "100000001 nodes"),
    ([(0, 0), (0, 1)], "node 0 is joined to itself"),
    ([(0, 1), (1, 2), (1, 0)], "the edge (0, 1) stands more than once"),
    ([(0, 1), (2, 3), (3, 4), (4, 5), (5, 2)], "2 components, of sizes (and nodes) 4 (2, 3, 4, "),
    ([(1, 2)], "2 components"),
    ([(0, -1)], "numbered 0, 1"),
    ([(0, 1.5)], "nodes must be integers"),
    ([(0, np.nan)], "nodes must be integers"),
    (np.zeros((0, 2), int), "at least two nodes"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=lambda value: str(value)[:30])
def test_what_is_no_graph_is_refused_in_one_sentence(given, message):
    with pytest.raises((ValueError, MemoryError)) as error:
        Graph.of(given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("given", [5, None, [1, 2, 3], [(0, 1, 2)], [("a", "b")]])
def test_what_is_not_even_like_a_graph(given):
    with pytest.raises(TypeError, match="a graph must be a spec, a file, a networkx graph or pair"):
        Graph.of(given)


def test_pairs_that_are_not_all_pairs():
    with pytest.raises(
        ValueError, match=r"or pairs .* got \[\[\(0, 1\)\], \[\]\]; rows must be eq"
    ):
        Graph.of([[(0, 1)], []])


@pytest.mark.parametrize("seed", [0, 1])
def test_random_graphs_in_pieces_say_what_to_change(seed):
    with pytest.raises(ValueError, match="take a larger P, or another seed") as error:
        Graph.of(f"erdos:200:0.01:{seed}")
    assert f"erdos:200:0.01:{seed} is not connected" in str(error.value)
    with pytest.raises(ValueError, match=r"and [0-9]+ more; take a larger R"):
        Graph.of("geometric:200:0.02")
    with pytest.raises(ValueError, match="a degree of at least 3"):
        Graph.of("regular:1x10")


def test_seeds_where_they_belong():
    for given in ("path:5", [(0, 1)]):
        with pytest.raises(ValueError, match="rng="):
            Graph.of(given, rng=1)
    with pytest.raises(ValueError, match="has a seed already"):
        Graph.of("erdos:50:0.2:7", rng=3)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([1.0], r"rates must have shape \(2,\), one for each edge, got \(1,\)"),
        ([1.0, 0.0], r"that of the edge \(1, 2\) is 0"),
        ([1.0, -2.0], "is -2"),
        ([np.nan, 1.0], "is nan"),
        ([np.inf, 1.0], "is inf"),
        ("ab", "rates must be an array of real numbers, got 'ab'"),
    ],
)
def test_bad_rates(rates, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Graph.of([(0, 1), (1, 2)], rates)


def test_networkx_is_not_needed(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "networkx", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Graph.of("regular:3x10").nodes == 10


def test_huge_graphs_are_refused_without_making_them():
    with pytest.raises(ValueError, match="a graph of 100000001 nodes takes too long"):
        Graph.of([(0, 10**8)])
    with pytest.raises(ValueError, match="not connected: 1 edges cannot join 1000001 nodes; "):
        Graph.of([(0, 10**6)])
    sentence = "^a graph of 99999999 nodes takes too long, .* give at most 10000000"
    for spec in ("path:99999999", "cycle:99999999", "star:99999999", "erdos:99999999:1e-9"):
        with pytest.raises(ValueError, match=sentence):
            Graph.of(spec)


def test_an_error_about_a_spec_with_a_line_break_is_one_line():
    assert Graph.of("path:3\n").name == "path:3"
    for spec in ("path:3\n", "erdos:10:0.5:1\n", "erdos:10:0.5\n:3", "path\n:3"):
        with pytest.raises(ValueError, match=r"rng=|write") as refused:
            Graph.of(spec, rng=0)
        assert "\n" not in str(refused.value)
