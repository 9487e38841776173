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
    }[how]


def make_process(dim: int = DIM) -> NodeProcess:
    """All nodes of the star in one worker, with a clock that is moved by hand."""
    constants = Gossip().constants(GRAPH)._asdict()
    name = f"{__name__}:Failing"
    models = [NodeModelSpec(name, {"x": np.full(dim, float(i))}, constants) for i in range(5)]
    plan = RunPlan(
        graph=GRAPH, models=models, dim=dim, workers=[list(range(5))], key=bytes(32), seed=[1, 2],
        speed=1000.0, stride=2.0, timeout=5.0, faults=Faults(), log=False, port=None,
    )  # fmt: skip
    return NodeProcess(plan.write_order(0))


def spoil_model(process: NodeProcess, wrong: str) -> None:
    process.scheduler.nodes[BAD].model.wrong = wrong  # type: ignore[attr-defined]


def run_turns(process: NodeProcess, turns: int, start: int = 0) -> None:
    for turn in range(start, start + turns):
        assert process.take_turn(0.0005 * turn, []) == {}


SHAPES = {
    "answer: longer": "the answer of a node's model has shape (3,), and must have (2,)",
    "answer: one number": "the answer of a node's model has shape (1,), and must have (2,)",
    "answer: a row": "the answer of a node's model has shape (1, 2), and must have (2,)",
    "answer: text": "could not convert string to float",
    "state: longer": "the state of a node's model has shape (3,), and must have (2,)",
    "state: one number": "the state of a node's model has shape (1,), and must have (2,)",
    "state: text": "could not convert string to float",
}


@pytest.mark.parametrize("wrong", SHAPES)
def test_a_report_without_what_has_another_shape(wrong: str) -> None:
    process = make_process()
    run_turns(process, 20)
    spoil_model(process, wrong)
    header, arrays = process.make_report()
    ((node, reason),) = header["failures"]
    assert node == BAD
    assert SHAPES[wrong] in reason
    assert arrays["number"].tolist() == [0, 2, 3, 4]
    held = [process.scheduler.nodes[i].model.x for i in (0, 2, 3, 4)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(arrays["seen"][0], held)
    assert process.make_report(final=True)[0]["failures"] == []


def test_a_report_of_long_vectors_without_what_has_another_shape() -> None:
    process = make_process(2 * BUCKETS)
    spoil_model(process, "state: longer")
    header, arrays = process.make_report()
    assert [node for node, _ in header["failures"]] == [BAD]
    assert arrays["seen"].shape == (5, 4, BUCKETS)
