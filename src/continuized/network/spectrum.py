"""The spectral gap and the effective resistances of a weighted graph."""

from __future__ import annotations

import numpy as np

from continuized.problems.base import Array


def laplacian(nodes: int, edges: Array, P: Array) -> Array:
    """Lambda, dense."""
    i, j = edges.T
    matrix = np.zeros((nodes, nodes))
    np.add.at(matrix, (i, j), -P)
    np.add.at(matrix, (j, i), -P)
    matrix[np.diag_indices(nodes)] = -matrix.sum(axis=1)
    return matrix


def gap(nodes: int, edges: Array, P: Array) -> float:
    """lambda_2 of Lambda."""
    return float(np.linalg.eigvalsh(laplacian(nodes, edges, P))[1])


def resistances(nodes: int, edges: Array, P: Array) -> Array:
    """(e_i - e_j)^T Lambda^+ (e_i - e_j) of every edge."""
    inverse = np.linalg.pinv(laplacian(nodes, edges, P), hermitian=True)
    i, j = edges.T
    found: Array = inverse[i, i] + inverse[j, j] - 2.0 * inverse[i, j]
    return found
