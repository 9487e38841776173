"""Nodes together are the process: their law with instant messages, and the replay of their logs."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import expm

from continuized.network import Gossip, Graph, replay
from continuized.network.logs.entries import ENTRY, LOG_PAY, merge_logs
from tests.helpers.simulated_wires import Wire, make_nodes


def second_moments(graph: Graph, values: np.ndarray, t: float) -> np.ndarray:
    """E[s s^T] at t for s = (x, z), by the matrix exponential of its linear equation."""
    n = graph.nodes
    theta, gamma, gamma_prime = Gossip().constants(graph)
    eye = np.eye(n)
    flow = theta * np.block([[-eye, eye], [eye, -eye]])
    whole = np.eye(2 * n)
    generator = np.kron(flow, whole) + np.kron(whole, flow)
    for (i, j), P in zip(graph.edges, graph.P, strict=True):
        u = eye[i] - eye[j]
        jump = whole - np.vstack([gamma * np.outer(u, u), gamma_prime * np.outer(u, u)]) @ np.eye(
            n, 2 * n
        )
        generator += P * (np.kron(jump, jump) - np.eye(4 * n * n))
    s = np.concatenate([values, values])
    return (expm(generator * t) @ np.kron(s, s)).reshape(2 * n, 2 * n)


def test_with_instant_messages_the_law_is_that_of_the_process() -> None:
    # 400 runs; 4.5 standard errors: a false alarm with probability below 1e-5 for one seed.
    graph, values, t = Graph.of("path:3"), np.array([1.0, 0.0, 0.0]), 6.0
    found = []
    for seed in range(400):
        wire = Wire(make_nodes(graph, values, seed), seed)
        wire.run(t)
        for node in wire.nodes.values():
            node._mix(t)
        found.append(float(((wire.x() - 1.0 / 3.0) ** 2).sum()))
    moments = second_moments(graph, values, t)[:3, :3]
    centre = np.eye(3) - 1.0 / 3.0
    mean = float(np.trace(moments @ centre))  # the mean of x, with z_0 = x_0, never moves
    assert abs(np.mean(found) - mean) < 4.5 * np.std(found) / math.sqrt(len(found))


def test_the_log_replays_to_the_same_values() -> None:
    graph = Graph.of("cycle:5")
    values = np.arange(5.0)
    nodes = make_nodes(graph, values, 1, timeout=4.0)
    wire = Wire(nodes, 1, delay=0.3, loss=0.1, duplication=0.1)
    wire.run(60.0)
    wire.end_exchanges()
    # Node after node: the order in which causes stand before effects has to be found.
    entries = np.array([entry for node in nodes for entry in node.log], ENTRY)
    log = merge_logs(entries)
    assert log is not None
    x, z = replay(graph, values, "accelerated", log)
    np.testing.assert_allclose(x, wire.x()[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(z, [node.model.state()[1][0] for node in nodes], rtol=0, atol=1e-12)
    pays = np.flatnonzero(entries["kind"] == LOG_PAY)
    assert merge_logs(np.delete(entries, pays[0])) is None  # an effect without its cause


def test_a_log_with_nodes_that_fell_back_replays_to_the_same_values() -> None:
    graph = Graph.of("cycle:5")
    values = np.arange(5.0)
    nodes = make_nodes(graph, values, 2, timeout=4.0)
    wire = Wire(nodes, 2, delay=0.3, loss=0.1, duplication=0.1)
    for i, node in enumerate(nodes):  # one after the other, exchanges of both kinds between them
        wire.run(20.0 + 5.0 * i)
        node.fall_back(wire.t)
    wire.run(60.0)
    log = merge_logs(np.array([entry for node in nodes for entry in node.log], ENTRY))
    assert log is not None
    x, z = replay(graph, values, "accelerated", log)
    states = np.array([node.model.state() for node in nodes])[:, :, 0]
    np.testing.assert_allclose(np.column_stack([x, z]), states, rtol=0, atol=1e-12)
    later = replay(graph, values, "accelerated", log, 100.0)
    for node in nodes:
        node._mix(100.0)
    states = np.array([node.model.state() for node in nodes])[:, :, 0]
    np.testing.assert_allclose(np.column_stack(later), states, rtol=0, atol=1e-12)
