"""Compiled parsers of lines of numbers.  Imports Numba: load it only where it is used.

A parser gets the address of a block of whole lines, its last byte a newline: each scan stops at a
newline at the latest, so none tests where the block ends.  It writes what it reads behind what
the blocks before left in the arrays, and returns 0 or what is wrong; `state` says where.  The
places of numbers that are left to Python (`decimals.number`) are written down in `hard`.

Without type hints, for Numba infers the types.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from continuized.problems.decimals import LEFT_TO_PYTHON, NO_NUMBER, ZERO, is_digit, number
from continuized.support.jit import byte_at as at
from continuized.support.jit import compile_formulas, jit

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
