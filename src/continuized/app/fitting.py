"""From the data of a file to a regression: rows without holes, columns of one scale, the loss.

Every choice that is made for the user is written down with its reason, for the summary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from continuized.app.commands import BadInput, refuse
from continuized.problems.csv_files import EXACT, NUMBER, name_number
from continuized.support import files

if TYPE_CHECKING:
    from continuized.problems.base import Array
    from continuized.problems.sources import Data, TextLabel

MOST_CLASSES = 20  # different whole numbers that are taken for classes, where nothing is said
HUBER = 1.35  # times the spread of the labels: 95 % as exact as least squares on normal errors
NORMAL = 1.4826  # a standard deviation of a normal law, in units of its median deviation
SPARSE = (
    "--missing goes with tables, but {name} is sparse: what it does not hold is 0; leave it out"
)
RELATIVE_TOL = 1e-6
ROWS_AT_ONCE = 4096  # of a matrix that is read from the disk as it is used
VECTORS = 16  # as long as w, of a run at work


class Scaling(NamedTuple):
    """What was taken from each column, if anything, and what it was then divided by."""

    centre: Array | None
    scale: Array


class Labels(NamedTuple):
    """The different labels in order, or the places of what they stand for, and the rows of each.

    column: what their column is called; names: where they are text, what they stand for; text: the
    first that is.
    """

    values: Array
    counts: Array
    column: str | None = None
    names: tuple[str, ...] | None = None
    text: TextLabel | None = None

    def count_numbers(self) -> int:
        """Count the rows whose label is a number."""
        if self.names is None:
            return int(self.counts.sum())
        pairs = zip(self.values.tolist(), self.counts.tolist(), strict=True)
        return sum(rows for place, rows in pairs if NUMBER.fullmatch(self.names[int(place)]))

    def tell_first_text(self, name: str) -> str:
        """Begin a sentence with the first label that is text, and where it stands."""
        assert self.names is not None
        shown, where = (self.names[0], name) if self.text is None else self.text
        what = "the label" if self.column is None else f"the label {self.column!r}"
        return f"{where}: {what} is {shown!r}, which is no number"


class Target(NamedTuple):
    """What is to be predicted: numbers, or the places of classes, and the loss that was chosen.

    y is None where the rows are in other processes; middle: of numbers, where a run may start;
    counts: of the rows of each class.
    """

    y: Any
    loss: str
    why: str
    classes: tuple[Any, ...] | None = None
    middle: float = 0.0
    counts: tuple[int, ...] = ()


def handle_missing(data: Data, how: str | None, name: str) -> tuple[Any, Array, Array | None]:
    """Fill what is missing with the means of the columns, or drop its rows.

    Returns X, y and the means of the columns; None in their place for a sparse X.
    """
    X, y = data
    if not isinstance(X, np.ndarray):
        if how is not None:
            raise BadInput(SPARSE.format(name=name))
        return X, y, None
    if how == "drop":
        kept = ~(np.isnan(X).any(axis=1) | np.isnan(y))
        if not kept.any():
            raise BadInput(f"{name}: every row has an empty cell, so that none is left")
        X, y = X[kept], y[kept]
    sums, counts = _sum_columns(X)
    if not np.all(counts):
        column = int(np.argmin(counts))
        shown = column + 1 if data.names is None else repr(data.names[column])
        raise BadInput(f"{name}: column {shown} is empty in every row; leave it out with --drop")
    means = sums / counts
    return fill_holes(X, means, name) if how == "mean" else X, y, means


def _sum_columns(X: Array) -> tuple[Array, Array]:
    """Add up each column, and count its numbers, without what is missing."""
    step = ROWS_AT_ONCE if isinstance(X, np.memmap) else len(X)  # a map may not fit into memory
    sums, counts = np.zeros(X.shape[1]), np.zeros(X.shape[1], np.intp)
    for start in range(0, len(X), step):
        rows = X[start : start + step]
        counts += (~np.isnan(rows)).sum(axis=0)
        with np.errstate(over="ignore"):
            sums += np.nansum(rows, axis=0, dtype=np.float64)
    return sums, counts


def fill_holes(X: Array, means: Array, name: str) -> Array:
    """Return X with the means of the columns where it is NaN."""
    X = make_writable(X, name, "--missing mean")
    rows, columns = np.nonzero(np.isnan(X))
    X[rows, columns] = means[columns]
    return X


def make_writable(X: Any, name: str, option: str) -> Any:
    """Return X, or what is in it where it is a map of a file, if an option is to change it."""
    if not isinstance(X, np.ndarray) or X.flags.writeable:
        return X
    need, have = 2.0 * X.nbytes, files.memory()  # and what is made on the way
    if need > have:
        raise BadInput(
            f"{name}: {option} changes X, which would take {need / 1e9:.3g} GB, more than the "
            f"{have / 1e9:.3g} GB here; change X.npy itself, and leave {option} out"
        )
    return np.array(X)


def standardize(X: Any, intercept: bool) -> Scaling:
    """Divide each column by its standard deviation, in place.

    With an intercept, which is not penalised, a shift of the columns changes w not at all: a dense
    X is centred too, because runs are shorter then.  A sparse X is not, for it would become dense.
    """
    n = X.shape[0]
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(X, np.ndarray):
            means = X.mean(axis=0)
            spread = np.sqrt(((X - means) ** 2).mean(axis=0))
        else:
            width = X.shape[1]
            means = np.bincount(X.indices, X.data, minlength=width) / n
            squares = (X.data - means[X.indices]) ** 2
            empty = n - np.bincount(X.indices, minlength=width)
            sums = np.bincount(X.indices, squares, minlength=width) + empty * means**2
            spread = np.sqrt(sums / n)
    if not np.all(np.isfinite(spread)):
        raise BadInput("--standardize: the squares of X overflow; divide its columns by a number")
    # Of a column that is constant, rounding may leave something.
    scale = np.where(spread > 1e-14 * np.abs(means), spread, 1.0)
    if not isinstance(X, np.ndarray):
        X.data /= scale[X.indices]
        return Scaling(None, scale)
    if intercept:
        X -= means
    X /= scale
    return Scaling(means if intercept else None, scale)


def choose_target(y: Array, data: Data, loss: str | None, name: str) -> Target:
    """Choose the loss by the labels, if none is asked for, and number their classes."""
    values, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    labels = Labels(values, counts, data.label, data.classes, data.text)
    loss, why, classes = choose_loss(labels, len(y), loss, name)
    if classes is not None:
        return Target(codes.astype(np.float64), loss, why, classes, counts=tuple(counts.tolist()))
    middle = np.median(y) if loss == "huber" else np.mean(y)
    return Target(y, loss, why, middle=float(middle))


def choose_loss(
    labels: Labels, rows: int, loss: str | None, name: str
) -> tuple[str, str, tuple[Any, ...] | None]:
    """Choose the loss by the labels; return it, why it was chosen, and the classes, if any."""
    values, text = labels.values, labels.names
    what = "the label" if labels.column is None else f"the label {labels.column!r}"
    whole = bool(np.all(values == np.floor(values)))
    many = len(values) > max(2, min(MOST_CLASSES, rows // 2))
    words = "whole numbers"
    if text is not None:
        words = "truth values" if are_truths(text) else "words"
    if loss is None:
        if text is not None and 2 * labels.count_numbers() > rows:
            raise BadInput(
                f"{labels.tell_first_text(name)}, as most others are; mend it, or, if labels are "
                "names of classes, give --loss logistic"
            )
        if text is None and (many or (not whole and len(values) > 2)):
            return "ridge", f"{what} has {len(values):,} different numbers", None
        loss = "softmax" if len(values) > 2 else "logistic"
        why = f"{what} has {len(values):,} different {words if whole else 'numbers'}"
        if loss == "softmax" and text is None:
            why += "; --loss ridge or poisson if they are amounts"
    else:
        why = "as asked"
    if loss in ("ridge", "poisson", "huber"):
        if text is not None:
            raise BadInput(
                f"{labels.tell_first_text(name)}, but --loss {loss} needs numbers; mend it, give "
                "another --label, or, if labels are names of classes, --loss logistic"
            )
        if loss == "poisson" and values[0] < 0.0:
            raise BadInput(
                f"{name}: {what} has numbers below 0 ({name_number(float(values[0]))}), but --loss "
                "poisson needs counts; use --loss ridge or huber"
            )
        return loss, why, None
    if text is None and np.abs(values).max() >= EXACT:
        raise BadInput(
            f"{name}: {what} has whole numbers of 2^53 or more, of which several may be read as "
            "one; write a letter before them if they are classes, or give --loss ridge for amounts"
        )
    if len(values) < 2:
        only = name_number(values[0]) if text is None else text[int(values[0])]
        raise BadInput(
            f"{name}: {what} is {only} in every row: there is nothing to tell apart; check --label"
        )
    if len(values) > max(2, rows // 2):
        remedy = "or use --loss ridge for numbers"
        if text is not None:
            remedy = "or turn it into numbers, if amounts are meant"
        raise BadInput(
            f"{name}: {what} has {len(values):,} different values in {rows:,} rows, which are no "
            f"classes; check --label, {remedy}"
        )
    if text is None:
        classes: tuple[Any, ...] = tuple(values.tolist())
    else:
        classes = tuple(text[int(value)] for value in values)
    if loss == "logistic" and len(values) > 2:
        loss, why = "softmax", f"logistic regression of {len(values)} classes"
    return loss, why, classes


def are_truths(names: Sequence[str]) -> bool:
    """Tell whether classes are true and false, in any case.

    >>> are_truths(["TRUE", "False"]), are_truths(["true", "unknown"])
    (True, False)
    """
    return all(name.casefold() in ("true", "false") for name in names)


def make_problem(X: Any, target: Target, l2: float, intercept: bool, delta: float | None) -> Any:
    """Make the regression, once its vectors are known to fit into memory."""
    from continuized import problems

    options: dict[str, Any] = {"l2": l2, "intercept": intercept}
    with refuse(ValueError):
        if target.loss == "logistic":
            return problems.LogisticRegression(X, 2.0 * target.y - 1.0, **options)
        if target.loss == "softmax":
            assert target.classes is not None
            count = len(target.classes)
            return problems.SoftmaxRegression(X, target.y, classes=count, **options)
        if target.loss == "huber":
            return problems.HuberRegression(X, target.y, delta=delta or 1.0, **options)
        kinds = {"ridge": problems.LeastSquares, "poisson": problems.PoissonRegression}
        return kinds[target.loss](X, target.y, **options)


def choose_delta(y: Array, name: str) -> float:
    """Choose where Huber's loss becomes a straight line, by the spread of the labels."""
    spread = NORMAL * float(np.median(np.abs(y - np.median(y))))
    if not spread > 0.0:
        raise BadInput(
            f"{name}: more than half of the labels are equal, so that their spread says nothing of "
            "where huber turns into a straight line; give --delta"
        )
    return HUBER * spread


def check_size(columns: int, classes: int, name: str, X: Any = None) -> None:
    """Refuse columns so many that a run's vectors do not fit into memory."""
    need, have = 8.0 * VECTORS * columns * classes, files.memory()
    if need > have:
        advice = "keep fewer"
        if X is not None and not isinstance(X, np.ndarray):
            advice = f"number anew, from 1 on, the {len(np.unique(X.indices)):,} that hold entries"
        raise BadInput(
            f"{name} has {columns:,} columns: a run would take {need / 1e9:.0f} GB, more than "
            f"the {have / 1e9:.0f} GB here; {advice}"
        )


def choose_start(problem: Any, target: Target) -> Array:
    """Start from 0, and an intercept that predicts the middle of the labels where that is easy."""
    start = np.zeros(problem.dim)
    if problem.intercept and target.classes is None:
        middle = target.middle
        if target.loss == "poisson":
            middle = float(np.log(middle)) if middle > 0.0 else 0.0
        start[-1] = middle
    return start


def choose_tol(problem: Any, start: Array, is_gap: bool, name: str) -> float:
    """Choose where to end, relative to the loss that a fit can explain: its value at the start.

    f has the unit of a duality gap, and its root that of a gradient norm: so the unit of the labels
    does not matter.  Of least squares with an intercept, the root is the labels' standard
    deviation.
    """
    with np.errstate(over="ignore"):
        at_start = at_zero = float(problem.fun(start)) - problem.least_loss
        if start.any():
            at_zero = float(problem.fun(np.zeros_like(start))) - problem.least_loss
    if not math.isfinite(at_start):
        raise BadInput(f"{name}: the squares of the labels overflow; divide the labels by a number")
    loss = max(at_start, np.finfo(np.float64).eps * at_zero)  # of equal labels, rounding is left
    return RELATIVE_TOL * (loss if is_gap else math.sqrt(2.0 * loss))


def judge(target: Target, predicted: Array) -> tuple[str, float]:
    """Find the accuracy, or R^2 (of counts: D^2, the share of the deviance that is explained)."""
    y = target.y
    if target.classes is not None:
        return "accuracy", float(np.mean(predicted == y))
    with np.errstate(all="ignore"):  # what overflows is no number in the report
        share = 1.0 - sum_lost(target.loss, y, predicted) / sum_lost(target.loss, y, y.mean())
    return name_share(target.loss), float(share)


def name_share(loss: str) -> str:
    """Name the share that a model explains."""
    return "D2" if loss == "poisson" else "R2"


def sum_lost(loss: str, y: Array, predicted: Any) -> Any:
    """Add up the squares of what predictions miss; of counts, half of their deviances."""
    return _deviance(y, predicted) if loss == "poisson" else np.sum((predicted - y) ** 2)


def _deviance(y: Array, means: Any) -> Any:
    from scipy.special import xlogy

    return np.sum(xlogy(y, y) - xlogy(y, means) - y + means)
