"""Data files and the regressions on them, as several commands take them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuized.app.commands import BadInput

if TYPE_CHECKING:
    from continuized.problems import LeastSquares, LogisticRegression
    from continuized.problems.base import Array


def read(data: Path) -> tuple[Any, Array]:
    """The rows and labels of a file."""
    from continuized import problems

    try:
        return problems.read(data)
    except problems.DataError as error:
        raise BadInput(error.fact) from error


def regression(
    X: Any, y: Array, loss: str, l2: float | None, name: str
) -> tuple[LeastSquares | LogisticRegression, tuple[float, float] | None]:
    """The problem ("ridge" or "logistic"; l2 is 1/rows by default), and the labels it tells apart.

    `name` is that of the data, for errors.
    """
    import numpy as np

    from continuized import problems

    penalty = 1.0 / len(y) if l2 is None else l2
    try:
        if loss == "ridge":
            return problems.LeastSquares(X, y, l2=penalty), None
        labels = two_labels(y, name, "; use --loss ridge for numbers")
        signs = np.where(y == labels[1], 1.0, -1.0)
        return problems.LogisticRegression(X, signs, l2=penalty), labels
    except ValueError as error:
        raise BadInput(str(error)) from error


def two_labels(y: Array, name: str, advice: str = "") -> tuple[float, float]:
    """The smaller and the larger, where there are two."""
    import numpy as np

    labels = np.unique(y)
    if len(labels) != 2:
        few = ", ".join(f"{label:g}" for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        given = f"got {len(labels)} ({few})"
        raise BadInput(f"{name}: logistic regression needs two labels, {given}{advice}")
    return float(labels[0]), float(labels[1])
