"""The mean at the end, over a path of three workers, message by message and without links."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from continuized.network import A2CiD2, Graph
from continuized.network.learning.final_mean import FinalMean
from continuized.network.learning.links import FINAL_MEAN, PARTIAL_SUM
from tests.helpers.learning_nodes import make_node

PATH = Graph.of("path:3")


def make_workers() -> list[FinalMean]:
    """Rank 0 is the root of the tree, and 2 hangs on 1."""
    made = [make_node(PATH, rank, np.array([float(rank)]), A2CiD2()) for rank in range(3)]
    return [FinalMean(node.model, membership, threading.Lock()) for node, membership in made]


def test_all_take_the_mean_of_the_middles() -> None:
    """A transfer that came last has parted x~ from x: the middle (x + x~) / 2 is what counts."""
    workers = make_workers()
    for rank, worker in enumerate(workers):
        worker._model.D[:] = 4.0 * rank  # the middles are 0, 3 and 6
    assert workers[0].begin() == []
    (from_2,) = workers[2].begin()
    assert workers[1].receive(from_2) == []  # which comes before rank 1 has begun
    (from_1,) = workers[1].begin()
    assert (from_2.kind, from_1.kind, from_1.receiver) == (PARTIAL_SUM, PARTIAL_SUM, 0)
    (to_1,) = workers[0].receive(from_1)
    (to_2,) = workers[1].receive(to_1)
    assert (to_1.kind, to_2.receiver) == (FINAL_MEAN, 2)
    assert workers[2].receive(to_2) == []
    for worker in workers:
        assert worker.taken
        assert [*worker._model.state()] == [3.0, 3.0]


@pytest.mark.parametrize("lost", [0, 2])
def test_one_that_is_gone_before_its_part_is_done_ends_it(lost: int) -> None:
    worker = make_workers()[1]
    worker.begin()
    worker.lose(lost)
    assert worker.is_over
    assert not worker.taken
    assert f"rank {lost} is gone" in worker.why_not


def test_a_child_whose_sum_has_come_may_go() -> None:
    workers = make_workers()
    (from_2,) = workers[2].begin()
    workers[1].begin()
    workers[1].receive(from_2)
    workers[1].lose(2)
    assert not workers[1].is_over
