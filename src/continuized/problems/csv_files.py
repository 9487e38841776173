"""CSV files: a header, a column of labels, which may be text, and columns of numbers.

The numbers go through the compiled parser of `text_parser`.  What can be told from the header and
the first lines is told before it is loaded, so that a file of another kind is refused at once.
"""

from __future__ import annotations

import csv
import difflib
import itertools
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.problems.sources import (
    LABELS,
    LEFT_OUT,
    MISSING,
    SHOWN,
    Block,
    Data,
    DataError,
    Source,
    TextLabel,
    check_columns,
    describe_long_line,
    find_strange_byte,
    parse_blocks,
    quote,
    read_blocks,
    read_token,
)
from continuized.support.validation import short_repr

TARGETS = ("target", "label", "y", "class")  # names of the column of labels, in any case
SEPARATORS = (",", ";", "\t")
PREVIEWED = 20  # lines that are looked at before the parser is loaded
MOST_NAMES = 5  # in a sentence
INDEX = re.compile(r"(Unnamed: 0(\.\d+)*)?")  # names of indices that pandas writes, or reads back
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.ASCII)
EXACT = 2**53  # whole numbers below are doubles
RUNS_ON = (
    "a cell in quotes does not end in its line; line breaks within cells are not read: replace "
    "them (pandas: replace(r'\\s*\\n\\s*', ' ', regex=True)), or close the quotes"
)
LIKE_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Layout(NamedTuple):
    """The columns of a file: their names, what stands between them, and where each goes.

    places: for each column its place in a row of X, LABELS or LEFT_OUT.
    """

    names: list[str]
    separator: str
    places: Array

    @property
    def columns(self) -> list[str]:
        """The names of the columns of X, in its order."""
        kept = [(place, name) for place, name in zip(self.places, self.names, strict=True)]
        return [name for place, name in sorted(kept) if place >= 0]

    @property
    def label(self) -> str | None:
        """The name of the column of labels, if there is one."""
        found = np.flatnonzero(self.places == LABELS)
        return self.names[found[0]] if found.size else None


def read_csv(source: Source, file: BinaryIO) -> Data:
    """Read X, y, the names of the columns, and those of the classes where labels are text."""
    layout, notes, blocks = _read_layout(source, read_blocks(source, file))
    columns = layout.columns
    beside = "" if layout.label is None else f" beside {layout.label!r}"
    check_columns(source, len(columns), f"{len(columns)} columns{beside}", 1)
    first = next(blocks, None)
    if first is None:
        raise source.error("a header, but no rows")
    _preview(source, layout, first)

    from continuized.problems import text_parser as parse

    y, X, labels = np.empty(0), np.empty(0), TextLabels(source, layout)
    parser = partial(
        parse.parse_csv, layout.places, ord(layout.separator), source.keep_missing, source.max_line
    )
    explain = partial(_explain, source, layout)
    every = itertools.chain([first], blocks)
    # "," is a cell that may be empty, and "1," one that may not.
    shortest = len(layout.names) + (0 if source.keep_missing else len(columns))
    parse_blocks(source, every, parser, (y,), (X,), explain, labels.collect, len(columns), shortest)
    if y.size == 0:
        raise source.error("a header, but no rows")
    classes = labels.name_classes(y)
    if layout.label in (classes or ()) and any(map(_is_number, columns)):
        raise source.error(
            "a header with the columns' names is expected, but this line has numbers, and "
            f"{layout.label!r} is a label of other rows too; add a first line with names",
            1,
        )
    data = Data(X.reshape(y.size, len(columns)), None if layout.label is None else y)
    data.names, data.label, data.notes = tuple(columns), layout.label, notes
    data.classes, data.text = classes, labels.first
    return data


# The header


def _read_layout(
    source: Source, stream: Iterator[Block]
) -> tuple[Layout, tuple[str, ...], Iterator[Block]]:
    """Read the header; return the layout, what is to be said of it, and the blocks behind it."""
    names, separator, blocks = _read_header(source, stream)
    if len(names) < 2 and source.labelled:
        raise source.error(
            "a header of two columns or more, with , ; or tabs between them, is expected, got "
            f"{len(names)}",
            1,
        )
    if _looks_like_data(names):
        raise source.error(
            "a header with the columns' names is expected, but these are numbers; add a first line "
            "with names",
            1,
        )
    label = _find_label(source, names)
    left_out = {find_column(source, names, column, "drop") for column in source.drop}
    notes: tuple[str, ...] = ()
    known = {*(source.columns or ()), None if label is None else names[label]}
    indices = itertools.takewhile(lambda name: INDEX.fullmatch(name) and name not in known, names)
    count = len(list(indices))  # a file that was written and read back has one more each time
    left_out.update(range(count))
    if count == 1:
        notes = ("the first column is an index, as pandas and R write one, and was left out",)
    elif count:
        notes = (
            f"the first {count} columns are indices, as pandas writes them, and were left out",
        )
    if label is not None and label in left_out:
        raise source.error(f"the label {names[label]!r} cannot be left out", 1)
    used = [column for column in range(len(names)) if column not in left_out]
    places = np.full(len(names), LEFT_OUT)
    if source.columns is None:
        _check_names(source, names, used)
        used = [column for column in used if column != label]
        places[used] = np.arange(len(used))
    else:
        matched = _match_columns(source, names, source.columns)
        places[matched] = np.arange(len(matched))
        others = [names[column] for column in used if column not in {*matched, label}]
        notes = (f"columns that are not used: {_list_names(others)}",) if others else ()
    if label is not None:
        places[label] = LABELS
    if not np.any(places >= 0):
        raise source.error("no columns are left beside the label", 1)
    return Layout(names, separator, places), notes, blocks


def _read_header(source: Source, stream: Iterator[Block]) -> tuple[list[str], str, Iterator[Block]]:
    """Read the names of the columns and what separates them, and what follows the first line."""
    first = next(stream, None)
    if first is None:
        raise source.error("empty: a header and rows are expected")
    if first.text[:2] in LIKE_UTF16:
        raise source.error("UTF-16 text; save it as UTF-8, which pandas writes by default")
    end = first.text.index(b"\n") + 1
    if end - 1 > source.max_line:
        raise source.error(describe_long_line(source), 1)
    try:
        line = first.text[: end - 1].decode("utf-8-sig").removesuffix("\r").rstrip(" ")
    except UnicodeDecodeError as error:
        raise source.error("the header is not UTF-8 text; save the file as UTF-8", 1) from error
    if "\r" in line:
        raise source.error(
            "carriage returns in the header, as where they alone end the lines; save the file with "
            "the line ends of today (Python: open(..., newline=None))",
            1,
        )
    found, wrong = dict[str, list[str]](), dict[str, csv.Error]()
    for separator in SEPARATORS:
        try:
            found[separator] = _split(line, separator, strict=True)
        except csv.Error as error:  # a quote that ends before another separator
            wrong[separator] = error
    separator = max(found, key=lambda one: len(found[one]), default=SEPARATORS[0])
    if wrong and len(found.get(separator, [])) < 2:
        raise source.error(f"not a header of a CSV file: {next(iter(wrong.values()))}", 1)
    if re.fullmatch("sep=.?", line, re.IGNORECASE):
        raise source.error(f"{line!r}, which Excel alone understands; remove this line", 1)
    names = [name.strip() for name in found[separator]]
    rest = [Block(first.text[end:], first.stop - end, 1)] if first.stop > end else []
    return names, separator, itertools.chain(rest, stream)


def _split(line: str, separator: str, strict: bool = False) -> list[str]:
    lines = csv.reader([line], delimiter=separator, skipinitialspace=True, strict=strict)
    return next(lines, [])


def _runs_on(line: str, separator: str) -> bool:
    """Tell whether a cell in quotes does not end in its line."""
    lines = csv.reader([f"{line}\n", ""], delimiter=separator, skipinitialspace=True)
    try:
        next(lines, None)
    except csv.Error:
        return False
    return lines.line_num > 1


def _looks_like_data(names: list[str]) -> bool:
    """Tell whether the first line is one of numbers, all but a label, as no names would be.

    Years are names: whole numbers beside one word, each once.
    """
    numbers = [name for name in names if _is_number(name)]
    if len(numbers) == len(names) and names:
        return True
    strange = len(set(numbers)) < len(numbers) or any("." in number for number in numbers)
    return len(numbers) == len(names) - 1 and strange


def _is_number(name: str) -> bool:
    return bool(NUMBER.fullmatch(name)) or name.casefold() in ("true", "false")


def _find_label(source: Source, names: list[str]) -> int | None:
    """Find the column of labels: the one asked for, or one called so, or the last."""
    if source.label is not None:
        is_without = not source.labelled and len(names) == source.n_features
        known = source.label in names or not (source.columns or is_without)
        return find_column(source, names, source.label, "label") if known else None
    if source.columns is not None:  # a model that knows no label: what is left over is none
        return None
    found = [column for column, name in enumerate(names) if name.casefold() in TARGETS]
    if len(found) > 1:
        both = " and ".join(repr(names[column]) for column in found[:2])
        what = f"both {both} may be the label: say which"
        raise source.error(what, 1, "give label=", "label")
    if not found and not source.labelled and len(names) == source.n_features:
        return None
    return found[0] if found else len(names) - 1


def find_column(source: Source, names: list[str], asked: str | int, option: str) -> int:
    """Find a column by its name, or by its number from 1 on, or from the end: -1, -2, ..."""
    if isinstance(asked, str) and asked in names:
        return names.index(asked)
    column = find_number(asked, len(names))
    if column is not None:
        return column
    near = difflib.get_close_matches(str(asked), names, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"there are {_list_names(names)}"
    raise source.error(f"{option}: no column is called {str(asked)!r}: {meant}", 1)


def find_number(asked: str | int, count: int) -> int | None:
    """Find one of so many columns by its number; None where it has none.

    >>> find_number(1, 3), find_number("-1", 3), find_number("4", 3), find_number("y", 3)
    (0, 2, None, None)
    """
    number = int(asked) if re.fullmatch(r"[+-]?\d{1,9}", str(asked)) else 0
    if not 0 < abs(number) <= count:
        return None
    return number - 1 if number > 0 else count + number


def _check_names(source: Source, names: list[str], used: list[int]) -> None:
    """Refuse a name that is empty, cannot be shown, or stands twice."""
    seen: dict[str, int] = {}
    for column in used:
        name = names[column]
        if not name or not name.isprintable():
            more = ""
            if not name and column == len(names) - 1:
                more = ", or remove the separator at the end of every line"
            raise source.error(
                f"column {column + 1} has no name that can be shown; name it{more}", 1
            )
        if name in seen:
            raise source.error(
                f"columns {seen[name] + 1} and {column + 1} are both called {name!r}; rename one", 1
            )
        seen[name] = column


def _match_columns(source: Source, names: list[str], asked: Iterable[str]) -> list[int]:
    """Find the columns that were asked for, in that order."""
    asked = list(asked)
    missing = [name for name in asked if name not in names]
    if missing:
        others = [name for name in names if name not in asked and name != source.label]
        beside = f"; others are {_list_names(others)}" if others else ""
        what = f"no column is called {_list_names(missing)}{beside}"
        raise source.error(what, 1, kind="columns")
    twice = [name for name in asked if names.count(name) > 1]
    if twice:
        raise source.error(f"two columns are called {twice[0]!r}; rename one", 1)
    return [names.index(name) for name in asked]


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(repr(_cut(name)) for name in names[:MOST_NAMES]) + more


def _cut(name: str) -> str:
    return name if len(name) <= SHOWN else name[:SHOWN] + "..."


# Cells


def _preview(source: Source, layout: Layout, block: Block) -> None:
    """Refuse what the first lines show, with the words of the parser but without loading it."""
    row, last = 0, layout.places.size
    for number, raw in enumerate(bytes(block.text[: block.stop]).split(b"\n", PREVIEWED)):
        if number == PREVIEWED or not raw.strip() or len(raw) > source.max_line:
            continue
        row += 1
        line, text = block.line + number + 1, raw.decode("utf-8", "replace").removesuffix("\r")
        if _runs_on(text, layout.separator):
            raise source.error(RUNS_ON, line)
        try:
            cells = _split(text, layout.separator)
        except csv.Error:  # a return in a line, which the parser explains
            return
        for column, cell in enumerate(cells[:last]):
            fault = _explain_cell(source, layout, column, cell.strip(), line, row)
            if fault is not None:
                raise fault
        if len(cells) != last:
            raise _explain_width(source, len(cells), last, line)


def _explain_width(source: Source, cells: int, columns: int, line: int) -> DataError:
    if cells > columns:
        what = f"more fields than the {columns} columns that the header names"
        if cells == columns + 1:
            what += "; in R, write.csv names the column of row names too"
        return source.error(what, line)
    what = f"{cells} fields, but the header names {columns} columns; mend the line, or remove it"
    return source.error(what, line)


def _explain_cell(
    source: Source, layout: Layout, column: int, cell: str, line: int, row: int
) -> DataError | None:
    """Say what is wrong with a cell, if anything is."""
    place, name = layout.places[column], _cut(layout.names[column])
    if place == LEFT_OUT:
        return None
    if cell.casefold() in MISSING:
        if source.keep_missing or (place == LABELS and not source.labelled):
            return None
        what = f"column {name!r} is empty in row {row}" + (f" ({cell})" if cell else "")
        kind = "missing label" if place == LABELS else "missing"
        return source.error(what, line, 'give missing="keep" to read it as NaN', kind)
    if place == LABELS or NUMBER.fullmatch(cell) or cell.casefold() in ("true", "false"):
        return None
    shown = quote(cell.encode("utf-8", "replace"))
    if DECIMAL_COMMA.fullmatch(cell) and layout.separator == ",":
        return source.error(
            f"{shown} in column {name!r} has a comma in it; write a decimal point, and nothing "
            "between thousands",
            line,
        )
    if DECIMAL_COMMA.fullmatch(cell):
        return source.error(
            f"{shown} in column {name!r} has a decimal comma; write a point instead (pandas: "
            "to_csv(..., decimal='.'))",
            line,
        )
    if cell.casefold().lstrip("+-") in ("inf", "infinity"):
        return source.error(f"{shown} in column {name!r} is not finite", line)
    strange = None if cell.isprintable() else find_strange_byte(cell.encode("utf-8", "replace"))
    if strange is not None:
        return source.error(strange, line)
    return source.error(
        f"column {name!r} must hold numbers, but {shown} stands there",
        line,
        "turn it into numbers (categories: get_dummies of pandas), or leave it out with drop=",
        "text",
    )


def _explain(source: Source, layout: Layout, block: Block, wrong: int, state: Array) -> DataError:
    """Say why the parser stopped in a line."""
    from continuized.problems import text_parser as parse

    place, column = int(state[parse.PLACE]), int(state[parse.COLUMN])
    line, row = block.line_of(place), int(state[parse.ROWS]) + 1
    begin, end = block.text.rfind(b"\n", 0, place) + 1, block.text.index(b"\n", place)
    if _runs_on(block.text[begin:end].decode("utf-8", "replace"), layout.separator):
        return source.error(RUNS_ON, line)
    if wrong in (parse.FEWER, parse.MORE):
        cells = column + (1 if wrong == parse.FEWER else 2)
        return _explain_width(source, cells, len(layout.names), line)
    is_quoted = bytes(block.text[:place]).rstrip(b" \t").endswith(b'"')
    ends = b'"\n' if is_quoted else layout.separator.encode() + b"\n"
    token = read_token(block, place, ends).rstrip(b"\r")
    cell = token.decode("utf-8", "replace").strip()
    strange = find_strange_byte(token) if b"\0" in token else None
    fault = _explain_cell(source, layout, column, cell, line, row)
    if strange is not None or fault is None:
        name = _cut(layout.names[column])
        what = f"{quote(token)} in column {name!r} begins with a quote, but does not end with one"
        return source.error(strange or what, line)
    return fault


class TextLabels:
    """The labels of a file that are no numbers, and the rows in which they stand."""

    def __init__(self, source: Source, layout: Layout) -> None:
        self._source, self._layout = source, layout
        self.first: TextLabel | None = None
        self._codes: dict[bytes, int] = {}
        self._lines: list[int] = []  # in which each label was first seen
        self._rows: list[int] = []
        self._of_rows: list[int] = []

    def collect(self, block: Block, words: Array) -> None:
        """Remember the labels of a block; refuse those that are missing, unless they are kept."""
        for start, stop, row in words.tolist():
            token = bytes(block.text[start:stop])
            if token not in self._codes:
                self._lines.append(self._check(token, block, start, row))
                self._codes[token] = len(self._codes)
            self._rows.append(row)
            self._of_rows.append(self._codes[token])

    def _check(self, token: bytes, block: Block, start: int, row: int) -> int:
        """Refuse what is no label; return the line in which it stands."""
        line = block.line_of(start)
        try:
            name = token.decode()
        except UnicodeDecodeError as error:
            what = f"the label {quote(token)} is not UTF-8 text; save the file as UTF-8"
            raise self._source.error(what, line) from error
        column = int(np.flatnonzero(self._layout.places == LABELS)[0])
        fault = _explain_cell(self._source, self._layout, column, name, line, row + 1)
        if fault is not None:
            raise fault
        if not name.isprintable():
            raise self._source.error(f"the label {short_repr(name)} cannot be shown", line)
        return line

    def name_classes(self, y: Array) -> tuple[str, ...] | None:
        """Number the classes in y, in the order of their names; None where labels are numbers.

        Where some are text, numbers are too; `first` is the first that is.  A label that is missing
        stays NaN.
        """
        names = [token.decode().replace('""', '"') for token in self._codes]
        are_missing = np.array([name.casefold() in MISSING for name in names], bool)
        if np.all(are_missing):
            return None
        rows, of_rows = np.array(self._rows, np.intp), np.array(self._of_rows, np.intp)
        first = int(np.argmin(are_missing))
        where = f"{self._source.name}, line {self._lines[first]}"
        self.first = TextLabel(names[first], where)
        numbers, of_numbers = np.unique(y, return_inverse=True)
        of_numbers = of_numbers + len(names)  # of the rows with text, which come next, NaN's
        of_numbers[rows] = of_rows
        all_names = [*names, *map(name_number, numbers.tolist())]
        used = np.unique(of_numbers)
        kept = [code for code in used.tolist() if code >= len(names) or not are_missing[code]]
        classes = sorted({all_names[code] for code in kept})
        place: Any = np.full(len(all_names), np.nan)
        for code in kept:
            place[code] = classes.index(all_names[code])
        y[:] = place[of_numbers]
        return tuple(classes)


def name_number(value: float) -> str:
    """Write a number as a person would: without .0 where it is whole.

    >>> name_number(3.0), name_number(0.5)
    ('3', '0.5')
    """
    return str(int(value)) if value.is_integer() and abs(value) < EXACT else repr(float(value))
