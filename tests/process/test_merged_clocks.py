"""Merged clocks: the events of all in the order of their times, however they are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import continuized as cz
from continuized.process.clock import Merged, Poisson, Recorded, Unit, _MergedStream
from continuized.process.marks import Categorical
from continuized.support.checkpoints.state import capture
from tests.invariants.registry import same_bits

SEEDS = st.integers(0, 2**32 - 1)
# Rates may differ by far: a quick clock is refilled often while the others wait.
LISTS = st.lists(
    st.one_of(
        st.builds(Poisson, SEEDS, st.sampled_from([0.01, 1.0, 300.0])),
        st.builds(Poisson, SEEDS, marks=st.just(Categorical([0.2, 0.8]))),
        st.just(Unit()),
        st.builds(Unit, SEEDS, marks=st.just(Categorical([0.5, 0.5]))),
        st.integers(0, 600).map(lambda n: Recorded(0.5 * np.arange(1, n + 1))),
    ),
    min_size=1,
    max_size=6,
)


def sorted_events(clocks: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n of all events, sorted by time; at the same time, by the clock's number."""
    t, whose, own = [], [], []
    for number, clock in enumerate(clocks):
        events = clock.stream().draw(n)
        t.append(events.t)
        whose.append(np.full(events.size, number))
        own.append(np.full(events.size, -1) if events.marks is None else events.marks)
    times, marks = np.concatenate(t), np.column_stack([np.concatenate(whose), np.concatenate(own)])
    first = np.lexsort((marks[:, 0], times))[:n]  # which leaves the order of one clock's as it is
    return times[first], marks[first]


@settings(max_examples=60, deadline=None)
@given(clocks=LISTS, cuts=st.lists(st.integers(0, 700), max_size=3))
def test_events_come_in_order_however_they_are_drawn(clocks: Any, cuts: list[int]) -> None:
    n = 1500
    t, marks = sorted_events(clocks, n)
    stream = Merged(clocks).stream()
    blocks = [stream.draw(cut) for cut in (*cuts, n)]
    got = np.concatenate([b.t for b in blocks])[:n]
    assert same_bits(got, t)
    assert same_bits(np.concatenate([b.dt for b in blocks])[:n], np.diff(t, prepend=0.0))
    assert np.array_equal(
        np.concatenate([b.marks for b in blocks if b.marks is not None])[:n], marks
    )


def test_a_thousand_clocks_of_unequal_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events ahead, for memory is bounded: every clock is refilled, and none gets lost."""
    rates = np.geomspace(1e-3, 10.0, 1000)
    clocks = [Poisson(seed, rate) for seed, rate in enumerate(rates)]
    whole = Merged(clocks).stream().draw(5000)
    assert same_bits(whole.t, sorted_events(clocks, 5000)[0])
    monkeypatch.setattr(_MergedStream, "ALTOGETHER", 3000)
    stream = Merged(clocks).stream()
    assert stream._ahead == 3  # type: ignore[attr-defined]
    few = stream.draw(5000)
    assert same_bits(few.t, whole.t)
    assert np.array_equal(few.marks, whole.marks)  # type: ignore[arg-type]


def test_a_stream_goes_on_from_its_state() -> None:
    clock = Merged([Poisson(i, 1.0 + i, Categorical([0.3, 0.7])) for i in range(7)])
    stream = clock.stream()
    stream.skip(1234)
    state = capture(stream)
    again = clock.stream()
    again.restore(*state)
    ahead, resumed = stream.draw(3000), again.draw(3000)
    assert same_bits(ahead.t, resumed.t)
    assert same_bits(ahead.dt, resumed.dt)
    assert np.array_equal(ahead.marks, resumed.marks)  # type: ignore[arg-type]


def test_clocks_that_tick_at_once_can_be_recorded() -> None:
    events = Merged([Unit(), Unit(), Recorded([2.0])]).stream().draw(5)
    assert events.t.tolist() == [1.0, 1.0, 2.0, 2.0, 2.0]
    assert events.marks is not None
    assert events.marks[:, 0].tolist() == [0, 1, 0, 1, 2]
    again = Recorded(events.t, events.dt, events.marks).stream().draw(9)
    assert same_bits(again.t, events.t)
    assert same_bits(again.dt, events.dt)
    with pytest.raises(ValueError, match=r"strictly increasing, but times\[1\] = 1.0 follows 1.0"):
        Recorded(events.t)


def test_a_gap_too_small_to_count_can_be_recorded() -> None:
    t, dt = [1e17, 1e17], [1e17, 0.25]
    assert Recorded(t, dt).stream().draw(2).dt.tolist() == dt


@pytest.mark.parametrize(
    ("times", "gaps", "words"),
    [
        ([2.0, 1.0], [2.0, -1.0], r"positive and increasing, but times\[1\] = 1.0 follows 2.0"),
        ([0.0, 0.0], [0.0, 0.0], r"positive and increasing, but times\[0\] = 0.0"),
        ([1.0, 1.0], [1.0, -1e-17], "differences"),
    ],
)
def test_gaps_allow_no_time_to_fall(times: list[float], gaps: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Recorded(times, gaps)


def test_clocks_from_a_generator_are_kept() -> None:
    merged = Merged(Poisson(i) for i in range(3))
    wanted = Merged([Poisson(i) for i in range(3)]).stream().draw(50)
    for _ in range(2):
        events = merged.stream().draw(50)
        assert same_bits(events.t, wanted.t)


@pytest.mark.parametrize(
    ("clocks", "error", "words"),
    [
        (5, TypeError, "clocks must be a sequence of clocks, got 5"),
        (Poisson(0), TypeError, "clocks must be a sequence of clocks, got Poisson"),
        ([Poisson(0), 5], TypeError, r"clocks\[1\] must be a clock such as .*, got 5"),
        ([Poisson], TypeError, r"clocks\[0\] must be a clock"),
        ([], ValueError, "one clock or more, got none"),
        (iter(()), ValueError, "one clock or more, got none"),
    ],
)
def test_what_cannot_be_merged(clocks: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Merged(clocks)


@pytest.mark.parametrize("kind", [Poisson, Unit])
@pytest.mark.parametrize("marks", [[0.5, 0.5], 3, Categorical])
def test_marks_must_be_a_law(kind: Any, marks: Any) -> None:
    with pytest.raises(
        TypeError, match=r"marks must be a law such as cz.marks.Categorical\(p\), got"
    ):
        kind(0, marks=marks)


def test_a_merged_clock_without_events_ends() -> None:
    r = cz.minimize(cz.problems.paper_convex(), np.zeros(100), clock=Merged([Recorded([])]))
    assert r.status is cz.Status.CLOCK_ENDED
