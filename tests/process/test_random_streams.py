"""The seeds of many runs at once are those that NumPy makes one by one."""

from __future__ import annotations

import numpy as np
import pytest

from continuized.process import random_streams as seeds

ROOTS = (
    np.random.SeedSequence(0),
    np.random.SeedSequence(2**100 + 7),
    np.random.SeedSequence(2**200 + 7, spawn_key=(3, 2**40)),  # more words than the pool
    np.random.SeedSequence([1, 2**33, 3, 4, 5], spawn_key=(1,), pool_size=6),
    np.random.SeedSequence(9, spawn_key=(0,)),
    seeds.branches(np.random.SeedSequence(4), range(7, 8), [seeds.TIMES])[0],
)


@pytest.mark.parametrize("root", ROOTS, ids=range(len(ROOTS)))
@pytest.mark.parametrize("first", [0, 100, 2**32 - 3])  # the last range has numbers of two words
@pytest.mark.parametrize("ready", [[], [seeds.TIMES], [seeds.MARKS], [seeds.TIMES, seeds.MARKS]])
def test_a_branch_draws_what_numpy_would(root: seeds.Root, first: int, ready: list[int]) -> None:
    numbers = range(first, first + 5)
    for number, branch in zip(numbers, seeds.branches(root, numbers, ready), strict=True):
        for key in (seeds.TIMES, seeds.MARKS):
            theirs = np.random.PCG64(seeds.child(root, number, key)).state
            assert seeds.generator(branch, key).bit_generator.state == theirs
        assert seeds.child(branch).spawn_key == (*root.spawn_key, number)


def test_a_root_is_not_moved_by_its_branches() -> None:
    root = np.random.SeedSequence(1)
    seeds.branches(root, range(3), [seeds.TIMES])
    assert root.n_children_spawned == 0
