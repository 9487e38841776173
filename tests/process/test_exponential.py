"""Gaps that compiled code draws are those of NumPy's generators, to the bit."""

from __future__ import annotations

import copy
import ctypes
import os
import sys
import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.process import clock as clocks
from continuized.process import exponential
from continuized.process.random_streams import TIMES, child, generator, seed_words
from continuized.support import threads
from continuized.support.jit import HAS_NUMBA
from tests.invariants.registry import same_bits

ENOUGH = 400_000 if HAS_NUMBA else 2_000  # of which 1.1 % are not below the density for sure


class CountingGenerator:
    """A bit generator for NumPy that gives the word `next` each time, and counts what is drawn."""

    lock = threading.Lock()

    def __init__(self) -> None:
        word = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
        short = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
        real = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)

        class Interface(ctypes.Structure):
            _fields_ = (
                ("state", ctypes.c_void_p),
                ("next_uint64", word),
                ("next_uint32", short),
                ("next_double", real),
                ("next_raw", word),
            )

        self.next, self.count = 0, 0
        draw = word(lambda _: self._draw())
        # A double is always 0: then the second test accepts every place.
        self._kept = Interface(None, draw, short(lambda _: 0), real(lambda _: self._count()), draw)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = (
            ctypes.py_object,
            [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        )
        self.capsule = make(ctypes.addressof(self._kept), b"BitGenerator", None)

    def _count(self) -> float:
        self.count += 1
        return 0.0

    def _draw(self) -> int:
        self.count += 1
        return self.next


def test_the_tables_are_those_of_numpy() -> None:
    """Every width to the bit; every place that is taken at once, and the next one, which is not."""
    words = CountingGenerator()
    rng = np.random.Generator(words)  # type: ignore[arg-type]

    def draw(box: int, place: int) -> tuple[float, int]:
        words.next, words.count = (place << 8 | box) << 3, 0
        return float(rng.standard_exponential()), words.count

    widths, places, heights = exponential.tables()
    for box in range(256):
        sure = int(places[box])
        if box:  # the base's own is drawn from the tail
            assert draw(box, 2**20)[0] == 2**20 * widths[box]
        if sure:
            assert draw(box, sure - 1) == ((sure - 1) * widths[box], 1)
        assert draw(box, sure)[1] == 2
    assert draw(0, 2**53 - 1)[0] == exponential.TAIL  # - log(1 - 0)
    ends = np.array([0.0, *widths[1:] * 2.0**53])
    np.testing.assert_allclose(heights, np.exp(-ends), rtol=4e-15)
    # Every box has the area of the base.
    np.testing.assert_allclose(
        ends[1:] * -np.diff(heights), widths[0] * 2.0**53 * heights[-1], rtol=1e-12
    )


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_gaps_and_times_are_those_of_numpy(rate: float) -> None:
    """In blocks of all sizes, with the state that they leave behind."""
    ours, theirs = (np.random.Generator(np.random.PCG64(5)) for _ in range(2))
    t0, drawer = 0.25, exponential.BlockDrawer()
    for n in (0, 1, 2, 7, ENOUGH):
        dt, t = drawer.draw(ours, rate, t0, n)
        gaps = theirs.standard_exponential(n) / rate
        assert same_bits(dt, gaps)
        assert same_bits(t, np.cumsum(np.concatenate(([t0], gaps)))[1:])
        assert ours.bit_generator.state == theirs.bit_generator.state
        t0 = float(t[-1]) if n else t0


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "count", lambda: 2)


class BusyPool:
    """A pool that begins nothing."""

    def submit(self, work: Any) -> Future[Any]:
        return Future()


of_compiled_code = pytest.mark.skipif(not HAS_NUMBA, reason="without Numba, NumPy draws all gaps")


@of_compiled_code
@pytest.mark.parametrize(
    "change",
    [
        "nothing",
        "another length",
        "another rate",
        "another time",
        "another state",
        "a fork",
        "late",
    ],
)
def test_what_is_drawn_ahead_is_used_where_it_is_what_is_asked_for(
    change: str, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens in between, the gaps are those of the generator."""
    ours, theirs = (np.random.Generator(np.random.PCG64(8)) for _ in range(2))
    n, drawer, rate, done = exponential.LONG_BLOCK, exponential.BlockDrawer(), 1.0, []
    own = exponential.BlockRequest.draw

    def do(self: Any) -> Any:
        done.append(threading.current_thread())
        return own(self)

    monkeypatch.setattr(exponential.BlockRequest, "draw", do)
    _, t = drawer.draw(ours, rate, 0.0, n)
    t0 = float(t[-1])
    theirs.standard_exponential(n)
    if change == "late":  # all threads are busy
        monkeypatch.setattr(threads, "_pool", lambda *_: BusyPool())
    drawer.draw_ahead(n)
    before = ours.bit_generator.state
    if change != "late":
        drawer._ahead._begun[-1].result()
    assert ours.bit_generator.state == before == theirs.bit_generator.state
    if change == "another length":
        n += 1
    elif change == "another rate":
        rate = 0.5
    elif change == "another time":
        t0 += 1.0
    elif change == "another state":
        assert ours.random() == theirs.random()
    elif change == "a fork":
        monkeypatch.setattr(os, "getpid", lambda: -1)
    dt, t = drawer.draw(ours, rate, t0, n)
    gaps = theirs.standard_exponential(n) / rate
    assert same_bits(dt, gaps)
    assert same_bits(t, np.cumsum(np.concatenate(([t0], gaps)))[1:])
    assert ours.bit_generator.state == theirs.bit_generator.state
    here = done.count(threading.current_thread())
    assert (here, len(done) - here) == {"nothing": (1, 1), "late": (2, 0)}.get(change, (2, 1))


@of_compiled_code
def test_nothing_is_drawn_ahead_without_a_thread_or_for_a_few_gaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawer, n = exponential.BlockDrawer(), exponential.LONG_BLOCK
    monkeypatch.setattr(threads, "_pool", pytest.fail)
    monkeypatch.setattr(threads, "count", lambda: 2)
    drawer.draw_ahead(n)  # before anything was drawn
    drawer.draw(np.random.Generator(np.random.PCG64(8)), 1.0, 0.0, n)
    drawer.draw_ahead(n - 1)
    monkeypatch.setattr(threads, "count", lambda: 1)
    drawer.draw_ahead(n)


@of_compiled_code
def test_a_stream_can_be_copied_while_another_thread_draws(two_threads: None) -> None:
    stream = cz.clock.Poisson(7).stream()
    n = max(clocks.LONG_RUN, exponential.LONG_BLOCK)
    stream.draw(n)
    stream.draw_ahead(n)
    again = copy.deepcopy(stream)
    assert same_bits(again.draw(n).t, stream.draw(n).t)


@of_compiled_code
def test_a_run_draws_ahead_and_keeps_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    p, x0 = cz.problems.Quadratic([1e-6, 1.0], [1.0, -1.0]), np.zeros(2)
    begun: list[Any] = []
    asked: list[Any] = []
    begin, take = threads.Ahead.begin, threads.Ahead.take

    def note_begun(self: Any, question: Any, work: Any) -> None:
        begin(self, question, work)
        if self._begun is not None:
            begun.append(question)

    def note_asked(self: Any, question: Any) -> Any:
        if self._begun is not None:
            asked.append(question)
        return take(self, question)

    monkeypatch.setattr(threads.Ahead, "begin", note_begun)
    monkeypatch.setattr(threads.Ahead, "take", note_asked)
    results = []
    for number in (1, 2):
        monkeypatch.setattr(threads, "count", lambda number=number: number)
        r = cz.minimize(p, x0, maxiter=250_000, rng=3, record=False)
        results.append((r.x.tobytes(), r.trace.t.tolist(), r.nit))
    assert results[0] == results[1]
    # All that was begun is asked for: never the wrong number, and nothing beyond the end.
    assert len(begun) == 3
    assert begun == asked


@pytest.mark.parametrize("root", [np.random.SeedSequence(0), np.random.SeedSequence(2**100 + 7)])
def test_the_streams_of_many_runs_are_those_of_each(root: np.random.SeedSequence) -> None:
    numbers, n = range(3, 10), 50
    states, t0 = exponential.seed_states(seed_words(root, numbers, TIMES)), np.arange(7.0)
    dt, t = exponential.draw_rows(states, 1.0, t0, n)
    for r, number in enumerate(numbers):
        gaps = generator(child(root, number), TIMES).standard_exponential(n)
        assert same_bits(dt[r], gaps)
        assert same_bits(t[r], np.cumsum(np.concatenate((t0[r : r + 1], gaps)))[1:])


@pytest.mark.parametrize("rate", [1.0, 3.0])
def test_a_clock_gives_the_same_events_with_and_without_compiled_code(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks on both sides of the sizes from which it is used; and its marks are its own."""
    clock = cz.clock.Poisson(7, rate, marks=cz.marks.Categorical([0.25, 0.75]))
    sizes = (3, clocks.LONG_RUN, 3, clocks.COMPILED_BLOCK, clocks.COMPILED_BLOCK - 1, 5000)
    drawn = []
    own = exponential.BlockDrawer.draw
    monkeypatch.setattr(exponential.BlockDrawer, "draw", note_calls(own, drawn))
    streams = clock.stream(), clock.stream()
    for n in sizes:
        monkeypatch.setitem(sys.modules, clocks.EXPONENTIAL, exponential)
        ours = streams[0].draw(n)
        monkeypatch.delitem(sys.modules, clocks.EXPONENTIAL)
        theirs = streams[1].draw(n)
        for got, wanted in zip(ours[2:], theirs[2:], strict=True):
            assert same_bits(got, wanted)
    assert streams[0].t == streams[1].t
    assert drawn == ([clocks.LONG_RUN, clocks.COMPILED_BLOCK, 5000] if HAS_NUMBA else [])


def note_calls(function: Any, noted: list[int]) -> Any:
    """The same function; the last argument of every call is noted."""

    def call(*arguments: Any) -> Any:
        noted.append(arguments[-1])
        return function(*arguments)

    return call


def test_gaps_that_were_put_in_the_place_of_a_clocks_own_are_used() -> None:
    streams = [cz.clock.Poisson(3).stream() for _ in range(2)]
    for stream in streams:
        own = stream.gaps
        stream.gaps = lambda n, own=own: np.minimum(own(n), 1.0)
    whole = streams[0].draw(6000)
    parts = [streams[1].draw(100) for _ in range(60)]
    assert same_bits(whole.t, np.concatenate([part.t for part in parts]))
    assert whole.dt.max() == 1.0


@pytest.mark.parametrize("rate", [1.0, 3.0])
def test_a_copy_of_a_stream_has_a_generator_of_its_own(rate: float) -> None:
    stream = cz.clock.Poisson(3, rate).stream()
    stream.draw(10)
    copies = [copy.deepcopy(stream) for _ in range(2)]
    ends = [[each.draw(10).dt, each.draw(5000).dt] for each in (*copies, stream)]
    for end in ends[1:]:
        assert all(same_bits(*pair) for pair in zip(end, ends[0], strict=True))


def test_high_words_are_those_of_products() -> None:
    """On whole arrays, as for the seeds of many runs; compiled code has an instruction."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2**64, 1000, np.uint64, endpoint=False) for _ in range(2))
    a[:2], b[:2] = 2**64 - 1, (2**64 - 1, 2**32)
    exact = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    assert exponential.high_word(a, b).tolist() == exact
