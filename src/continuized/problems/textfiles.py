"""Files of text, SVMlight and CSV, read block by block through the compiled parsers."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from continuized.problems.base import Array
from continuized.problems.regression.data import INT32_MAX
from continuized.problems.source import Block, Growing, Source, blocks, too_long

TARGETS = ("y", "label", "target")
SHOWN = 24  # characters of a token in a sentence


def svmlight(
    source: Source, file: BinaryIO, n_features: int | None, max_index: int, max_line: int
) -> tuple[Any, Array]:
    """X as a CSR array and y of a file in SVMlight's format."""
    from scipy import sparse

    from continuized.problems import parse

    limit = max_index if n_features is None else min(n_features, max_index)
    small = limit <= INT32_MAX
    y, ends, values = Growing(np.float64), Growing(np.int64), Growing(np.float64)
    indices = Growing(np.int32 if small else np.int64)
    state = np.zeros(parse.STATE_SIZE, np.int64)
    parser = parse.kernel("svmlight_lines")
    for block in blocks(source, file, max_line):
        # "1\n" is the shortest row, " 1:1" the shortest entry.
        rows, entries = state[parse.ROWS] + block.stop // 2, state[parse.ENTRIES] + block.stop // 4
        hard = np.empty((block.stop // 2 + 1, 3), np.int64)
        wrong = parser(
            block.address, block.stop, limit, max_line, y.room(rows + 1),
            ends.room(rows + 1), indices.room(entries + 1), values.room(entries + 1), hard, state,
        )  # fmt: skip
        _settle(source, block, hard[: state[parse.HARD]], y.array, values.array)
        if wrong:
            limits = f"max_index = {max_index}" if limit == max_index else f"n_features = {limit}"
            what = _wrong_entry(block, wrong, state, indices.array, limits, max_line)
            raise source.error(what, block.line_of(int(state[parse.PLACE])))
    n, nnz, largest = (int(state[k]) for k in (parse.ROWS, parse.ENTRIES, parse.LARGEST))
    columns = n_features or largest
    if n == 0:
        raise source.error("no rows: empty, or comments only")
    if columns == 0:
        raise source.error(
            "labels only, and so no columns", advice="give n_features if that is meant"
        )
    kind = np.int32 if small and nnz <= INT32_MAX else np.int64
    indptr = np.zeros(n + 1, kind)
    indptr[1:] = ends.array[:n]
    parts = (values.cut(nnz), indices.cut(nnz).astype(kind, copy=False), indptr)
    return sparse.csr_array(parts, shape=(n, columns)), y.cut(n)


def comma_separated(
    source: Source, file: BinaryIO, n_features: int | None, max_line: int
) -> tuple[Array, Array]:
    """X and y of a CSV file with a header; y is the column named so, or the last."""
    from continuized.problems import parse

    y, X = Growing(np.float64), Growing(np.float64)
    state = np.zeros(parse.STATE_SIZE, np.int64)
    parser = parse.kernel("csv_lines")
    names, rest = _header(source, blocks(source, file, max_line), max_line)
    target = _target(source, names)
    if n_features not in (None, len(names) - 1):
        raise source.error(
            f"{len(names) - 1} columns beside {names[target]!r}, but n_features = {n_features}", 1
        )
    for block in rest:
        if block.stop == 0:
            continue
        # "1," is the shortest entry, and every row has two.
        rows, entries = state[parse.ROWS] + block.stop // 4, state[parse.ENTRIES] + block.stop // 2
        hard = np.empty((block.stop // 2 + 1, 3), np.int64)
        wrong = parser(
            block.address, block.stop, len(names), target, max_line,
            y.room(rows + 1), X.room(entries + 1), hard, state,
        )  # fmt: skip
        _settle(source, block, hard[: state[parse.HARD]], y.array, X.array)
        if wrong:
            what = _wrong_field(block, wrong, state, names, max_line)
            raise source.error(what, block.line_of(int(state[parse.PLACE])))
    n = int(state[parse.ROWS])
    if n == 0:
        raise source.error("a header, but no rows")
    return X.cut(n * (len(names) - 1)).reshape(n, len(names) - 1), y.cut(n)


def _settle(source: Source, block: Block, hard: Array, labels: Array, entries: Array) -> None:
    """Read with float() the tokens that the parser left."""
    for start, stop, place in hard.tolist():
        value = float(block.text[start:stop])
        if math.isinf(value):
            shown = _token(block, start)
            raise source.error(f"{shown} is too large for a double", block.line_of(start))
        if place < 0:
            labels[~place] = value
        else:
            entries[place] = value


def _token(block: Block, place: int, ends: bytes = b" \t\r\n") -> str:
    """What stands at a place, in quotes, cut where it is long."""
    stop = place
    while stop < place + SHOWN and block.text[stop] not in ends:
        stop += 1
    more = "..." if stop == place + SHOWN else ""
    return f"'{block.text[place:stop].decode('ascii', 'backslashreplace')}{more}'"


def _strange(block: Block, place: int, ends: bytes = b" \t\r\n") -> str | None:
    """A sentence about the first byte of a token that is no printable ASCII, if there is one."""
    while block.text[place] not in ends:
        byte = block.text[place]
        if not 32 <= byte < 127:
            return f"the byte 0x{byte:02x}, where only ASCII text may stand"
        place += 1
    return None


def _wrong_entry(
    block: Block, wrong: int, state: Array, indices: Array, limit: str, max_line: int
) -> str:
    """What is wrong in a line of SVMlight."""
    from continuized.problems import parse

    place, last = int(state[parse.PLACE]), int(state[parse.ENTRIES]) - 1
    if wrong == parse.LONG:
        return too_long(max_line)
    strange = _strange(block, place)
    if strange:
        return strange
    shown, index = _token(block, place), _token(block, place, b" \t\r\n:")[1:-1]
    return {
        parse.LABEL: lambda: f"the label {shown} is not a finite decimal number",
        parse.INDEX: lambda: f"index:value is expected, but {shown} stands there",
        parse.NUMBER_0: lambda: f"the index 0 in {shown}: indices are counted from 1",
        parse.LARGE: lambda: f"the index {index} is more than {limit}",
        parse.ORDER: lambda: (
            f"the index {index} after {indices[last] + 1}: indices must increase in a line"
        ),
        parse.VALUE: lambda: f"the value {shown} is not a finite decimal number",
        parse.QID: lambda: f"qid: and a whole number is expected, but {shown} stands there",
    }[wrong]()


def _wrong_field(block: Block, wrong: int, state: Array, names: list[str], max_line: int) -> str:
    """What is wrong in a line of a CSV file."""
    from continuized.problems import parse

    place, column = int(state[parse.PLACE]), int(state[parse.COLUMN])
    if wrong == parse.LONG:
        return too_long(max_line)
    if wrong == parse.FEWER:
        return f"{column + 1} fields, but the header names {len(names)} columns"
    if wrong == parse.MORE:
        return f"more fields than the {len(names)} columns that the header names"
    name = names[column] if len(names[column]) <= SHOWN else names[column][:SHOWN] + "..."
    if block.text[place] in b",\r\n":
        return f"column {name!r} is empty"
    shown, strange = _token(block, place, b",\r\n"), _strange(block, place, b",\t\r\n")
    return strange or f"{shown} in column {name!r} is not a finite decimal number"


def _header(
    source: Source, stream: Iterator[Block], max_line: int
) -> tuple[list[str], Iterator[Block]]:
    """The names of the columns, and the blocks with what follows the first line."""
    first = next(stream, None)
    if first is None:
        raise source.error("empty: a header and rows are expected")
    end = first.text.index(b"\n") + 1
    if end - 1 > max_line:
        raise source.error(too_long(max_line), 1)
    try:
        line = first.text[: end - 1].decode("utf-8-sig").removesuffix("\r")
        names = [name.strip() for name in next(csv.reader([line], strict=True), [])]
    except (UnicodeDecodeError, csv.Error) as error:
        raise source.error(f"not a header of a CSV file: {error}", 1) from error

    def rest() -> Iterator[Block]:
        yield Block(first.text[end:], first.stop - end, 1)
        yield from stream

    return names, rest()


def _target(source: Source, names: list[str]) -> int:
    """The column of y."""
    if len(names) < 2:
        raise source.error(f"a header of two columns or more is expected, got {len(names)}", 1)
    for number, name in enumerate(names, 1):
        if not name or not name.isprintable():
            raise source.error(f"column {number} of the header has no name that can be shown", 1)
    if all(_is_number(name) for name in names):
        raise source.error("a header with the columns' names is expected, but all are numbers", 1)
    found = [column for column, name in enumerate(names) if name in TARGETS]
    if len(found) > 1:
        both = " and ".join(repr(names[column]) for column in found[:2])
        raise source.error(f"both {both} may be the labels: rename all but one", 1)
    return found[0] if found else len(names) - 1


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
