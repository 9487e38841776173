"""What changes in a run, as data: every object names it, and one walk saves and restores it.
And what run it is: a few words for each part, by which a checkpoint is recognised.

An object that is part of a run is `Checkpointed`, and lists the names of what events change:

    class Counter(Checkpointed):
        changing = ("k", "x", "rng", "clock")

These may be arrays, random generators, `GrowingRows`, what JSON can keep, tuples, lists and dicts
of all these, and further objects that are Checkpointed.  What is computed from them is computed
again in `after_restoring`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ARRAY = "array"  # the key under which plain data names the array that stands in its place
LONGEST = 300  # characters of a fingerprint


class GrowingRows:
    """Rows that only become more: single numbers, or arrays with a row for each entry.

    They are joined when they are read or written, not before.

    >>> rows = GrowingRows()
    >>> rows.append(1.0)
    >>> rows.append(np.array([2.0, 3.0]))
    >>> rows.join().tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, parts: list[Any] | None = None, n: int | None = None) -> None:
        self.parts: list[Any] = [] if parts is None else parts
        self._n = n  # how many of the parts count; all where it is None

    def append(self, part: Any) -> None:
        self.parts.append(part)

    def so_far(self) -> GrowingRows:
        """Return the rows of now, which later ones leave as they are."""
        return GrowingRows(self.parts, len(self.parts))

    def join(self) -> Array:
        """Join all rows to one array."""
        parts = self.parts[: self._n]
        single = [not isinstance(part, np.ndarray) or part.ndim == 0 for part in parts]
        if all(single):
            return np.array(parts)
        rows = zip(single, parts, strict=True)
        return np.concatenate([(part,) if alone else part for alone, part in rows])

    def replace(self, rows: Array) -> None:
        """Put other rows in place of all so far; a list of its own, for `so_far` keeps the old
        one."""
        self.parts = [rows]


class SavedState(NamedTuple):
    """The state of a run: what JSON can keep, and arrays by name."""

    plain: dict[str, Any]
    arrays: dict[str, Any]


class Checkpointed:
    """An object that names what changes in it as a run goes on.

    >>> class Walk(Checkpointed):
    ...     changing = ("k", "x")
    ...     def __init__(self):
    ...         self.k, self.x = 0, np.zeros(2)
    >>> walk, other = Walk(), Walk()
    >>> walk.k, walk.x[1] = 3, 5.0
    >>> state = capture(walk)
    >>> other.restore(*state)
    >>> other.k, other.x.tolist()
    (3, [0.0, 5.0])
    """

    changing: tuple[str, ...] = ()

    def restore(self, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Put back what `capture` gave.  Arrays are written in place: their shape, dtype and layout
        in memory, which kernels rely on, stay.  ValueError where they are others."""
        for name in self.changing:
            now = getattr(self, name)
            value = _load(now, plain[name], arrays)
            if isinstance(now, np.ndarray):
                now[...] = value
            else:
                setattr(self, name, value)
        self.after_restoring()

    def after_restoring(self) -> None:
        """Compute again what depends on the values that were put back."""


def capture(run: Checkpointed) -> SavedState:
    """The state of a run now: copies of arrays, and `GrowingRows` as they are so far."""
    arrays: dict[str, Any] = {}
    plain = {name: _save(getattr(run, name), name, arrays) for name in run.changing}
    return SavedState(plain, arrays)


def _save(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """What JSON can keep of a value; arrays go into `arrays`, by names that begin with `name`."""
    if isinstance(value, Checkpointed):
        value = {each: getattr(value, each) for each in value.changing}
    if isinstance(value, np.random.Generator):
        return _save(value.bit_generator.state, name, arrays)
    if isinstance(value, GrowingRows | np.ndarray):
        arrays[name] = value.so_far() if isinstance(value, GrowingRows) else value.copy("K")
        return {ARRAY: name}
    if isinstance(value, dict):
        return {key: _save(each, f"{name}.{key}", arrays) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_save(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def _load(now: Any, saved: Any, arrays: dict[str, Any]) -> Any:
    """What was saved, of the kind of what stands there now."""
    if isinstance(now, Checkpointed):
        now.restore(saved, arrays)
        return now
    if isinstance(now, GrowingRows):
        rows = arrays[saved[ARRAY]]
        if isinstance(rows, GrowingRows):  # of a state that was never written
            rows = rows.join()
        if rows.dtype.kind not in "fiu" or rows.ndim == 0:
            raise ValueError("rows are arrays of real numbers")
        now.replace(rows)
        return now
    if isinstance(now, np.random.Generator):
        now.bit_generator.state = _load(None, saved, arrays)
        return now
    if isinstance(now, np.ndarray):
        array = arrays[saved[ARRAY]]
        if (array.shape, array.dtype) != (now.shape, now.dtype):
            raise ValueError("an array is not that of such a run")
        return array
    if isinstance(now, bool | int | float | list | tuple | dict) and not _is_alike(now, saved):
        raise TypeError(f"a {type(now).__name__} was expected, not {saved!r}")
    if isinstance(saved, dict):
        if ARRAY in saved:
            return arrays[saved[ARRAY]]
        there = now if isinstance(now, dict) else {}
        return {key: _load(there.get(key), each, arrays) for key, each in saved.items()}
    if isinstance(saved, list):
        known = now if isinstance(now, list | tuple) and len(now) == len(saved) else saved
        items = [_load(one, each, arrays) for one, each in zip(known, saved, strict=True)]
        if isinstance(now, tuple):
            return type(now)(*items) if hasattr(now, "_fields") else tuple(items)
        return items
    return float(saved) if isinstance(now, float) else saved


def _is_alike(now: Any, saved: Any) -> bool:
    """Whether what was saved can take the place of what stands there now."""
    if isinstance(now, bool) or isinstance(saved, bool):
        return isinstance(now, bool) and isinstance(saved, bool)
    if isinstance(now, int):
        return isinstance(saved, int) and -(2**63) <= saved < 2**63  # compiled code takes no other
    if isinstance(now, dict):
        return isinstance(saved, dict) and (not now or now.keys() == saved.keys())
    return isinstance(saved, int | float if isinstance(now, float) else list)


def fingerprint(value: Any) -> str:
    """Return a description that is the same in every process; of large arrays, a checksum.

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
        return ", ".join(f"{name} = {fingerprint(each)}" for name, each in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return f"{type(value).__qualname__}({fingerprint(fields)})"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def fingerprint_parts(**parts: Any) -> dict[str, str]:
    """Describe each part of a run in words; long ones are cut, and told apart by a checksum."""
    return {name: _shorten(fingerprint(value)) for name, value in parts.items()}


def probe(like: Array) -> Array:
    """Make a vector with no symmetry, to ask a problem, a metric or a prox who they are."""
    return np.asarray(np.cos(np.arange(like.size)).astype(like.dtype).reshape(like.shape))


def _shorten(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:60]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"
