"""Models that go wrong: their own node ends of it, and no other of the same worker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from continuized.network import Faults, Gossip, Graph
from continuized.network.protocol.node_model import GossipModel, NodeModelSpec
from continuized.network.runtime.node_process import NodeProcess
from continuized.network.runtime.sketch import BUCKETS
from continuized.network.runtime.transport import RunPlan

GRAPH = Graph.of("star:5")
BAD = 1  # the node whose model goes wrong
DIM = 2


class Failing(GossipModel):
    """Goes wrong in one of its parts, once `wrong` is set."""

    wrong = ""

    def answer(self) -> np.ndarray:
        x = super().answer()
        return spoil(self.wrong.removeprefix("answer: "), x) if "answer" in self.wrong else x

    def pay(self, answer: np.ndarray) -> Any:
        d = super().pay(answer)
        return spoil(self.wrong.removeprefix("pay: "), d) if "pay" in self.wrong else d

    def state(self) -> Any:
        x, z = super().state()
        return (
            (x, spoil(self.wrong.removeprefix("state: "), z)) if "state" in self.wrong else (x, z)
        )


def spoil(how: str, x: np.ndarray) -> Any:
    return {
        "longer": np.append(x, 1.0),
        "one number": x[:1],
        "a row": x[None],
        "text": np.array(["a"] * len(x)),
        "not finite": x * np.nan,
    }[how]


def make_process(dim: int = DIM, seed: int = 0) -> NodeProcess:
    """All nodes of the star in one worker, with a clock that is moved by hand."""
    constants = Gossip().constants(GRAPH)._asdict()
    name = f"{__name__}:Failing"
    models = [NodeModelSpec(name, {"x": np.full(dim, float(i))}, constants) for i in range(5)]
    plan = RunPlan(
        graph=GRAPH, models=models, dim=dim, workers=[list(range(5))], key=bytes(32),
        seed=[1, seed], speed=1000.0, stride=2.0, timeout=5.0, faults=Faults(), log=False,
        port=None,
    )  # fmt: skip
    return NodeProcess(plan.write_order(0))


def spoil_model(process: NodeProcess, wrong: str) -> None:
    process.scheduler.nodes[BAD].model.wrong = wrong  # type: ignore[attr-defined]


def run_turns(process: NodeProcess, turns: int, start: int = 0) -> None:
    for turn in range(start, start + turns):
        assert process.take_turn(0.0005 * turn, []) == {}


WRONG = {
    "answer: longer": "the answer of a node's model has shape (3,), and must have (2,)",
    "answer: one number": "the answer of a node's model has shape (1,), and must have (2,)",
    "answer: a row": "the answer of a node's model has shape (1, 2), and must have (2,)",
    "answer: text": "could not convert string to float",
    "state: longer": "the state of a node's model has shape (3,), and must have (2,)",
    "state: one number": "the state of a node's model has shape (1,), and must have (2,)",
    "state: text": "could not convert string to float",
    "answer: not finite": "the answer of a node's model is no longer finite",
    "state: not finite": "the state of a node's model is no longer finite",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_report_is_without_the_node_that_went_wrong(wrong: str) -> None:
    process = make_process()
    run_turns(process, 20)
    spoil_model(process, wrong)
    header, arrays = process.make_report()
    ((node, reason),) = header["failures"]
    assert node == BAD
    assert WRONG[wrong] in reason
    assert arrays["number"].tolist() == [0, 2, 3, 4]
    held = [process.scheduler.nodes[i].model.x for i in (0, 2, 3, 4)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(arrays["seen"][0], held)
    assert process.make_report(final=True)[0]["failures"] == []


@pytest.mark.parametrize("wrong", ["state: longer", "state: not finite"])
def test_a_report_of_long_vectors_is_without_the_node_that_went_wrong(wrong: str) -> None:
    process = make_process(2 * BUCKETS)
    spoil_model(process, wrong)
    header, arrays = process.make_report()
    assert [node for node, _ in header["failures"]] == [BAD]
    assert arrays["seen"].shape == (5, 4, BUCKETS)


ASKED = [wrong for wrong in WRONG if "answer" in wrong]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wrong", [*ASKED, "pay: longer", "pay: not finite", "x: not finite"])
def test_those_that_meet_a_model_that_went_wrong_go_on(wrong: str, seed: int) -> None:
    """In one worker messages pass no codec.  By the seed, the node asks first or is asked."""
    process = make_process(seed=seed)
    run_turns(process, 20)
    spoil_model(process, wrong)
    model = process.scheduler.nodes[BAD].model
    if wrong.startswith("x"):
        model.x = model.x * np.nan  # type: ignore[attr-defined]
    run_turns(process, 400, start=20)
    assert sorted(process.scheduler.nodes) == [0, 2, 3, 4]
    assert [node for node, _ in process.scheduler.failures] == [BAD]
    process.obey({"deaths": [(BAD, 1, False)]})
    before = [node.counts.exchanges for node in process.scheduler.nodes.values()]
    run_turns(process, 400, start=420)
    after = [node.counts.exchanges for node in process.scheduler.nodes.values()]
    assert sum(after) > sum(before) + 50
    assert process.scheduler.failures[1:] == []
