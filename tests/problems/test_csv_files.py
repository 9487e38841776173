"""CSV files as people have them: other separators, quotes, an index, text labels, empty cells."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from continuized.problems import csv_files, read, sources
from tests.helpers.data_files import put, refused, same_bits

ROWS = [(0.5, -1.25, 1.0), (2.0, 3.0, 0.0), (-7.5, 1e-3, 1.0)]


def text(separator: str = ",", end: str = "\n", quoted: bool = False, header: str = "a b y") -> str:
    lines = [header.split(), *([repr(v) for v in row] for row in ROWS)]
    mark = '"' if quoted else ""
    return "".join(separator.join(f"{mark}{c}{mark}" for c in line) + end for line in lines)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", " \n"])
@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_dialects(tmp_path: Path, separator: str, end: str, quoted: bool, mark: str) -> None:
    content = (mark + text(separator, end, quoted)).encode()
    data = read(put(tmp_path, "a.csv", content))
    same_bits(np.column_stack([data.X, data.y]), ROWS)
    assert (data.names, data.label, data.classes) == (("a", "b"), "y", None)


def test_tsv_is_csv(tmp_path: Path) -> None:
    same_bits(read(put(tmp_path, "a.tsv.gz", text("\t").encode())).y, [1, 0, 1])


@pytest.mark.parametrize(
    ("header", "label", "expected"),
    [
        ("a b c", None, 2),
        ("target b c", None, 0),
        ("a Class c", None, 1),
        ("a LABEL c", None, 1),
        ("Y b c", None, 0),
        ("a b y", "b", 1),
        ("a b y", 1, 0),
        ("a b y", "-3", 0),
        ("2 b y", "2", 0),  # a name comes before a number
    ],
)
def test_the_label(tmp_path: Path, header: str, label: Any, expected: int) -> None:
    data = read(put(tmp_path, "a.csv", text(header=header).encode()), label=label)
    same_bits(data.y, [row[expected] for row in ROWS])
    assert data.label == header.split()[expected]


def test_a_label_that_is_not_there_is_told_with_what_may_be_meant(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", text(header="height width y").encode())
    refused(path, "label: no column is called 'hight': did you mean 'height'?", label="hight")
    refused(path, "no column is called '4': there are 'height', 'width', 'y'", label=4)
    refused(path, "no column is called '0'", label="0")
    refused(path, "drop: no column is called 'depth'", drop=["depth"])
    refused(path, "the label 'y' cannot be left out", drop=["y"])


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_of_pandas_is_left_out_and_said(tmp_path: Path, name: str) -> None:
    content = f"{name},a,y\n0,1.5,1\nrow two,2.5,0\n".encode()
    data = read(put(tmp_path, "a.csv", content))
    same_bits(data.X, [[1.5], [2.5]])
    assert data.notes == (
        "the first column is an index, as pandas and R write one, and was left out",
    )
    if name:  # asked for, it is the label
        numbers = content.replace(b"row two", b"9")
        same_bits(read(put(tmp_path, "b.csv", numbers), label=name).y, [0, 9])
    refused(put(tmp_path, "c.csv", b"a,,y\n1,2,3\n"), "column 2 has no name")


@pytest.mark.parametrize("names", [",Unnamed: 0", ",Unnamed: 0.1,Unnamed: 0", "Unnamed: 0.1.1,"])
def test_indices_that_pandas_read_back_and_wrote_again_are_left_out(
    tmp_path: Path, names: str
) -> None:
    count = len(names.split(","))
    rows = [",".join(["7"] * count + ["1.5", "1"]), ",".join(["8"] * count + ["2.5", "0"])]
    path = put(tmp_path, "a.csv", "\n".join([f"{names},a,y", *rows]).encode())
    data = read(path)
    assert (data.names, data.X.tolist()) == (("a",), [[1.5], [2.5]])
    assert data.notes == (
        f"the first {count} columns are indices, as pandas writes them, and were left out",
    )
    last = names.split(",")[-1]
    if last:  # a model may know it
        assert read(path, columns=[last, "a"]).X.tolist() == [[7.0, 1.5], [8.0, 2.5]]


@pytest.mark.parametrize("block", [16, 2**20])
def test_text_labels(tmp_path: Path, block: int) -> None:
    content = 'a,y\n1,"no, never"\n2, yes\n3,"say ""hi"""\n4,yes \n5,größer\n6,2.0\n7,TRUE\n'
    with mock.patch.object(sources, "BLOCK", block):
        data = read(put(tmp_path, "a.csv", content.encode()))
    assert data.classes == ("2", "TRUE", "größer", "no, never", 'say "hi"', "yes")
    assert [data.classes[int(k)] for k in data.y] == [
        "no, never", "yes", 'say "hi"', "yes", "größer", "2", "TRUE"
    ]  # fmt: skip
    same_bits(data.X, [[i] for i in range(1, 8)])


words = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=8
).filter(lambda w: w.strip() == w and w.isprintable() and w.casefold() not in csv_files.MISSING)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(words, st.booleans()), min_size=1), st.sampled_from(csv_files.SEPARATORS))
def test_what_the_csv_module_writes_is_read(
    tmp_path: Path, rows: list[tuple[str, bool]], separator: str
) -> None:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerows([["a", "y", "b"], *([i, word, flag] for i, (word, flag) in enumerate(rows))])
    data = read(put(tmp_path, "a.csv", file.getvalue().encode()))
    same_bits(data.X, [[i, flag] for i, (_, flag) in enumerate(rows)])
    if data.classes is None:
        same_bits(data.y, [float(word) for word, _ in rows])
    else:
        found = [data.classes[int(k)] for k in data.y]
        plain = [w if not csv_files.NUMBER.fullmatch(w) else None for w, _ in rows]
        assert all(word in (None, name) for word, name in zip(plain, found, strict=True))


@pytest.mark.parametrize("word", ["", " ", "NA", "nan", "NaN", "null", "None", "N/A", "<NA>", '""'])
def test_missing_cells(tmp_path: Path, word: str) -> None:
    path = put(tmp_path, "a.csv", f"a,b,y\n1,2,3\n4,{word},5\n6,7,{word}\n".encode())
    assert refused(path, "line 3: column 'b' is empty in row 2").endswith(
        'give missing="keep" to read it as NaN'
    )
    data = read(path, missing="keep")
    np.testing.assert_array_equal(data.X, [[1, 2], [4, np.nan], [6, 7]])
    np.testing.assert_array_equal(data.y, [3, 5, np.nan])
    refused(
        put(tmp_path, "b.csv", f"a,y\n1,2\n6,{word}\n".encode()), "column 'y' is empty in row 2"
    )


def test_rows_of_empty_cells_only(tmp_path: Path) -> None:
    data = read(
        put(tmp_path, "a.csv", b"a,b,c,y\n" + b",,,\n" * 500 + b"1,2,3,x\n"), missing="keep"
    )
    assert np.isnan(data.X[:-1]).all()
    assert np.isnan(data.y[:-1]).all()
    assert data.classes == ("x",)
    assert data.y[-1] == 0.0


def test_columns_that_are_left_out_may_hold_anything(tmp_path: Path) -> None:
    content = b'id,a,y,note\nx1,1,2,"a, b"\n,3,4,\n'
    data = read(put(tmp_path, "a.csv", content), drop=["id", 4])
    assert data.names == ("a",)
    same_bits(np.column_stack([data.X, data.y]), [[1, 2], [3, 4]])


@pytest.mark.parametrize("previewed", [0, csv_files.PREVIEWED])
def test_a_line_break_in_a_cell_that_is_left_out_is_told(
    tmp_path: Path, previewed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_files, "PREVIEWED", previewed)
    path = put(tmp_path, "a.csv", b'a,y,note\n1,2,"one"\n3,4,"two\nlines"\n5,6,"three"\n')
    refused(path, ", line 3: a cell in quotes does not end in its line; line breaks", drop="note")
    inches = put(tmp_path, "b.csv", b'a,y,note\n1,2,5" pipe\n3,4,6"\n')  # quotes of another kind
    assert read(inches, drop="note").y.tolist() == [2.0, 4.0]


def test_one_column_need_not_be_in_a_list(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", b"ab,a,b,y\n1,2,3,4\n5,6,7,8\n")
    assert read(path, drop="ab").names == ("a", "b")
    assert read(path, drop=2).names == ("ab", "b")
    assert read(path, columns="ab").names == ("ab",)


@pytest.mark.parametrize(
    ("option", "value"),
    [("drop", None), ("drop", [1.5]), ("columns", 3), ("columns", [1]), ("columns", {"a": 1})],
)
def test_what_is_no_name_of_a_column_is_refused(tmp_path: Path, option: str, value: Any) -> None:
    path = put(tmp_path, "a.csv", text().encode())
    with pytest.raises(TypeError, match=f"{option} must be names .*of columns, got"):
        read(path, **{option: value})


def test_columns_by_name(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", b"c,y,word,a\n1,2,x,3\n4,5,y,6\n")
    data = read(path, columns=["a", "c"], label="y", labelled=False)
    same_bits(data.X, [[3, 1], [6, 4]])
    same_bits(data.y, [2, 5])
    assert data.notes == ("columns that are not used: 'word'",)
    assert read(path, columns=["a"], label="z", labelled=False).y is None
    refused(path, "no column is called 'b'; others are 'c', 'word'", columns=["a", "b"], label="y")


def test_svmlight_from_zero_and_without_labels(tmp_path: Path) -> None:
    path = put(tmp_path, "a", b"1 0:2 2:3\n-1 1:1\n")
    same_bits(read(path, zero_based=True).X.toarray(), [[2, 0, 3], [0, 1, 0]])
    refused(path, "indices are counted from 1; give zero_based=True if they are from 0")
    refused(put(tmp_path, "b", b"1 2:1 1:1\n"), "the index 1 after 2", zero_based=True)
    data = read(put(tmp_path, "c", b"1:2 3:3\n-1 2:1\n"), labelled=False)
    same_bits(data.X.toarray(), [[2, 0, 3], [0, 1, 0]])
    np.testing.assert_array_equal(data.y, [np.nan, -1.0])


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_blank_line_of_a_file_without_labels_is_a_row(ending: bytes, tmp_path: Path) -> None:
    lines = [b"1:2", b"", b"# said", b" \t", b"2:1 # one", b""]
    data = read(put(tmp_path, "a", ending.join([*lines, b""])), labelled=False)
    assert data.X.toarray().tolist() == [[2, 0], [0, 0], [0, 0], [0, 1], [0, 0]]
    assert np.isnan(data.y).all()
    assert data.notes == ("3 blank lines are rows without entries, for no row has a label",)
    one = read(put(tmp_path, "b", ending.join([b"1:2", b"", b"1:3"])), labelled=False)
    assert one.X.toarray().tolist() == [[2], [0], [3]]
    assert one.notes == ("1 blank line is a row without entries, for no row has a label",)
    # Where there are labels, a row begins with one: a blank line is none.
    some = read(put(tmp_path, "c", ending.join([b"", b"1 1:2", b"", b"2:1", b""])), labelled=False)
    assert some.X.toarray().tolist() == [[2, 0], [0, 1]]
    assert some.y[0] == 1.0
    assert some.notes == ()
    all_labelled = read(put(tmp_path, "d", ending.join([b"1 1:2", b"", b"3 1:1", b"", b""])))
    assert all_labelled.y.tolist() == [1.0, 3.0]


def test_arrays_with_a_label_in_another_place_and_with_holes(tmp_path: Path) -> None:
    table = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "a.npy", table)
    same_bits(read(tmp_path / "a.npy", label=1).X, table[:, 1:])
    refused(tmp_path / "a.npy", "label: no column is called '7'", label=7)
    table[1, 2] = table[2, 0] = np.nan
    np.save(tmp_path / "b.npy", table)
    data = read(tmp_path / "b.npy", missing="keep")
    np.testing.assert_array_equal(np.column_stack(data), table)
    refused(tmp_path / "b.npy", "X[2, 0] is nan")
    table[0, 0] = np.inf
    np.save(tmp_path / "b.npy", table)
    refused(tmp_path / "b.npy", "X[0, 0] is inf", missing="keep")


REFUSED_WITHOUT_NUMBA = """
import sys
from continuized.problems import DataError, read
try:
    read(sys.argv[1])
except DataError:
    print(sorted({"numba", "scipy"} & set(sys.modules)))
"""


def test_the_first_lines_are_refused_before_the_parser_is_loaded(tmp_path: Path) -> None:
    for content in (b"a,b,y\n1,Berlin,2\n", b"a,y\n1,\n", b"a,b,y\n1,2\n", b"1,2\n3,4\n"):
        path = put(tmp_path, "a.csv", content)
        command = [sys.executable, "-c", REFUSED_WITHOUT_NUMBA, str(path)]
        assert subprocess.run(command, capture_output=True, check=True).stdout == b"[]\n"


def test_bad_options(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", text().encode())
    with pytest.raises(ValueError, match='missing must be "refuse" or "keep", got'):
        read(path, missing="mean")
    with pytest.raises(TypeError, match="label must be None, a name or a number, got"):
        read(path, label=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="labelled must be True or False"):
        read(path, labelled=0)  # type: ignore[arg-type]
