"""Messages between workers as bytes: capped in length, checked against a schema, authenticated.

A frame is its length (4 bytes), then

    version, kind, plain, 0 (a byte each), sender, receiver (4 bytes each), seq (8),
    count (4), count numbers of 8 bytes (4 in learning), HMAC-SHA256 of all of it (32)

little-endian.  The key is drawn for each run, so that nothing but the run's own nodes can make a
frame.  What is not exactly such a frame is dropped and counted; nothing in it is looked at
before its code is found to be right.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Collection, Iterator

import numpy as np

from continuized.network.protocol.transitions import MESSAGE_KINDS, WITH_VALUES, Message

HOST = "127.0.0.1"
MOST_BUFFERED = 1 << 20  # bytes for one worker: above, frames are dropped, as if lost
RECONNECT = 0.2  # seconds
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
        kinds: Collection[int] = MESSAGE_KINDS,
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
