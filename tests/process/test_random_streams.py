"""The seeds of many runs at once are those that NumPy makes one by one."""

from __future__ import annotations

import numpy as np
import pytest

from continuized.process.random_streams import MARKS, TIMES, Root, child, generator, generators

ROOTS = (
    np.random.SeedSequence(0),
    np.random.SeedSequence(2**100 + 7),
    np.random.SeedSequence(2**200 + 7, spawn_key=(3, 2**40)),  # more words than the pool
    np.random.SeedSequence([1, 2**33, 3, 4, 5], spawn_key=(1,), pool_size=6),
    np.random.SeedSequence(9, spawn_key=(0,)),
)


@pytest.mark.parametrize("root", ROOTS, ids=range(len(ROOTS)))
@pytest.mark.parametrize("first", [0, 100, 2**32 - 3])  # the last range has numbers of two words
@pytest.mark.parametrize("key", [TIMES, MARKS])
def test_the_generators_of_many_runs_are_those_of_each(root: Root, first: int, key: int) -> None:
    numbers = range(first, first + 5)
    for number, ours in zip(numbers, generators(root, numbers, key), strict=True):
        theirs = generator(child(root, number), key)
        assert ours.bit_generator.state == theirs.bit_generator.state


def test_a_root_is_not_moved_by_its_children() -> None:
    root = np.random.SeedSequence(1)
    generators(root, range(3), TIMES)
    assert root.n_children_spawned == 0
