"""Checks of what estimators are given, in NumPy only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.support.validation import brief, is_real


def check_at_least(value: Any, least: float, name: str) -> None:
    """Raise ValueError unless value is a number >= least."""
    if not (is_real(value) and value >= least):
        raise ValueError(f"{name} must be a number >= {least}, got {brief(value)}")


def checked_alphas(alpha: Any, targets: int) -> Array:
    """A finite alpha >= 0 for each target."""
    alphas = np.asarray(alpha)
    if alphas.dtype.kind not in "fiu" or not np.all((alphas >= 0.0) & (alphas < np.inf)):
        raise ValueError(f"alpha must be finite and >= 0, got {brief(alpha)}")
    if alphas.ndim > 1 or alphas.size not in (1, targets):
        raise ValueError(
            f"alpha must be one number, or one for each of {targets} targets, got {brief(alpha)}"
        )
    return np.broadcast_to(alphas.ravel().astype(np.float64), targets)


def check_row_weights(weights: Array, n: int) -> None:
    """Raise ValueError unless there is a weight >= 0 for each of n rows, and one is positive."""
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), one a row, got {weights.shape}")
    if np.any(weights < 0.0):
        raise ValueError(f"sample_weight must be >= 0, but its least entry is {weights.min()}")
    if not np.any(weights > 0.0):
        raise ValueError("every sample_weight is zero: there is nothing to fit")


def check_classes(classes: Array, labels: Array, weights: Array | None) -> None:
    """Raise ValueError unless there are two classes, and rows of positive weight in each.

    A class without weight would drive its intercept to minus infinity.
    """
    if len(classes) < 2:
        raise ValueError(f"y holds only one class, {brief(classes[0])}: at least 2 are needed")
    empty = np.flatnonzero(~(np.bincount(labels, weights) > 0.0))
    if empty.size:
        raise ValueError(
            f"the class {brief(classes[empty[0]])} has no row of positive weight: drop its rows, "
            "or give them weight"
        )


def balanced(labels: Array, weights: Array) -> Array:
    """Factors that give each class the same total weight, and leave the sum of all as it is."""
    totals = np.bincount(labels, weights)
    return np.asarray(totals.sum() / (len(totals) * totals))


def root_mean_square(y: Array, weights: Array | None) -> float:
    """That of y, or 1 where it is 0; by way of y / max |y|, for squares may overflow."""
    largest = float(np.abs(y).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    mean = float(np.average((y / largest) ** 2, weights=weights))
    return largest * math.sqrt(mean) if mean > 0.0 else 1.0
