"""What run it is: a few words for each part, by which a checkpoint is recognised."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST = 300


def fingerprint(value: Any) -> str:
    """A description that is the same in every process; of large arrays, a checksum.

    >>> fingerprint(np.zeros(2)), fingerprint([1, None, "two"])
    ('float64 (2,) 374708fff7719dd5', "[1, None, 'two']")
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {digest[:16]}"
    if hasattr(value, "entropy"):  # a seed sequence
        return fingerprint([value.entropy, value.spawn_key])
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(fingerprint, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{name} = {fingerprint(its)}" for name, its in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return f"{type(value).__qualname__}({fingerprint(fields)})"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def fingerprint_parts(**parts: Any) -> dict[str, str]:
    """Each part of a run in words; long ones are cut, and told apart by a checksum."""
    return {name: _shorten(fingerprint(value)) for name, value in parts.items()}


def probe(like: NDArray[Any]) -> NDArray[Any]:
    """A vector with no symmetry, to ask a problem, a metric or a prox who they are."""
    return np.asarray(np.cos(np.arange(like.size)).astype(like.dtype).reshape(like.shape))


def _shorten(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:60]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"
