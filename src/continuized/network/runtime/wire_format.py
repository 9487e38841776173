"""Messages as bytes: capped in length, checked against a schema, authenticated.

A frame is its length (4 bytes), then

    version, kind, plain, 0 (a byte each), sender, receiver (4 bytes each), seq (8),
    count (4), count numbers of 8 bytes (4 in learning), HMAC-SHA256 of all of it (32)

little-endian.  The key is drawn for each run, so that nothing but the run's own nodes can make a
frame.  What is not exactly such a frame is dropped and counted; nothing in it is looked at
before its code is found to be right.

Records go between a run and its workers, through pipes that only the two hold: a JSON header and
arrays, as bytes,

    length of the header, length of the arrays (4 and 8 bytes), the header, the arrays' bytes
"""

from __future__ import annotations

import hmac
import io
import json
import math
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.protocol.transitions import KINDS, WITH_VALUES, Message

VERSION = 1
KEY_BYTES = 32
_LENGTH = struct.Struct("<I")
_HEADER = struct.Struct("<BBBBIIQI")
_CODE = 32  # bytes of the HMAC
_LONGEST_FRAME = (1 << 32) - 1  # what the 4 bytes of a length can say


class Codec:
    """Encodes and decodes the frames of one run.

    `key` authenticates them; `dim` is how many numbers of type `dtype` a message with values has.
    `kinds` are the messages that there are, and `with_values` those with numbers.
    """

    def __init__(
        self,
        key: bytes,
        dim: int,
        dtype: str = "<f8",
        kinds: Collection[int] = KINDS,
        with_values: Collection[int] = WITH_VALUES,
    ) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, got {len(key)}")
        self._key = key
        self.dim = dim
        self._dtype = np.dtype(dtype)
        self._kinds, self._with_values = kinds, with_values
        self.longest = _HEADER.size + self._dtype.itemsize * dim + _CODE
        if self.longest > _LONGEST_FRAME:
            raise ValueError(
                f"{dim} numbers of {self._dtype.itemsize} bytes do not fit into one message, "
                f"which holds {_LONGEST_FRAME} bytes"
            )
        self.dropped = 0

    def without_values(self) -> Codec:
        """Return a codec of the same run for short frames alone, to be used with strangers."""
        none: frozenset[int] = frozenset()
        return Codec(self._key, 0, self._dtype.str, set(self._kinds) - set(self._with_values), none)

    def encode(self, message: Message) -> bytearray:
        """Make the frame of a message."""
        kind, sender, receiver, seq, plain, values = message
        count = 0 if values is None else len(values)
        size = _HEADER.size + self._dtype.itemsize * count
        frame = bytearray(_LENGTH.size + size + _CODE)  # filled in place: values may be many
        _LENGTH.pack_into(frame, 0, size + _CODE)
        _HEADER.pack_into(
            frame, _LENGTH.size, VERSION, kind, plain, 0, sender, receiver, seq, count
        )
        if values is not None:
            np.frombuffer(frame, self._dtype, count, _LENGTH.size + _HEADER.size)[:] = values
        body = memoryview(frame)[_LENGTH.size : -_CODE]
        frame[-_CODE:] = hmac.digest(self._key, body, "sha256")
        return frame

    def decode(self, frame: bytes | memoryview) -> Message | None:
        """Read the message of a frame without its length; None, and counted, if it is not one."""
        message = self._decode(frame)
        if message is None:
            self.dropped += 1
        return message

    def _decode(self, frame: bytes | memoryview) -> Message | None:
        if not _HEADER.size + _CODE <= len(frame) <= self.longest:
            return None
        body, code = frame[:-_CODE], frame[-_CODE:]
        if not hmac.compare_digest(hmac.digest(self._key, body, "sha256"), code):
            return None
        version, kind, plain, zero, sender, receiver, seq, count = _HEADER.unpack_from(body)
        if version != VERSION or kind not in self._kinds or plain > 1 or zero != 0:
            return None
        wanted = self.dim if kind in self._with_values else 0
        if count != wanted or len(body) != _HEADER.size + self._dtype.itemsize * wanted:
            return None
        if not wanted:
            return Message(kind, sender, receiver, seq, bool(plain))
        values = np.frombuffer(body, self._dtype, offset=_HEADER.size)
        values = values.astype(self._dtype.newbyteorder("="))  # a copy: the buffer goes on
        if not np.isfinite(values).all():
            return None
        return Message(kind, sender, receiver, seq, bool(plain), values)


class FrameReader:
    """Finds the frames in bytes as they come; `broken` once a length cannot be one of this run's.

    After a wrong length nothing tells where the next frame starts.  The connection is then of no
    use any more, and its owner should close it.
    """

    def __init__(self, codec: Codec) -> None:
        self.broken = False
        self.codec = codec  # may be replaced between two frames
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete with these bytes."""
        if self.broken:
            return
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > self.codec.longest:
                self.broken = True
                self.codec.dropped += 1
                self._buffer.clear()
                return
            end = start + _LENGTH.size + length
            if end > len(self._buffer):
                break
            with memoryview(self._buffer) as view:  # not copied: a frame may be long
                message = self._decode(view, start + _LENGTH.size, end)
            start = end
            if message is not None:
                yield message
        del self._buffer[:start]

    def _decode(self, view: memoryview, start: int, end: int) -> Message | None:
        with view[start:end] as frame:
            return self.codec.decode(frame)


_LENGTHS = struct.Struct("<IQ")
_ARRAYS = "arrays"  # the header's key for the arrays' names, types and shapes
_LONGEST_HEADER, _LONGEST = 1 << 32, 1 << 44

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
