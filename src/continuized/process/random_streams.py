"""Seeds: the named random streams of a run, and those of many runs at once.

A run has a root.  Its event times and its marks each have a generator of their own, a child of
the root by a fixed key, so that neither depends on how much is drawn of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from continuized.support import validation as check

# The children of a run's root.  Rows of decentralised optimisation are drawn where links are.
TIMES, MARKS, METRICS, LINKS, COUNTED = 0, 1, 2, 3, 4
ROWS = LINKS

# The hash of NumPy's SeedSequence, whose streams NumPy promises to keep.
_FIRST, _FACTOR = 0x43B0D7E5, 0x931E8875  # of the constants that words are hashed with
_FIRST_OUT, _FACTOR_OUT = 0x8B51F9DD, 0x58F38DED  # the same, for the output
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)  # a word mixed into the pool
_HALF = np.uint32(16)
_Words = NDArray[np.uint32]


Root = np.random.SeedSequence
Seed = int | Root | np.random.Generator | None


def seed_sequence(rng: Seed) -> Root:
    """Make the root of a run's randomness.  None takes fresh entropy from the system; a
    Generator gives 128 bits of its own (and so moves on)."""
    if isinstance(rng, Root):
        return rng
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence(rng.integers(0, 2**32, size=4, dtype=np.uint32).tolist())
    if rng is not None:
        rng = check.whole(
            rng, "rng", minimum=0, other=("a SeedSequence", "a Generator", "None"), counts=False
        )
    return np.random.SeedSequence(rng)


def child(root: Root, *key: int) -> np.random.SeedSequence:
    """Make a named descendant of a seed sequence; unlike spawn, it leaves the parent unchanged."""
    return np.random.SeedSequence(
        root.entropy, spawn_key=(*root.spawn_key, *key), pool_size=root.pool_size
    )


def generator(root: Root, key: int) -> np.random.Generator:
    """Make the generator of one of the keys above: each has its own."""
    return np.random.Generator(np.random.PCG64(child(root, key)))


class _KnownSeed(ISeedSequence):
    """The words that a seed sequence would give to PCG64."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        if n_words != 4 or dtype is not np.uint64:
            raise ValueError(f"made for 4 words of 64 bits, asked for {n_words} of {dtype}")
        return self._words


def generators(root: Root, numbers: range, key: int) -> list[np.random.Generator]:
    """Make `generator(child(root, number), key)` for every number: those of many runs.

    A seed sequence takes 10 microseconds to make and to read, one by one: hashed in vectors, a
    quarter of one.
    """
    seeds: list[Any] = [_KnownSeed(words) for words in seed_words(root, numbers, key)]
    return [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]


def seed_words(root: Root, numbers: range, key: int) -> NDArray[np.uint64]:
    """Return `child(root, number, key).generate_state(4, np.uint64)` for every number, as rows."""
    parent = child(root)
    size = int(parent.pool_size)
    if numbers.stop > 2**32:  # such a number is two words
        return np.array([child(root, i, key).generate_state(4, np.uint64) for i in numbers])
    # What stands before the two words of (number, key) is hashed and mixed already.  It took a
    # constant for each word and place in the pool, and each constant is a multiple of the last.
    before = max(size, _length(parent.entropy)) + sum(map(_length, parent.spawn_key))
    first = _FIRST * pow(_FACTOR, size * before, 2**32) % 2**32
    constants = _make_constants(first, _FACTOR, 2 * size)
    pool = parent.pool[:, np.newaxis]  # a row for each place, a column for each number
    for i, word in enumerate((np.array(numbers, np.uint32), np.uint32(key))):
        hashed = _hash(word, constants[i * size : (i + 1) * size + 1])
        mixed = pool * _LEFT - hashed * _RIGHT
        pool = mixed ^ (mixed >> _HALF)
    out = _hash(pool[np.arange(8) % size], _make_constants(_FIRST_OUT, _FACTOR_OUT, 8))
    return np.ascontiguousarray(out.T, "<u4").view("<u8").astype(np.uint64, copy=False)


def _make_constants(first: int, factor: int, n: int) -> _Words:
    """Return the first constant of a hash and the n after it, as a column."""
    constants = [first]
    for _ in range(n):
        constants.append(constants[-1] * factor % 2**32)
    return np.array(constants, np.uint32)[:, np.newaxis]


def _hash(words: Any, constants: _Words) -> _Words:
    """Hash words to rows, each with a constant and the one after it."""
    values: _Words = (words ^ constants[:-1]) * constants[1:]
    return values ^ (values >> _HALF)


def _length(entropy: Any) -> int:
    """Tell how long the entropy is, in words of 32 bits."""
    if isinstance(entropy, int | np.integer):
        return max(1, -(-int(entropy).bit_length() // 32))
    return sum(map(_length, entropy))
