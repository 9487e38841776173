"""A result of any kind as named numbers and words."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

# What depends on the speed of the machine, is given and not found, or is said in sentences.
LEFT_OUT = {"events_per_s", "message", "method", "prox", "root"}


def flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(field, array or word) of everything in a result, whatever it is made of."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "passes") and hasattr(value, "k"):  # a Trace
        value = {key: getattr(value, key) for key in ("k", "t", "fun", "passes")}
    elif sparse.issparse(value):
        value = {key: getattr(value, key) for key in ("data", "indices", "indptr")}
    if isinstance(value, dict):  # a SciPy OptimizeResult too
        for key, item in value.items():
            if key not in LEFT_OUT and not str(key).startswith("_"):
                yield from flatten(f"{name}.{key}", item)
    elif isinstance(value, enum.Enum):
        yield name, value.name
    elif value is None or isinstance(value, str):
        if value is None or " " not in value:  # a sentence may be put better
            yield name, value
    elif isinstance(value, list | tuple) and not all(isinstance(v, int | float) for v in value):
        for i, item in enumerate(value):
            yield from flatten(f"{name}[{i}]", item)
    else:
        yield name, as_numpy(value)


def as_numpy(value: Any) -> np.ndarray:
    """An array of any library, or a number, as NumPy's; refuses objects."""
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
        value = np.from_dlpack(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"cannot compare {type(value).__name__}")
    return array
