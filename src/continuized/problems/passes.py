"""A pass over the data with all threads: the sum of the losses and of their gradients.

Imports Numba: load it only where it is used.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from continuized.problems import row_sums
from continuized.problems.base import Array
from continuized.support import threads
from continuized.support.jit import jit


class Wanted(NamedTuple):
    """What a pass computes."""

    value: bool
    gradient: bool


@cache
def _kernel(name: str) -> Any:
    return jit(getattr(row_sums, name))


def one_pass(
    X: Any,
    y: Array,
    kind: float,
    w: Array,
    wanted: Wanted,
    parts: int,
    weights: Array | None = None,
    intercept: bool = False,
) -> tuple[float, Array]:
    """sum_i weights_i loss(<x_i, w>, y_i) and its gradient in w, or zeros for what is not wanted.

    With an intercept, it is the last entry of w.  The rows are cut into as many parts as there
    are threads, each with a gradient of its own; these are added in order, so that the answer
    does not depend on who ran first.
    """
    arrays: tuple[Array, ...]
    if isinstance(X, np.ndarray):
        kernel, arrays = _kernel("dense_rows"), (X,)
        cuts = [len(X) * part // parts for part in range(parts + 1)]
    else:
        kernel, arrays = _kernel("csr_rows"), (X.data, X.indptr, X.indices)
        # Rows of equal numbers of entries, not equal numbers of rows.
        shares = [X.nnz * part // parts for part in range(1, parts)]
        inner = np.searchsorted(X.indptr, shares).tolist()
        cuts = [0, *inner, len(y)]
    gradients = np.zeros((parts, w.size if wanted.gradient else 0))
    point = (w[:-1], float(w[-1])) if intercept else (w, None)

    def work(part: int) -> float:
        bounds = (cuts[part], cuts[part + 1])
        return float(kernel(*arrays, y, weights, kind, *point, gradients[part], *bounds, *wanted))

    values = threads.in_parts(work, parts)
    return sum(values), gradients.sum(axis=0)
