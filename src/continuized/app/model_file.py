"""A fitted linear model in a file: npz, never pickled."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continuized.app.commands.options import LOSSES
from continuized.problems.base import Array
from continuized.support import files
from continuized.support import validation as check

FORMAT = 3  # 1 had no names; 2 had no intercept, no scaling and two classes at most
ARRAYS = ("w", "means", "centre", "scale")


class ModelError(ValueError):
    """A file that is not a model, or a damaged one."""


class Model(NamedTuple):
    """w, and what it was fitted for.

    w: for each column, and then for the intercept if there is one; with softmax, a column for each
    class.  classes: their names, numbers or text, in the order of w; logistic has two.
    names: of the columns, if they had any; label: of theirs.  penalty: its sentence for people.
    means: of the columns, for cells that are missing.  centre and scale: what was taken from the
    columns, and what they were divided by, before w was fitted.
    """

    w: Array
    loss: str
    classes: tuple[Any, ...] | None = None
    names: tuple[str, ...] | None = None
    label: str | None = None
    intercept: bool = False
    penalty: str = ""
    missing: str | None = None
    zero_based: bool = False
    means: Array | None = None
    centre: Array | None = None
    scale: Array | None = None

    @property
    def columns(self) -> int:
        """How many columns a row must have."""
        return len(self.w) - self.intercept

    def score(self, X: Any) -> Array:
        """Compute what the loss is given: <x, w> and the intercept, in the units of the data."""
        w, bias = self.w[: self.columns], self.w[self.columns :].sum(axis=0)
        if self.scale is not None:
            w = (w.T / self.scale).T
        if self.centre is not None:
            bias = bias - self.centre @ w
        return np.asarray(np.asarray(X @ w) + bias)

    def predict(self, X: Any) -> Array:
        """Predict numbers, or the places of the classes."""
        scores = self.score(X)
        if self.loss == "softmax":
            return np.asarray(scores.argmax(axis=1))
        if self.loss == "logistic":
            return np.asarray((scores > 0.0).astype(np.intp))
        return np.asarray(np.exp(scores)) if self.loss == "poisson" else scores

    def predict_probabilities(self, X: Any) -> Array:
        """Find the probability of each class, in a row for each row."""
        from scipy.special import expit, softmax

        scores = self.score(X)
        if self.loss == "softmax":
            return np.asarray(softmax(scores, axis=1))
        return np.column_stack([expit(-scores), expit(scores)])


def save(path: Path, model: Model) -> Path:
    """Write a model, whole or not at all."""
    fields = model._asdict()
    arrays = {name: fields.pop(name) for name in ARRAYS}
    content = io.BytesIO()
    text = np.frombuffer(json.dumps({"format": FORMAT, **fields}).encode(), np.uint8)
    kept = {name: array for name, array in arrays.items() if array is not None}
    with files.uninterrupted():
        np.savez(content, header=text, **kept)
    return files.write(path, content.getvalue())


def load(path: Path) -> Model:
    """Read a model; ModelError where the file is none."""
    try:
        content = io.BytesIO(files.read(path, files.memory() / 2))  # a pipe would be waited for
        with np.load(content, allow_pickle=False) as file:
            header = json.loads(bytes(file["header"]).decode())
            arrays = {name: np.asarray(file[name]) for name in ARRAYS if name in file}
        if "loss" not in header:  # a checkpoint has a format too
            raise ValueError("no loss")
        if header["format"] not in (1, 2, FORMAT):
            raise ModelError(f"{path} is a model that another version wrote; fit it anew")
        return _check_model(arrays, header)
    except (FileNotFoundError, ModelError):
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"{path} is not a model; give a file that `continuized solve --out` wrote"
        ) from error


def _check_model(arrays: dict[str, Array], header: dict[str, Any]) -> Model:
    """Make the model of what was read, once its parts are found to fit together."""
    loss, classes = check.one_of(header["loss"], "loss", LOSSES), header.get("classes")
    if header["format"] < 3:
        classes = header["labels"]
    w = check.array(arrays.pop("w"), "w", dtype=np.float64, finite=True)
    count = {"logistic": 2, "softmax": w.shape[-1]}.get(loss)
    if (w.ndim, count) not in ((1, None), (1, 2), (2, w.shape[-1])) or (
        (None if classes is None else len(classes)) != count
    ):
        raise ValueError("w and the classes do not fit together")
    names, intercept = header.get("names"), bool(header.get("intercept"))
    model = Model(
        w,
        loss,
        None if classes is None else tuple(classes),
        None if names is None else tuple(map(str, names)),
        header.get("label"),
        intercept,
        str(header.get("penalty", "")),
        header.get("missing"),
        bool(header.get("zero_based")),
    )
    for name, array in arrays.items():
        check.array(array, name, dtype=np.float64, finite=True)
        check.shape(array, name, (model.columns,))
    if model.names is not None:
        check.shape(np.array(model.names), "names", (model.columns,))
    more: Any = arrays
    return model._replace(**more)
