"""Records: a header that JSON can say, and arrays, as bytes.

They go between a run and its workers, through pipes that only the two hold, or through calls of
Ray:

    length of the header, length of the arrays (4 and 8 bytes), the header, the arrays' bytes
"""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_LENGTHS = struct.Struct("<IQ")
_ARRAYS = "arrays"  # the header's key for the arrays' names, types and shapes
_LONGEST_HEADER, _LONGEST = 1 << 30, 1 << 44

Record = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """Write a record as bytes.

    >>> unpack(pack({"t": 1.5}, {"x": np.arange(2.0)}))
    ({'t': 1.5}, {'x': array([0., 1.])})
    """
    return b"".join(pack_parts(header, arrays))


def pack_parts(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
) -> list[bytes | memoryview]:
    """Write a record as parts, to be sent one after the other: large arrays are not copied."""
    kept = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    for name, array in kept.items():
        if array.dtype.hasobject:
            raise TypeError(f"the array {name!r} must hold numbers, got dtype {array.dtype}")
    shapes = [
        [name, array.dtype.descr if array.dtype.names else array.dtype.str, list(array.shape)]
        for name, array in kept.items()
    ]
    head = json.dumps({**header, _ARRAYS: shapes}).encode()
    body = [array.reshape(-1).view(np.uint8).data for array in kept.values() if array.nbytes]
    lengths = _LENGTHS.pack(len(head), sum(array.nbytes for array in kept.values()))
    return [lengths + head, *body]


def write(
    stream: IO[bytes], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
) -> None:
    """Write a record to a pipe."""
    for part in pack_parts(header, arrays):
        data = memoryview(part)
        while data:  # a pipe may take a part
            data = data[stream.write(data) :]
    stream.flush()


def unpack(data: bytes) -> Record:
    """Read a record from its bytes."""
    record = read(io.BytesIO(data))
    if record is None:
        raise ValueError(f"{len(data)} bytes are no whole record")
    return record


def read(stream: IO[bytes]) -> Record | None:
    """Read the next record of a pipe; return None at its end."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    start, body = _LENGTHS.unpack(lengths)
    if start > _LONGEST_HEADER or body > _LONGEST:
        raise ValueError(f"a record of {start + body} bytes: the pipe carries something else")
    head = stream.read(start)
    if len(head) < start:
        return None
    header, arrays = json.loads(head), {}
    for name, kind, shape in header.pop(_ARRAYS):
        named = isinstance(kind, str)
        dtype = np.dtype(kind if named else [(field, code) for field, code in kind])
        if dtype.hasobject:
            raise TypeError(f"the array {name!r} must hold numbers, got dtype {dtype}")
        body -= math.prod(shape) * dtype.itemsize
        if body < 0:
            raise ValueError("the arrays of a record have more bytes than it tells")
        array = np.empty(shape, dtype)  # read in place: an array may be large
        room = array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")
        while room:
            count = stream.readinto(room)  # type: ignore[attr-defined]
            if not count:
                return None
            room = room[count:]
        arrays[name] = array
    if body:
        raise ValueError(f"a record has {body} bytes beyond its arrays")
    return header, arrays
