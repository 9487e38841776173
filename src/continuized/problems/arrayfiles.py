"""NumPy's files, .npy and .npz: their headers are read first, and nothing is ever unpickled.

Memory is only taken once the header's claim has been held against the bytes that are there.
"""

from __future__ import annotations

import errno
import math
import re
import struct
import zipfile
import zlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.problems.regression.data import INT32_MAX
from continuized.problems.source import BLOCK, DataError, Source
from continuized.support.validation import brief

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 4096  # of a plain array it has about 118 bytes
DEFLATE_MOST = 1032  # times that deflate can shorten its input at most
SPARSE_PARTS = ("data", "indices", "indptr", "shape", "format")
_FIELD = re.compile(
    r"\s*['\"](descr|fortran_order|shape)['\"]\s*:"
    r"\s*(True|False|\([\d,\s]*\)|['\"][<>=|]?[biufcmMOSUV]\d{0,6}['\"])\s*(?:,|(?=\}))"
)


class Header(NamedTuple):
    """What an array is, and how many bytes its entries take."""

    dtype: np.dtype[Any]
    fortran: bool
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def npy(source: Source, file: BinaryIO, n_features: int | None) -> tuple[Array, Array]:
    """X and y of a 2-d array whose last column is y."""
    length = file.seek(0, 2)
    file.seek(0)
    table = _array(source, file, length, "the array")
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < 2:
        raise source.error(
            "an array with rows and at least two columns, the last of them y, is expected, but "
            f"its shape is {table.shape}"
        )
    _same_columns(source, table.shape[1] - 1, n_features)
    X = _real(source, table[:, :-1], "X")
    return X, _real(source, table[:, -1], "y")


def npz(
    source: Source, file: BinaryIO, n_features: int | None, max_index: int
) -> tuple[Any, Array]:
    """X and y of an archive that holds both, or y and the parts of X as a CSR array."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _members(source, archive, n_features, max_index)
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
        reason = brief(str(error) or type(error).__name__)
        raise source.error(f"damaged, or no .npz file: {reason}") from error


def _members(
    source: Source, archive: zipfile.ZipFile, n_features: int | None, max_index: int
) -> tuple[Any, Array]:
    names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
    if len(set(names)) < len(names):
        raise source.error("two arrays have the same name")
    if "y" not in names or ("X" in names) == all(part in names for part in SPARSE_PARTS):
        raise source.error(
            f"either X and y, or y and the parts of a CSR array ({', '.join(SPARSE_PARTS)}) are "
            f"expected, but it holds {brief(sorted(names))}"
        )

    def get(name: str, kinds: str = "fiu") -> Array:
        return _member(source, archive, name, kinds)

    if "X" in names:
        X: Any = get("X")
        if X.ndim != 2 or 0 in X.shape:
            raise source.error(f"X must be a matrix with rows and columns, its shape is {X.shape}")
        X = _real(source, X, "X")
    else:
        kind = get("format", "SU")
        if kind.shape != () or kind.astype(str)[()] != "csr":
            raise source.error("format must be 'csr'; convert X with X.tocsr() and save it again")
        X = _csr(source, get("data"), get("indices"), get("indptr"), get("shape"), max_index)
    _same_columns(source, X.shape[1], n_features)
    y = get("y")
    if y.shape != (X.shape[0],):
        raise source.error(
            f"y must be a vector with an entry for each row of X, but the shapes are {y.shape} "
            f"and {X.shape}"
        )
    return X, _real(source, y, "y")


def _member(source: Source, archive: zipfile.ZipFile, name: str, kinds: str) -> Array:
    found = [i for i in archive.infolist() if i.filename.removesuffix(".npy") == name]
    info = found[0]
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
        return _array(source, member, info.file_size, name, kinds)  # type: ignore[arg-type]


def _array(source: Source, file: BinaryIO, length: int, name: str, kinds: str = "fiu") -> Array:
    """The array in a file of so many bytes, in an order and dtype of its own."""
    header, start = _header(source, file, name)
    if header.dtype.hasobject or header.dtype.kind == "O":
        raise source.error(f"{name} holds Python objects, which are not read: they could run code")
    if header.dtype.kind not in kinds:
        raise source.error(f"{name} must hold real numbers, its dtype is {header.dtype}")
    if 0 in header.shape and len(header.shape) > 1:
        raise source.error(f"{name} is empty: its shape is {header.shape}")
    if header.size != length - start:
        raise source.error(
            f"{name} should take {header.size} bytes by its header, but {length - start} are there"
        )
    entries = np.empty(math.prod(header.shape), header.dtype)
    _fill(source, file, entries.view(np.uint8).data, name)
    if file.read(1):  # in an archive, this also compares the checksum
        raise source.error(f"{name} has more bytes than it claims")
    return entries.reshape(header.shape, order="F" if header.fortran else "C")


def _fill(source: Source, file: BinaryIO, room: memoryview, name: str) -> None:
    done = 0
    while done < len(room):
        count = file.readinto(room[done : done + BLOCK])  # type: ignore[attr-defined]
        if not count:
            raise source.error(f"{name} is cut short")
        done += count


def _header(source: Source, file: BinaryIO, name: str) -> tuple[Header, int]:
    """The header at the beginning of a file, and where it ends."""
    start = file.read(8)
    if start[:6] != MAGIC or start[6:] not in (b"\1\0", b"\2\0", b"\3\0"):
        raise source.error(f"{name} is not in NumPy's format: it does not begin as such a file")
    form = "<H" if start[6] == 1 else "<I"
    size = file.read(struct.calcsize(form))
    length = struct.unpack(form, size)[0] if len(size) == struct.calcsize(form) else 0
    text = file.read(min(length, LONGEST_HEADER))
    if not 0 < length <= LONGEST_HEADER or len(text) < length:
        raise source.error(f"the header of {name} is cut short, or longer than any of an array")
    header = _parsed(text.decode("latin-1").strip())
    if header is None:
        raise source.error(f"the header of {name} is not that of an array of numbers")
    return header, len(start) + len(size) + length


def _parsed(text: str) -> Header | None:
    """The header in {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }, if it is one."""
    fields: dict[str, str] = {}
    place = 1
    while found := _FIELD.match(text, place):
        fields[found[1]] = found[2]
        place = found.end()
    if text[:1] != "{" or text[place:].strip() != "}" or len(fields) != 3:
        return None
    shape = [part.strip() for part in fields["shape"].strip("()").split(",")]
    if shape[-1] == "":
        shape.pop()
    if fields["fortran_order"] not in ("True", "False") or not all(map(str.isdigit, shape)):
        return None
    if max(map(len, shape), default=0) > 18 or len(shape) > 32:
        return None
    try:
        dtype = np.dtype(fields["descr"].strip("'\""))
    except TypeError:
        return None
    if dtype.itemsize == 0:
        return None
    return Header(dtype, fields["fortran_order"] == "True", tuple(map(int, shape)))


def _same_columns(source: Source, columns: int, n_features: int | None) -> None:
    if n_features not in (None, columns):
        raise source.error(f"X has {columns} columns, but n_features = {n_features}")


def _real(source: Source, values: Array, name: str) -> Array:
    """As float64 in C order, a copy only where it must be; NaN and infinity refused."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.require(values, np.float64, ("C_CONTIGUOUS", "ALIGNED"))
        if np.isfinite(array.sum()):  # quick, and without an array as large as X
            return array
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        place = ", ".join(str(int(k)) for k in np.unravel_index(wrong[0], array.shape))
        raise source.error(
            f"{name}[{place}] is {array.flat[wrong[0]]}: only finite numbers are read"
        )
    return array


def _csr(
    source: Source, data: Array, indices: Array, indptr: Array, shape: Array, max_index: int
) -> Any:
    """The CSR array of these parts, once they fit together."""
    from scipy import sparse

    for name, part in (("indices", indices), ("indptr", indptr), ("shape", shape)):
        if part.dtype.kind not in "iu" or part.ndim != 1:
            raise source.error(f"{name} must be a vector of integers")
    if shape.size != 2 or min(shape.tolist()) < 1:
        raise source.error(f"shape must be two whole numbers > 0, got {shape.tolist()[:4]}")
    n, columns = shape.tolist()
    if columns > max_index:
        raise source.error(f"X has {columns} columns, more than max_index = {max_index}")
    if data.ndim != 1 or data.size != indices.size:
        raise source.error(
            f"data and indices must be vectors alike, their shapes are {data.shape} and "
            f"{indices.shape}"
        )
    if indptr.size != n + 1 or indptr[0] != 0 or indptr[-1] != data.size:
        raise source.error(
            f"indptr must have {n + 1} entries, from 0 to {data.size}, the number of entries of X"
        )
    _check_rows(source, indptr, indices, columns)
    kind = np.int32 if max(columns, data.size) <= INT32_MAX else np.int64
    parts = (indices.astype(kind, copy=False), indptr.astype(kind, copy=False))
    return sparse.csr_array((_real(source, data, "data"), *parts), shape=(n, columns))


def _check_rows(source: Source, indptr: Array, indices: Array, columns: int) -> None:
    """Rows one after the other, their indices in range and increasing."""
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if falls.size:
        raise source.error(f"indptr[{falls[0] + 1}] is less than the entry before it")
    outside = np.flatnonzero((indices < 0) | (indices >= columns))
    if outside.size:
        k = int(outside[0])
        raise source.error(f"indices[{k}] is {indices[k]}, but X has columns 0 to {columns - 1}")
    follows = np.ones(indices.size + 1, bool)  # whether an entry is not the first of its row
    follows[indptr] = False
    wrong = np.flatnonzero(follows[1:-1] & (indices[1:] <= indices[:-1]))
    if wrong.size:
        raise source.error(
            f"indices[{int(wrong[0]) + 1}] is not more than the one before it in its row; call "
            "X.sum_duplicates() and save it again"
        )
