"""`predict` matches names, and refuses models and data that do not fit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from continuized.app import model_file as model
from tests.helpers.solve_command import rows, run, write_svmlight


def test_predicting_from_too_few_columns(tmp_path: Path) -> None:
    fitted = tmp_path / "model.npz"
    model.save(fitted, model.Model(np.ones(3), "ridge"))
    (tmp_path / "a.csv").write_text("a,b,y\n1,2,3\n")
    np.savez(tmp_path / "a.npz", X=np.ones((1, 2)), y=np.ones(1))
    for name in ("a.csv", "a.npz"):
        result = run("predict", fitted, tmp_path / name)
        assert result.exit_code == 2
        assert result.stderr.endswith(f"{name} has 2 columns, but the model has 3\n")
    (tmp_path / "a").write_text("1 2:0.5\n-1\n")  # the last column, and a whole row, are empty
    assert run("predict", fitted, tmp_path / "a").stdout == "0.5\n0.0\n"
    (tmp_path / "a").write_text("1\n-1\n")
    assert run("predict", fitted, tmp_path / "a").stdout == "0.0\n0.0\n"


def test_labels_that_the_model_does_not_know(tmp_path: Path) -> None:
    X, y = rows()
    data = write_svmlight(tmp_path / "data.svm", X, np.sign(y))
    other = write_svmlight(tmp_path / "other.svm", X, np.where(y > 0.0, 1.0, 0.0))
    model = tmp_path / "model.npz"
    assert run("solve", data, "--out", model).exit_code == 0
    result = run("predict", model, other, "--json")
    assert result.exit_code == 2
    assert "the data have the label 0, but the model knows only -1 and 1" in result.output
    assert run("predict", model, other).exit_code == 0


def test_bad_models(tmp_path: Path) -> None:
    X, y = rows()
    data = write_svmlight(tmp_path / "data", X, np.sign(y))
    (tmp_path / "junk").write_bytes(b"junk")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "objects.npz", w=np.array([{}], dtype=object), header=np.zeros(1, np.uint8))
    os.mkfifo(tmp_path / "pipe")  # which would be waited for
    for name in ("junk", "other.npz", "objects.npz", "pipe"):
        result = run("predict", tmp_path / name, data)
        assert result.exit_code == 2
        assert "is not a model" in result.stderr
    model.save(tmp_path / "small.npz", model.Model(np.zeros(3), "ridge"))
    assert "5 columns, but the model has 3" in run("predict", tmp_path / "small.npz", data).stderr
    assert "--proba" in run("predict", tmp_path / "small.npz", data, "--proba").stderr
    model.save(tmp_path / "wide.npz", model.Model(np.ones(7), "ridge"))
    assert run("predict", tmp_path / "wide.npz", data).exit_code == 0  # empty last columns


NAMES = ("age", "height", "the, quoted", "d", "e")


def write_csv(path: Path, columns: list[int], names: tuple[str, ...] = NAMES) -> Path:
    """The rows with these columns, -1 the labels; fitted well only in the right order."""
    X, y = rows()
    table = np.column_stack([X, np.sign(y)])[:, columns]
    header = ",".join(f'"{[*names, "label"][c]}"' for c in columns)
    path.write_text(header + "\n" + "".join(",".join(map(repr, r)) + "\n" for r in table.tolist()))
    return path


@pytest.fixture
def named(tmp_path: Path) -> Path:
    fitted = tmp_path / "model.npz"
    data = write_csv(tmp_path / "data.csv", [0, 1, 2, 3, 4, -1])
    assert run("solve", data, "--out", fitted).exit_code == 0
    return fitted


def test_columns_in_another_order_are_matched_by_name(named: Path, tmp_path: Path) -> None:
    other = write_csv(tmp_path / "other.csv", [3, -1, 1, 4, 0, 2])
    assert model.load(named).names == NAMES
    expected, found = (run("predict", named, data) for data in (tmp_path / "data.csv", other))
    assert found.exit_code == 0
    assert found.stdout == expected.stdout
    assert json.loads(run("predict", named, other, "--json").stdout)["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("columns", "names", "said"),
    [
        ([0, 1, 2, 4, -1], NAMES, "no column is called 'd'"),
        (
            [0, 1, 2, 3, 4, -1],
            ("age", "Height", "the, quoted", "d", "f"),
            "no column is called 'height', 'e'; others are 'Height', 'f'; add it, or fit a model",
        ),
        ([0, 1, 2, 3, 4, 4, -1], (*NAMES[:4], "e"), "two columns are called 'e'; rename one"),
        ([0, 0, 0, -1], NAMES, "no column is called 'height', 'the, quoted', 'd', 'e'"),
    ],
)
def test_missing_and_extra_columns_are_named(
    named: Path, tmp_path: Path, columns: list[int], names: tuple[str, ...], said: str
) -> None:
    other = write_csv(tmp_path / "other.csv", columns, names)
    result = run("predict", named, other)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_files_without_labels_and_with_more_columns(named: Path, tmp_path: Path) -> None:
    expected = run("predict", named, tmp_path / "data.csv").stdout
    bare = write_csv(tmp_path / "bare.csv", [3, 1, 0, 2, 4])
    assert run("predict", named, bare).stdout == expected
    result = run("predict", named, bare, "--json")
    assert result.exit_code == 2
    assert "--json compares with labels, but" in result.stderr
    text = (tmp_path / "data.csv").read_text().splitlines()
    more = ["city," + text[0], *("Berlin," + line for line in text[1:])]
    (tmp_path / "more.csv").write_text("\n".join(more))
    result = run("predict", named, tmp_path / "more.csv")
    assert (result.exit_code, result.stdout) == (0, expected)
    assert result.stderr.endswith("more.csv: columns that are not used: 'city'\n")


def test_other_files_without_labels(tmp_path: Path) -> None:
    X, y = rows()
    fitted = model.save(tmp_path / "m.npz", model.Model(np.arange(5.0), "ridge"))
    expected = [float(np.dot(row, np.arange(5.0))) for row in X]
    np.savez(tmp_path / "a.npz", X=X)
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "labelled.npy", np.column_stack([X, y]))
    lines = write_svmlight(tmp_path / "labelled", X, y).read_text().splitlines()
    (tmp_path / "a").write_text("\n".join(line.partition(" ")[2] for line in lines))
    for name in ("a.npz", "a.npy", "labelled.npy", "a", "labelled"):
        result = run("predict", fitted, tmp_path / name)
        assert result.exit_code == 0, result.stderr
        np.testing.assert_allclose([float(line) for line in result.stdout.split()], expected)
        assert run("predict", fitted, tmp_path / name, "--json").exit_code == (
            0 if name.startswith("labelled") else 2
        )


def test_without_names_on_both_sides_the_order_counts(named: Path, tmp_path: Path) -> None:
    X, y = rows()
    np.savez(tmp_path / "a.npz", X=X, y=np.sign(y))
    expected = run("predict", named, tmp_path / "data.csv").stdout
    assert run("predict", named, tmp_path / "a.npz").stdout == expected
    nameless = tmp_path / "nameless.npz"
    model.save(nameless, model.load(named)._replace(names=None))
    assert model.load(nameless).names is None
    renamed = write_csv(tmp_path / "other.csv", [0, 1, 2, 3, 4, -1], tuple("abcde"))
    assert run("predict", nameless, renamed).stdout == expected


def test_a_model_of_the_first_format_is_read(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", [0, 1, 2, 3, 4, -1])
    for format, code in ((1, 0), (2, 0), (4, 2)):
        header = {"format": format, "loss": "ridge", "l2": 0.1, "labels": None}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez(tmp_path / "old.npz", w=np.ones(5), header=text)
        result = run("predict", tmp_path / "old.npz", data)
        assert result.exit_code == code
    assert model.FORMAT == 3
    assert "another version" in result.stderr


def test_names_that_do_not_fit_the_model_are_damage(tmp_path: Path) -> None:
    path = model.save(tmp_path / "a.npz", model.Model(np.ones(3), "ridge", None, ("a", "b")))
    with pytest.raises(model.ModelError, match="is not a model"):
        model.load(path)


def test_a_label_that_is_no_number_is_told_where_numbers_are_compared(tmp_path: Path) -> None:
    data, out = tmp_path / "data.csv", tmp_path / "model.npz"
    data.write_text("a,y\n1,1.5\n2,2.5\n3,3.25\n")
    assert run("solve", data, "--out", out).exit_code == 0
    data.write_text("a,y\n1,1.5\n2,?\n3,3.25\n")
    assert run("predict", out, data).exit_code == 0
    result = run("predict", out, data, "--json")
    assert result.exit_code == 2
    assert "data.csv, line 3: the label is '?', which is no number, but a ridge" in result.stderr


def test_arrays_with_labels_are_predicted_by_a_model_that_knows_names(
    named: Path, tmp_path: Path
) -> None:
    X, y = rows()
    np.save(tmp_path / "a.npy", np.column_stack([X, np.sign(y)]))
    expected = run("predict", named, tmp_path / "data.csv").stdout
    assert run("predict", named, tmp_path / "a.npy").stdout == expected
    assert json.loads(run("predict", named, tmp_path / "a.npy", "--json").stdout)["n"] == len(y)
    result = run("solve", tmp_path / "a.npy", "--label", "age")
    assert result.stderr.endswith(
        "a.npy: label: no column is called 'age': those of an array have the numbers 1 to 6\n"
    )


def test_a_model_knows_where_the_labels_of_an_array_were(tmp_path: Path) -> None:
    X, y = rows()
    np.save(tmp_path / "a.npy", np.column_stack([X[:, :1], np.sign(y), X[:, 1:]]))
    np.save(tmp_path / "b.npy", X)
    (tmp_path / "c.csv").write_text(
        "a,b,c,d,e\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())
    )
    out = tmp_path / "m.npz"
    assert run("solve", tmp_path / "a.npy", "--label", 2, "--out", out).exit_code == 0
    found = [run("predict", out, tmp_path / name).stdout for name in ("a.npy", "b.npy", "c.csv")]
    assert found[0] == found[1] == found[2]
    assert len(found[0].split()) == len(y)


def test_a_checkpoint_is_no_model(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", [0, 1, 2, 3, 4, -1])
    kept = tmp_path / "kept"
    assert run("solve", data, "--checkpoint", kept).exit_code == 0
    assert run("predict", kept, data).stderr == (
        f"continuized: {kept} is not a model; give a file that `continuized solve --out` wrote\n"
    )


def test_advice_names_no_option_that_predict_lacks(named: Path, tmp_path: Path) -> None:
    data = tmp_path / "other.csv"
    data.write_text('age,height,"the, quoted",d,e,label\n1,2,3,4,5,1\n1,2,3,4,tall,\n')
    assert run("predict", named, data).stderr.endswith(
        "'tall' stands there; turn it into numbers, as where the model was fitted\n"
    )
    data.write_text(data.read_text().replace("tall", "5"))
    assert run("predict", named, data).exit_code == 0
    assert "but that of row 2 of" in run("predict", named, data, "--json").stderr
    sparse, fitted = tmp_path / "rows.svm", tmp_path / "sparse.npz"
    sparse.write_text("1 1:1\n-1 2:1\n")
    assert run("solve", sparse, "--out", fitted).exit_code == 0
    sparse.write_text("1 0:1\n-1 1:1\n")
    assert run("predict", fitted, sparse).stderr.endswith(
        "the model was fitted so: add 1 to the indices, or fit it anew with --zero-based\n"
    )


def test_truth_values_are_the_same_however_they_are_written(tmp_path: Path) -> None:
    data, out = tmp_path / "data.csv", tmp_path / "m.npz"
    data.write_text("a,y\n" + "1,True\n2,False\n" * 4)
    result = run("solve", data, "--out", out)
    assert "logistic (the label 'y' has 2 different truth values)" in result.stdout
    expected = run("predict", out, data, "--json").stdout
    data.write_text(data.read_text().replace("True", "TRUE").replace("False", "false"))
    assert run("predict", out, data, "--json").stdout == expected
    data.write_text("a,y\n1,True\n2,perhaps\n")
    assert "the data have the label perhaps" in run("predict", out, data, "--json").stderr
