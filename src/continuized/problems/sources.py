"""What the readers of data files share: a checked path, blocks of whole lines, data and errors."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.display import show_html, show_line
from continuized.support.validation import AdvisedError

BLOCK = 2**20  # bytes that are read at once
SHOWN = 24  # characters of a token in a sentence
# Of CSV files, for the reader and the compiled parser: what stands for a number that is missing, in
# any case, as for pandas; and where a column goes that is not one of X.
MISSING = ("", "na", "nan", "n/a", "null", "none", "<na>", "#n/a")
LABELS, LEFT_OUT = -1, -2
# How files begin that hold no text, and what packed them.
PACKED = {
    b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"PK\x03\x04": "zip, or a workbook of Excel",
    b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd",
}  # fmt: skip


class _Pair(NamedTuple):
    X: Any
    y: Any


class TextLabel(NamedTuple):
    """The first label of a file that is text, and where it stands."""

    name: str
    where: str


class Data(_Pair):
    """The rows X, a float64 array or a CSR array of them, and the labels y.

    Of a CSV file also names: those of the columns of X; label: that of the column of y (of an
    array, its number, where it is not the last); classes: where labels are text, what the numbers
    0, 1, ... in y stand for; text: the first label that is, which may be a slip where others are
    numbers; notes: sentences to be told.
    y is None where a file without labels was allowed.

    >>> import pathlib, tempfile
    >>> import continuized as cz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "two_rows.csv"
    ...     _ = file.write_text("a,b,y\\n0.5,2,1\\n1,0,-1\\n")
    ...     data = cz.problems.read(file)
    >>> data.y.tolist(), cz.problems.LogisticRegression(*data, l2=0.1).dim
    ([1.0, -1.0], 2)
    >>> data.names
    ('a', 'b')
    """

    names: tuple[str, ...] | None = None
    label: str | None = None
    classes: tuple[str, ...] | None = None
    text: TextLabel | None = None
    notes: tuple[str, ...] = ()

    def _facts(self) -> dict[str, Any]:
        rows, columns = self.X.shape
        facts = {"rows": rows, "columns": columns, "sparse": not isinstance(self.X, np.ndarray)}
        more = {"names": self.names, "label": self.label, "classes": self.classes}
        return facts | {name: value for name, value in more.items() if value is not None}

    __repr__ = show_line
    _repr_html_ = show_html


def renumber(classes: Sequence[str], own: Sequence[str], y: Array) -> Array:
    """Turn places in a list of classes of one's own into places in that of all classes.

    >>> renumber(("ant", "bee", "cat"), ("cat", "ant"), np.array([0.0, 1.0])).tolist()
    [2.0, 0.0]
    """
    places = {name: place for place, name in enumerate(classes)}
    return np.array([float(places[name]) for name in own])[y.astype(np.intp)]


class DataError(AdvisedError):
    """A file is not what it should be; the message names the file and, for text, the line.

    fact: what is wrong; advice: what to do about it in Python; kind: what it is about, where a
    command line has advice of its own ("missing", "missing label", "text", "label", "columns",
    "zero", "suffix").

    >>> import pathlib, tempfile
    >>> from continuized.problems import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "rows.csv"
    ...     _ = file.write_text("y,a\\n1,two\\n")
    ...     try:
    ...         read(file)
    ...     except DataError as error:
    ...         print(str(error).partition("rows.csv")[2][:85], "...")
    , line 2: column 'a' must hold numbers, but 'two' stands there; turn it into numbers ...
    """

    def __init__(self, fact: str, advice: str = "", kind: str = "") -> None:
        super().__init__(fact, advice)
        self.kind = kind


class Options(NamedTuple):
    """The options of `read`, checked."""

    n_features: int | None
    max_index: int
    max_line: int
    label: str | int | None
    drop: tuple[str | int, ...]
    columns: tuple[str, ...] | None
    keep_missing: bool
    labelled: bool
    zero_based: bool


class Source:
    """A path that was checked, with the options of `read`.

    OSError only comes from opening and reading it.
    """

    def __init__(self, path: str | os.PathLike[str], options: Options) -> None:
        self.n_features, self.max_index = options.n_features, options.max_index
        self.max_line = options.max_line
        self.label, self.drop, self.columns = options.label, options.drop, options.columns
        self.keep_missing, self.labelled = options.keep_missing, options.labelled
        self.zero_based = options.zero_based
        kinds = (str, bytes, os.PathLike)
        self.path = os.fsdecode(check.instance(path, "path", kinds, "a str or a Path"))
        # Names that would break the line, or could not be printed, are shown by their repr.
        self.name = self.path if self.path.isprintable() else repr(self.path)
        if "\0" in self.path:
            raise self.error("a path with a NUL character is no file's")
        self.gz = self.path.lower().endswith(".gz")

    def error(
        self, what: str, line: int | None = None, advice: str = "", kind: str = ""
    ) -> DataError:
        """Make the error to raise."""
        where = self.name if line is None else f"{self.name}, line {line}"
        return DataError(f"{where}: {what}", advice, kind)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file; the bytes of a .gz are unpacked as they are read."""
        if os.path.isdir(self.path):
            raise self.error("a folder, not a file")
        with open(self.path, "rb", buffering=0) as raw:
            if not self.gz:
                yield raw
                return
            from gzip import BadGzipFile, GzipFile

            try:
                with GzipFile(fileobj=raw) as unpacked:
                    yield unpacked  # type: ignore[misc]
            except (EOFError, BadGzipFile, zlib.error) as error:
                reason = "cut short" if isinstance(error, EOFError) else str(error)
                raise self.error(f"damaged, or no gzip file: {reason}") from error


class Block(NamedTuple):
    """Whole lines: text[:stop], the last byte a newline; `line` lines stand before them."""

    text: bytearray
    stop: int
    line: int

    @property
    def address(self) -> int:
        """The address of the text in memory, as long as the block is kept."""
        return int(np.frombuffer(self.text, np.uint8).ctypes.data)

    def line_of(self, place: int) -> int:
        """Return the number of the line in which text[place] stands."""
        return self.line + self.text.count(b"\n", 0, place) + 1


def read_blocks(source: Source, file: BinaryIO) -> Iterator[Block]:
    """Read a file in blocks, all in the same memory: a block is gone when the next is asked for."""
    text, kept, line = bytearray(BLOCK), 0, 0
    while True:
        if kept == len(text) - 1:  # one byte is spared for the newline of the last line
            text = text + bytearray(len(text))
        with memoryview(text) as view:
            end = kept + file.readinto(view[kept:-1])  # type: ignore[attr-defined]
        if end == kept:
            break
        if line == kept == 0:
            _refuse_packed(source, text)
        stop = text.rfind(b"\n", kept, end) + 1
        if stop:
            yield Block(text, stop, line)
            line += text.count(b"\n", 0, stop)
            text[: end - stop] = text[stop:end]
        kept = end - stop
        if kept > source.max_line:
            raise source.error(describe_long_line(source), line + 1)
    if kept:
        text[kept] = ord("\n")
        yield Block(text, kept + 1, line)


def _refuse_packed(source: Source, text: bytearray) -> None:
    """Refuse text that is packed, and not unpacked on the way, by its first bytes."""
    packer = next((name for first, name in PACKED.items() if text.startswith(first)), None)
    if packer is not None:
        by_name = "let its name end in .gz" if packer == "gzip" else "unpack it first"
        raise source.error(f"no text, but packed ({packer})", advice=by_name, kind="suffix")


def describe_long_line(source: Source) -> str:
    """Say what is wrong with a line that is too long."""
    return f"more than max_line = {source.max_line} characters in one line"


def make_room(vectors: Sequence[Array], size: int) -> None:
    """Let vectors grow to at least so many entries; the new ones are not set."""
    for vector in vectors:
        if size > vector.size:
            # No other array shares the memory: a kernel has returned before the next call.
            vector.resize(max(size, vector.size * 3 // 2), refcheck=False)


def parse_blocks(
    source: Source,
    blocks: Iterator[Block],
    parser: Callable[..., int],
    rows: Sequence[Array],
    entries: Sequence[Array],
    explain: Callable[[Block, int, Array], DataError],
    collect: Callable[[Block, Array], None] | None = None,
    columns: int = 0,
    shortest: int = 2,
) -> Array:
    """Parse text into vectors of rows, the first of labels, and of entries, the last of values.

    What the parser returns is explained by explain(block, what it returned, state); `collect` is
    given the places of labels that are text, where they may be.  Returns the state at the end.

    columns: the entries of a row, if it is the same of all; shortest: the fewest bytes of a row.
    """
    from continuized.problems import text_parser as parse

    state = np.zeros(parse.STATE_SIZE, np.int64)
    state[parse.WIDTH] = columns
    for block in blocks:
        most_rows = block.stop // shortest + 1  # and one that turns out to be too short
        most = most_rows * columns if columns else block.stop // 2 + 1  # "1," is an entry
        make_room(rows, state[parse.ROWS] + most_rows)
        make_room(entries, state[parse.ENTRIES] + most)
        hard = np.empty((most + most_rows, 3), np.int64)
        words = np.empty((most_rows if collect is not None else 0, 3), np.int64)
        places = (hard,) if collect is None else (hard, words)
        wrong = parser(block.address, block.stop, *rows, *entries, *places, state)
        read_hard_numbers(source, block, hard[: state[parse.HARD]], rows[0], entries[-1])
        if collect is not None:
            collect(block, words[: state[parse.NAMED]])
        if wrong == parse.LONG:
            raise source.error(describe_long_line(source), block.line_of(int(state[parse.PLACE])))
        if wrong:
            raise explain(block, wrong, state)
    for vectors, size in ((rows, state[parse.ROWS]), (entries, state[parse.ENTRIES])):
        for vector in vectors:
            vector.resize(size, refcheck=False)  # with no memory beyond what was read
    return state


def read_hard_numbers(
    source: Source, block: Block, hard: Array, labels: Array, entries: Array
) -> None:
    """Read with float() the tokens that the parser left."""
    for start, stop, place in hard.tolist():
        value = float(block.text[start:stop])
        if math.isinf(value):
            shown = quote(read_token(block, start))
            raise source.error(f"{shown} is too large for a double", block.line_of(start))
        if place < 0:
            labels[~place] = value
        else:
            entries[place] = value


def read_token(block: Block, place: int, ends: bytes = b" \t\r\n") -> bytes:
    """Return the bytes from a place on, up to one that ends them."""
    stop = place
    while block.text[stop] not in ends:
        stop += 1
    return bytes(block.text[place:stop])


def quote(token: bytes) -> str:
    """Quote a token, cut where it is long."""
    more = "..." if len(token) > SHOWN else ""
    return f"'{token[:SHOWN].decode('ascii', 'backslashreplace')}{more}'"


def find_strange_byte(token: bytes) -> str | None:
    """Say which byte of a token is the first that is no printable ASCII, if there is one."""
    strange = [byte for byte in token if not 32 <= byte < 127]
    return f"the byte 0x{strange[0]:02x}, where only ASCII text may stand" if strange else None


def check_columns(source: Source, columns: int, what: str, line: int | None = None) -> None:
    """Refuse a number of columns that is not n_features."""
    if source.n_features not in (None, columns):
        raise source.error(f"{what}, but n_features = {source.n_features}", line)
