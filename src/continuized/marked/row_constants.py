"""The constants R2, kappa and mu of rows, and of batches of rows; `rows` says what for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.problems.regression.spectrum import spectrum

EXACT_UP_TO = 1000  # columns for which R2, kappa and mu are computed exactly
FULL_RANK = 1e-12  # relative size below which an eigenvalue of H counts as 0
BLOCK_NUMBERS = 2**16  # entries of X made dense at once, or as many as H has, if that is more
GIVEN = 1e-9  # relative; constants that are given may be rounded


class RowConstants(NamedTuple):
    """R2, kappa and mu."""

    R2: float
    kappa: float
    mu: float


def are_exact(rows: Any) -> bool:
    """Whether the constants of these rows are computed exactly, where none are given."""
    return bool(rows.shape[1] <= EXACT_UP_TO)


def row_constants(
    rows: Any,
    p: Array,
    factors: Array,
    R2: float | None = None,
    kappa: float | None = None,
    mu: float | None = None,
) -> RowConstants:
    """R2, kappa and mu of the rows factors_i a_i drawn with probabilities p_i.

    Those that are given are taken as they are, and not computed.
    """
    from scipy import sparse

    if R2 is None or kappa is None or (mu is None and are_exact(rows)):
        # A copy of the entries, in float64: sums of squares in float32 would be off by 1e-7.
        scaled = sparse.diags_array(factors) @ rows.astype(np.float64)
        find = _exact if are_exact(rows) else _estimated
        R2, kappa, mu = find(scaled, p, R2, kappa, mu)
    return RowConstants(float(R2), float(kappa), float(mu or 0.0))


def _exact(
    a: Any, p: Array, R2: float | None, kappa: float | None, mu: float | None
) -> tuple[float, float, float]:
    d = a.shape[1]
    H = sum((block.T @ (p[at, None] * block) for at, block in _blocks(a)), np.zeros((d, d)))
    values, vectors = np.linalg.eigh(H)
    live = values > FULL_RANK * values[-1]
    if mu is None:
        mu = float(values[0]) if live.all() else 0.0
    if R2 is None or kappa is None:
        found = _largest(a, p, vectors[:, live] / np.sqrt(values[live]))
        R2, kappa = found[0] if R2 is None else R2, found[1] if kappa is None else kappa
    return R2, kappa, mu


def _largest(a: Any, p: Array, W: Array) -> tuple[float, float]:
    """The largest eigenvalues of E |a|^2 v v^T and E |v|^2 v v^T, v = W^T a = H^{-1/2} a."""
    rank = W.shape[1]
    if rank == 0:  # nothing but zeros
        return 1.0, 1.0
    sums = np.zeros((2, rank, rank))
    for at, block in _blocks(a):
        white = block @ W
        for total, lines in zip(sums, (block, white), strict=True):
            weights = p[at] * np.einsum("ij,ij->i", lines, lines)
            total += white.T @ (weights[:, None] * white)
    largest = np.linalg.eigvalsh(sums)[:, -1]
    return float(largest[0]), float(largest[1])


def _blocks(a: Any) -> Iterator[tuple[slice, Array]]:
    """The rows, some at a time, dense: as many as there are columns, more where those are few."""
    n, d = a.shape
    size = max(d, BLOCK_NUMBERS // d)
    for first in range(0, n, size):
        at = slice(first, first + size)
        yield at, a[at].toarray()


def _estimated(
    a: Any, p: Array, R2: float | None, kappa: float | None, mu: float | None
) -> tuple[float, float, float]:
    """R2 = max |a|^2 and mu = 0, which hold; kappa as if H were diagonal, for rare columns make it
    far larger than d + 2; never more than 1 / min p, for |a_i|^2_{H^-1} <= 1 / p_i."""
    squares = a.power(2)
    if R2 is None:
        R2 = float((squares.sum(axis=1) * (p > 0.0)).max()) or 1.0
    if kappa is None:
        diagonal = squares.T @ p
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0)
        norms2 = squares @ inverse  # |a|^2_{H^-1}
        largest = float((inverse * (squares.T @ (p * norms2))).max())
        kappa = float(min(max(a.shape[1] + 2.0, largest), 1.0 / p[p > 0.0].min()))
    return R2, kappa, mu or 0.0


def batch_constants(row: RowConstants, L_H: float, batch: int) -> RowConstants:
    """R2, kappa and mu of batches, from those of rows and L_H, the largest eigenvalue of H.

    The mean A of b independent copies of a a^T has b^2 products of two copies in its square; in b
    of them a copy meets itself, in the others two that are independent, of mean H each.  So

        E[A A] = E[|a|^2 a a^T] / b + (1 - 1/b) H^2               <= (R2 / b + (1 - 1/b) L_H) H
        E[A H^-1 A] = E[|a|^2_{H^-1} a a^T] / b + (1 - 1/b) H     <= (kappa / b + 1 - 1/b) H

    which take the places of E[|a|^2 a a^T] <= R2 H and E[|a|^2_{H^-1} a a^T] <= kappa H.

    >>> batch_constants(RowConstants(R2=8.0, kappa=5.0, mu=0.1), L_H=2.0, batch=2)
    RowConstants(R2=5.0, kappa=3.0, mu=0.1)
    """
    shared = 1.0 - 1.0 / batch
    return row._replace(R2=row.R2 / batch + shared * L_H, kappa=row.kappa / batch + shared)


def largest_eigenvalue(rows: Any, p: Array, factors: Array) -> float:
    """An upper bound of the largest eigenvalue of H = sum_i p_i factors_i^2 a_i a_i^T: up to
    rounding that itself, or with the certificate of `problems.spectrum`."""
    from scipy import sparse

    n = rows.shape[0]
    scaled = sparse.csr_array(sparse.diags_array(factors * np.sqrt(n * p)) @ rows)
    return spectrum(scaled, lambda v: scaled.T @ (scaled @ v) / n).largest
