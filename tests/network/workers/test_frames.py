"""Frames: what was sent is what comes; anything else is dropped and counted."""

from __future__ import annotations

import hmac
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuized.network.protocol.transitions import (
    ACK,
    ANSWER,
    MESSAGE_KINDS,
    REQUEST,
    TRANSFER,
    WITH_VALUES,
    Message,
)
from continuized.network.workers.frames import Codec, FrameReader

KEY = bytes(range(32))
CODEC = Codec(KEY, 3)
ONE = Message(TRANSFER, 1, 2, 7, True, np.array([1.0, -2.5, 1e-300]))


def same(a: Message, b: Message) -> bool:
    if (a.values is None) != (b.values is None) or a[:5] != b[:5]:
        return False
    return a.values is None or a.values.tobytes() == b.values.tobytes()


def forged(*header: int, values: bytes = b"", key: bytes = KEY) -> bytes:
    """A frame with a right code, whatever it says."""
    body = struct.pack("<BBBBIIQI", *header) + values
    return body + hmac.digest(key, body, "sha256")


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(MESSAGE_KINDS)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.booleans(),
    st.lists(finite, min_size=3, max_size=3),
    st.lists(st.integers(1, 60), min_size=1, max_size=9),
)
def test_a_message_comes_as_it_was_sent_in_whatever_pieces(
    kind: int, node: int, seq: int, plain: bool, values: list[float], cuts: list[int]
) -> None:
    sent = Message(kind, node, 5, seq, plain, np.array(values) if kind in WITH_VALUES else None)
    data = CODEC.encode(sent) * 3
    stream, found, start = FrameReader(CODEC), [], 0
    for cut in [*cuts, len(data)]:
        found += stream.feed(data[start : start + cut])
        start += cut
    assert len(found) == 3
    assert all(same(message, sent) for message in found)


def test_ten_thousand_damaged_frames_are_dropped_and_counted() -> None:
    random = np.random.default_rng(0)
    codec = Codec(KEY, 3)
    whole = CODEC.encode(ONE)[4:]
    for k in range(10_000):
        frame = bytearray(whole)
        if k % 4 == 0:
            frame = bytearray(random.bytes(int(random.integers(0, 120))))
        elif k % 4 == 1:
            frame = frame[: int(random.integers(0, len(frame)))]
        elif k % 4 == 2:
            place = int(random.integers(0, len(frame)))
            frame[place] ^= 1 << int(random.integers(0, 8))
        else:
            frame += random.bytes(int(random.integers(1, 9)))
        assert codec.decode(bytes(frame)) is None
        assert codec.dropped == k + 1
    assert codec.decode(whole) is not None


VALUES = np.arange(3.0).tobytes()
WRONG = {
    "another version": forged(2, TRANSFER, 0, 0, 1, 2, 7, 3, values=VALUES),
    "an unknown kind": forged(1, 99, 0, 0, 1, 2, 7, 3, values=VALUES),
    "a flag that is none": forged(1, TRANSFER, 2, 0, 1, 2, 7, 3, values=VALUES),
    "a byte that must be 0": forged(1, TRANSFER, 0, 1, 1, 2, 7, 3, values=VALUES),
    "a count that lies": forged(1, TRANSFER, 0, 0, 1, 2, 7, 2, values=VALUES),
    "too few values": forged(1, TRANSFER, 0, 0, 1, 2, 7, 2, values=VALUES[:16]),
    "values where none belong": forged(1, ACK, 0, 0, 1, 2, 7, 3, values=VALUES),
    "an answer without values": forged(1, ANSWER, 0, 0, 1, 2, 7, 0),
    "not a number": forged(1, ANSWER, 0, 0, 1, 2, 7, 3, values=np.full(3, np.nan).tobytes()),
    "infinity": forged(1, ANSWER, 0, 0, 1, 2, 7, 3, values=np.full(3, np.inf).tobytes()),
    "another run's key": forged(1, REQUEST, 0, 0, 1, 2, 7, 0, key=bytes(32)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_frame_must_fit_the_schema_even_with_a_right_code(what: str) -> None:
    codec = Codec(KEY, 3)
    assert codec.decode(WRONG[what]) is None
    assert codec.dropped == 1


def test_a_length_above_the_cap_ends_the_stream() -> None:
    codec = Codec(KEY, 3)
    stream = FrameReader(codec)
    assert list(stream.feed(struct.pack("<I", codec.longest + 1) + b"x" * 50)) == []
    assert stream.broken
    assert codec.dropped == 1
    assert list(stream.feed(codec.encode(ONE))) == []


def test_a_bad_frame_does_not_spoil_the_next() -> None:
    codec = Codec(KEY, 3)
    bad = bytearray(codec.encode(ONE))
    bad[10] ^= 1
    found = list(FrameReader(codec).feed(bytes(bad) + codec.encode(ONE)))
    assert len(found) == 1
    assert codec.dropped == 1


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Codec(b"short", 1)
