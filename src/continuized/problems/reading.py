"""Data from files: SVMlight's text, NumPy's arrays, CSV.

Strict, for a file that is silently misread is worse than one that is refused, and streaming: of
a file of text, a block at a time is in memory.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from continuized.problems.base import Array
from continuized.problems.source import Source
from continuized.support.validation import brief, is_whole

FORMATS = ("svmlight", "npz", "npy", "csv")
MAX_INDEX = 2**31 - 2  # a count of columns that fits 32 bits
MAX_LINE = 2**24
LIMIT = 2**53


class Data(NamedTuple):
    """The rows X, a float64 array or a CSR array of them, and the labels y.

    >>> import pathlib, tempfile
    >>> from continuized.problems import LogisticRegression
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "two_rows.csv"
    ...     _ = file.write_text("a,b,y\\n0.5,2,1\\n1,0,-1\\n")
    ...     data = read(file)
    >>> data.y.tolist(), LogisticRegression(*data, l2=0.1).dim
    ([1.0, -1.0], 2)
    """

    X: Any
    y: Array


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

    Returns
    -------
    Data

    Raises
    ------
    TypeError, ValueError : an option makes no sense
    DataError : the file is not what it should be: a sentence with its name and, in text, the line
    OSError : there is no such file, or it cannot be opened

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "two_rows.svm"
    ...     _ = file.write_text("+1 1:0.5 3:2 # a comment\\n-1 2:0.25\\n")
    ...     X, y = read(file)
    >>> X.toarray(), y
    (array([[0.5 , 0.  , 2.  ],
           [0.  , 0.25, 0.  ]]), array([ 1., -1.]))
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be None or one of {FORMATS}, got {brief(format)}")
    if n_features is not None:
        n_features = _whole("n_features", n_features)
    max_index, max_line = _whole("max_index", max_index), _whole("max_line", max_line)
    if n_features is not None and n_features > max_index:
        raise ValueError(f"n_features = {n_features} is more than max_index = {max_index}")
    source = Source(path)
    if format is None:
        format = source.suffix[1:] if source.suffix[1:] in FORMATS else "svmlight"
    if source.gz and format in ("npz", "npy"):
        raise source.error(f".gz is read for text only: unpack it first to read it as {format}")
    from continuized.problems import arrayfiles, textfiles  # with zipfile and csv, 20 ms

    with source.opened() as file:
        if format in ("npz", "npy") and not file.seekable():
            raise source.error(f"a pipe, but {format} is read from a file only")
        if format == "npy":
            return Data(*arrayfiles.npy(source, file, n_features))
        if format == "npz":
            return Data(*arrayfiles.npz(source, file, n_features, max_index))
        if format == "csv":
            return Data(*textfiles.comma_separated(source, file, n_features, max_line))
        return Data(*textfiles.svmlight(source, file, n_features, max_index, max_line))


def _whole(name: str, value: Any) -> int:
    """A whole number from 1 to 2^53."""
    if not is_whole(value):
        raise TypeError(f"{name} must be a whole number, got {brief(value)}")
    if not 1 <= value <= LIMIT:
        raise ValueError(f"{name} must be a whole number from 1 to 2**53, got {brief(value)}")
    return int(value)
