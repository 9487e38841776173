"""Data files: SVMlight and CSV, read block by block, NumPy's .npy and .npz, and mapped folders.

Text goes through the compiled parsers of `text_parser`.  Of NumPy's files the headers are read
first, and nothing is ever unpickled; memory is only taken once what the header claims has been
compared with the bytes that are there.
"""

from __future__ import annotations

import errno
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from continuized.problems import sources
from continuized.problems.base import Array
from continuized.problems.csv_files import find_number, read_csv
from continuized.problems.regression.data import INT32_MAX, check_lines, find_not_finite
from continuized.problems.sources import (
    Block,
    Data,
    DataError,
    Options,
    Source,
    check_columns,
    find_strange_byte,
    parse_blocks,
    quote,
    read_blocks,
    read_token,
)
from continuized.support import validation as check
from continuized.support.validation import short_repr

MAX_INDEX = 2**31 - 2  # a count of columns that fits 32 bits
MAX_LINE = 2**24
LIMIT = 2**53
LONGEST_HEADER = 4096  # of NumPy's files; that of a plain array has about 118 bytes
HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
DEFLATE_MOST = 1032  # times that deflate can shorten its input at most
SPARSE_PARTS = ("data", "indices", "indptr", "shape", "format")


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    n_features: int | None = None,
    max_index: int = MAX_INDEX,
    max_line: int = MAX_LINE,
    label: str | int | None = None,
    drop: Sequence[str | int] | str | int = (),
    columns: Sequence[str] | str | None = None,
    missing: str = "refuse",
    labelled: bool = True,
    zero_based: bool = False,
) -> Data:
    """Read X and y from a file; labels stay as they are in it.

    The suffix tells the format, .npz, .npy, .csv or .tsv; any other, or none, is SVMlight.  Text
    may be packed: .gz behind the suffix.

    - svmlight: lines `label index:value index:value ... # comment`, as of LIBSVM: indices from 1 on
      and increasing, blank lines skipped (in a file without labels they are rows without entries),
      `qid:number` behind the label ignored.  X is a `scipy.sparse.csr_array`, with column 0 for
      index 1.
    - csv: a header, then numbers with commas, semicolons or tabs between them, which is found out.
      The column named `target`, `label`, `y` or `class`, in any case, is y, or the last if none is;
      the others are X.  Labels may be text: y holds their numbers then, and data.classes what they
      stand for.  True and False are 1 and 0 in X.  An index that pandas wrote, a first column
      without a name, is left out.
    - npy: a matrix: its last column is y.
    - npz: X and y; or y and the parts of a CSR array, named as `scipy.sparse.save_npz` names them:
      data, indices, indptr, shape, format.  Other arrays are not looked at.
    - a folder with X.npy and y.npy: X is mapped, read-only: it is read from the disk as it is used,
      and may be larger than memory.  It must be float64 or float32 in C order for that, as
      `np.save` writes them; any other is read as a whole.

    Every number is the double nearest its decimals, as `float` reads it.  NaN, infinity, digits
    with underscores, empty cells, text in X, pickles and objects are refused.

    Parameters
    ----------
    path : the file
    format : "svmlight", "npz", "npy" or "csv", whatever the suffix says
    n_features : the number of columns; needed for SVMlight only if the last columns may be empty
    max_index : the largest index, or number of columns of a CSR array, that is believed
    max_line : the longest line of text, in characters
    label : the column of y in a CSV or npy file, by name or number from 1 on, or -1, -2, ...
    drop : columns of a CSV file that are left out, by name or number
    columns : the columns of a CSV file that are X, in this order; others are left out
    missing : "refuse", or "keep": what is empty, NaN, NA or null in X or y is NaN (not in SVMlight)
    labelled : if False, a file without labels is read too, with y = None, or NaN in SVMlight
    zero_based : whether the indices of SVMlight count from 0

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
    check.one_of(missing, "missing", ("refuse", "keep"))
    if label is not None:
        check.instance(label, "label", (str, int), "None, a name or a number")
    options = Options(
        n_features,
        max_index,
        max_line,
        label,
        _check_names(drop, "drop", (str, int), "names or numbers of columns"),
        None if columns is None else _check_names(columns, "columns", str, "names of columns"),
        missing == "keep",
        check.flag(labelled, "labelled"),
        check.flag(zero_based, "zero_based"),
    )
    source = Source(path, options)
    if os.path.isdir(source.path):
        return read_folder(source)
    if format is None:
        format = find_format(source.path)
    if source.gz and format in ("npz", "npy"):
        raise source.error(f".gz is read for text only: unpack it first to read it as {format}")
    with source.open() as file:
        if format in ("npz", "npy") and not file.seekable():
            raise source.error(f"a pipe, but {format} is read from a file only")
        return READERS[format](source, file)


def find_format(path: str) -> str:
    """Tell the format of a file by its suffix.

    >>> find_format("rows.TSV.gz"), find_format("rows.npy"), find_format("rows.txt")
    ('csv', 'npy', 'svmlight')
    """
    suffix = os.path.splitext(path.lower().removesuffix(".gz"))[1][1:]
    return {"tsv": "csv"}.get(suffix, suffix if suffix in READERS else "svmlight")


def _check_names(given: Any, option: str, kinds: Any, what: str) -> tuple[Any, ...]:
    """Return columns as they are called; one alone need not be in a list."""
    listed = [given] if isinstance(given, kinds) else check.sequence(given, option, what)
    return tuple(check.instance(each, option, kinds, what) for each in listed)


def read_svmlight(source: Source, file: BinaryIO) -> Data:
    """Read X as a CSR array, and y, from a file in SVMlight's format."""
    from scipy import sparse

    from continuized.problems import text_parser as parse

    limit = source.n_features or source.max_index
    small = limit <= INT32_MAX
    y, ends, values = np.empty(0), np.empty(0, np.int64), np.empty(0)
    indices: Array = np.empty(0, np.int32 if small else np.int64)
    shift = int(source.zero_based)
    parser = partial(parse.parse_svmlight, limit, shift, source.labelled, source.max_line)
    explain = partial(_explain_entry, source, indices)
    blocks = read_blocks(source, file)
    shortest = 2 if source.labelled else 1
    vectors = (y, ends), (indices, values)
    state = parse_blocks(source, blocks, parser, *vectors, explain, shortest=shortest)
    y, ends, notes = _settle_blank_lines(y, ends)
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
    data = Data(sparse.csr_array(parts, shape=(y.size, columns)), y)
    data.notes = notes
    return data


def _settle_blank_lines(y: Array, ends: Array) -> tuple[Array, Array, tuple[str, ...]]:
    """Take blank lines for rows without entries where no row has a label, as what writes such rows
    leaves nothing else of them; and leave them out where one has."""
    is_blank = np.isneginf(y)
    count = int(is_blank.sum())
    if count == 0:
        return y, ends, ()
    if not np.all(np.isnan(y[~is_blank])):
        return y[~is_blank], ends[~is_blank], ()
    y[is_blank] = np.nan
    lines = "1 blank line is a row" if count == 1 else f"{count:,} blank lines are rows"
    return y, ends, (f"{lines} without entries, for no row has a label",)


def _explain_entry(
    source: Source, indices: Array, block: Block, wrong: int, state: Array
) -> DataError:
    """Say what is wrong in a line of SVMlight."""
    from continuized.problems import text_parser as parse

    place = int(state[parse.PLACE])
    token = read_token(block, place)
    shown, index = quote(token), quote(token.partition(b":")[0])[1:-1]
    columns = source.n_features
    limit = f"max_index = {source.max_index}" if columns is None else f"n_features = {columns}"
    before = indices[state[parse.ENTRIES] - 1] + (0 if source.zero_based else 1)
    line = block.line_of(place)
    if wrong == parse.NUMBER_0:
        what = f"the index 0 in {shown}: indices are counted from 1"
        return source.error(what, line, "give zero_based=True if they are from 0", "zero")
    sentences = {
        parse.LABEL: f"the label {shown} is not a finite decimal number",
        parse.INDEX: f"index:value is expected, but {shown} stands there",
        parse.LARGE: f"the index {index} is more than {limit}",
        parse.ORDER: f"the index {index} after {before}: indices must increase in a line",
        parse.VALUE: f"the value {shown} is not a finite decimal number",
        parse.QID: f"qid: and a whole number is expected, but {shown} stands there",
    }
    advice = kind = ""
    if wrong == parse.LABEL and line == 1 and b":" not in token:
        advice = "if the file is a table with a header, give its name the suffix .csv"
        kind = "suffix"
    return source.error(find_strange_byte(token) or sentences[wrong], line, advice, kind)


def read_npy(source: Source, file: BinaryIO) -> Data:
    """Read X and y from a 2-d array whose last column is y."""
    length = file.seek(0, 2)
    file.seek(0)
    table = _read_array(source, file, length, "the array")
    if table.ndim == 2 and not source.labelled and table.shape[1] == source.n_features:
        return Data(_as_real(source, table, "X"), None)
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < 2:
        raise source.error(
            "an array with rows and at least two columns, the last of them y, is expected, but "
            f"its shape is {table.shape}"
        )
    width = table.shape[1]
    check_columns(source, width - 1, f"X has {width - 1} columns")
    label = find_number(-1 if source.label is None else source.label, width)
    if label is None and not source.labelled:  # a name that a model knows says nothing here
        label = width - 1
    if label is None:
        what = f"label: no column is called {str(source.label)!r}"
        raise source.error(f"{what}: those of an array have the numbers 1 to {width}")
    X = table[:, :-1] if label == width - 1 else np.delete(table, label, axis=1)
    data = Data(_as_real(source, X, "X"), _as_real(source, table[:, label], "y"))
    data.label = None if label == width - 1 else str(label + 1)
    return data


def read_folder(source: Source) -> Data:
    """Map X.npy of a folder into memory, without reading it, and read y.npy."""
    paths = {name: os.path.join(source.path, f"{name}.npy") for name in ("X", "y")}
    missing = [f"{name}.npy" for name, path in paths.items() if not os.path.isfile(path)]
    if missing:
        raise source.error(f"a folder, not a file, and without {' and '.join(missing)}")
    X, y = (_map_array(source, path, name) for name, path in paths.items())
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise source.error(
            "X must be a matrix and y a vector with an entry for each row of it, but the shapes "
            f"are {X.shape} and {y.shape}"
        )
    check_columns(source, X.shape[1], f"X has {X.shape[1]} columns")
    return Data(X, _as_real(source, y, "y"))


def _map_array(source: Source, path: str, name: str) -> Array:
    """Map an array of floats in C order, in the byte order of this machine; read any other."""
    with open(path, "rb", buffering=0) as file:
        length = file.seek(0, 2)
        file.seek(0)
        shape, fortran, dtype, start = _read_array_header(source, file, name)
        is_ready = dtype in (np.float64, np.float32) and dtype.isnative and not fortran
        if not is_ready or math.prod(shape) * dtype.itemsize != length - start or 0 in shape:
            file.seek(0)
            return _as_real(source, _read_array(source, file, length, name), name)
    mapped = np.memmap(path, dtype, "r", start, shape)
    _refuse_not_finite(source, mapped, name)
    return mapped


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
    has_y = "y" in names or not source.labelled
    if not has_y or ("X" in names) == all(part in names for part in SPARSE_PARTS):
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
    check_columns(source, X.shape[1], f"X has {X.shape[1]} columns")
    if "y" not in names:
        return Data(X, None)
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
        what = f"{name} must hold real numbers, its dtype is {dtype}"
        if name == "y" and dtype.kind in "bSU":
            what += "; number the classes (np.unique(y, return_inverse=True)[1]), or write CSV"
        raise source.error(what)
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
        count = file.readinto(room[: sources.BLOCK])  # type: ignore[attr-defined]
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


def _as_real(source: Source, values: Array, name: str) -> Array:
    """Convert to float64 in C order, with a copy only where needed; refuse NaN and infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.require(values, np.float64, ("C_CONTIGUOUS", "ALIGNED"))
    _refuse_not_finite(source, array, name)
    return array


def _refuse_not_finite(source: Source, array: Array, name: str) -> None:
    """Refuse NaN and infinity; NaN only where it does not mean that a number is missing."""
    wrong = find_not_finite(array)
    if source.keep_missing:
        wrong = wrong[np.isinf(array.flat[wrong])]
    if wrong.size:
        place = ", ".join(str(int(k)) for k in np.unravel_index(wrong[0], array.shape))
        raise source.error(
            f"{name}[{place}] is {array.flat[wrong[0]]}: only finite numbers are read",
            kind="" if np.isinf(array.flat[wrong[0]]) else f"missing{' label' * (name == 'y')}",
        )


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
