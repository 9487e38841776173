"""Blocks of coordinates: which they are, and the smoothness along each.

Along a block B the Hessian is at most L_B, the largest eigenvalue of the rows and columns B of a
bound on the whole: max of the eigenvalues of a Quadratic, and of X_B^T X_B / n times the curvature
of the loss, plus l2, of a regression.  It lies between the largest L_i of the block and their sum.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from continuized.problems import Quadratic
from continuized.problems.base import Array
from continuized.problems.regression.spectrum import gram_error, spectrum
from continuized.support import validation as check
from continuized.support.blas import always_on_one_thread

SMALL_BLOCK = 32  # coordinates: sparse blocks up to this size are treated together, by sizes


class Partition(NamedTuple):
    """The coordinates in blocks: block b is members[bounds[b]:bounds[b + 1]]."""

    members: Array
    bounds: Array

    @property
    def is_single(self) -> bool:
        """Whether block i is the coordinate i."""
        return self.bounds.size == self.members.size + 1 and bool(
            np.all(self.members == np.arange(self.members.size))
        )

    def per_coordinate(self, values: Array) -> Array:
        """Turn a value for each block into one for each coordinate."""
        out = np.empty(self.members.size, values.dtype)
        out[self.members] = np.repeat(values, np.diff(self.bounds))
        return out

    def sum_blocks(self, values: Array) -> Array:
        """Sum a value for each coordinate over each block."""
        return np.add.reduceat(values[self.members], self.bounds[:-1])


def partition(blocks: Any, d: int) -> Partition:
    """Return the blocks of d coordinates.

    blocks: an integer, the size of blocks of consecutive coordinates, of which the last may be
    smaller; or a sequence of vectors of indices, in which each coordinate is once.  TypeError or
    ValueError for anything else.

    >>> partition(2, 5)
    Partition(members=array([0, 1, 2, 3, 4]), bounds=array([0, 2, 4, 5]))
    >>> partition([[0, 1], [1, 2]], 3)
    Traceback (most recent call last):
        ...
    ValueError: coordinate 1 is in block 0 and in block 1: it must be in one only
    """
    if check.is_whole(blocks):
        size = check.whole(blocks, "the size of blocks", minimum=1, counts=False)
        return Partition(np.arange(d), np.append(np.arange(0, d, min(size, max(d, 1))), d))
    what = "None, an integer >= 1 or a list of vectors of indices"
    listed = check.sequence(blocks, "blocks", what)
    indices = [_check_block(block, b, d) for b, block in enumerate(listed)]
    members = np.concatenate([np.zeros(0, np.int64), *indices])
    _check_each_is_once(indices, members, d)
    return Partition(members, np.cumsum([0, *(block.size for block in indices)]))


def _check_block(block: Any, b: int, d: int) -> Array:
    noun = "a vector of indices"
    indices = check.array(block, f"block {b}", dtype=np.int64, ndim=1, noun=noun)
    if indices.size == 0:
        raise ValueError(f"block {b} is empty: leave it out")
    wrong = indices[(indices < 0) | (indices >= d)]
    if wrong.size:
        raise ValueError(f"block {b} has the index {wrong[0]}, but indices must be in [0, {d})")
    return np.sort(indices)


def _check_each_is_once(indices: list[Array], members: Array, d: int) -> None:
    times = np.bincount(members, minlength=d)
    if np.all(times == 1):
        return
    i = int(np.argmax(times != 1))
    if times[i] == 0:
        raise ValueError(f"coordinate {i} is in no block: blocks must hold every coordinate")
    first, second = [b for b, block in enumerate(indices) for _ in range(np.sum(block == i))][:2]
    raise ValueError(
        f"coordinate {i} is in block {first} and in block {second}: it must be in one only"
    )


@always_on_one_thread()
def block_L(problem: Any, blocks: Partition) -> Array:
    """Return L_B of each block: exact (up to rounding, to the safe side) where the block or the
    rows it meets are few, else a bound with the certificate of `problems.regression.spectrum`.

    problem: a Quadratic, LeastSquares or LogisticRegression, without weights and intercept.
    """
    if isinstance(problem, Quadratic):
        return np.maximum.reduceat(problem.eigenvalues[blocks.members], blocks.bounds[:-1])
    firsts, sizes = blocks.bounds[:-1], np.diff(blocks.bounds)
    L: Array = problem.coordinate_L[blocks.members[firsts]]  # of blocks of one
    limit = SMALL_BLOCK if problem.is_sparse else 1
    for size in np.unique(sizes[(sizes > 1) & (sizes <= limit)]).tolist():
        which = np.flatnonzero(sizes == size)
        together = blocks.members[firsts[which, np.newaxis] + np.arange(size)]
        L[which] = problem.curvature * _largest_eigenvalues(problem.columns, together) + problem.l2
    for b in np.flatnonzero(sizes > limit).tolist():
        block = blocks.members[blocks.bounds[b] : blocks.bounds[b + 1]]
        L[b] = problem.curvature * _largest_eigenvalue(problem.columns, block) + problem.l2
    return L


def _largest_eigenvalues(columns: Any, together: Array) -> Array:
    """Find the largest eigenvalue of X_B^T X_B / n for each row B of `together`, all at once, for
    many small sparse blocks take long one by one."""
    n, size = columns.shape[0], together.shape[1]
    parts = [columns[:, i].astype(np.float64) for i in together.T]
    gram = np.empty((len(together), size, size))
    for j, i in combinations_with_replacement(range(size), 2):
        gram[:, i, j] = gram[:, j, i] = parts[i].multiply(parts[j]).sum(axis=0) / n
    trace = np.trace(gram, axis1=1, axis2=2)
    return np.asarray(np.linalg.eigvalsh(gram)[:, -1] + gram_error(n, size, trace))


def _largest_eigenvalue(columns: Any, block: Array) -> float:
    """Find the largest eigenvalue of X_B^T X_B / n, or a bound of it."""
    X, n = columns[:, block], int(columns.shape[0])
    if not isinstance(X, np.ndarray):
        from scipy import sparse

        # Without empty rows: a block should cost what it holds, not a pass over all rows.
        kept, row = np.unique(X.indices, return_inverse=True)
        shape = (max(kept.size, 1), X.shape[1])
        X = sparse.csc_array((X.data, row, X.indptr), shape).tocsr()
    rows = int(X.shape[0])
    return spectrum(X, lambda v: X.T @ (X @ v) / rows).largest * rows / n
