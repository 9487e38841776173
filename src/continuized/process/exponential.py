"""Exponential gaps in compiled code: those of NumPy's generators, to the bit.

NumPy draws a gap in 4 ns, and lets go of the interpreter's lock at every call; here it takes 2.5,
with the time of its event, and many streams are drawn in one call.  `BlockDrawer` draws the next
block on another thread, with the same bits.  Where there is no Numba, and for a few gaps, NumPy
draws them.

A stream is a row of four words: the high and the low half of PCG64's state, and of its increment.
PCG64 (O'Neill 2014) is x <- m x + c modulo 2^128; its word is the xor of the halves, rotated by
the six highest bits.

A gap is drawn by the ziggurat of Marsaglia and Tsang (2000): 255 boxes and a base with the tail,
all of one area, cover the density exp(-x).  A word chooses one and a place in it, which in 98.9 %
of all cases lies below the density for sure.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuized.problems.base import Array
from continuized.support import threads
from continuized.support.jit import HAS_NUMBA as HAS_NUMBA  # which `clock` asks for here
from continuized.support.jit import (
    UNCOUNTED,
    choose_by_types,
    compile_formulas,
    compile_high_word,
    jit,
    matrix,
    types,
    vector,
)

Words = NDArray[np.uint64]

_WORD = 2**64
_M_HIGH, _M_LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)  # m of PCG64
_HALF, _LOW_HALF = np.uint64(32), np.uint64(2**32 - 1)
_ROTATION_SHIFT = np.uint64(58)  # leaves the six highest bits of a word
_BITS, _BITS_MASK, _TOP_BIT = np.uint64(64), np.uint64(63), np.uint64(63)
_ZERO, _ONE = np.uint64(0), np.uint64(1)

# Of the word of a gap, 3 bits are not used, 8 choose a box, and 53 a place in it.
_UNUSED, _BOX_BITS, _BOX_MASK = np.uint64(3), np.uint64(8), np.uint64(255)
# Of the word of a uniform number, 11 bits are not used.
_UNIFORM_SHIFT, _UNIT = np.uint64(11), 2.0**-53

# r, where the tail begins: with this r, 255 boxes of the area of the base reach exp(0) = 1 exactly.
TAIL_DIGITS = "7.6971174701310497140446280481"
TAIL = float(TAIL_DIGITS)
LONG_BLOCK = 2**15  # events, whose draw takes longer than a thread takes to begin
DIGITS = 28  # of the decimals from which the tables are rounded to the nearest doubles


@cache
def tables() -> tuple[Array, Words, Array]:
    """Make the tables of the ziggurat.  Entry 0 is the base, entries 1, ..., 255 the boxes from the
    top down, with right ends x_1 < ... < x_255 = r.

    widths: x_i times 2^-53; for the base, its area over exp(-r), times 2^-53.
    places: of the 2^53 places in a box, those less than this are below the density for sure; even
    numbers, as NumPy's are.
    heights: exp(-x_i); entry 0 is 1, the top of box 1.

    With v the area of each box, exp(-x_{i-1}) = exp(-x_i) + v / x_i.
    """
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = DIGITS
        r = Decimal(TAIL_DIGITS)
        ends, heights = [r], [(-r).exp()]
        area = (r + 1) * heights[0]
        for _ in range(254):
            heights.append(heights[-1] + area / ends[-1])
            ends.append(-heights[-1].ln())
        base = area / heights[0]  # as wide as a box of this area and the height of the tail
        widths = [base, *ends[::-1]]
        inner = [r, Decimal(0), *ends[:0:-1]]  # what of each width is below the density for sure
        places = [2 * int(2**52 * a / b) for a, b in zip(inner, widths, strict=True)]
        return (
            np.array([float(width / 2**53) for width in widths]),
            np.array(places, np.uint64),
            np.array([1.0, *map(float, heights[::-1])]),
        )


def high_word(a: Any, b: Any) -> Any:
    """The high word of the product of two words; compiled code has one instruction for it."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW_HALF, b >> _HALF, b & _LOW_HALF
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    rest = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _HALF) + (rest >> _HALF)


def advance(high: Any, low: Any, c_high: Any, c_low: Any) -> tuple[Any, Any]:
    """One step of PCG64, x <- m x + c modulo 2^128; on words, and on arrays of them."""
    after = low * _M_LOW + c_low
    carried = np.uint64(after < c_low)
    return high_word(low, _M_LOW) + low * _M_HIGH + c_high + carried + high * _M_LOW, after


def word_of(high: Any, low: Any) -> Any:
    """The word that PCG64 gives in this state."""
    word, turn = high ^ low, high >> _ROTATION_SHIFT
    return (word >> turn) | (word << ((_BITS - turn) & _BITS_MASK))


def uniform(word: Any) -> float:
    """The number in [0, 1) that NumPy makes of a word."""
    return np.int64(word >> _UNIFORM_SHIFT) * _UNIT


def entries(box: Any) -> tuple[float, Any, float]:
    """The entries of the tables for a box, or the base."""
    widths, places, heights = tables()
    return widths[box], places[box], heights[box]


def _choose_entries(box: Any) -> Any:
    """Make `entries` with the tables in it; only asked where no code of it is on the disk."""
    widths, places, heights = tables()
    return lambda box: (widths[box], places[box], heights[box])


compile_formulas(advance, word_of, uniform, fastmath=False, **UNCOUNTED)
choose_by_types(entries, _choose_entries, fastmath=False, **UNCOUNTED)
compile_high_word(high_word)


def draw_times(states: Words, rate: float, t0: Array, dt: Array, t: Array) -> None:
    """Draw the gaps of every stream at this rate, and the times of their events after t0.

    Rows of dt and t are those of the states, which move on.  The inner loop makes no calls, and so
    keeps all it needs in registers.  Events are counted by words, without a sign: a number with one
    would be tested at every event, for it may count from the end.
    """
    n = np.uint64(t.shape[1])
    for r in range(states.shape[0]):
        high, low, c_high, c_low = states[r, 0], states[r, 1], states[r, 2], states[r, 3]
        gaps, times, last, i = dt[r], t[r], t0[r], _ZERO
        while i < n:
            box, gap, is_sure = _ZERO, 0.0, True
            while i < n:
                high, low = advance(high, low, c_high, c_low)
                word = word_of(high, low) >> _UNUSED
                box, place = word & _BOX_MASK, word >> _BOX_BITS
                width, sure, _ = entries(box)
                gap, is_sure = np.int64(place) * width, place < sure
                if not is_sure:
                    break
                if rate != 1.0:
                    gap /= rate
                last += gap
                gaps[i], times[i] = gap, last
                i += _ONE
            if is_sure:
                break
            high, low = advance(high, low, c_high, c_low)
            u = uniform(word_of(high, low))
            if box == _ZERO:
                gap = TAIL - math.log1p(-u)
            else:
                height = entries(box)[2]
                if not (entries(box - _ONE)[2] - height) * u + height < math.exp(-gap):
                    continue
            gap /= rate
            last += gap
            gaps[i], times[i] = gap, last
            i += _ONE
        states[r, 0], states[r, 1] = high, low


@cache
def compile_draw_times() -> Any:
    """Compile `draw_times`, in which no product and sum become one operation: the bits of times
    are those of NumPy's sums."""
    rows, floats = matrix(np.float64), vector(np.float64)
    signature = types.void(matrix(np.uint64), types.float64, floats, rows, rows)
    return jit(draw_times, signature, fastmath=False, error_model="numpy", **UNCOUNTED)


def draw_rows(states: Words, rate: float, t0: Array, n: int) -> tuple[Array, Array]:
    """Return the next n gaps of each stream, and the times of their events after t0, as rows."""
    # One allocation: of two, the C library would return one to the system, and get it page by page.
    dt, t = np.empty((2, len(states), n))
    compile_draw_times()(states, rate, t0, dt, t)
    return dt, t


class BlockRequest(NamedTuple):
    """A block of gaps of one stream: the two numbers of PCG64 before it, and how it is drawn."""

    state: int
    increment: int
    rate: float
    t0: float
    n: int

    def draw(self) -> tuple[Array, Array, int]:
        """The gaps, the times of their events after t0, and the state after them."""
        words = *divmod(self.state, _WORD), *divmod(self.increment, _WORD)
        states = np.array([words], np.uint64)
        dt, t = draw_rows(states, self.rate, np.array([self.t0]), self.n)
        high, low = states[0, :2].tolist()
        return dt[0], t[0], high * _WORD + low


class BlockDrawer:
    """Draws blocks from a generator of PCG64, the next one on another thread while the last one is
    used, if it is told how long that will be.

    Nobody sees that: the generator moves on when a block is asked for, and what was drawn for
    another state of it, or for other numbers, is not used.
    """

    def __init__(self) -> None:
        self._last: BlockRequest | None = None  # with the state and the time after it
        self._ahead = threads.Ahead()

    def draw(
        self, generator: np.random.Generator, rate: float, t0: float, n: int
    ) -> tuple[Array, Array]:
        """Draw n gaps at this rate, and the times of their events after t0."""
        whole = generator.bit_generator.state
        now: Any = whole["state"]
        asked = BlockRequest(now["state"], now["inc"], rate, t0, n)
        dt, t, now["state"] = self._ahead.take(asked) or asked.draw()
        generator.bit_generator.state = whole
        self._last = asked._replace(state=now["state"], t0=float(t[-1]) if n else t0)
        return dt, t

    def draw_ahead(self, n: int) -> None:
        """Begin to draw the n gaps after the last ones."""
        if self._last is not None and n >= LONG_BLOCK:
            following = self._last._replace(n=n)
            self._ahead.begin(following, following.draw)


def seed_states(words: Words) -> Words:
    """Return the states of PCG64 after seeds of four words each, a row each."""
    high, low, c_high, c_low = words.T
    c_high, c_low = (c_high << _ONE) | (c_low >> _TOP_BIT), (c_low << _ONE) | _ONE
    low = low + c_low
    high = high + c_high + (low < c_low)
    return np.stack([*advance(high, low, c_high, c_low), c_high, c_low], axis=1)
