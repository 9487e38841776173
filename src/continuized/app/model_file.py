"""A fitted linear model in a file: npz, never pickled."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.support import files
from continuized.support import validation as check

LOSSES = ("logistic", "ridge")
FORMAT = 2  # 1 had no names


class ModelError(ValueError):
    """A file that is not a model, or a damaged one."""


class Model(NamedTuple):
    """w, and what it was fitted for.

    labels: those of slopes below and above 0 (logistic).  names: of the columns, if they had any.
    """

    w: Array
    loss: str
    l2: float
    labels: tuple[float, float] | None = None
    names: tuple[str, ...] | None = None

    def predict(self, X: Any) -> Array:
        """Predict X w, or the labels by its sign."""
        values = np.asarray(X @ self.w)
        if self.labels is None:
            return values
        return np.where(values > 0.0, self.labels[1], self.labels[0])

    def predict_probabilities(self, X: Any) -> Array:
        """Find the probability of the second label for each row."""
        from scipy.special import expit

        return np.asarray(expit(X @ self.w))


def save(path: Path, model: Model) -> Path:
    """Write a model, whole or not at all."""
    header = {"format": FORMAT, **model._asdict()}
    del header["w"]
    content = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with files.uninterrupted():
        np.savez(content, w=model.w, header=text)
    return files.write(path, content.getvalue())


def load(path: Path) -> Model:
    """Read a model; ModelError where the file is none."""
    try:
        content = io.BytesIO(files.read(path, files.memory() / 2))  # a pipe would be waited for
        with np.load(content, allow_pickle=False) as file:
            header = json.loads(bytes(file["header"]).decode())
            w = np.asarray(file["w"])
        check.array(w, "w", ndim=1, finite=True)
        if w.dtype.kind != "f":
            raise ValueError("not of floats")
        if header["format"] not in (1, FORMAT):
            raise ModelError(f"{path} is a model that another version wrote; fit it anew")
        loss = check.one_of(header["loss"], "loss", LOSSES)
        labels, names = header["labels"], header.get("names")
        if labels is not None:
            below, above = map(float, labels)
            labels = below, above
        if names is not None:
            names = tuple(map(str, names))
            check.shape(np.array(names), "names", w.shape)
        return Model(w, loss, float(header["l2"]), labels, names)
    except (FileNotFoundError, ModelError):
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path} is not a model that `continuized solve` wrote") from error
