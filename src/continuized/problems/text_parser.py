"""Compiled parsers of lines of numbers, and of the decimals in them.

A LIBSVM file of 50,000 rows is read in 0.016 s where NumPy's parsing alone takes 0.30 s: that is
why the parser is written here.  Importing this module imports Numba: load it only where it is used.

A parser gets the address of a block of whole lines, its last byte a newline: each scan stops at a
newline at the latest, so none tests where the block ends.  It writes what it reads behind what
the blocks before left in the arrays, and returns 0 or what is wrong; `state` says where.  The
places of numbers that are left to Python (`number`) are written down in `hard`.

A number is w * 10^q with w < 10^19.  With T the 64 leading bits of 10^q (cut, not rounded) and
w shifted until its highest bit is set, the high half h of their product is less than 2 below
the exact one.  When every number in [h, h + 2) rounds to one and the same double, that is the
answer; else (for about 2 numbers in 1000 with 17 digits, or 20 digits and more) the token is
left to Python's float().  All of it is arithmetic of integers, but for an exact product with a
power of two: no option of the compiler can change a bit of the result.

The text is an address in memory (`jit.byte_at`); a newline behind every token stops each scan.

Without type hints, for Numba infers the types.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.support.jit import byte_at as at
from continuized.support.jit import compile_formulas, jit

# What `number` says of a token.
NO_NUMBER, KNOWN, LEFT_TO_PYTHON = range(3)

PLUS, MINUS, POINT, ZERO = b"+-.0"
DIGITS_MAX = 19  # 10^19 < 2^64
POWER_MAX = 200  # of ten: w * 10^q is neither subnormal nor infinite
TWO_MAX = 1000
HALF_WORD, LOW_WORD = np.uint64(32), np.uint64(2**32 - 1)
ONE, TEN, TOP_BIT = np.uint64(1), np.uint64(10), np.uint64(2**63)


def _leading_bits(q: int) -> tuple[int, int]:
    """(T, e) with T 2^e <= 10^q < (T + 1) 2^e and 2^63 <= T < 2^64."""
    numerator, denominator = 10 ** max(q, 0), 10 ** max(-q, 0)
    e = numerator.bit_length() - denominator.bit_length() - 64
    bits = (numerator << max(-e, 0)) // (denominator << max(e, 0))
    return (bits >> 1, e + 1) if bits >= 2**64 else (bits, e)


_LEADING = [_leading_bits(q) for q in range(-POWER_MAX, POWER_MAX + 1)]
TENS = np.array([bits for bits, _ in _LEADING], np.uint64)
TENS_EXPONENTS = np.array([e for _, e in _LEADING], np.int64)
TWOS = np.ldexp(1.0, np.arange(-TWO_MAX, TWO_MAX + 1))


def high_word(a, b):
    """The high 64 bits of the product of two 64-bit numbers."""
    a1, a0 = a >> HALF_WORD, a & LOW_WORD
    b1, b0 = b >> HALF_WORD, b & LOW_WORD
    middle = a1 * b0 + ((a0 * b0) >> HALF_WORD)
    other = a0 * b1 + (middle & LOW_WORD)
    return a1 * b1 + (middle >> HALF_WORD) + (other >> HALF_WORD)


def rounded(w, q):
    """(whether it is certain, the double nearest w 10^q), for 0 < w < 10^19, |q| <= POWER_MAX."""
    exponent = TENS_EXPONENTS[q + POWER_MAX] + 64
    for shift in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - shift) == np.uint64(0):
            w <<= np.uint64(shift)
            exponent -= shift
    h = high_word(w, TENS[q + POWER_MAX])
    dropped = 11 if h >= TOP_BIT else 10  # to leave 53 bits
    m = h >> np.uint64(dropped)
    half = ONE << np.uint64(dropped - 1)
    rest = h & ((ONE << np.uint64(dropped)) - ONE)
    if rest > half:
        m += ONE
    certain = rest != half and rest != half - ONE
    return certain, np.float64(m) * TWOS[exponent + dropped + TWO_MAX]


def is_digit(c):
    """Whether a byte is one of 0, ..., 9."""
    return 48 <= c <= 57


compile_formulas(high_word, rounded, is_digit)


def exponent_at(text, i):
    """(whether it is one, its value, where it ends) of the digits after an e; huge ones are cut."""
    negative = at(text, i) == MINUS
    if negative or at(text, i) == PLUS:
        i += 1
    first, value = i, 0
    while is_digit(at(text, i)):
        value = min(10 * value + (at(text, i) - ZERO), 100_000_000)
        i += 1
    return i > first, -value if negative else value, i


def number(text, i):
    """(what it is, the value, where it ends) of the decimal number that begins at i."""
    negative = at(text, i) == MINUS
    if negative or at(text, i) == PLUS:
        i += 1
    w = np.uint64(0)
    q, digits, first = 0, 0, i  # digits: from the first that is not 0
    while is_digit(at(text, i)):
        w = w * TEN + np.uint64(at(text, i) - ZERO)
        digits += digits != 0 or at(text, i) != ZERO
        i += 1
    seen = i - first
    if at(text, i) == POINT:
        i += 1
        first = i
        while is_digit(at(text, i)):
            w = w * TEN + np.uint64(at(text, i) - ZERO)
            digits += digits != 0 or at(text, i) != ZERO
            i += 1
        q = first - i
        seen += i - first
    if seen == 0:
        return NO_NUMBER, 0.0, i
    if at(text, i) | 32 == 101:  # e or E
        valid, power, i = exponent_at(text, i + 1)
        if not valid:
            return NO_NUMBER, 0.0, i
        q += power
    kind, value = KNOWN, 0.0
    if digits > DIGITS_MAX:
        kind = LEFT_TO_PYTHON
    elif q == 0:
        value = np.float64(w)  # the processor rounds to the nearest
    elif digits > 0:
        kind = LEFT_TO_PYTHON
        if -POWER_MAX <= q <= POWER_MAX:
            certain, value = rounded(w, q)
            if certain:
                kind = KNOWN
    return kind, -value if negative else value, i


compile_formulas(exponent_at, number)


# What a parser returns.
FINE, LABEL, INDEX, NUMBER_0, LARGE, ORDER, VALUE, QID, LONG, FEWER, MORE = range(11)
# The entries of `state`: rows and entries so far, the largest index, the hard tokens of this
# block, and the place and the column of what is wrong.
ROWS, ENTRIES, LARGEST, HARD, PLACE, COLUMN = range(6)
STATE_SIZE = 6

TAB, NEWLINE, RETURN, SPACE, HASH, COMMA, COLON, D, I, Q = b"\t\n\r #,:diq"


def after_blanks(text, i):
    """Where the spaces and tabs from i on end."""
    while at(text, i) == SPACE or at(text, i) == TAB:
        i += 1
    return i


def line_end(text, i):
    """Whether a line ends at i, and where the next begins."""
    if at(text, i) == NEWLINE:
        return True, i + 1
    if at(text, i) == RETURN and at(text, i + 1) == NEWLINE:
        return True, i + 2
    return False, i


def rest_of_line(text, i):
    """Whether only blanks and a comment are left of the line, and where to read on.

    A comment that holds a byte other than ASCII's 1, ..., 127 is not skipped to its end: what
    reads on meets that byte.
    """
    i = after_blanks(text, i)
    if at(text, i) == HASH:
        while at(text, i) != NEWLINE and 0 < at(text, i) < 128:
            i += 1
    return line_end(text, i)


def after_token(text, i):
    """Whether a token of SVMlight may end at i."""
    c = at(text, i)
    return c in (SPACE, TAB, HASH) or line_end(text, i)[0]


compile_formulas(after_blanks, line_end)
compile_formulas(rest_of_line, after_token)


def number_token(text, i):
    """`number`, but NO_NUMBER if something else follows it in its token."""
    kind, value, end = number(text, i)
    return kind if after_token(text, end) else NO_NUMBER, value, end


def after_qid(text, i):
    """(FINE or what is wrong, where it ends) of a query's number, which is not kept."""
    if not (at(text, i + 1) == I and at(text, i + 2) == D and at(text, i + 3) == COLON):
        return INDEX, i  # a newline ends these tests before the block ends
    end = i + 4
    while is_digit(at(text, end)):
        end += 1
    return (FINE, end) if end > i + 4 and after_token(text, end) else (QID, i)


def index_at(text, i, previous, limit):
    """(FINE or what is wrong, the index, where its value begins) of an `index:value`."""
    index, end = 0, i
    while is_digit(at(text, end)):
        if index <= limit:  # more digits could not make it smaller, but overflow
            index = 10 * index + (at(text, end) - ZERO)
        end += 1
    wrong = FINE
    if end == i or at(text, end) != COLON:
        wrong = INDEX
    elif index == 0:
        wrong = NUMBER_0
    elif index > limit:
        wrong = LARGE
    elif index <= previous:
        wrong = ORDER
    return wrong, index, end + 1 if wrong == FINE else i


compile_formulas(number_token, after_qid, index_at)


def svmlight_lines(text, stop, limit, max_line, y, ends, indices, values, hard, state):
    """Lines `label [qid:number] index:value ... [# comment]`, blank ones skipped.

    ends[i] is the number of entries up to the end of row i.
    """
    row, p, i, wrong = state[ROWS], state[ENTRIES], 0, FINE
    largest, left = state[LARGEST], 0
    while i < stop and wrong == FINE:
        begin, previous = i, 0
        ended, i = rest_of_line(text, i)
        if not ended:
            start = i
            kind, y[row], i = number_token(text, start)
            if kind == NO_NUMBER:
                wrong, i = LABEL, start
                break
            if kind == LEFT_TO_PYTHON:
                hard[left, 0], hard[left, 1], hard[left, 2] = start, i, ~row
                left += 1
            ended, i = rest_of_line(text, i)
            if not ended and at(text, i) == Q:
                wrong, i = after_qid(text, i)
                if wrong != FINE:
                    break
                ended, i = rest_of_line(text, i)
            while not ended:
                wrong, previous, start = index_at(text, i, previous, limit)
                if wrong != FINE:
                    break
                kind, values[p], i = number_token(text, start)
                if kind == NO_NUMBER:
                    wrong, i = VALUE, start
                    break
                if kind == LEFT_TO_PYTHON:
                    hard[left, 0], hard[left, 1], hard[left, 2] = start, i, p
                    left += 1
                indices[p] = previous - 1
                p += 1
                ended, i = rest_of_line(text, i)
            ends[row] = p
            row += 1
            largest = max(largest, previous)
        if wrong == FINE and i - begin - 1 > max_line:
            wrong, i = LONG, begin
    state[ROWS], state[ENTRIES], state[LARGEST], state[HARD] = row, p, largest, left
    state[PLACE] = i
    return wrong


def field_at(text, i, column, columns):
    """(FINE or what is wrong, what `number` says, where it begins and ends, where to read on)."""
    start = after_blanks(text, i)
    kind, value, end = number(text, start)
    i = after_blanks(text, end)
    ended, after = line_end(text, i)
    wrong = FINE
    if kind == NO_NUMBER or not (ended or at(text, i) == COMMA):
        wrong, i = VALUE, start
    elif ended and column < columns - 1:
        wrong = FEWER
    elif not ended and column == columns - 1:
        wrong = MORE
    else:
        i = after if ended else i + 1
    return wrong, kind, value, start, end, i


compile_formulas(field_at)


def csv_lines(text, stop, columns, target, max_line, y, X, hard, state):
    """Lines of `columns` numbers with commas between them, blank ones skipped.

    Column `target` goes to y, the others to X, row after row.
    """
    row, p, i, wrong = state[ROWS], state[ENTRIES], 0, FINE
    left, column = 0, 0
    while i < stop and wrong == FINE:
        begin = i
        ended, i = line_end(text, after_blanks(text, i))
        if not ended:
            for column in range(columns):
                wrong, kind, value, start, end, i = field_at(text, i, column, columns)
                if wrong != FINE:
                    break
                if kind == LEFT_TO_PYTHON:
                    hard[left, 0], hard[left, 1] = start, end
                    hard[left, 2] = ~row if column == target else p
                    left += 1
                if column == target:
                    y[row] = value
                else:
                    X[p] = value
                    p += 1
            if wrong != FINE:
                state[COLUMN] = column
                break
            row += 1
        if i - begin - 1 > max_line:
            wrong, i = LONG, begin
    state[ROWS], state[ENTRIES], state[HARD], state[PLACE] = row, p, left, i
    return wrong


@cache
def kernel(name: str) -> Any:
    """`svmlight_lines` or `csv_lines`, compiled when first used."""
    return jit(globals()[name])
