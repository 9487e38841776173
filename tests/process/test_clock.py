"""Clocks: the same seed gives the same events, however they are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import continuized as cz
from continuized import clock as clocks
from continuized.process.random_streams import MARKS, generator, seed_sequence
from tests.invariants.registry import same_bits

ALPHA = 1e-8  # of each statistical test here; seeds are fixed, so that they pass or fail for good


def drawn(clock: clocks.Clock, sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    stream = clock.stream()
    blocks = [stream.draw(n) for n in sizes]
    return np.concatenate([b.t for b in blocks]), np.concatenate([b.dt for b in blocks])


def test_golden_values() -> None:
    events = clocks.Poisson(0).stream().draw(1000)
    assert [float(t).hex() for t in events.t[[0, 1, 2, 999]]] == [
        "0x1.a5925192ff674p+1",
        "0x1.03a04b183af64p+2",
        "0x1.53c71386c8f62p+2",
        "0x1.e5f61a05c5530p+9",
    ]
    marks = generator(seed_sequence(0), MARKS).standard_normal(2)
    assert [float(m).hex() for m in marks] == ["0x1.9c34aff467089p-1", "-0x1.e97cb67f22f58p+0"]


@pytest.mark.parametrize("clock", [clocks.Poisson(3), clocks.Unit(), clocks.Recorded([0.5, 2, 7])])
def test_blocks_do_not_matter(clock: clocks.Clock) -> None:
    n = 3 if isinstance(clock, clocks.Recorded) else 3000
    whole = drawn(clock, [n])
    for sizes in ([1] * n, [n // 3] * 3, [0, 1, n - 1, 0], [n, 0]):
        for got, wanted in zip(drawn(clock, sizes), whole, strict=True):
            assert same_bits(got, wanted)


def test_events_carry_the_drawn_gap() -> None:
    stream = clocks.Poisson(1).stream()
    blocks = [stream.draw(5), stream.draw(4)]
    events = [event for block in blocks for event in block.each()]
    assert [e.k for e in events] == list(range(1, 10))
    t = 0.0
    for event in events:
        assert isinstance(event.t, float)
        assert event.t == t + event.dt
        t = event.t
    assert (blocks[1].k0, blocks[1].t0) == (5, blocks[0].t[-1])


def test_a_clock_starts_again_from_the_beginning() -> None:
    for seed in (7, None, np.random.default_rng(2)):
        clock = clocks.Poisson(seed)
        assert same_bits(clock.stream().draw(9).t, clock.stream().draw(9).t)


def test_seeds_of_all_kinds() -> None:
    wanted = clocks.Poisson(5).stream().draw(20).t
    for seed in (np.int64(5), np.uint8(5), np.random.SeedSequence(5)):
        assert same_bits(clocks.Poisson(seed).stream().draw(20).t, wanted)
    for other in (6, 0, 2**200, None, np.random.SeedSequence(5, spawn_key=(1,))):
        assert clocks.Poisson(other).stream().draw(20).t[0] != wanted[0]
    assert clocks.Poisson(None).stream().draw(1).t != clocks.Poisson(None).stream().draw(1).t


def test_a_seed_sequence_is_left_as_it_was() -> None:
    root = np.random.SeedSequence(5)
    clocks.Poisson(root).stream().draw(3)
    assert root.n_children_spawned == 0


def test_a_generator_gives_its_own_and_moves_on() -> None:
    rng = np.random.default_rng(4)
    first, second = (clocks.Poisson(rng).stream().draw(3).t for _ in range(2))
    assert first[0] != second[0]
    again = clocks.Poisson(np.random.default_rng(4)).stream().draw(3).t
    assert same_bits(first, again)


def test_the_global_random_state_plays_no_part() -> None:
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    clocks.Poisson(None).stream().draw(10)
    assert same_bits(np.random.get_state()[1], before)  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize("seed", ["five", 1.0, True, [1, 2], np.random.RandomState(0)])
def test_seeds_that_are_none(seed: object) -> None:
    with pytest.raises(TypeError, match=r"rng must be .*, got "):
        clocks.Poisson(seed)  # type: ignore[arg-type]


def test_a_negative_seed() -> None:
    with pytest.raises(ValueError, match=r"rng must be .*, got -1"):
        clocks.Poisson(-1)


def test_unit_counts() -> None:
    t, dt = drawn(clocks.Unit(), [3, 4])
    assert same_bits(t, np.arange(1.0, 8.0))
    assert same_bits(dt, np.ones(7))


def test_a_recorded_clock_replays_to_the_last_bit() -> None:
    t, dt = drawn(clocks.Poisson(8), [5000])
    for got, wanted in zip(drawn(clocks.Recorded(t, dt), [1000] * 6), (t, dt), strict=True):
        assert same_bits(got, wanted)
    # Without the gaps, they are differences: right up to the rounding of the times.
    times, gaps = drawn(clocks.Recorded(t), [5000])
    assert same_bits(times, t)
    assert np.max(np.abs(gaps - dt)) <= math.ulp(t[-1])


def test_a_recorded_clock_ends() -> None:
    stream = clocks.Recorded([1.0, 2.5, 4.0]).stream()
    assert [stream.draw(2).size, stream.draw(2).size, stream.draw(2).size] == [2, 1, 0]
    assert len(clocks.Recorded([])) == 0
    assert clocks.Recorded([]).stream().draw(5).size == 0


def test_a_recorded_clock_is_a_copy() -> None:
    times = np.array([1.0, 2.0])
    clock = clocks.Recorded(times)
    times[0] = 9.0
    assert clock.stream().draw(1).t[0] == 1.0


def test_times_do_not_depend_on_marks() -> None:
    p = cz.problems.paper_strongly_convex()
    runs = [
        cz.minimize(p, np.zeros(3), maxiter=50, rng=1, noise=noise)
        for noise in (None, cz.noise.Gaussian(1e-4), cz.noise.Gaussian(1.0))
    ]
    assert same_bits(runs[0].trace.t, runs[1].trace.t)
    assert same_bits(runs[0].trace.t, runs[2].trace.t)


def dkw(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether a sample may be of this law: P(rejected | it is) <= ALPHA, by the
    Dvoretzky-Kiefer-Wolfowitz inequality."""
    x = np.sort(sample)
    n = len(x)
    F = cdf(x)
    steps = np.arange(n + 1) / n
    distance = max(np.max(np.abs(F - steps[1:])), np.max(np.abs(F - steps[:-1])))
    return bool(distance <= math.sqrt(math.log(2.0 / ALPHA) / (2.0 * n)))


@pytest.mark.parametrize("k", [1, 10])
def test_the_kth_time_is_of_the_gamma_law(k: int) -> None:
    n = 20_000
    T_k = clocks.Poisson(123).stream().draw(n * k).dt.reshape(n, k).sum(axis=1)
    assert dkw(T_k, stats.gamma(k).cdf)
    # Planted: a clock of rate 1.1, and gaps of the right mean but the wrong law.
    assert not dkw(T_k / 1.1, stats.gamma(k).cdf)
    uniform = np.random.default_rng(0).uniform(0.0, 2.0, (n, k)).sum(axis=1)
    assert not dkw(uniform, stats.gamma(k).cdf)


def test_gaps_and_seeds_are_independent() -> None:
    # Consecutive gaps, and the same gap of neighbouring seeds: the correlation of n pairs of
    # independent Exp(1) is normal of variance 1/n, to good accuracy at n = 40,000.
    n = 40_000
    first, second = (clocks.Poisson(s).stream().draw(n + 1).dt for s in (0, 1))
    limit = stats.norm.isf(ALPHA / 2) / math.sqrt(n)
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < limit
    assert abs(np.corrcoef(first, second)[0, 1]) < limit
    assert np.corrcoef(first, first + 10.0 * second)[0, 1] > limit  # it can be exceeded


def test_marks_that_cannot_be_merged_or_recorded_are_refused() -> None:
    fractions = cz.clock.Recorded([1.0, 2.0], marks=[0.5, 0.7])
    with pytest.raises(ValueError, match="integers"):
        cz.clock.Merged([fractions]).stream()
    with pytest.raises(TypeError, match="sequence"):
        cz.clock.Recorded([1.0], marks=3)


def test_a_rate_may_be_a_fraction_but_not_so_extreme_that_times_overflow():
    half, same = clocks.Poisson(0, rate=Fraction(1, 2)), clocks.Poisson(0, rate=0.5)
    assert np.array_equal(half.stream().draw(9).t, same.stream().draw(9).t)
    assert type(half.rate) is float
    for rate in (5e-324, 1e-300, 1e300):
        with pytest.raises(ValueError, match=r"^rate must be .*; count time in another unit$"):
            clocks.Poisson(0, rate=rate)


@pytest.mark.parametrize("law", [None, 3, "p", [0.5, 0.5]])
def test_batches_of_no_law_are_refused_when_made(law):
    with pytest.raises(TypeError, match=r"^law must be a law such as cz.marks.Categorical"):
        cz.marks.Batches(law, 2)


@pytest.mark.parametrize("wrong", [-1e-9, np.nan])
def test_a_gap_that_is_negative_is_refused(wrong: float) -> None:
    gaps = np.ones(20)
    gaps[13] = wrong
    with pytest.raises(ValueError, match="must draw gaps >= 0"):
        clocks.Stream(lambda n: gaps).draw(20)


def test_a_stream_of_the_users_own_need_only_draw() -> None:
    class Halves:
        def stream(self) -> Any:
            return self

        def draw(self, n: int) -> Any:
            return cz.clock.Unit().stream().draw(n)

    p = cz.problems.Quadratic([1.0, 2.0])
    r = cz.minimize(p, np.ones(2), clock=Halves(), L=2.0, mu=1.0, maxiter=4)
    assert r.nit == 4
