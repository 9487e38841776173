"""Compiled parsers of lines of numbers.  Imports Numba: load it only where it is used.

A parser gets a block of whole lines as bytes, the last of them a newline: each scan stops at a
newline at the latest, so none tests where the block ends.  It writes what it reads behind what
the blocks before left in the arrays, and returns 0 or what is wrong; `state` says where.  The
places of numbers that are left to Python (`decimals.number`) are written down in `hard`.

Without type hints, for Numba infers the types.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from continuized.jit import compile_formulas, jit
from continuized.problems.decimals import LEFT_TO_PYTHON, NO_NUMBER, ZERO, at, is_digit, number

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
    return c == SPACE or c == TAB or c == HASH or line_end(text, i)[0]


def keep(hard, state, start, stop, place):
    """Write down a token for Python: place >= 0 is an entry's, ~row a label's."""
    k = state[HARD]
    hard[k, 0], hard[k, 1], hard[k, 2] = start, stop, place
    state[HARD] = k + 1


compile_formulas(after_blanks, line_end)
compile_formulas(rest_of_line, after_token, keep)


def label_at(text, i, y, row, hard, state):
    """(FINE or what is wrong, where it ends) of a line's label."""
    kind, y[row], end = number(text, i)
    if kind == NO_NUMBER or not after_token(text, end):
        return LABEL, i
    if kind == LEFT_TO_PYTHON:
        keep(hard, state, i, end, ~row)
    return FINE, end


def after_qid(text, i):
    """(FINE or what is wrong, where it ends) of a query's number, which is not kept."""
    if not (at(text, i + 1) == I and at(text, i + 2) == D and at(text, i + 3) == COLON):
        return INDEX, i  # a newline ends these tests before the block ends
    end = i + 4
    while is_digit(at(text, end)):
        end += 1
    return (FINE, end) if end > i + 4 and after_token(text, end) else (QID, i)


def entry_at(text, i, previous, limit, p, indices, values, hard, state):
    """(FINE or what is wrong, where it ends, the index) of one `index:value`."""
    index, end = 0, i
    while is_digit(at(text, end)):
        if index <= limit:  # more digits could not make it smaller, but overflow
            index = 10 * index + (at(text, end) - ZERO)
        end += 1
    if end == i or at(text, end) != COLON:
        return INDEX, i, index
    if index == 0:
        return NUMBER_0, i, index
    if index > limit:
        return LARGE, i, index
    if index <= previous:
        return ORDER, i, index
    start = end + 1
    kind, values[p], end = number(text, start)
    if kind == NO_NUMBER or not after_token(text, end):
        return VALUE, start, index
    if kind == LEFT_TO_PYTHON:
        keep(hard, state, start, end, p)
    indices[p] = index - 1
    return FINE, end, index


compile_formulas(label_at, after_qid, entry_at)


def svmlight_lines(text, stop, limit, max_line, y, ends, indices, values, hard, state):
    """Lines `label [qid:number] index:value ... [# comment]`, blank ones skipped.

    ends[i] is the number of entries up to the end of row i.
    """
    row, p, i, wrong = state[ROWS], state[ENTRIES], 0, FINE
    state[HARD] = 0
    while i < stop and wrong == FINE:
        begin, previous = i, 0
        ended, i = rest_of_line(text, i)
        if not ended:
            wrong, i = label_at(text, i, y, row, hard, state)
            if wrong == FINE:
                ended, i = rest_of_line(text, i)
            if wrong == FINE and not ended and at(text, i) == Q:
                wrong, i = after_qid(text, i)
                if wrong == FINE:
                    ended, i = rest_of_line(text, i)
            while wrong == FINE and not ended:
                wrong, i, previous = entry_at(
                    text, i, previous, limit, p, indices, values, hard, state
                )
                if wrong == FINE:
                    p += 1
                    ended, i = rest_of_line(text, i)
            ends[row] = p
            row += 1
            state[LARGEST] = max(state[LARGEST], previous)
        if wrong == FINE and i - begin - 1 > max_line:
            wrong, i = LONG, begin
    state[ROWS], state[ENTRIES], state[PLACE] = row, p, i
    return wrong


def csv_lines(text, stop, columns, target, max_line, y, X, hard, state):
    """Lines of `columns` numbers with commas between them, blank ones skipped.

    Column `target` goes to y, the others to X, row after row.
    """
    row, p, i, wrong = state[ROWS], state[ENTRIES], 0, FINE
    state[HARD] = 0
    while i < stop and wrong == FINE:
        begin = i
        ended, i = line_end(text, after_blanks(text, i))
        column = 0
        while not ended:
            start = after_blanks(text, i)
            kind, value, end = number(text, start)
            i = after_blanks(text, end)
            ended, after = line_end(text, i)
            state[COLUMN] = column
            if kind == NO_NUMBER or not (ended or at(text, i) == COMMA):
                wrong, i = VALUE, start
                break
            if column == columns - 1 and not ended:
                wrong = MORE
                break
            if column < columns - 1 and ended:
                wrong = FEWER
                break
            i = after if ended else i + 1
            place = ~row if column == target else p
            if kind == LEFT_TO_PYTHON:
                keep(hard, state, start, end, place)
            if place < 0:
                y[row] = value
            else:
                X[p] = value
                p += 1
            column += 1
        row += column > 0 and wrong == FINE
        if wrong == FINE and i - begin - 1 > max_line:
            wrong, i = LONG, begin
    state[ROWS], state[ENTRIES], state[PLACE] = row, p, i
    return wrong


@cache
def kernel(name: str) -> Any:
    """`svmlight_lines` or `csv_lines`, compiled when first used."""
    return jit(globals()[name])
