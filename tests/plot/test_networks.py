"""Drawing networks: where nodes stand, their values on the way, which of them are to die."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, shortest_path

from continuized import network
from continuized.network import Faults, Gossip, Graph
from continuized.network.faults import choose_victims
from continuized.network.graphs.spectrum import laplacian
from continuized.network.logs.entries import LOG_ANSWER, LOG_APPLY, LOG_PAY, Log
from continuized.network.logs.replay import find_causal_times, states_at
from continuized.plot import style
from continuized.plot.graph_layout import (
    _pivot_distances,
    _project,
    compute_positions,
    place_nodes,
    stress,
)
from continuized.plot.networks import View, draw_errors, draw_views, find_dead, render_network


def distances(graph: Graph) -> np.ndarray:
    return shortest_path(abs(laplacian(graph.nodes, graph.edges, graph.P)), unweighted=True)


def bare(spec: str) -> Graph:
    """The edges of a spec alone, without its positions."""
    return Graph.of(Graph.of(spec).edges)


def test_a_path_is_drawn_straight_and_true():
    points = compute_positions(bare("path:12"))
    assert stress(points, distances(bare("path:12"))) < 1e-2
    steps = np.diff(points, axis=0)
    np.testing.assert_allclose(np.linalg.norm(steps, axis=1), 1.0, atol=0.02)


def test_a_grid_is_drawn_with_few_folds():
    """Neighbours about 1 apart and no two nodes on one another, as a folded drawing would have."""
    graph = bare("grid:7x9")
    points = compute_positions(graph)
    edges = np.linalg.norm(points[graph.edges[:, 0]] - points[graph.edges[:, 1]], axis=1)
    assert edges.min() > 0.6
    assert edges.max() < 1.5
    i, j = np.triu_indices(graph.nodes, 1)
    assert np.linalg.norm(points[i] - points[j], axis=1).min() > 0.6


@pytest.mark.parametrize("spec", ["regular:3x60", "erdos:80:0.12", "cycle:30", "complete:9"])
def test_refining_lowers_the_stress(spec):
    graph = bare(spec)
    d = distances(graph)
    first = _project(_pivot_distances(abs(laplacian(graph.nodes, graph.edges, graph.P))))
    assert stress(compute_positions(graph), d) < 0.9 * stress(first, d)


def test_no_move_of_a_node_lowers_the_stress_much():
    """The end is near a minimum: SciPy finds none much lower from there."""
    from scipy.optimize import minimize

    graph = bare("regular:3x20")
    d, points = distances(graph), compute_positions(graph)
    best = minimize(lambda p: stress(p.reshape(-1, 2), d), points.ravel(), method="L-BFGS-B")
    assert best.fun > 0.95 * stress(points, d)


def test_large_graphs_and_two_nodes_are_drawn_too():
    for graph in (Graph.of([(0, 1)]), bare("grid:40x40")):
        points = compute_positions(graph)
        assert points.shape == (graph.nodes, 2)
        assert np.isfinite(points).all()
        assert np.ptp(points[:, 0]) > 0.5


def test_a_line_is_bent_to_an_open_ring():
    points = place_nodes(Graph.of("path:50"))
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    np.testing.assert_allclose(steps, steps[0])
    assert np.linalg.norm(points[0] - points[-1]) > 2.0 * steps[0]


def test_a_short_line_is_no_needle():
    for nodes in (2, 3, 5):
        width, height = np.ptp(place_nodes(Graph.of(f"path:{nodes}")), axis=0)
        assert width > 0.5 * height
    ends = place_nodes(Graph.of("path:3"))[[0, 2]]
    assert np.linalg.norm(ends[0] - ends[1]) > 1.0


DRAWN = (
    "path:2", "path:3", "path:20", "cycle:12", "grid:10x10", "grid:3x12", "star:9", "complete:10",
    "smallworld:100:4:0.1",
)  # fmt: skip


@pytest.mark.parametrize("spec", DRAWN)
def test_nodes_are_drawn_whole_and_rows_near_each_other(spec):
    """In inches, of the nodes with their borders."""
    graph = Graph.of(spec)
    views = [[View(name, "t = 1", np.ones(graph.nodes), [0])] * 4 for name in ("plain", "fast")]
    with style.settings():
        drawing = draw_views(graph, views, "title", (0.0, 2.0))
        panels, (width, height) = drawing.axes[:8], drawing.get_size_inches()
        drawn = []
        for axes in panels:
            axes.apply_aspect()
            crosses, nodes = axes.collections[-2:]
            points = np.concatenate([crosses.get_offsets(), nodes.get_offsets()])
            inches = axes.transData.transform(points) / drawing.dpi
            radius = 0.5 * np.sqrt(nodes.get_sizes()[0]) / 72.0
            drawn.append((inches.min(axis=0) - radius, inches.max(axis=0) + radius))
            box = axes.get_window_extent().get_points() / drawing.dpi
            assert np.all(drawn[-1][0] >= box[0])
            assert np.all(drawn[-1][1] <= box[1])
    low, high = np.array(drawn).swapaxes(0, 1)
    assert low.min() >= 0.0
    assert np.all(high.max(axis=0) <= (width, height))
    titled = 0.5  # a row's title and some air
    assert 0.0 < low[0, 1] - high[4, 1] < titled + max(0.0, 0.3 * 1.9 - (high - low)[0, 1])
    assert max((high - low)[0]) > 1.5  # of 1.9: the panel is used


def test_the_dead_are_those_that_have_not_come_back():
    faults = Faults(deaths=((1.0, 3), (2.0, 5)), joins=((4.0, 3),))
    r = network.simulate("cycle:8", np.arange(8.0), rng=0, faults=faults, until=9.0, tol=0.0)
    assert [find_dead(r, t) for t in (0.5, 1.5, 3.0, 5.0)] == [[], [3], [3, 5], [5]]


@pytest.mark.parametrize("spec", ["path:3", "path:20", "grid:5x5"])
def test_no_marker_of_the_errors_is_cut(spec):
    graph = Graph.of(spec)
    start = np.eye(graph.nodes)[0]
    runs = [network.simulate(graph, start, method=name, rng=0) for name in ("plain", "accelerated")]
    bounds = [(run.method, np.ones(len(run.trace))) for run in runs]
    with style.settings():
        (axes,) = draw_errors(runs, bounds, "title").axes
    for run, line in zip(runs, axes.lines[::2], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), run.trace.error)
        at = axes.transAxes.inverted().transform(axes.transData.transform(line.get_xydata()))
        marked = at[line.get_markevery()]
        assert len(marked) >= 2
        assert np.all((marked > 0.01) & (marked < 0.99))


def test_the_picture_refuses_what_could_not_be_seen():
    graph = Graph.of("path:20001")
    with pytest.raises(ValueError, match="up to 20000 nodes"):
        render_network(graph, [[View("plain", "t = 0", np.zeros(20001))]], "large", (0.0, 2.0))


@pytest.mark.parametrize("faults", [None, Faults(delay=0.3, loss=0.1, skew=0.4)])
def test_values_on_the_way_sum_to_the_start(faults):
    """Plain gossip conserves the sum; what is on its way is at most what was asked for last."""
    graph, start = Graph.of("grid:4x4"), np.eye(16)[0]
    plain = Gossip(accelerated=False)
    r = network.simulate(graph, start, method=plain, rng=1, log=True, faults=faults, tol=1e-4)
    assert r.log is not None
    states = states_at(graph, start, plain, r.log, [0.0, 5.0, 20.0, 1e9])
    np.testing.assert_array_equal(states[0], start)
    np.testing.assert_allclose(states[3], r.x, atol=1e-12)
    if faults is None:
        np.testing.assert_allclose([x.sum() for x in states], 1.0)
        snaps = network.simulate(graph, start, method=plain, rng=1, tol=1e-4, snapshots=[5.0, 20.0])
        np.testing.assert_allclose(states[1], snaps.snapshots[5.0], atol=1e-14)
        np.testing.assert_allclose(states[2], snaps.snapshots[20.0], atol=1e-14)


def test_an_effect_is_no_earlier_than_its_cause():
    """Node 1's clock is behind: it applies at own time 1 what node 0 paid at 9, for its answer."""
    log = Log(
        kind=np.array([LOG_ANSWER, LOG_PAY, LOG_APPLY, LOG_ANSWER]),
        node=np.array([1, 0, 1, 1]),
        peer=np.array([0, 1, 0, 2]),
        seq=np.array([0, 0, 0, 0]),
        time=np.array([0.5, 9.0, 1.0, 2.0]),
    )
    assert find_causal_times(log).tolist() == [0.5, 9.0, 9.0, 9.0]


@pytest.mark.parametrize("spec", ["path:10", "star:8", "grid:4x5", "regular:3x12"])
def test_those_drawn_to_die_leave_the_rest_connected(spec):
    graph = Graph.of(spec)
    joined = laplacian(graph.nodes, graph.edges, graph.P)
    for seed in range(5):
        dying = choose_victims(graph, graph.nodes - 2, np.random.default_rng(seed))
        assert len(set(dying)) == graph.nodes - 2
        for k in range(len(dying)):
            rest = np.setdiff1d(np.arange(graph.nodes), dying[: k + 1])
            assert connected_components(joined[rest][:, rest], directed=False)[0] == 1


def test_which_die_is_chance():
    graph = Graph.of("cycle:40")
    first = {choose_victims(graph, 1, np.random.default_rng(seed))[0] for seed in range(40)}
    assert len(first) > 15  # 25 expected; fewer than 16 with probability below 1e-5
