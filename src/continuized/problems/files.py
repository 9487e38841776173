"""Data files: SVMlight and CSV, read block by block, and NumPy's .npy and .npz.

Text goes through the compiled parsers of `text_parser`.  Of NumPy's files the headers are read
first, and nothing is ever unpickled; memory is only taken once what the header claims has been
compared with the bytes that are there.
"""

from __future__ import annotations

import csv
import errno
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from continuized.problems.base import Array
from continuized.problems.regression.data import INT32_MAX, check_lines, find_not_finite
from continuized.support import validation as check
from continuized.support.display import show_html, show_line
from continuized.support.validation import AdvisedError, short_repr

MAX_INDEX = 2**31 - 2  # a count of columns that fits 32 bits
MAX_LINE = 2**24
LIMIT = 2**53
BLOCK = 2**20  # bytes that are read at once
SHOWN = 24  # characters of a token in a sentence
TARGETS = ("y", "label", "target")  # names of the column of labels
LONGEST_HEADER = 4096  # of NumPy's files; that of a plain array has about 118 bytes
HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
DEFLATE_MOST = 1032  # times that deflate can shorten its input at most
SPARSE_PARTS = ("data", "indices", "indptr", "shape", "format")


class _Pair(NamedTuple):
    X: Any
    y: Array


class Data(_Pair):
    """The rows X, a float64 array or a CSR array of them, and the labels y.

    names: those of the columns of X, from the header of a CSV file; None of other files.

    >>> import pathlib, tempfile
    >>> from continuized.problems import LogisticRegression
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "two_rows.csv"
    ...     _ = file.write_text("a,b,y\\n0.5,2,1\\n1,0,-1\\n")
    ...     data = read(file)
    >>> data.y.tolist(), LogisticRegression(*data, l2=0.1).dim
    ([1.0, -1.0], 2)
    >>> data.names
    ('a', 'b')
    """

    names: tuple[str, ...] | None = None

    def _facts(self) -> dict[str, Any]:
        rows, columns = self.X.shape
        facts = {"rows": rows, "columns": columns, "sparse": not isinstance(self.X, np.ndarray)}
        return facts if self.names is None else facts | {"names": self.names}

    __repr__ = show_line
    _repr_html_ = show_html


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    n_features: int | None = None,
    max_index: int = MAX_INDEX,
    max_line: int = MAX_LINE,
) -> Data:
    """Read X and y from a file; labels stay as they are in it.

    The suffix tells the format, .npz, .npy or .csv; any other, or none, is SVMlight.  Text may
    be packed: .gz behind the suffix.

    svmlight  Lines `label index:value index:value ... # comment`, as of LIBSVM: indices from 1
              on and increasing, blank lines skipped, `qid:number` behind the label ignored.  X is
              a `scipy.sparse.csr_array`, with column 0 for index 1.
    csv       A header, then numbers with commas between them.  The column named `y`, `label` or
              `target` is y, or the last if none is; the others are X.
    npy       A matrix: its last column is y.
    npz       X and y; or y and the parts of a CSR array, named as `scipy.sparse.save_npz` names
              them: data, indices, indptr, shape, format.  Other arrays are not looked at.

    Every number is the double nearest its decimals, as `float` reads it.  NaN, infinity, digits
    with underscores, empty fields, pickles and objects are refused.

    Parameters
    ----------
    path : the file
    format : "svmlight", "npz", "npy" or "csv", whatever the suffix says
    n_features : the number of columns; needed for SVMlight only if the last columns may be empty
    max_index : the largest index, or number of columns of a CSR array, that is believed
    max_line : the longest line of text, in characters

    Raises TypeError or ValueError where an option makes no sense, OSError where the file cannot be
    opened, and DataError where it is not what it should be: a sentence with its name and, in text,
    the line.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "two_rows.svm"
    ...     _ = file.write_text("+1 1:0.5 3:2 # a comment\\n-1 2:0.25\\n")
    ...     X, y = read(file)
    >>> X.toarray(), y
    (array([[0.5 , 0.  , 2.  ],
           [0.  , 0.25, 0.  ]]), array([ 1., -1.]))
    """
    if format is not None:
        check.one_of(format, "format", READERS, other="None")
    if n_features is not None:
        n_features = check.whole(n_features, "n_features", minimum=1, maximum=LIMIT)
    max_index = check.whole(max_index, "max_index", minimum=1, maximum=LIMIT)
    max_line = check.whole(max_line, "max_line", minimum=1, maximum=LIMIT)
    if n_features is not None and n_features > max_index:
        raise ValueError(f"n_features = {n_features} is more than max_index = {max_index}")
    source = Source(path, n_features, max_index, max_line)
    if format is None:
        plain = source.path[: -len(".gz")] if source.gz else source.path
        suffix = os.path.splitext(plain)[1].lower()[1:]
        format = suffix if suffix in READERS else "svmlight"
    if source.gz and format in ("npz", "npy"):
        raise source.error(f".gz is read for text only: unpack it first to read it as {format}")
    with source.open() as file:
        if format in ("npz", "npy") and not file.seekable():
            raise source.error(f"a pipe, but {format} is read from a file only")
        return READERS[format](source, file)


class DataError(AdvisedError):
    """A file is not what it should be; the message names the file and, for text, the line.

    >>> import pathlib, tempfile
    >>> from continuized.problems import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "rows.csv"
    ...     _ = file.write_text("y,a\\n1,two\\n")
    ...     try:
    ...         read(file)
    ...     except DataError as error:
    ...         print(str(error).partition("rows.csv")[2])
    , line 2: 'two' in column 'a' is not a finite decimal number
    """


class Source:
    """A path that was checked, with the options of `read`.

    OSError only comes from opening and reading it.
    """

    def __init__(
        self, path: str | os.PathLike[str], n_features: int | None, max_index: int, max_line: int
    ) -> None:
        self.n_features, self.max_index, self.max_line = n_features, max_index, max_line
        kinds = (str, bytes, os.PathLike)
        self.path = os.fsdecode(check.instance(path, "path", kinds, "a str or a Path"))
        # Names that would break the line, or could not be printed, are shown by their repr.
        self.name = self.path if self.path.isprintable() else repr(self.path)
        if "\0" in self.path:
            raise self.error("a path with a NUL character is no file's")
        self.gz = self.path.lower().endswith(".gz")

    def error(self, what: str, line: int | None = None, advice: str = "") -> DataError:
        """Make the error to raise."""
        where = self.name if line is None else f"{self.name}, line {line}"
        return DataError(f"{where}: {what}", advice)

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
    explain: Callable[[Block, int, Array], str],
) -> Array:
    """Parse text into vectors of rows, the first of labels, and of entries, the last of values.

    What the parser returns is explained by explain(block, what it returned, state).  Returns the
    state at the end.
    """
    from continuized.problems import text_parser as parse

    state = np.zeros(parse.STATE_SIZE, np.int64)
    for block in blocks:
        most = block.stop // 2 + 1  # "1\n" is the shortest row, "1," the shortest entry
        make_room(rows, state[parse.ROWS] + most)
        make_room(entries, state[parse.ENTRIES] + most)
        hard = np.empty((most, 3), np.int64)
        wrong = parser(block.address, block.stop, *rows, *entries, hard, state)
        _read_hard_numbers(source, block, hard[: state[parse.HARD]], rows[0], entries[-1])
        if wrong:
            too_long = wrong == parse.LONG
            what = describe_long_line(source) if too_long else explain(block, wrong, state)
            raise source.error(what, block.line_of(int(state[parse.PLACE])))
    for vectors, size in ((rows, state[parse.ROWS]), (entries, state[parse.ENTRIES])):
        for vector in vectors:
            vector.resize(size, refcheck=False)  # with no memory beyond what was read
    return state


def read_svmlight(source: Source, file: BinaryIO) -> Data:
    """Read X as a CSR array, and y, from a file in SVMlight's format."""
    from scipy import sparse

    from continuized.problems import text_parser as parse

    limit = source.n_features or source.max_index
    small = limit <= INT32_MAX
    y, ends, values = np.empty(0), np.empty(0, np.int64), np.empty(0)
    indices: Array = np.empty(0, np.int32 if small else np.int64)
    parser = partial(parse.parse_svmlight, limit, source.max_line)
    explain = partial(_explain_entry, source, indices)
    blocks = read_blocks(source, file)
    state = parse_blocks(source, blocks, parser, (y, ends), (indices, values), explain)
    columns = source.n_features or int(state[parse.LARGEST])
    if y.size == 0:
        raise source.error("no rows: empty, or comments only")
    if columns == 0:
        raise source.error(
            "labels only, and so no columns", advice="give n_features if that is meant"
        )
    kind = np.int32 if small and values.size <= INT32_MAX else np.int64
    indptr = np.concatenate([[0], ends]).astype(kind)
    parts = (values, indices.astype(kind, copy=False), indptr)
    return Data(sparse.csr_array(parts, shape=(y.size, columns)), y)


def read_csv(source: Source, file: BinaryIO) -> Data:
    """Read X, y and the names of X's columns; y is the column named so, or the last."""
    from continuized.problems import text_parser as parse

    names, blocks = _read_names(source, read_blocks(source, file))
    target, columns = _choose_target(source, names), len(names) - 1
    _check_columns(source, columns, f"{columns} columns beside {names[target]!r}", 1)
    y, X = np.empty(0), np.empty(0)
    parser = partial(parse.parse_csv, len(names), target, source.max_line)
    explain = partial(_explain_field, names)
    parse_blocks(source, blocks, parser, (y,), (X,), explain)
    if y.size == 0:
        raise source.error("a header, but no rows")
    data = Data(X.reshape(y.size, columns), y)
    data.names = (*names[:target], *names[target + 1 :])
    return data


def _read_hard_numbers(
    source: Source, block: Block, hard: Array, labels: Array, entries: Array
) -> None:
    """Read with float() the tokens that the parser left."""
    for start, stop, place in hard.tolist():
        value = float(block.text[start:stop])
        if math.isinf(value):
            shown = _quote(_read_token(block, start))
            raise source.error(f"{shown} is too large for a double", block.line_of(start))
        if place < 0:
            labels[~place] = value
        else:
            entries[place] = value


def _read_token(block: Block, place: int, ends: bytes = b" \t\r\n") -> bytes:
    stop = place
    while block.text[stop] not in ends:
        stop += 1
    return bytes(block.text[place:stop])


def _quote(token: bytes) -> str:
    """Quote a token, cut where it is long."""
    more = "..." if len(token) > SHOWN else ""
    return f"'{token[:SHOWN].decode('ascii', 'backslashreplace')}{more}'"


def _find_strange_byte(token: bytes) -> str | None:
    """Say which byte of a token is the first that is no printable ASCII, if there is one."""
    strange = [byte for byte in token if not 32 <= byte < 127]
    return f"the byte 0x{strange[0]:02x}, where only ASCII text may stand" if strange else None


def _explain_entry(source: Source, indices: Array, block: Block, wrong: int, state: Array) -> str:
    """Say what is wrong in a line of SVMlight."""
    from continuized.problems import text_parser as parse

    token = _read_token(block, int(state[parse.PLACE]))
    shown, index = _quote(token), _quote(token.partition(b":")[0])[1:-1]
    columns = source.n_features
    limit = f"max_index = {source.max_index}" if columns is None else f"n_features = {columns}"
    before = indices[state[parse.ENTRIES] - 1] + 1
    sentences = {
        parse.LABEL: f"the label {shown} is not a finite decimal number",
        parse.INDEX: f"index:value is expected, but {shown} stands there",
        parse.NUMBER_0: f"the index 0 in {shown}: indices are counted from 1",
        parse.LARGE: f"the index {index} is more than {limit}",
        parse.ORDER: f"the index {index} after {before}: indices must increase in a line",
        parse.VALUE: f"the value {shown} is not a finite decimal number",
        parse.QID: f"qid: and a whole number is expected, but {shown} stands there",
    }
    return _find_strange_byte(token) or sentences[wrong]


def _explain_field(names: list[str], block: Block, wrong: int, state: Array) -> str:
    """Say what is wrong in a line of a CSV file."""
    from continuized.problems import text_parser as parse

    place, column = int(state[parse.PLACE]), int(state[parse.COLUMN])
    if wrong == parse.FEWER:
        return f"{column + 1} fields, but the header names {len(names)} columns"
    if wrong == parse.MORE:
        return f"more fields than the {len(names)} columns that the header names"
    name = names[column] if len(names[column]) <= SHOWN else names[column][:SHOWN] + "..."
    if block.text[place] in b",\r\n":
        return f"column {name!r} is empty"
    token = _read_token(block, place, b",\r\n")
    wrong_number = f"{_quote(token)} in column {name!r} is not a finite decimal number"
    return _find_strange_byte(token.partition(b"\t")[0]) or wrong_number


def _read_names(source: Source, stream: Iterator[Block]) -> tuple[list[str], Iterator[Block]]:
    """Read the names of the columns; return them with the blocks that follow the first line."""
    first = next(stream, None)
    if first is None:
        raise source.error("empty: a header and rows are expected")
    end = first.text.index(b"\n") + 1
    if end - 1 > source.max_line:
        raise source.error(describe_long_line(source), 1)
    try:
        line = first.text[: end - 1].decode("utf-8-sig").removesuffix("\r")
        names = [name.strip() for name in next(csv.reader([line], strict=True), [])]
    except (UnicodeDecodeError, csv.Error) as error:
        raise source.error(f"not a header of a CSV file: {error}", 1) from error
    rest = [Block(first.text[end:], first.stop - end, 1)] if first.stop > end else []
    return names, chain(rest, stream)


def _choose_target(source: Source, names: list[str]) -> int:
    """Choose the column of y."""
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


def read_npy(source: Source, file: BinaryIO) -> Data:
    """Read X and y from a 2-d array whose last column is y."""
    length = file.seek(0, 2)
    file.seek(0)
    table = _read_array(source, file, length, "the array")
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < 2:
        raise source.error(
            "an array with rows and at least two columns, the last of them y, is expected, but "
            f"its shape is {table.shape}"
        )
    _check_columns(source, table.shape[1] - 1, f"X has {table.shape[1] - 1} columns")
    return Data(_as_real(source, table[:, :-1], "X"), _as_real(source, table[:, -1], "y"))


def read_npz(source: Source, file: BinaryIO) -> Data:
    """Read X and y from an archive that holds both, or y and the parts of X as a CSR array."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_members(source, archive)
    except DataError:
        raise
    except OSError as error:
        if error.errno != errno.EINVAL:  # a directory that points before the file's beginning
            raise
        raise source.error("damaged: its directory points outside of it") from error
    # All else that zipfile raises on a damaged archive.
    except (
        zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError,
        OverflowError, KeyError, IndexError, NotImplementedError,
    ) as error:  # fmt: skip
        reason = short_repr(str(error) or type(error).__name__)
        raise source.error(f"damaged, or no .npz file: {reason}") from error


def _read_members(source: Source, archive: zipfile.ZipFile) -> Data:
    names = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(names) < len(archive.infolist()):
        raise source.error("two arrays have the same name")
    if "y" not in names or ("X" in names) == all(part in names for part in SPARSE_PARTS):
        raise source.error(
            f"either X and y, or y and the parts of a CSR array ({', '.join(SPARSE_PARTS)}) are "
            f"expected, but it holds {short_repr(sorted(names))}"
        )

    def get(name: str, kinds: str = "fiu") -> Array:
        return _read_member(source, archive, names[name], name, kinds)

    if "X" in names:
        X: Any = get("X")
        if X.ndim != 2 or 0 in X.shape:
            raise source.error(f"X must be a matrix with rows and columns, its shape is {X.shape}")
        X = _as_real(source, X, "X")
    else:
        kind = get("format", "SU")
        if kind.shape != () or kind.astype(str)[()] != "csr":
            raise source.error("format must be 'csr'; convert X with X.tocsr() and save it again")
        X = _make_csr(source, get("data"), get("indices"), get("indptr"), get("shape"))
    _check_columns(source, X.shape[1], f"X has {X.shape[1]} columns")
    y = get("y")
    if y.shape != (X.shape[0],):
        raise source.error(
            f"y must be a vector with an entry for each row of X, but the shapes are {y.shape} "
            f"and {X.shape}"
        )
    return Data(X, _as_real(source, y, "y"))


def _read_member(
    source: Source, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, kinds: str
) -> Array:
    if info.flag_bits & 1:
        raise source.error(f"{name} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise source.error(f"{name} is compressed in a way that np.savez_compressed does not use")
    most = info.compress_size
    if info.compress_type == zipfile.ZIP_DEFLATED:
        most = DEFLATE_MOST * (most + 1)
    if info.file_size > most:
        raise source.error(
            f"{name} claims {info.file_size} bytes, more than its {info.compress_size} packed "
            "bytes can hold"
        )
    with archive.open(info) as member:
        return _read_array(source, member, info.file_size, name, kinds)  # type: ignore[arg-type]


def _read_array(
    source: Source, file: BinaryIO, length: int, name: str, kinds: str = "fiu"
) -> Array:
    """Read the array in a file of so many bytes, once its header has proved true."""
    shape, fortran, dtype, start = _read_array_header(source, file, name)
    if dtype.hasobject:
        raise source.error(f"{name} holds Python objects, which are not read: they could run code")
    if dtype.kind not in kinds:
        raise source.error(f"{name} must hold real numbers, its dtype is {dtype}")
    if 0 in shape and len(shape) > 1:
        raise source.error(f"{name} is empty: its shape is {shape}")
    size = math.prod(shape) * dtype.itemsize
    if size != length - start:
        raise source.error(
            f"{name} should take {size} bytes by its header, but {length - start} are there"
        )
    file.seek(start)
    entries = np.empty(math.prod(shape), dtype)
    room = entries.view(np.uint8).data
    while room:
        count = file.readinto(room[:BLOCK])  # type: ignore[attr-defined]
        if not count:
            raise source.error(f"{name} is cut short")
        room = room[count:]
    if file.read(1):  # in an archive, this also compares the checksum
        raise source.error(f"{name} has more bytes than it claims")
    return entries.reshape(shape, order="F" if fortran else "C")


def _read_array_header(
    source: Source, file: BinaryIO, name: str
) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read shape, order and dtype of an array, and where its entries begin.

    Of the file, no more is read than the longest header has, whatever length it claims.
    """
    head = io.BytesIO(file.read(LONGEST_HEADER))
    try:
        parse = HEADERS[npy_format.read_magic(head)]
    except (ValueError, KeyError) as error:
        raise source.error(
            f"{name} is not in NumPy's format: it does not begin as such a file"
        ) from error
    try:
        shape, fortran, dtype = parse(head, max_header_size=LONGEST_HEADER)
    except Exception as error:  # NumPy evaluates it as a literal, which may fail in many ways
        if str(error).startswith("EOF"):
            what = f"the header of {name} is cut short, or longer than any of an array"
        else:
            what = f"the header of {name} is not that of an array of numbers"
        raise source.error(what) from error
    is_shape = len(shape) <= 32 and all(0 <= side < 2**63 for side in shape)
    if dtype.names or dtype.itemsize == 0 or not is_shape:
        raise source.error(f"the header of {name} is not that of an array of numbers")
    return shape, fortran, dtype, head.tell()


def _check_columns(source: Source, columns: int, what: str, line: int | None = None) -> None:
    if source.n_features not in (None, columns):
        raise source.error(f"{what}, but n_features = {source.n_features}", line)


def _as_real(source: Source, values: Array, name: str) -> Array:
    """Convert to float64 in C order, with a copy only where needed; refuse NaN and infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.require(values, np.float64, ("C_CONTIGUOUS", "ALIGNED"))
    wrong = find_not_finite(array)
    if wrong.size:
        place = ", ".join(str(int(k)) for k in np.unravel_index(wrong[0], array.shape))
        raise source.error(
            f"{name}[{place}] is {array.flat[wrong[0]]}: only finite numbers are read"
        )
    return array


def _make_csr(source: Source, data: Array, indices: Array, indptr: Array, shape: Array) -> Any:
    """Make a CSR array of these parts, once they are found to fit together."""
    from scipy import sparse

    if shape.dtype.kind not in "iu" or shape.shape != (2,) or shape.min() < 1:
        raise source.error(f"shape must be two whole numbers > 0, got {shape.ravel()[:4].tolist()}")
    n, columns = shape.tolist()
    if columns > source.max_index:
        raise source.error(f"X has {columns} columns, more than max_index = {source.max_index}")
    if data.ndim != 1 or data.size != indices.size:
        raise source.error(
            f"data and indices must be vectors alike, their shapes are {data.shape} and "
            f"{indices.shape}"
        )
    try:
        check_lines(data, indices, indptr, n, columns)
    except ValueError as error:
        raise source.error(str(error)) from error
    if indptr[-1] != data.size:
        raise source.error(f"indptr must end with {data.size}, the number of entries of X")
    follows = np.ones(indices.size + 1, bool)  # whether an entry is not the first of its row
    follows[indptr] = False
    wrong = np.flatnonzero(follows[1:-1] & (indices[1:] <= indices[:-1]))
    if wrong.size:
        raise source.error(
            f"indices[{int(wrong[0]) + 1}] is not more than the one before it in its row; call "
            "X.sum_duplicates() and save it again"
        )
    kind = np.int32 if max(columns, data.size) <= INT32_MAX else np.int64
    parts = (indices.astype(kind, copy=False), indptr.astype(kind, copy=False))
    return sparse.csr_array((_as_real(source, data, "data"), *parts), shape=(n, columns))


READERS = {"svmlight": read_svmlight, "npz": read_npz, "npy": read_npy, "csv": read_csv}
