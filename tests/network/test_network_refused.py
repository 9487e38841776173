"""Integers too large for a float, truth values, NaN: one sentence, and never OverflowError."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from continuized import network, problems
from continuized.network import A2CiD2, Faults, Graph
from continuized.network.runtime.real_run import assign_nodes
from continuized.support.validation import short_repr
from tests.helpers.refused_input import one_sentence

HUGE = 10**400
VALUES = [0.0, 1.0, 2.0]


def parts() -> Any:
    return network.split(problems.LeastSquares(np.eye(3), VALUES, l2=0.1), 3)


def simulate(**options: Any) -> Any:
    return network.simulate("path:3", VALUES, rng=0, **options)


def weighted(rate: Any) -> Any:
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, rate, "weight")
    return graph


# What is called, with what is wrong in place of _, and the words of its refusal.
NUMBERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "delay": (lambda _: Faults(delay=_), "delay must be a finite number >= 0, got"),
    "loss": (lambda _: Faults(loss=_), "loss must be a probability in [0, 1), got"),
    "duplication": (lambda _: Faults(duplication=_), "duplication must be a probability"),
    "timeout": (lambda _: Faults(timeout=_), "timeout must be a finite number > 0 or None, got"),
    "skew": (lambda _: Faults(skew=_).speeds(3), "skew must be"),
    "skews": (lambda _: Faults(skew=[_, _, _]).speeds(3), "skew must be"),
    "time of a death": (lambda _: Faults(deaths=((_, 1),)), "deaths must be pairs"),
    "time of a join": (lambda _: Faults(joins=((_, 1),)), "joins must be pairs"),
    "node that dies": (lambda _: Faults(deaths=((1.0, _),)), "deaths must be pairs"),
    "node that joins": (lambda _: Faults(joins=((1.0, _),)), "joins must be pairs"),
    "node that is killed": (
        lambda _: network.run("path:3", VALUES, kill=[(0.1, _)]),
        "kill must be a whole number, or pairs of a finite time >= 0 and a node, got",
    ),
    "node that comes back": (
        lambda _: network.run("path:3", VALUES, kill=1, rejoin=[(0.1, _)]),
        "rejoin must be pairs of a finite time >= 0 and a node, got",
    ),
    "node of an edge": (lambda _: Graph.of([(0, _), (1, 2)]), "nodes"),
    "rates": (lambda _: Graph.of("path:3", rates=[_, _]), "rates must be"),
    "weights": (lambda _: Graph.of(weighted(_)), "must be"),
    "tol of rates": (lambda _: Graph.of("path:3").optimise_rates(tol=_), "tol must be"),
    "until": (lambda _: simulate(until=_), "until must be a finite time >= 0 or None, got"),
    "snapshots": (lambda _: simulate(snapshots=[_]), "snapshots must be"),
    "tol": (lambda _: simulate(tol=_), "tol must be a number in [0, 1), got"),
    "damping": (lambda _: network.Gossip(damping=_), "damping must be a number in (0, 1], got"),
    "step": (lambda _: A2CiD2(step=_), "step must be"),
    "batch": (lambda _: A2CiD2(batch=_), "batch must be an integer from 0 to 2147483647, got"),
    "communications": (lambda _: A2CiD2(communications=_), "communications must be"),
    "tol of minimize": (lambda _: network.minimize("path:3", parts(), tol=_), "tol must be"),
    "speeds": (
        lambda _: network.minimize("path:3", parts(), method="dadao", speeds=[_, _, _]),
        "speeds must be",
    ),
    "work": (lambda _: network.race("path:3", parts(), [_, _, _]), "work must be"),
    "nodes of a split": (
        lambda _: network.split(problems.LeastSquares(np.eye(3), VALUES, l2=0.1), _),
        "nodes must be an integer from 1 to 3",
    ),
    "delay of a share": (lambda _: network.exchange_share("path:3", _), "delay must be"),
    "seconds": (lambda _: network.run("path:3", VALUES, seconds=_), "seconds must be"),
    "speed": (lambda _: network.run("path:3", VALUES, speed=_), "speed must be"),
    "port": (lambda _: network.run("path:3", VALUES, port=_), "port must be an integer from 1"),
}

INTEGERS = ("batch", "nodes of a split", "port")


@pytest.mark.parametrize(
    "wrong", [HUGE, -HUGE, True, np.True_, math.nan, "1"], ids=lambda wrong: short_repr(wrong)[:9]
)
@pytest.mark.parametrize("what", NUMBERS)
def test_what_is_no_number_that_can_be_meant_is_refused(what: str, wrong: Any) -> None:
    call, words = NUMBERS[what]
    is_number = type(wrong) is int or (type(wrong) is float and what not in INTEGERS)
    with pytest.raises(ValueError if is_number else TypeError) as caught:
        call(wrong)
    one_sentence(caught, words)


def test_a_delay_that_no_float_holds_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="delay must be a finite number >= 0, got 1000"):
        Faults(delay=HUGE)


@pytest.mark.parametrize("node", [1, 1.0, np.int64(1), np.float64(1.0)])
def test_nodes_may_be_whole_numbers_of_any_type(node: Any) -> None:
    assert Faults(deaths=[(2, node)]).deaths == ((2.0, 1),)
    assert Graph.of([(0, node), (1, 2)]).nodes == 3


@pytest.mark.parametrize("two", [np.int64(2), np.uint8(2)])
def test_counts_may_be_integers_of_numpy(two: Any) -> None:
    assert assign_nodes(5, two, {1}) == assign_nodes(5, 2, {1})
    assert type(A2CiD2(batch=two).batch) is int  # another type would be compiled again
    skewed = Graph.of("path:4", rates=[1.0, 2.0, 4.0])
    assert skewed.optimise_rates(maxiter=two).theta == skewed.optimise_rates(maxiter=2).theta


@pytest.mark.parametrize(
    "spec",
    ["path:{}", "cycle:{}", "grid:2x{}", "star:{}", "complete:{}", "regular:4x{}", "erdos:{}:0.1",
     "geometric:{}:0.1", "smallworld:{}:4:0.1"],
)  # fmt: skip
def test_more_nodes_than_there_can_be(spec: str) -> None:
    with pytest.raises(ValueError, match="has 401 digits, more than 18; write") as caught:
        Graph.of(spec.format(HUGE))
    assert "\n" not in str(caught.value)
    with pytest.raises(MemoryError, match=r"GB, more than .* here; ask for"):
        Graph.of(spec.format(10**16))


def test_a_seed_in_a_spec_may_be_long_and_not_endless() -> None:
    long = 2**128
    assert Graph.of(f"erdos:10:0.9:{long}").name == f"erdos:10:0.9:{long}"
    with pytest.raises(ValueError, match="has 5000 digits, more than 1000"):
        Graph.of("erdos:10:0.9:" + "9" * 5000)


def test_rates_may_be_larger_than_64_bits() -> None:
    assert Graph.of("path:3", rates=[10**20, 3 * 10**20]).P.tolist() == [0.25, 0.75]


def test_an_infinite_skew_is_named() -> None:
    for skew in (math.inf, 5.0):
        with pytest.raises(ValueError, match=r"skew must be .* from 1 - skew to 1 \+ skew"):
            Faults(skew=skew)
    with pytest.raises(ValueError, match=r"skew must be finite, but skew\[1\] is inf"):
        Faults(skew=[0.0, math.inf, 0.0]).speeds(3)
    with pytest.raises(ValueError, match=r"skew must be finite and > -1, but skew\[2\] is -1.0"):
        Faults(skew=[0.0, 0.5, -1.0]).speeds(3)
