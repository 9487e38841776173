"""Records: what was packed is what comes, and nothing but numbers."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pytest

from continuized.network.workers import records


def test_records_carry_numbers_and_nothing_else() -> None:
    entries = np.array([(1, 2.5)], [("node", "<u4"), ("time", "<f8")])
    given = {"x": np.eye(2), "log": entries, "none": np.zeros((0, 3))}
    packed = records.pack({"t": 0.1}, given)
    header, arrays = records.read(io.BytesIO(packed))
    assert header == {"t": 0.1}
    np.testing.assert_array_equal(arrays["x"], np.eye(2))
    assert arrays["log"].dtype == entries.dtype
    assert arrays["none"].shape == (0, 3)
    assert records.read(io.BytesIO(packed[:-1])) is None
    with pytest.raises(TypeError, match="must hold numbers"):
        records.pack({}, {"x": np.array([object()])})
    with pytest.raises(TypeError, match="must hold numbers"):
        records.unpack(_with_type("|O"))


def _with_type(kind: str) -> bytes:
    head = json.dumps({"arrays": [["x", kind, [1]]]}).encode()
    return struct.pack("<IQ", len(head), 8) + head + bytes(8)
