"""Repeat a run from its event log: `replay`, and the values of nodes on the way: `states_at`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip, as_gossip, check_values
from continuized.network.graphs.graph import Graph
from continuized.network.logs.entries import (
    LOG_ANSWER,
    LOG_APPLY,
    LOG_FALL,
    LOG_JOIN,
    LOG_PAY,
    LOG_STEP,
    Log,
)
from continuized.network.optimisation import METHODS
from continuized.network.simulation.engine import NodeSet, check_solved, estimate_all
from continuized.network.simulation.node_models.gossip import GossipNodes, X, make_nodes
from continuized.network.simulation.node_models.interface import (
    TIME,
    estimate,
    find_answer,
    flow_to,
    message,
    pay,
    start_from,
)
from continuized.network.simulation.node_models.single_node import make_step_generator, step_at
from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.jit import jit_uncounted, uncounted

NUMBERS_A_CALL = 2**20  # numbers that the log moves, before Python has its turn and hears Ctrl-C
STEP, GOES_BACK, NO_ANSWER = range(3)  # why `repeat_until` stopped before the end


def replay(
    graph: Any,
    values: Any,
    method: Any,
    log: Log,
    times: ArrayLike | None = None,
    **constants: Any,
) -> tuple[Array, Array]:
    """Compute the state that a run's log leads to, from the log alone, in the simulator.

    Parameters
    ----------
    graph, values, method
        Those of the run; of `network.minimize`, its functions for the values.
    log : Log
        Of a simulation (`simulate(..., log=True)`) or of real nodes.  Only the order of causes
        and effects in it matters.
    times : float or array (nodes,)
        The own time to which each node mixes at the end; by default that of its last entry (0
        where it has none).  Of a dead node, its entry must be the time of its death.
    constants
        L, mu and dim, where `network.minimize` was given them.

    Returns
    -------
    x, z : arrays of the shape of values
        Of `network.minimize`, the nodes' estimates, and what they hold of what exchanges only move,
        both (nodes, dim).

    Raises
    ------
    ValueError
        For a log that is no log of this graph: a node or a kind that is not there, a payment
        without its answer, a transfer applied that was not paid, or twice, or a node's own time
        that goes back.

    Examples
    --------
    >>> from continuized.network import simulate
    >>> r = simulate("path:5", [1.0, 0.0, 0.0, 0.0, 0.0], rng=0, log=True)
    >>> x, z = replay("path:5", [1.0, 0.0, 0.0, 0.0, 0.0], "accelerated", r.log, r.t)
    >>> bool(np.abs(x - r.x).max() < 1e-15)
    True
    """
    graph = Graph.of(graph)
    if _is_of_minimize(method):
        return _replay_optimisation(graph, values, method, log, times, **constants)
    if constants:
        raise TypeError(f"{min(constants)}= is for methods of network.minimize, not for gossip")
    return _replay_gossip(graph, check_values(values, graph), as_gossip(method), log, times)


def states_at(
    graph: Graph, values: ArrayLike, method: Gossip, log: Log, times: Sequence[float]
) -> list[Array]:
    """Return x of every node at the last event that it and all its causes had before own time t.

    Real nodes have no common time: where clocks disagree, what was caused by a later event of
    another node is left out, and the rest is a log that can be replayed.

    >>> from continuized.network import simulate
    >>> g, start = Graph.of("path:3"), [1.0, 0.0, 0.0]
    >>> r = simulate(g, start, rng=0, log=True)
    >>> [x.tolist() for x in states_at(g, start, Gossip(), r.log, [0.0])]
    [[1.0, 0.0, 0.0]]
    """
    when = find_causal_times(log)
    cuts = [Log(*(column[when <= t] for column in log)) for t in times]
    return [replay(graph, values, method, cut)[0] for cut in cuts]


def find_causal_times(log: Log) -> Array:
    """Return the largest own time among each entry and all that it depends on."""
    latest: dict[int, float] = {}  # of nodes
    passed: dict[tuple[int, int, int], float] = {}  # of exchanges: (initiator, other end, seq)
    when = np.empty(len(log.kind))
    entries = zip(*(np.asarray(column).tolist() for column in log), strict=True)
    for k, (kind, node, peer, seq, time) in enumerate(entries):
        name = (node, peer, seq) if kind in (LOG_PAY, LOG_JOIN) else (peer, node, seq)
        earlier = -np.inf if kind == LOG_ANSWER else passed.get(name, -np.inf)
        when[k] = latest[node] = passed[name] = max(time, earlier, latest.get(node, -np.inf))
    return when


def _is_of_minimize(method: Any) -> bool:
    """Tell whether a method is one of `network.minimize`."""
    return hasattr(method, "takes_gradients") or (isinstance(method, str) and method in METHODS)


def check_log(log: Log, nodes: int, last_kind: int) -> tuple[Array, ...]:
    """Check a log of so many nodes; return its columns as compiled code takes them."""
    check.instance(log, "log", Log, "the log of a run, r.log")
    columns = [np.ascontiguousarray(column, np.int64) for column in log[:4]]
    kind, node, peer, _ = columns
    time = np.ascontiguousarray(log[4], np.float64)
    if len({len(column) for column in (*columns, time)}) != 1:
        raise ValueError("the columns of a log must be of equal length")
    bad = (kind < LOG_ANSWER) | (kind > last_kind) | (node < 0) | (node >= nodes) | (peer >= nodes)
    bad |= (peer < 0) & (kind != LOG_JOIN)
    if np.any(bad):
        k = int(np.argmax(bad))
        raise ValueError(
            f"entry {k} of the log (kind {kind[k]}, node {node[k]}, peer {peer[k]}) is none of a "
            f"network of {nodes} nodes"
        )
    return (*columns, time)


def number_slots(kind: Array, node: Array, peer: Array, seq: Array) -> tuple[Array, int]:
    """Number, for every entry, what it takes up and passes on; -1 where there is none.

    An exchange is named by its initiator, its other end and seq.  A LOG_PAY or a LOG_JOIN takes the
    LOG_ANSWER of its name, a LOG_APPLY the LOG_PAY; a LOG_ANSWER may be taken by none.
    """
    pays = np.flatnonzero((kind == LOG_PAY) | ((kind == LOG_JOIN) & (peer >= 0)))
    slots = np.full(kind.size, -1)
    slots[pays] = np.arange(pays.size)
    begun = (kind == LOG_PAY) | (kind == LOG_JOIN)
    names = np.column_stack([np.where(begun, node, peer), np.where(begun, peer, node), seq])
    unique, number = np.unique(names, axis=0, return_inverse=True)
    number = number.ravel()
    of_name = np.full(len(unique), -1)
    of_name[number[pays]] = pays  # the entry that pays
    answers, applied = np.flatnonzero(kind == LOG_ANSWER), np.flatnonzero(kind == LOG_APPLY)
    if len(np.unique(number[pays])) < pays.size or len(np.unique(number[applied])) < applied.size:
        raise ValueError("an exchange is paid or applied twice in the log")
    paid_at = of_name[number[applied]]
    if np.any((paid_at < 0) | (paid_at > applied)):
        raise ValueError("a transfer is applied in the log before it is paid, or never paid")
    slots[applied] = slots[paid_at]
    taken_by = of_name[number[answers]]
    early = (taken_by >= 0) & (taken_by > answers)
    slots[answers[early]] = slots[taken_by[early]]
    if len(np.unique(slots[answers[early]])) < pays.size:
        raise ValueError("a payment or a join in the log has no answer before it")
    return slots, int(pays.size)


# Gossip, whose nodes may fall back to plain gossip


def _replay_gossip(
    graph: Graph, start: Array, method: Gossip, log: Log, times: ArrayLike | None
) -> tuple[Array, Array]:
    kind, node, peer, seq, time = check_log(log, graph.nodes, LOG_FALL)
    slots, count = number_slots(kind, node, peer, seq)
    nodes = make_nodes(start.reshape(graph.nodes, -1), method.constants(graph))
    work, carried = nodes.make_work(np.ones(graph.nodes)), np.empty((count, 1 + nodes.dim))
    fell = np.zeros(graph.nodes, np.bool_)
    size = max(1, NUMBERS_A_CALL // nodes.dim)
    for k in range(0, len(kind), size):
        columns = (column[k : k + size] for column in (kind, node, time, slots))
        wrong = k + repeat_gossip(work, carried, fell, *columns, nodes.model)
        if wrong >= k:
            raise _refuse_going_back(wrong, node)
    flow_gossip(work, fell, _choose_end(work, times), nodes.model)
    x, z = np.hsplit(work[:, X:].copy(), 2)
    return x.reshape(start.shape), z.reshape(start.shape)


def _choose_end(work: Array, times: ArrayLike | None) -> Array:
    """Return the own time to which each node mixes at the end."""
    last = work[:, TIME] if times is None else np.asarray(times, np.float64)
    return np.broadcast_to(last, len(work)).copy()


def _refuse_going_back(k: int, node: Array) -> ValueError:
    return ValueError(f"entry {k} of the log goes back in the time of node {node[k]}")


@uncounted
def flow_gossip_node(work: Array, fell: Array, i: int, time: float, nodes: GossipNodes) -> None:
    """Bring node i to its own `time`; plain gossip keeps z = x, as by mixing for ever."""
    if not fell[i]:
        flow_to(nodes, work, i, time)
    elif time > work[i, TIME]:
        flow_to(GossipNodes(math.inf, nodes.gamma, nodes.gamma), work, i, time)


@jit_uncounted
def flow_gossip(work: Array, fell: Array, times: Array, nodes: GossipNodes) -> None:
    """Bring every node to its own time."""
    for i in range(work.shape[0]):
        flow_gossip_node(work, fell, i, times[i], nodes)


@jit_uncounted
def repeat_gossip(
    work: Array, carried: Array, fell: Array, kind: Array, node: Array, time: Array, slots: Array,
    nodes: GossipNodes,
) -> int:  # fmt: skip
    """Repeat the entries of a log.

    What is carried is the x of an answer, then the d of the transfer and its step in z.

    Returns the first entry at which a node's own time goes back, or -1.
    """
    theta, gamma, gamma_prime = nodes
    d = carried.shape[1] - 1
    for k in range(kind.size):
        i, slot = node[k], slots[k]
        if kind[k] == LOG_JOIN:  # time and state begin anew
            work[i, TIME], fell[i] = time[k], False
            for c in range(d):
                if slot >= 0:
                    work[i, X + c] = carried[slot, c]
                work[i, X + d + c] = work[i, X + c]
            continue
        if time[k] < work[i, TIME]:
            return k
        flow_gossip_node(work, fell, i, time[k], nodes)
        if kind[k] == LOG_FALL:
            fell[i] = True
            for c in range(d):
                middle = 0.5 * (work[i, X + c] + work[i, X + d + c])
                work[i, X + c], work[i, X + d + c] = middle, middle
        if kind[k] == LOG_PAY:
            carried[slot, d] = gamma if fell[i] else gamma_prime
        for c in range(d):
            if kind[k] == LOG_PAY:
                carried[slot, c] = work[i, X + c] - carried[slot, c]
                pay(GossipNodes(theta, gamma, carried[slot, d]), work, i, c, carried[slot, c])
            elif kind[k] == LOG_APPLY:
                pay(GossipNodes(theta, gamma, carried[slot, d]), work, i, c, -carried[slot, c])
            elif slot >= 0 and kind[k] == LOG_ANSWER:
                carried[slot, c] = work[i, X + c]
    return -1


# Nodes that minimise together


def _replay_optimisation(
    graph: Graph, functions: Any, method: Any, log: Log, times: ArrayLike | None, **constants: Any
) -> tuple[Array, Array]:
    from continuized.network.optimisation.functions import as_objective
    from continuized.network.optimisation.minimize import as_method
    from continuized.network.optimisation.node_models import make_nodes
    from continuized.network.optimisation.objective import check_fits

    chosen, objective = as_method(method), as_objective(functions, **constants)
    check_fits(graph, objective)
    nodes = make_nodes(chosen, graph, objective)
    work = nodes.make_work(np.ones(graph.nodes))
    _repeat(nodes, work, log)
    flow_nodes(nodes.model, work, _choose_end(work, times))
    x, nobody = np.empty((graph.nodes, nodes.dim)), np.zeros(graph.nodes, np.bool_)
    check_solved(estimate_all(nodes.model, work, nobody, 0.0, x))
    return x, np.add(*nodes.model.conserved_parts(work, ..., slice(None)))


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
            raise _refuse_going_back(k, node)
        check_solved(why != NO_ANSWER)
        if nodes.own is not None:
            nodes.take_own_gradient(work, int(node[k]))
        else:
            step_at(nodes.model, work, int(node[k]), make_step_generator(int(seq[k])))
        k += 1


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
def flow_nodes(nodes: Any, work: Array, times: Array) -> None:
    """Bring every node to its own time."""
    for i in range(work.shape[0]):
        flow_to(nodes, work, i, times[i])
