"""Files of data that are not what they should be: one sentence, with the place, and no more."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized.problems import DataError, LogisticRegression, csv_files, read
from tests.helpers.data_files import PARTS, claim, npy, npz, put, refused, same_bits

NO_NUMBER = "is not a finite decimal number"
NUMBERS = "column 'a' must hold numbers"

BAD_SVMLIGHT = [
    (b"1 1:2\n1 0:3\n", ", line 2: the index 0 in '0:3': indices are counted from 1"),
    (b"1 000:3\n", "the index 0"),
    (b"\n# c\n1 3:1 3:2\n", ", line 3: the index 3 after 3: indices must increase in a line"),
    (b"1 3:1 2:2\n", ", line 1: the index 2 after 3: indices must increase"),
    (b"1 4000000000000000000:1\n", "the index 4000000000000000000 is more than max_index"),
    (b"1 2147483647:1\n", "the index 2147483647 is more than max_index = 2147483646"),
    (b"1 " + b"9" * 400 + b":1\n", "is more than max_index"),
    (b"1 4e18:1\n", "index:value is expected, but '4e18:1' stands there"),
    (b"1 -3:1\n", "index:value is expected, but '-3:1'"),
    (b"1 +3:1\n", "index:value is expected"),
    (b"1 1.0:1\n", "index:value is expected"),
    (b"1 1\n", "index:value is expected, but '1' stands there"),
    (b"1 1 2:1\n", "index:value is expected"),
    (b"1 :1\n", "index:value is expected, but ':1'"),
    (b"1 1:\n", f"the value '' {NO_NUMBER}"),
    (b"1 1: 2\n", f"the value '' {NO_NUMBER}"),
    (b"1 1:2:3\n", f"the value '2:3' {NO_NUMBER}"),
    (b"1:2\n", f"the label '1:2' {NO_NUMBER}"),
    (
        b"a,y\n1,2\n",
        f"the label 'a,y' {NO_NUMBER}; if the file is a table with a header, give its ",
    ),
    (b"1,2 1:1\n", f"the label '1,2' {NO_NUMBER}"),
    (b"one 1:1\n", f"the label 'one' {NO_NUMBER}"),
    (b"1_0 1:1\n", f"the label '1_0' {NO_NUMBER}"),
    (b"1 1:1_0\n", f"the value '1_0' {NO_NUMBER}"),
    (b"nan 1:1\n", f"the label 'nan' {NO_NUMBER}"),
    (b"1 1:inf\n", f"the value 'inf' {NO_NUMBER}"),
    (b"1 1:0x10\n", f"the value '0x10' {NO_NUMBER}"),
    (b"1 1:1e\n", f"the value '1e' {NO_NUMBER}"),
    (b"1 1:1e+\n", f"the value '1e+' {NO_NUMBER}"),
    (b"1 1:.\n", f"the value '.' {NO_NUMBER}"),
    (b"1 1:--1\n", f"the value '--1' {NO_NUMBER}"),
    (b"1 1:1\n1 1:1e400\n1 0:1\n", ", line 2: '1e400' is too large for a double"),
    (b"-2e308\n", ", line 1: '-2e308' is too large for a double"),
    (b"1 1:1\0\n", "the byte 0x00, where only ASCII text may stand"),
    (b"1 1:1 # caf\xc3\xa9\n", "the byte 0xc3, where only ASCII text may stand"),
    ("\ufeff1 1:1\n".encode(), ", line 1: the byte 0xef, where only ASCII text"),
    ("1 1:\u0663\n".encode(), "the byte 0xd9, where only ASCII text"),
    (b"1 1:1\r1 1:1\n", "the value '1' is not"),
    (b"1 1:1\x0b\n", "the byte 0x0b"),
    (b"1 qid:\n", "qid: and a whole number is expected, but 'qid:' stands there"),
    (b"1 qid:x 1:1\n", "qid: and a whole number is expected"),
    (b"1 qix:3\n", "index:value is expected, but 'qix:3'"),
    (b"1 q\n1 1:1\n", "index:value is expected, but 'q' stands there"),
    (b"1 1:1 qid:3\n", "index:value is expected, but 'qid:3'"),
    (b"1 1:" + b"x" * 999, f"the value '{'x' * 24}...' {NO_NUMBER}"),
    (b"1\n-1\n", "labels only, and so no columns; give n_features"),
    (b"", "no rows: empty, or comments only"),
    (b"# nothing\n\n", "no rows: empty, or comments only"),
]

BAD_CSV = [
    (b"", ": empty: a header and rows are expected"),
    (b"a,y\n", ": a header, but no rows"),
    (b"a,y\n\n \n", ": a header, but no rows"),
    (b"\n1,2\n", ", line 1: a header of two columns or more, with , ; or tabs between them, is"),
    (b"y\n1\n", "between them, is expected, got 1"),
    (b"a|y\n1|2\n", "between them, is expected, got 1"),
    (
        b"1,2\n3,4\n",
        ", line 1: a header with the columns' names is expected, but these are numbers",
    ),
    (b"5.1,3.5,setosa\n4.9,3.0,setosa\n", "expected, but these are numbers; add a first line"),
    (b"1,1,cat\n2,3,dog\n", "expected, but these are numbers"),
    (b"1,0.5,True,cat\n2,3,False,dog\n", "expected, but these are numbers"),
    (b"5,3,cat\n4,7,dog\n6,2,cat\n", "numbers, and 'cat' is a label of other rows too; add"),
    (b"a,,y\n1,2,3\n", ", line 1: column 2 has no name that can be shown; name it"),
    (b"a,a,y\n1,2,3\n", ", line 1: columns 1 and 2 are both called 'a'; rename one"),
    (
        b"y,label,a\n1,2,3\n",
        ", line 1: both 'y' and 'label' may be the label: say which; give label=",
    ),
    (b"y,y\n1,2\n", ", line 1: both 'y' and 'y' may be the label"),
    (b"a,\xffb\n1,2\n", ", line 1: the header is not UTF-8 text; save the file as UTF-8"),
    ("a,y\n1,2\n".encode("utf-16"), ": UTF-16 text; save it as UTF-8"),
    (b",y\n0,1\n1,0\n", ", line 1: no columns are left beside the label"),
    (b'a,"b\n1,2\n', ", line 1: not a header of a CSV file"),
    (b"a,b\0\n1,2\n", ", line 1: "),
    (b"a,b\n1,2\n1\n", ", line 3: 1 fields, but the header names 2 columns; mend the line"),
    (b"a,b\n1,2,3\n", ", line 2: more fields than the 2 columns that the header names"),
    (b"a,b\n1,2,\n", ", line 2: more fields than the 2 columns"),
    (b"a,b\n1,\n", ", line 2: column 'b' is empty in row 1"),
    (b"a,b\n\n1,2\n, 2\n", ", line 4: column 'a' is empty in row 2"),
    (b"a,b\nNaN,2\n", ", line 2: column 'a' is empty in row 1 (NaN)"),
    (b"a,b\n1;2\n", f", line 2: {NUMBERS}, but '1;2' stands there"),
    (b"a,b\n1 1,2\n", f", line 2: {NUMBERS}, but '1 1' stands there"),
    (b"a,b\n0x1,2\n", f", line 2: {NUMBERS}, but '0x1' stands there"),
    (b"a,b\ntruely,2\n", f", line 2: {NUMBERS}, but 'truely' stands there"),
    (b'a,b\n"1 2",2\n', f", line 2: {NUMBERS}, but '1 2' stands there"),
    (b"a;b\n1,5;2\n", ", line 2: '1,5' in column 'a' has a decimal comma; write a point instead"),
    (
        b'a,b\n"1,500",2\n',
        ", line 2: '1,500' in column 'a' has a comma in it; write a decimal point, and nothing "
        "between thousands",
    ),
    (b"a,y\r1,2\r3,4\r", ", line 1: carriage returns in the header, as where they alone end the "),
    (b"sep=;\na;y\n1;2\n", ", line 1: 'sep=;', which Excel alone understands; remove this line"),
    (b"a,y,\n1,2,\n", "name it, or remove the separator at the end of every line"),
    (b'"a","y"\n"1",1,2\n', "2 columns that the header names; in R, write.csv names the column"),
    (b"a,b\n-inf,2\n", ", line 2: '-inf' in column 'a' is not finite"),
    (b"a,b\n\n1,nan\n", ", line 3: column 'b' is empty in row 1 (nan)"),
    (b"a,b\n1,1e999\n", ", line 2: '1e999' is too large for a double"),
    (b"a,b\n2\0,1\n", ", line 2: the byte 0x00"),
    (b"a,b\n1,c\0t\n", ", line 2: the label 'c\\x00t' cannot be shown"),
    (b"a,b\n1,caf\xe9\n", ", line 2: the label 'caf\\xe9' is not UTF-8 text"),
    (b'a,b\n1,"cat\n', ", line 2: a cell in quotes does not end in its line; line breaks within"),
    (b'a,b\n1,2\n"two\nlines",2\n', ", line 3: a cell in quotes does not end in its line"),
    (b'a,b\n1,"cat"s\n', ", line 2: 'cat' in column 'b' begins with a quote, but does not end"),
]


@pytest.mark.parametrize(("content", "sentence"), BAD_SVMLIGHT)
@pytest.mark.parametrize("name", ["a.svm", "a.gz"])
def test_bad_svmlight(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    refused(put(tmp_path, name, content), sentence)


@pytest.mark.parametrize(("content", "sentence"), BAD_CSV)
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("previewed", [0, 20])
def test_bad_csv(
    tmp_path: Path, name: str, content: bytes, sentence: str, previewed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(csv_files, "PREVIEWED", previewed)  # both say the same
    refused(put(tmp_path, name, content), sentence)


OBJECTS = npy(np.array([[{}, 1]], dtype=object), allow_pickle=True)

BAD_NPY = [
    (b"", "it does not begin as such a file"),
    (b"\x93NUMPY\1\0", "is cut short"),
    (b"\x93NUMPY\2\0" + b"\xff" * 4 + b"{", "is cut short, or longer than any"),
    (b"\x93NUMPY\7\0" + bytes(99), "it does not begin as such a file"),
    (OBJECTS, "holds Python objects, which are not read: they could run code"),
    (npy(np.ones((2, 3), bool)), "must hold real numbers, its dtype is bool"),
    (npy(np.ones((2, 3), complex)), "must hold real numbers, its dtype is complex128"),
    (npy(np.array([["a", "b"]])), "must hold real numbers"),
    (npy(np.zeros((2, 3), [("a", "<f8")])), "is not that of an array of numbers"),
    (npy(np.ones(3)), "its shape is (3,)"),
    (npy(np.ones((3, 1))), "its shape is (3, 1)"),
    (npy(np.ones((2, 2, 2))), "its shape is (2, 2, 2)"),
    (npy(np.ones((0, 2))), "is empty: its shape is (0, 2)"),
    (npy(np.array([[1.0, 2.0], [np.nan, 3.0]])), "X[1, 0] is nan: only finite numbers are read"),
    (npy(np.array([[1.0, 2.0], [3.0, -np.inf]])), "y[1] is -inf: only finite numbers are read"),
    (npy(np.ones((2, 2)))[:-1], "should take 32 bytes by its header, but 31 are there"),
    (npy(np.ones((2, 2))) + b"x", "should take 32 bytes by its header, but 33 are there"),
    (claim(shape="(625000000, 2)"), "should take 10000000000 bytes by its header, but 32 are"),
    (claim(shape="(9999999999999999, 99999999999999)"), "but 32 are there"),
    (claim(shape="(-2, -2)"), "is not that of an array of numbers"),
    (claim(shape="(1000000000000, 1000000000000, 0)", body=b""), "is empty"),
    (claim(shape="(2, 2).__class__"), "is not that of an array of numbers"),
    (claim(descr="'<f3'"), "is not that of an array of numbers"),
    (claim(descr="'|V8'"), "must hold real numbers"),
]

BAD_NPZ = [
    (b"", "damaged, or no .npz file: 'File is not a zip file'"),
    (npz(X=np.ones((2, 2))), "are expected, but it holds ['X']"),
    (npz(y=np.ones(2)), "are expected, but it holds ['y']"),
    (npz(**PARTS, X=np.ones((2, 2))), "either X and y, or y and the parts of a CSR array"),
    (npz(X=np.ones(2), y=np.ones(2)), "X must be a matrix with rows and columns"),
    (npz(X=np.ones((2, 2)), y=np.ones(3)), "the shapes are (3,) and (2, 2)"),
    (npz(X=np.ones((2, 2)), y=np.ones((2, 1))), "the shapes are (2, 1) and (2, 2)"),
    (npz(X=np.ones((2, 3)), y=np.array(["a", "b"])), "its dtype is <U1; number the classes (np."),
    (npz(X=OBJECTS, y=np.ones(1)), "X holds Python objects"),
    (npz(X=np.ones((2, 2)), y=np.array([1.0, np.nan])), "y[1] is nan"),
    (npz(X=claim(shape="(625000000, 2)"), y=np.ones(2)), "X should take 10000000000 bytes"),
    (npz(X=b"", y=np.ones(2)), "X is not in NumPy's format"),
    (npz(**PARTS | {"format": np.array(b"csc")}), "format must be 'csr'"),
    (npz(**PARTS | {"format": np.ones(1)}), "format must hold"),
    (npz(**PARTS | {"indptr": np.array([0, 4, 3])}), "indptr[2] is less than the entry before it"),
    (
        npz(**PARTS | {"indptr": np.array([1, 2, 3])}),
        "indptr must run from 0 to at most 3, not 1 to 3",
    ),
    (npz(**PARTS | {"indptr": np.array([0, 3])}), "indptr has 2 entries, it must have 3"),
    (
        npz(**PARTS | {"indptr": np.array([0, 2, 2])}),
        "indptr must end with 3, the number of entries",
    ),
    (npz(**PARTS | {"indptr": np.array([0.0, 2, 3])}), "indptr must be a vector of integers"),
    (npz(**PARTS | {"indices": np.array([0, 3, 1])}), "indices[1] is 3, it must be in [0, 3)"),
    (npz(**PARTS | {"indices": np.array([-1, 2, 1])}), "indices[0] is -1, it must be in [0, 3)"),
    (npz(**PARTS | {"indices": np.array([2, 0, 1])}), "indices[1] is not more than the one before"),
    (npz(**PARTS | {"indices": np.array([2, 2, 1])}), "indices[1] is not more than the one before"),
    (npz(**PARTS | {"indices": np.array([0, 2])}), "data and indices must be vectors alike"),
    (npz(**PARTS | {"shape": np.array([2, 2**31])}), "more than max_index = 2147483646"),
    (npz(**PARTS | {"shape": np.array([2])}), "shape must be two whole numbers > 0, got [2]"),
    (npz(**PARTS | {"shape": np.array([2, 0])}), "shape must be two whole numbers > 0, got [2, 0]"),
    (npz(**PARTS | {"data": np.array([1, np.inf, 1])}), "data[1] is inf"),
    (npz(**PARTS | {"y": np.ones(3)}), "the shapes are (3,) and (2, 3)"),
]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [("a.npy", *bad) for bad in BAD_NPY] + [("a.npz", *bad) for bad in BAD_NPZ],
    ids=itertools.count(),  # by number: the bytes hold the time at which they were made
)
def test_bad_arrays(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    refused(put(tmp_path, name, content), ": ", sentence)


def test_the_tables_own_good_files_are_read(tmp_path: Path) -> None:
    same_bits(read(put(tmp_path, "a.npz", npz(**PARTS))).X.toarray(), [[1, 0, 1], [0, 1, 0]])
    same_bits(read(put(tmp_path, "a.npy", claim())).X, [[0.0], [0.0]])


# Files that are not there, or are something else; options.


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    refused(tmp_path, ": a folder, not a file")
    np.save(tmp_path / "X.npy", np.zeros((0, 3)))
    np.save(tmp_path / "y.npy", np.zeros(0))
    refused(tmp_path, ": X is empty: its shape is (0, 3)")
    for name in ("a", "a.csv", "a.npy", "a.npz", "a.gz"):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / name)
    with pytest.raises(DataError, match="a path with a NUL character"):
        read("a\0b")
    with pytest.raises(TypeError, match="path must be a str or a Path, got 3"):
        read(3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^'.*a\\nb': no rows"):
        read(put(tmp_path, "a\nb", b""))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes(tmp_path: Path) -> None:
    for name in ("a", "a.npy", "a.npz"):
        os.mkfifo(tmp_path / name)
        # Open for reading too, so that opening does not wait for the other side.
        with open(os.open(tmp_path / name, os.O_RDWR), "wb", buffering=0) as pipe:
            if name == "a":
                pipe.write(b"1 1:x\n")
                refused(tmp_path / name, ", line 1: the value 'x'")
            else:
                refused(tmp_path / name, f": a pipe, but {name[2:]} is read from a file only")


@pytest.mark.parametrize("name", ["a.csv", "a.svm", "a.csv.bz2"])
@pytest.mark.parametrize(
    ("pack", "sentence"),
    [
        (gzip.compress, "no text, but packed (gzip); let its name end in .gz"),
        (bz2.compress, "no text, but packed (bzip2); unpack it first"),
        (lzma.compress, "no text, but packed (xz); unpack it first"),
        (
            lambda text: b"PK\x03\x04" + text,
            "packed (zip, or a workbook of Excel); unpack it first",
        ),
    ],
)
def test_packed_text_is_told_as_what_it_is(
    tmp_path: Path, name: str, pack: Any, sentence: str
) -> None:
    refused(put(tmp_path, name, pack(b"a,y\n1,2\n")), sentence)


def test_damaged_gzip(tmp_path: Path) -> None:
    good = gzip.compress(b"".join(b"%d 1:%d\n" % (i, i * i) for i in range(999)))
    for name in ("a.gz", "a.csv.gz"):
        refused(put(tmp_path, "a", good[:-9]).rename(tmp_path / name), "gzip file: cut short")
        refused(put(tmp_path, "a", b"1 1:1\n").rename(tmp_path / name), "damaged, or no gzip file")
    damaged = good[:-8] + bytes(4) + good[-4:]
    refused(put(tmp_path, "a", damaged).rename(tmp_path / "a.gz"), "damaged", "CRC")
    for name in ("a.npy.gz", "a.npz.gz"):
        refused(put(tmp_path, name, b""), ".gz is read for text only")


def test_limits(tmp_path: Path) -> None:
    path = put(tmp_path, "a", b"1 1:1 7:1\n-1 # no entries\n")
    assert read(path, n_features=9, max_line=15).X.shape == (2, 9)
    refused(path, ", line 1: the index 7 is more than n_features = 6", n_features=6)
    refused(path, ", line 1: the index 7 is more than max_index = 6", max_index=6)
    refused(path, ", line 2: more than max_line = 14 characters in one line", max_line=14)
    path = put(tmp_path, "a.csv", b"a,b\n1,2\n1,    2\n")
    refused(path, ", line 3: more than max_line = 6 characters", max_line=6)
    refused(path, ", line 1: more than max_line = 2 characters", max_line=2)
    refused(path, "1 columns beside 'b', but n_features = 2", n_features=2)
    refused(put(tmp_path, "a.npy", claim()), "X has 1 columns, but n_features = 2", n_features=2)
    refused(put(tmp_path, "a.npz", npz(**PARTS)), "X has 3 columns", n_features=2)
    assert read(put(tmp_path, "b", b"1\n-1\n"), n_features=3).X.shape == (2, 3)


@pytest.mark.parametrize("name", ["n_features", "max_index", "max_line"])
@pytest.mark.parametrize("value", [0, -1, 2**53 + 1, 1.5, True, "3", np.True_, np.ones(2, int)])
def test_bad_options(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{name} must be an integer from 1 to"):
        read(tmp_path, **{name: value})


def test_bad_format(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'format must be "svmlight", .* or None, got \'xml\''):
        read(tmp_path, format="xml")
    with pytest.raises(ValueError, match="n_features = 9 is more than max_index = 8"):
        read(tmp_path, n_features=9, max_index=8)


def test_what_is_read_can_be_solved(tmp_path: Path) -> None:
    X, y = read(put(tmp_path, "a", b"1 1:1 2:2\n-1 2:1\n"))
    assert LogisticRegression(X, y).dim == 2
