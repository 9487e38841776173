"""The seeds of many runs at once are those that NumPy makes one by one."""

from __future__ import annotations

import numpy as np
import pytest

from continuized.process.random_streams import MARKS, TIMES, Root, branches, child, generator

ROOTS = (
    np.random.SeedSequence(0),
    np.random.SeedSequence(2**100 + 7),
    np.random.SeedSequence(2**200 + 7, spawn_key=(3, 2**40)),  # more words than the pool
    np.random.SeedSequence([1, 2**33, 3, 4, 5], spawn_key=(1,), pool_size=6),
    np.random.SeedSequence(9, spawn_key=(0,)),
    branches(np.random.SeedSequence(4), range(7, 8), [TIMES])[0],
)


@pytest.mark.parametrize("root", ROOTS, ids=range(len(ROOTS)))
@pytest.mark.parametrize("first", [0, 100, 2**32 - 3])  # the last range has numbers of two words
@pytest.mark.parametrize("ready", [[], [TIMES], [MARKS], [TIMES, MARKS]])
def test_a_branch_draws_what_numpy_would(root: Root, first: int, ready: list[int]) -> None:
    numbers = range(first, first + 5)
    for number, branch in zip(numbers, branches(root, numbers, ready), strict=True):
        for key in (TIMES, MARKS):
            theirs = np.random.PCG64(child(root, number, key)).state
            assert generator(branch, key).bit_generator.state == theirs
        assert child(branch).spawn_key == (*root.spawn_key, number)


def test_a_root_is_not_moved_by_its_branches() -> None:
    root = np.random.SeedSequence(1)
    branches(root, range(3), [TIMES])
    assert root.n_children_spawned == 0
