"""`predict` refuses models and data that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from continuized.app import model_file as model
from tests.helpers.solve_command import rows, run, write_svmlight


def test_predicting_from_too_few_columns(tmp_path: Path) -> None:
    fitted = tmp_path / "model.npz"
    model.save(fitted, model.Model(np.ones(3), "ridge", 0.1))
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
    for name in ("junk", "other.npz", "objects.npz"):
        result = run("predict", tmp_path / name, data)
        assert result.exit_code == 2
        assert "is not a model" in result.stderr
    model.save(tmp_path / "small.npz", model.Model(np.zeros(3), "ridge", 0.1))
    assert "5 columns, but the model has 3" in run("predict", tmp_path / "small.npz", data).stderr
    assert "--proba" in run("predict", tmp_path / "small.npz", data, "--proba").stderr
    model.save(tmp_path / "wide.npz", model.Model(np.ones(7), "ridge", 0.1))
    assert run("predict", tmp_path / "wide.npz", data).exit_code == 0  # empty last columns
