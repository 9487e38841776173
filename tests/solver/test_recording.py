"""Rows that are kept of a run."""

from __future__ import annotations

import numpy as np
import pytest

from continuized.solver.recording import Recorder


@pytest.mark.parametrize("most", [1, 4, 5])
def test_where_there_are_too_many_every_second_row_is_dropped(most: int) -> None:
    recorder = Recorder(("k", "fun"), most)
    expected: list[int] = []
    for k in range(40):
        recorder.add((k, 0.5 * k))
        expected.append(k)
        if len(expected) > most:
            expected = expected[::2]
        assert recorder["k"].tolist() == expected
        assert recorder.length == len(expected) <= most
    assert recorder["fun"].tolist() == [0.5 * k for k in expected]
    assert expected[0] == 0


def test_a_block_of_rows_may_be_halved_more_than_once() -> None:
    recorder = Recorder(("k",), 4)
    recorder.add((np.arange(17),))
    assert recorder["k"].tolist() == [0, 8, 16]
    assert recorder.length == 3
