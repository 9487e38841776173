"""Compiled parsers of lines of numbers, and of the decimals in them.

A LIBSVM file of 50,000 rows is read in 0.016 s where NumPy's parsing alone takes 0.30 s: that is
why the parser is written here.  Importing this module imports Numba: load it only where it is used.

A parser gets the address in memory (`jit.byte_at`) of a block of whole lines, whose last byte is a
newline: each scan stops at a newline at the latest, so that none tests where the block ends.  It
writes what it reads behind what the blocks before left in the arrays, and returns 0 or what is
wrong; `state` says where.  The places of numbers that are left to Python (`read_number`) are
written down in `hard`.

A number is w * 10^q with w < 10^19.  With T the 64 leading bits of 10^q (cut, not rounded) and
w shifted until its highest bit is set, the high half h of their product is less than 2 below
the exact one.  When every number in [h, h + 2) rounds to one and the same double, that is the
answer; else (for about 2 numbers in 1000 with 17 digits, or 20 digits and more) the token is
left to Python's float().  All of it is arithmetic of integers, but for an exact product with a
power of two: no option of the compiler can change a bit of the result.

There are no type hints, because Numba infers the types.
"""

from __future__ import annotations

import numpy as np

from continuized.problems.sources import LEFT_OUT, MISSING
from continuized.support.jit import byte_at as at
from continuized.support.jit import compile_formulas, jit

# What a parser returns.
FINE, LABEL, INDEX, NUMBER_0, LARGE, ORDER, VALUE, QID, LONG, FEWER, MORE = range(11)
# The entries of `state`: rows and entries so far, the largest index, the hard tokens of this
# block, the place and the column of what is wrong, the columns of X, and the labels of this block
# that are text.
ROWS, ENTRIES, LARGEST, HARD, PLACE, COLUMN, WIDTH, NAMED = range(8)
STATE_SIZE = 8
# What `read_number` says of a token; of a cell, that it is missing, too.
NO_NUMBER, KNOWN, LEFT_TO_PYTHON, NOTHING = range(4)

TAB, NEWLINE, RETURN, SPACE, HASH, COLON, D, I, Q, QUOTE = b'\t\n\r #:diq"'
STOPS = (44, 59, QUOTE)  # , ; and a quote end a word, and a space, a tab or a newline
LOWER = 32  # the bit that makes a letter small
# Words, as the numbers that their bytes make.
TRUE, FALSE = int.from_bytes(b"true"), int.from_bytes(b"false")
MISSING_WORDS = tuple(int.from_bytes(word.encode()) for word in MISSING)
LONGEST_WORD = 256**5
PLUS, MINUS, POINT, ZERO = b"+-.0"
DIGITS_MAX = 19  # 10^19 < 2^64
POWER_MAX = 200  # of ten: w * 10^q is neither subnormal nor infinite
TWO_MAX = 1000
HALF_WORD, LOW_WORD = np.uint64(32), np.uint64(2**32 - 1)
ONE, TEN, TOP_BIT = np.uint64(1), np.uint64(10), np.uint64(2**63)


def _leading_bits(q: int) -> tuple[int, int]:
    """Return (T, e) with T 2^e <= 10^q < (T + 1) 2^e and 2^63 <= T < 2^64."""
    numerator, denominator = 10 ** max(q, 0), 10 ** max(-q, 0)
    e = numerator.bit_length() - denominator.bit_length() - 64
    bits = (numerator << max(-e, 0)) // (denominator << max(e, 0))
    return (bits >> 1, e + 1) if bits >= 2**64 else (bits, e)


_LEADING = [_leading_bits(q) for q in range(-POWER_MAX, POWER_MAX + 1)]
TENS = np.array([bits for bits, _ in _LEADING], np.uint64)
TENS_EXPONENTS = np.array([e for _, e in _LEADING], np.int64)
TWOS = np.ldexp(1.0, np.arange(-TWO_MAX, TWO_MAX + 1))


def high_word(a, b):
    """Return the high 64 bits of the product of two 64-bit numbers."""
    a1, a0 = a >> HALF_WORD, a & LOW_WORD
    b1, b0 = b >> HALF_WORD, b & LOW_WORD
    middle = a1 * b0 + ((a0 * b0) >> HALF_WORD)
    other = a0 * b1 + (middle & LOW_WORD)
    return a1 * b1 + (middle >> HALF_WORD) + (other >> HALF_WORD)


def round_decimal(w, q):
    """Return (whether it is certain, the double nearest w 10^q).

    It must be that 0 < w < 10^19 and |q| <= POWER_MAX.
    """
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
    """Tell whether a byte is one of 0, ..., 9."""
    return 48 <= c <= 57


compile_formulas(high_word, round_decimal, is_digit)


def read_exponent(text, i):
    """Return (whether it is one, its value, where it ends) of the digits after an e.

    A huge exponent is cut.
    """
    negative = at(text, i) == MINUS
    if negative or at(text, i) == PLUS:
        i += 1
    first, value = i, 0
    while is_digit(at(text, i)):
        value = min(10 * value + (at(text, i) - ZERO), 100_000_000)
        i += 1
    return i > first, -value if negative else value, i


def read_number(text, i):
    """Return (what it is, the value, where it ends) of the decimal number that begins at i."""
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
    if at(text, i) | LOWER == 101:  # e or E
        valid, power, i = read_exponent(text, i + 1)
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
            certain, value = round_decimal(w, q)
            if certain:
                kind = KNOWN
    return kind, -value if negative else value, i


compile_formulas(read_exponent, read_number)


def skip_blanks(text, i):
    """Return where the spaces and tabs from i on end."""
    while at(text, i) == SPACE or at(text, i) == TAB:
        i += 1
    return i


def read_line_end(text, i):
    """Tell whether a line ends at i, and where the next begins."""
    if at(text, i) == NEWLINE:
        return True, i + 1
    if at(text, i) == RETURN and at(text, i + 1) == NEWLINE:
        return True, i + 2
    return False, i


def skip_rest_of_line(text, i):
    """Tell whether only blanks and a comment are left of the line, and where to read on.

    A comment that holds a byte other than ASCII's 1, ..., 127 is not skipped to its end: what
    reads on meets that byte.
    """
    i = skip_blanks(text, i)
    if at(text, i) == HASH:
        while at(text, i) != NEWLINE and 0 < at(text, i) < 128:
            i += 1
    return read_line_end(text, i)


def ends_token(text, i):
    """Tell whether a token of SVMlight may end at i."""
    c = at(text, i)
    return c in (SPACE, TAB, HASH) or read_line_end(text, i)[0]


compile_formulas(skip_blanks, read_line_end, skip_rest_of_line, ends_token)


def read_number_token(text, i):
    """Read a number as `read_number` does; NO_NUMBER if something else follows in its token."""
    kind, value, end = read_number(text, i)
    return kind if ends_token(text, end) else NO_NUMBER, value, end


def skip_qid(text, i):
    """Return (FINE or what is wrong, where it ends) of a query's number, which is not kept."""
    if not (at(text, i + 1) == I and at(text, i + 2) == D and at(text, i + 3) == COLON):
        return INDEX, i  # a newline ends these tests before the block ends
    end = i + 4
    while is_digit(at(text, end)):
        end += 1
    return (FINE, end) if end > i + 4 and ends_token(text, end) else (QID, i)


def read_index(text, i, previous, limit, shift):
    """Return (FINE or what is wrong, the index, where its value begins) of an `index:value`.

    shift is added to it, so that it counts from 1.
    """
    index, end = 0, i
    while is_digit(at(text, end)):
        if index <= limit:  # more digits could not make it smaller, but overflow
            index = 10 * index + (at(text, end) - ZERO)
        end += 1
    index += shift
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


compile_formulas(read_number_token, skip_qid, read_index)


@jit
def parse_svmlight(
    limit, shift, labelled, max_line, text, stop, y, ends, indices, values, hard, state
):
    """Parse lines `label [qid:number] index:value ... [# comment]`; skip blank ones.

    Unless all rows must be labelled, a label that is left out is NaN, and a blank line, which may
    be a row without entries then, has the label -inf.  ends[i] is the number of entries up to the
    end of row i.
    """
    row, p, i, wrong = state[ROWS], state[ENTRIES], 0, FINE
    largest, left = state[LARGEST], 0
    while i < stop and wrong == FINE:
        begin, previous = i, 0
        is_blank = not labelled and read_line_end(text, skip_blanks(text, i))[0]
        ended, i = skip_rest_of_line(text, i)
        if is_blank:
            y[row], ends[row] = -np.inf, p
            row += 1
        if not ended:
            start = i
            kind, y[row], i = read_number_token(text, start)
            if kind == NO_NUMBER and not labelled and at(text, i) == COLON:
                y[row], i = np.nan, start
            elif kind == NO_NUMBER:
                wrong, i = LABEL, start
                break
            if kind == LEFT_TO_PYTHON:
                hard[left, 0], hard[left, 1], hard[left, 2] = start, i, ~row
                left += 1
            ended, i = skip_rest_of_line(text, i)
            if not ended and at(text, i) == Q:
                wrong, i = skip_qid(text, i)
                if wrong != FINE:
                    break
                ended, i = skip_rest_of_line(text, i)
            while not ended:
                wrong, previous, start = read_index(text, i, previous, limit, shift)
                if wrong != FINE:
                    break
                kind, values[p], i = read_number_token(text, start)
                if kind == NO_NUMBER:
                    wrong, i = VALUE, start
                    break
                if kind == LEFT_TO_PYTHON:
                    hard[left, 0], hard[left, 1], hard[left, 2] = start, i, p
                    left += 1
                indices[p] = previous - 1
                p += 1
                ended, i = skip_rest_of_line(text, i)
            ends[row] = p
            row += 1
            largest = max(largest, previous)
        if wrong == FINE and i - begin - 1 > max_line:
            wrong, i = LONG, begin
    state[ROWS], state[ENTRIES], state[LARGEST], state[HARD] = row, p, largest, left
    state[PLACE] = i
    return wrong


def skip_spaces(text, i, separator):
    """Return where the spaces from i on end, and the tabs, unless a tab separates columns."""
    while at(text, i) == SPACE or (at(text, i) == TAB and separator != TAB):
        i += 1
    return i


def read_word(text, i):
    """Return (the kind, the value, where it ends) of true, false or a word for what is
    missing, in any case, or NO_NUMBER."""
    word, end = 0, i
    while at(text, end) > SPACE and at(text, end) not in STOPS and word < LONGEST_WORD:
        word = 256 * word + (at(text, end) | LOWER)
        end += 1
    if word in (TRUE, FALSE):
        return KNOWN, 1.0 if word == TRUE else 0.0, end
    for missing in MISSING_WORDS:
        if word == missing:
            return NOTHING, np.nan, end
    return NO_NUMBER, 0.0, i


def read_cell(text, i, separator):
    """Return (the kind, the value, where it begins, where it ends, where to read on) of a cell."""
    start = skip_spaces(text, i, separator)
    is_quoted = at(text, start) == QUOTE
    if is_quoted:
        start = skip_spaces(text, start + 1, separator)
    kind, value, end = read_number(text, start)
    if kind == NO_NUMBER:
        kind, value, end = read_word(text, start)
    i = skip_spaces(text, end, separator)
    if is_quoted:
        if at(text, i) != QUOTE:
            return NO_NUMBER, 0.0, start, end, i
        i = skip_spaces(text, i + 1, separator)
    ended, _ = read_line_end(text, i)
    if not (ended or at(text, i) == separator):
        kind = NO_NUMBER
    return kind, value, start, end, i


def read_text(text, i, separator):
    """Return (whether it ends in its line, where it begins, where it ends, where to read on).

    Of text in quotes, which may hold separators; two quotes in it are one that is meant.
    """
    start = skip_spaces(text, i, separator)
    if at(text, start) == QUOTE:
        start += 1
        end = start
        while at(text, end) != NEWLINE and (at(text, end) != QUOTE or at(text, end + 1) == QUOTE):
            end += 2 if at(text, end) == QUOTE else 1
        i = skip_spaces(text, end + 1, separator) if at(text, end) == QUOTE else end
        ended, _ = read_line_end(text, i)
        return at(text, end) == QUOTE and (ended or at(text, i) == separator), start, end, i
    i = start
    while at(text, i) != separator and not read_line_end(text, i)[0]:
        i += 1
    end = i
    while end > start and (at(text, end - 1) == SPACE or at(text, end - 1) == TAB):
        end -= 1
    return True, start, end, i


def separate(text, i, separator, is_last):
    """Return (FINE or what is wrong, where the next cell begins) behind a cell."""
    ended, after = read_line_end(text, i)
    if ended != is_last:
        return FEWER if ended else MORE, i
    return FINE, after if ended else i + 1


def is_letter(c):
    """Tell whether a byte is one of A, ..., Z, a, ..., z."""
    return 97 <= (c | LOWER) <= 122


compile_formulas(is_letter, skip_spaces, read_word, read_cell, read_text, separate)


@jit
def parse_csv(places, separator, keep, max_line, text, stop, y, X, hard, words, state):
    """Parse lines of cells with separators between them; skip blank ones.

    places[c] is where in its row of X the cell of column c goes, or LABELS: to y, or LEFT_OUT.
    A label that is no number is NaN in y, and its place and row are written into `words`.  What
    is missing is NaN in X, if it is to be kept.
    """
    row, i, wrong = state[ROWS], 0, FINE
    width = state[WIDTH]
    left, named, column = 0, 0, 0
    while i < stop and wrong == FINE:
        begin = i
        ended, i = read_line_end(text, skip_spaces(text, i, separator))
        if not ended:
            i = begin
            for column in range(places.size):
                place, first, start = places[column], i, i
                if place == LEFT_OUT:
                    fine, _, _, i = read_text(text, i, separator)
                else:
                    kind, value, end = read_number(text, i)
                    if kind != NO_NUMBER and at(text, end) == separator:  # as most cells are
                        i = end
                    else:
                        kind, value, start, end, i = read_cell(text, i, separator)
                    fine = kind != NO_NUMBER and (keep or kind != NOTHING)
                    if place >= 0:
                        X[row * width + place] = value
                    elif fine and kind != NOTHING and not is_letter(at(text, start)):
                        y[row] = value
                    else:
                        fine, start, end, i = read_text(text, first, separator)
                        words[named, 0], words[named, 1], words[named, 2] = start, end, row
                        y[row] = np.nan
                        kind = NO_NUMBER
                        named += 1
                    if fine and kind == LEFT_TO_PYTHON:
                        hard[left, 0], hard[left, 1] = start, end
                        hard[left, 2] = ~row if place < 0 else row * width + place
                        left += 1
                if not fine:
                    wrong, i = VALUE, start
                    break
                wrong, i = separate(text, i, separator, column == places.size - 1)
                if wrong != FINE:
                    break
            if wrong != FINE:
                state[COLUMN] = column
                break
            row += 1
        if i - begin - 1 > max_line:
            wrong, i = LONG, begin
    state[ROWS], state[ENTRIES], state[HARD], state[PLACE] = row, row * width, left, i
    state[NAMED] = named
    return wrong
