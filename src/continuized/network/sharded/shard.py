"""What a worker does: it reads its rows, makes a regression of them, and answers questions.

Requests and answers are records (`workers.records`): a header that JSON can say, and arrays.
The header of a request has one of these keys:

    open     read the rows, or take those in the arrays; the answer says what is there
    build    make the regression, now that all shards are known; the answer says what it adds
    ask      a question, "package.module:function", with its arguments; the answer is a sum

An error is an answer too, and has the key `error`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from continuized import problems
from continuized.network.workers.records import Record
from continuized.problems.base import Array
from continuized.problems.files import find_format
from continuized.problems.regression.interface import ALL_ROWS
from continuized.problems.sources import Data, DataError, TextLabel, renumber
from continuized.support import threads
from continuized.support import validation as check

MOST_LABELS = 2**16  # different ones of a shard that are listed: more are numbers, not classes
REGRESSIONS: dict[str, Any] = {
    "ridge": problems.LeastSquares,
    "logistic": problems.LogisticRegression,
    "softmax": problems.SoftmaxRegression,
    "poisson": problems.PoissonRegression,
    "huber": problems.HuberRegression,
}


class Shard:
    """The rows of one worker."""

    def __init__(self) -> None:
        self._data = Data(None, None)
        self._weights: Array | None = None
        self._problem: Any = None

    def answer(self, request: Record, dataset: Any = None) -> Record:
        """Answer a request; what goes wrong is the answer, too."""
        header, arrays = request
        try:
            if "open" in header:
                return self._open(header["open"], arrays, dataset)
            if "build" in header:
                return self._build(header["build"], arrays)
            return self._ask(header, arrays)
        except Exception as error:  # whoever asked raises it again
            return {"error": pack_error(error)}, {}

    def _open(self, part: dict[str, Any], arrays: dict[str, Array], dataset: Any) -> Record:
        if part["threads"] is not None:
            threads.limit(part["threads"])
        self._weights = arrays.pop("weights", None)
        if dataset is not None:
            self._data = read_dataset(dataset, **part["how"])
        elif "files" in part:
            pieces = [_read_piece(path, k, of, part["how"]) for path, k, of in part["files"]]
            self._data = join_files(pieces)
        else:
            y = arrays.pop("y")
            self._data = Data(build_rows(arrays, part["columns"]), y)
        X, y = self._data
        values, counts = np.unique(y, return_counts=True)
        is_sparse = not isinstance(X, np.ndarray)
        facts = {
            "rows": len(y),
            "columns": int(X.shape[1]),
            "sparse": is_sparse,
            "grows": is_sparse and any(is_growing(path) for path, *_ in part.get("files", ())),
            "names": None if self._data.names is None else list(self._data.names),
            "label": self._data.label,
            "words": None if self._data.classes is None else list(self._data.classes),
            "text": self._data.text,
            "weight": None if self._weights is None else float(self._weights.sum()),
            "total": float(y.sum()),
            "notes": list(self._data.notes),
        }
        return facts, {"values": values[: MOST_LABELS + 1], "counts": counts[: MOST_LABELS + 1]}

    def _build(self, plan: dict[str, Any], arrays: dict[str, Array]) -> Record:
        (X, y), kind = self._data, plan["loss"]
        if X.shape[1] < plan["columns"]:
            X.resize((X.shape[0], plan["columns"]))
        if plan["words"] is not None:
            y = renumber(plan["words"], self._data.classes or (), y)
        elif "labels" in arrays:
            y = np.searchsorted(arrays["labels"], y)
        if kind == "logistic" and plan["numbered"]:
            y = 2.0 * y - 1.0
        weights = self._weights
        if weights is None and plan["row_share"] is not None:
            weights = np.ones(len(y))
        extras = {"intercept": plan["intercept"], "weights": weights, **plan["extras"]}
        p = self._problem = REGRESSIONS[kind](X, y, l2=0.0, **extras)
        if weights is not None:  # of the mean 1 over all rows, those of other shards included
            p.shares = plan["row_share"] * weights
        return {
            "entries": p.entry_count,
            "entry_pairs": p.entry_pairs if p.is_sparse else 0.0,
            "weight": float(p.row_count if weights is None else p.shares.sum()),
            "least_loss": p.least_loss,
            "mean": p.mean if kind == "poisson" else 0.0,
        }, {}

    def _ask(self, header: dict[str, Any], arrays: dict[str, Array]) -> Record:
        index: Any = arrays.pop("index", ALL_ROWS)
        given = [arrays[each[0]] if isinstance(each, list) else each for each in header["with"]]
        found = find_question(header["ask"])(self._problem, index, *given)
        parts = found if isinstance(found, tuple) else (found,)
        return {}, {str(k): a for k, a in enumerate(parts)}


def find_question(name: str) -> Callable[..., Any]:
    """Find a function by its name, "package.module:function"."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def name_question(question: Callable[..., Any]) -> str:
    """Name a function of a module, so that another process finds it."""
    return f"{question.__module__}:{question.__name__}"


def pack_error(error: Exception) -> dict[str, Any]:
    """Say what was raised, in what JSON can say."""
    bases = [kind.__name__ for kind in type(error).__mro__]
    described: dict[str, Any] = {"bases": bases, "message": str(error)}
    if isinstance(error, DataError):
        described |= {"fact": error.fact, "advice": error.advice, "kind": error.kind}
    elif isinstance(error, OSError) and error.strerror:
        described["message"] = f"{error.strerror}: {error.filename}"
    return described


def _read_piece(path: str, part: int, parts: int, how: dict[str, Any]) -> Data:
    """Read a file, or the part of its rows from part / parts to (part + 1) / parts."""
    data = problems.read(path, **how)
    data.notes = tuple(f"{path}: {note}" for note in data.notes)
    if parts == 1:
        return data
    n = len(data.y)
    rows = slice(n * part // parts, n * (part + 1) // parts)
    if rows.start == rows.stop:
        raise ValueError(f"{path} has {n} rows, too few for {parts} shards; give fewer")
    X = data.X[rows]
    return _take_rows(data, X if not isinstance(X, np.ndarray) or is_mapped(X) else X.copy(), rows)


def is_mapped(X: Array) -> bool:
    """Tell whether an array stands in a file, and takes no memory of its own."""
    base: Any = X
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def _take_rows(data: Data, X: Any, rows: slice) -> Data:
    """Return these rows, whose X is given, with the names that all rows have."""
    piece = Data(X, data.y[rows])
    piece.names, piece.label, piece.classes = data.names, data.label, data.classes
    piece.text, piece.notes = data.text, data.notes
    return piece


def is_growing(path: str) -> bool:
    """Tell whether a file says nothing of columns behind its last entry, as text of SVMlight."""
    return find_format(path) == "svmlight"


def join_files(pieces: Sequence[Data]) -> Data:
    """Join the rows of several files."""
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]
    sparse = [not isinstance(piece.X, np.ndarray) for piece in pieces]
    if len(set(sparse)) > 1:
        raise ValueError("some of the files of a shard are sparse, and some are not")
    columns = [piece.X.shape[1] for piece in pieces]
    text = find_text([piece.text for piece in pieces])
    words = find_words([piece.classes for piece in pieces], text, "file")
    y = [piece.y for piece in pieces]
    if words is not None:
        y = [renumber(words, piece.classes or (), piece.y) for piece in pieces]
    if len({piece.names for piece in pieces}) > 1:
        raise ValueError("the columns of the files of a shard have different names")
    if len(set(columns)) > 1 and not sparse[0]:
        raise ValueError(f"the files of a shard have different numbers of columns: {columns}")
    if sparse[0]:
        from scipy.sparse import vstack

        for piece in pieces:
            piece.X.resize((piece.X.shape[0], max(columns)))
        X = vstack([piece.X for piece in pieces], format="csr")
    else:
        X = np.concatenate([piece.X for piece in pieces])
    data = Data(X, np.concatenate(y))
    data.names, data.label, data.classes = first.names, first.label, words
    data.text = text
    data.notes = tuple(note for piece in pieces for note in piece.notes)
    return data


def find_text(each: Sequence[Sequence[Any] | None]) -> TextLabel | None:
    """Return the first label that is text, of several files."""
    return next((TextLabel(*text) for text in each if text is not None), None)


def find_words(
    each: Sequence[Sequence[str] | None], text: TextLabel | None, what: str = "shard"
) -> tuple[str, ...] | None:
    """Join the labels that are text, in order; None where none is; ValueError where some are."""
    known = [words for words in each if words is not None]
    if not known:
        return None
    if len(known) < len(each):
        number = next(k for k, words in enumerate(each) if words is None)
        shown = check.short_repr(known[0][0])
        if text is not None:
            shown = f"{check.short_repr(text.name)} in {text.where}"
        raise ValueError(
            f"the labels of {what} {number} are numbers, but those of others are text "
            f"({shown}): labels must be of one kind in all {what}s"
        )
    return tuple(sorted({word for words in known for word in words}))


def build_rows(arrays: dict[str, Array], columns: int) -> Any:
    """Make X of the arrays that carry it: X itself, or what a CSR array is made of."""
    if "X" in arrays:
        return arrays["X"]
    from scipy.sparse import csr_array

    parts = arrays["data"], arrays["indices"], arrays["indptr"]
    return csr_array(parts, shape=(len(parts[2]) - 1, columns))


def read_dataset(dataset: Any, label: str | None = None) -> Data:
    """Read a Ray dataset, or what else has iter_batches: the column `label` is y, the others X."""
    batches = list(dataset.iter_batches(batch_format="numpy"))
    if not batches or not any(len(next(iter(batch.values()))) for batch in batches):
        raise ValueError("the dataset has no rows")
    names = list(batches[0])
    if label is None or label not in names:
        raise ValueError(
            f"label= must be the name of the column to predict, one of {check.short_repr(names)}, "
            f"got {check.short_repr(label)}"
        )
    columns = [name for name in names if name != label]
    X = np.concatenate([
        np.column_stack([np.asarray(batch[name], np.float64) for name in columns])
        for batch in batches
    ])  # fmt: skip
    y = np.concatenate([np.asarray(batch[label]) for batch in batches])
    words = None
    if y.dtype.kind not in check.NUMBERS + "b":
        words, y = np.unique(y.astype(str), return_inverse=True)
    data = Data(X, y.astype(np.float64))
    data.label, data.classes = label, None if words is None else tuple(words.tolist())
    if X.shape[1] == len(columns):
        data.names = tuple(columns)
    return data
