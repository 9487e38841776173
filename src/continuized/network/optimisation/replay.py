"""A recorded run of real nodes that minimise together, repeated by the simulator's nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.dual import check_fits
from continuized.network.optimisation.functions import as_objective
from continuized.network.optimisation.minimize import as_method
from continuized.network.optimisation.node_models import make_nodes
from continuized.network.result import LOG_ANSWER, LOG_APPLY, LOG_JOIN, LOG_PAY, LOG_STEP, Log
from continuized.network.simulation.engine import NodeSet, check_solved, estimate_all
from continuized.network.simulation.node_models.interface import (
    TIME,
    estimate,
    find_answer,
    flow_to,
    message,
    parts,
    pay,
    start_from,
)
from continuized.network.simulation.node_models.single_node import draws_of, step_at
from continuized.network.simulation.replay import check_log, number_slots
from continuized.problems.base import Array
from continuized.support.jit import jit_uncounted

STEP, GOES_BACK, NO_ANSWER = range(3)  # why `repeat_until` stopped before the end


@jit_uncounted
def repeat_until(
    nodes: Any, work: Array, carried: Array, kind: Array, node: Array, time: Array, slots: Array,
    welcomes: Array, begin: int,
) -> tuple[int, int]:  # fmt: skip
    """Repeat the entries of a log from `begin` on, up to one that Python must see, and why.

    What is carried is the answer, or the estimate of one that `welcomes`, and then the transfer.
    """
    for k in range(begin, kind.size):
        i, slot = node[k], slots[k]
        if kind[k] == LOG_JOIN:  # time and state begin anew
            work[i, TIME] = time[k]
            start_from(nodes, work, i, carried[max(slot, 0)], slot >= 0)
            continue
        if time[k] < work[i, TIME]:
            return k, GOES_BACK
        flow_to(nodes, work, i, time[k])
        if kind[k] == LOG_STEP:
            return k, STEP
        if slot < 0:
            continue
        if kind[k] != LOG_APPLY and not find_answer(nodes, work, i):
            return k, NO_ANSWER
        for c in range(carried.shape[1]):
            if kind[k] == LOG_ANSWER and welcomes[k]:
                carried[slot, c] = estimate(nodes, work, i, c)
            elif kind[k] == LOG_ANSWER:
                carried[slot, c] = message(nodes, work, i, c)
            elif kind[k] == LOG_PAY:
                carried[slot, c] = message(nodes, work, i, c) - carried[slot, c]
                pay(nodes, work, i, c, carried[slot, c])
            elif kind[k] == LOG_APPLY:
                pay(nodes, work, i, c, -carried[slot, c])
    return kind.size, STEP


@jit_uncounted
def flow_each(nodes: Any, work: Array, times: Array) -> None:
    """Bring every node to its own time."""
    for i in range(work.shape[0]):
        flow_to(nodes, work, i, times[i])


def replay_nodes(
    graph: Graph, functions: Any, method: Any, log: Log, times: ArrayLike | None, **constants: Any
) -> tuple[Array, Array]:
    """Repeat a log of `network.minimize`; see `network.replay`."""
    chosen, objective = as_method(method), as_objective(functions, **constants)
    check_fits(graph, objective)
    nodes = make_nodes(chosen, graph, objective)
    work = nodes.work(np.ones(graph.nodes))
    _repeat(nodes, work, log)
    last = work[:, TIME] if times is None else np.asarray(times, np.float64)
    flow_each(nodes.model, work, np.broadcast_to(last, len(work)).copy())
    x, nobody = np.empty((graph.nodes, nodes.dim)), np.zeros(graph.nodes, np.bool_)
    check_solved(estimate_all(nodes.model, work, nobody, 0.0, x))
    return x, np.array([sum(parts(nodes.model, i)) for i in range(graph.nodes)])


def _repeat(nodes: NodeSet, work: Array, log: Log) -> None:
    kind, node, peer, seq, time = check_log(log, len(work), LOG_STEP)
    slots, count = number_slots(kind, node, peer, seq)
    carried = np.zeros((max(count, 1), nodes.dim))
    joined = np.zeros(len(carried), np.bool_)
    joined[slots[(kind == LOG_JOIN) & (slots >= 0)]] = True
    welcomes = (slots >= 0) & joined[slots]
    k = 0
    while True:
        columns = kind, node, time, slots, welcomes
        k, why = repeat_until(nodes.model, work, carried, *columns, k)
        if k == len(kind):
            return
        if why == GOES_BACK:
            raise ValueError(f"entry {k} of the log goes back in the time of node {node[k]}")
        check_solved(why != NO_ANSWER)
        if nodes.own is not None:
            nodes.take_own_gradient(work, int(node[k]))
        else:
            step_at(nodes.model, work, int(node[k]), draws_of(int(seq[k])))
        k += 1
