"""Records between a run and its processes: a JSON header and arrays, as bytes.

    length of the header, length of the arrays (4 and 8 bytes), the header, the arrays' bytes

These go through pipes that only the two processes hold.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_LENGTHS = struct.Struct("<IQ")
_ARRAYS = "arrays"  # the header's key for the arrays' names, types and shapes
_LONGEST = 1 << 32

Record = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """The bytes of a record.

    >>> unpack(pack({"t": 1.5}, {"x": np.arange(2.0)}))
    ({'t': 1.5}, {'x': array([0., 1.])})
    """
    kept = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    for name, array in kept.items():
        if array.dtype.hasobject:
            raise TypeError(f"the array {name!r} must hold numbers, got dtype {array.dtype}")
    shapes = [
        [name, array.dtype.descr if array.dtype.names else array.dtype.str, list(array.shape)]
        for name, array in kept.items()
    ]
    head = json.dumps({**header, _ARRAYS: shapes}).encode()
    body = b"".join(array.tobytes() for array in kept.values())
    return _LENGTHS.pack(len(head), len(body)) + head + body


def unpack(data: bytes) -> Record:
    """The record of its bytes."""
    head, body = _LENGTHS.unpack_from(data)
    start = _LENGTHS.size
    return _record(data[start : start + head], data[start + head : start + head + body])


def read(stream: IO[bytes]) -> Record | None:
    """The next record of a pipe; None at its end."""
    lengths = _read(stream, _LENGTHS.size)
    if lengths is None:
        return None
    head, body = _LENGTHS.unpack(lengths)
    if head + body > _LONGEST:
        raise ValueError(f"a record of {head + body} bytes: the pipe carries something else")
    first, second = _read(stream, head), _read(stream, body)
    return None if first is None or second is None else _record(first, second)


def _read(stream: IO[bytes], count: int) -> bytes | None:
    data = stream.read(count)
    return data if len(data) == count else None


def _record(head: bytes, body: bytes) -> Record:
    header = json.loads(head)
    arrays, start = {}, 0
    for name, kind, shape in header.pop(_ARRAYS):
        named = isinstance(kind, str)
        dtype = np.dtype(kind if named else [(field, code) for field, code in kind])
        if dtype.hasobject:
            raise TypeError(f"the array {name!r} must hold numbers, got dtype {dtype}")
        count = math.prod(shape)
        arrays[name] = np.frombuffer(body, dtype, count, start).reshape(shape).copy()
        start += count * dtype.itemsize
    return header, arrays
