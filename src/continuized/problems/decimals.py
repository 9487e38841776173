"""Decimal numbers to doubles, compiled.  Imports Numba: load it only where it is used.

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

import numpy as np

from continuized.support.jit import byte_at as at
from continuized.support.jit import compile_formulas

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
