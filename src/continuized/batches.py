"""Batches of rows: their constants, from those of single rows (`rows`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.problems.spectrum import spectrum


def batch_constants(R2: float, kappa: float, L_H: float, batch: int) -> tuple[float, float]:
    """R2 and kappa of batches, from those of rows and L_H, the largest eigenvalue of H.

    The mean A of b independent copies of a a^T has b^2 products of two copies in its square; in b
    of them a copy meets itself, in the others two that are independent, of mean H each.  So

        E[A A] = E[|a|^2 a a^T] / b + (1 - 1/b) H^2               <= (R2 / b + (1 - 1/b) L_H) H
        E[A H^-1 A] = E[|a|^2_{H^-1} a a^T] / b + (1 - 1/b) H     <= (kappa / b + 1 - 1/b) H

    (as symmetric matrices), which take the places of E[|a|^2 a a^T] <= R2 H and
    E[|a|^2_{H^-1} a a^T] <= kappa H.

    >>> batch_constants(R2=8.0, kappa=5.0, L_H=2.0, batch=2)
    (5.0, 3.0)
    """
    shared = 1.0 - 1.0 / batch
    return R2 / batch + shared * L_H, kappa / batch + shared


def largest_eigenvalue(rows: Any, p: Array, factors: Array) -> float:
    """An upper bound of the largest eigenvalue of H = sum_i p_i factors_i^2 a_i a_i^T: up to
    rounding that itself, or with the certificate of `problems.spectrum`."""
    from scipy import sparse

    n = rows.shape[0]
    scaled = sparse.csr_array(sparse.diags_array(factors * np.sqrt(n * p)) @ rows)
    return spectrum(scaled, lambda v: scaled.T @ (scaled @ v) / n).largest
