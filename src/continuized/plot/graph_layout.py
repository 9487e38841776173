"""Where to draw the nodes of a graph: `place_nodes`.

Distances on paper should be those along the graph.  A first drawing is a projection of every
node's distances to a few pivots that lie far from one another (Brandes and Pich's pivot MDS); on
graphs that are not too large it is improved until the stress

    sum_{i<j} (|p_i - p_j| - d_ij)^2 / d_ij^2,    d_ij the number of edges between i and j,

hardly falls, by majorisation, which never raises it.  The same graph gives the same drawing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.graphs.spectrum import laplacian
from continuized.problems.base import Array

PIVOTS = 50
MOST_REFINED = 1000  # nodes: all pairs are looked at
MOST_ROUNDS = 200
STILL = 1e-4  # relative: the fall of the stress that is not worth another round
FLAT = 1e-9  # height over width of a straight line
OPEN = 0.94  # of a full turn at most, to which a straight line is bent


def place_nodes(graph: Graph) -> Array:
    """Give each node a point (x, y): the graph's own, or a computed one.

    A straight line is bent to an open ring, so that it fills the paper; its ends are as far apart
    as two edges, or more.

    >>> place_nodes(Graph.of("grid:2x2")).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, -1.0], [1.0, -1.0]]
    """
    points = compute_positions(graph) if graph.positions is None else graph.positions
    width, height = np.ptp(points, axis=0)
    if height > FLAT * width:
        return points
    along = (points[:, 0] - points[:, 0].min()) / (width or 1.0)
    part = min(OPEN, (graph.nodes - 1) / (graph.nodes + 1))
    turn = math.pi * (part * (2.0 * along - 1.0) - 0.5)  # the gap is at the top
    return np.column_stack([np.cos(turn), np.sin(turn)])


def compute_positions(graph: Graph) -> Array:
    """Make a drawing from the edges alone."""
    adjacency = abs(laplacian(graph.nodes, graph.edges, graph.P))
    points = _project(_pivot_distances(adjacency))
    if graph.nodes > MOST_REFINED:
        return points
    from scipy.sparse.csgraph import shortest_path

    distances = shortest_path(adjacency, unweighted=True)
    # Nodes alike to all pivots came out on one another, and would stay there.
    spread = np.random.default_rng(0).standard_normal(points.shape)
    return _refine(points + 0.01 * np.sqrt(distances.mean()) * spread, distances)


def _pivot_distances(adjacency: Any) -> Array:
    """Edges to each pivot, (nodes, pivots); a pivot is farthest from those before it."""
    from scipy.sparse.csgraph import dijkstra

    nodes = adjacency.shape[0]
    nearest, columns, pivot = np.full(nodes, np.inf), [], 0
    for _ in range(min(PIVOTS, nodes)):
        column = dijkstra(adjacency, unweighted=True, indices=pivot)
        columns.append(column)
        nearest = np.minimum(nearest, column)
        pivot = int(nearest.argmax())
    return np.column_stack(columns)


def _project(distances: Array) -> Array:
    """The two directions along which the squared distances, centred both ways, vary most."""
    square = distances**2
    centred = 0.5 * (square.mean(axis=0) + square.mean(axis=1)[:, None] - square.mean() - square)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    # Divided by the root of the singular value, to be of the size of a distance.
    scale = np.maximum(values[[-1, -2]], 1e-300) ** 0.25
    return np.asarray(centred @ vectors[:, [-1, -2]] / scale)


def stress(points: Array, distances: Array) -> float:
    """Return how far the distances on paper are from those along the graph: 0 where all agree.

    >>> stress(np.array([[0.0, 0.0], [1.5, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    0.25
    """
    i, j = np.triu_indices(len(points), 1)
    drawn = np.linalg.norm(points[i] - points[j], axis=1)
    return float((((drawn - distances[i, j]) / distances[i, j]) ** 2).sum())


def _refine(points: Array, distances: Array) -> Array:
    """Majorisation of the stress: every round minimises a quadratic that lies above it."""
    from scipy.linalg import cho_factor, cho_solve

    n = len(points)
    weights = 1.0 / np.where(distances > 0.0, distances, np.inf) ** 2
    quadratic = np.diag(weights.sum(axis=1)) - weights
    # The quadratic does not change when all points are shifted: the first stays at the origin.
    factor = cho_factor(quadratic[1:, 1:])
    before = stress(points, distances)
    for _ in range(MOST_ROUNDS):
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        pull = weights * distances / np.where(apart > 0.0, apart, np.inf)
        force = pull.sum(axis=1)[:, None] * points - pull @ points
        following = np.zeros((n, 2))
        following[1:] = cho_solve(factor, force[1:])
        points, now = following, stress(following, distances)
        if before - now <= STILL * before:
            break
        before = now
    return points
