"""`solve` and `predict`: from a data file to a model file to predictions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from continuized.app import model_file as model
from tests.helpers.solve_command import rows, run, write_svmlight

KEYS = {
    "method", "loss", "n", "d", "classes", "intercept", "l1", "l2", "objective", "gap", "steps",
    "seconds", "status", "accuracy", "constants",
}  # fmt: skip


def logistic_objective(w: np.ndarray, X: np.ndarray, signs: np.ndarray, l2: float) -> float:
    return float(np.logaddexp(0.0, -signs * (X @ w)).mean() + 0.5 * l2 * w @ w)


@pytest.mark.parametrize("method", ["auto", "continuized", "dual", "coordinate"])
@pytest.mark.parametrize("labels", [(0.0, 1.0), (-1.0, 1.0), (3.0, 7.5)])
def test_logistic_from_file_to_predictions(
    tmp_path: Path, method: str, labels: tuple[float, float]
) -> None:
    X, scores = rows()
    y = np.where(scores > 0.0, labels[1], labels[0])
    data = write_svmlight(tmp_path / "data", X, y)
    out = tmp_path / "model.npz"
    result = run("solve", data, "--l2", 0.01, "--method", method, "--tol", 1e-9, "--out", out,
                 "--json")  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert set(report) == KEYS
    assert (report["n"], report["d"], report["l2"], report["status"]) == (200, 5, 0.01, "converged")
    signs = np.where(scores > 0.0, 1.0, -1.0)
    theirs = scipy_minimize(
        logistic_objective, np.zeros(5), args=(X, signs, 0.01), method="BFGS", tol=1e-9
    ).fun
    assert report["objective"] == pytest.approx(theirs, abs=1e-8)
    assert 0.0 <= report["gap"] <= 1e-8
    predicted = run("predict", out, data)
    assert predicted.exit_code == 0
    given = np.array([float(line) for line in predicted.stdout.split()])
    w = model.load(out).w
    assert np.array_equal(given, np.where(X @ w > 0.0, labels[1], labels[0]))
    quality = json.loads(run("predict", out, data, "--json").stdout)
    assert quality["accuracy"] == np.mean(given == y)
    header, *lines = run("predict", out, data, "--proba").stdout.splitlines()
    assert [float(name) for name in header.split(",")] == [*labels]
    chances = np.array([[float(value) for value in line.split(",")] for line in lines])
    assert np.allclose(chances[:, 1], 1.0 / (1.0 + np.exp(-(X @ w))))
    assert np.allclose(chances.sum(axis=1), 1.0)


def test_ridge(tmp_path: Path) -> None:
    X, y = rows(1)
    data = write_svmlight(tmp_path / "data", X, y)
    out = tmp_path / "model.npz"
    result = run("solve", data, "--loss", "ridge", "--l2", 0.1, "--tol", 1e-12, "--out", out)
    assert result.exit_code == 0, result.output
    w = np.linalg.solve(X.T @ X / 200 + 0.1 * np.eye(5), X.T @ y / 200)
    assert np.allclose(model.load(out).w, w, atol=1e-6)
    error = json.loads(run("predict", out, data, "--json").stdout)["mean_squared_error"]
    assert error == pytest.approx(float(np.mean((X @ w - y) ** 2)), rel=1e-6)


def test_default_penalty_plot_and_files(tmp_path: Path) -> None:
    X, scores = rows()
    data = write_svmlight(tmp_path / "data", X, np.sign(scores))
    picture, predictions = tmp_path / "p.png", tmp_path / "new" / "predictions"
    result = run("solve", data, "--plot", picture, "--out", tmp_path / "m.npz")
    assert result.exit_code == 0
    assert "l2, alpha = 0.005 (1/rows)" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run("predict", tmp_path / "m.npz", data, "--out", predictions).stdout == (
        f"Written: {predictions}\n"
    )
    assert len(predictions.read_text().split()) == 200


@pytest.mark.parametrize(
    ("name", "first"),
    [("p.png", b"\x89PNG"), ("p.svg", b"<?xml"), ("p.pdf", b"%PDF-"), ("p.PNG", b"\x89PNG")],
)
def test_a_picture_is_what_its_name_says(tmp_path: Path, name: str, first: bytes) -> None:
    X, scores = rows()
    data = write_svmlight(tmp_path / "data", X, np.sign(scores))
    made = []
    for folder in ("a", "b"):
        assert run("solve", data, "--plot", tmp_path / folder / name).exit_code == 0
        made.append((tmp_path / folder / name).read_bytes())
    assert made[0].startswith(first)
    assert made[0] == made[1]


@pytest.mark.parametrize("name", ["p.xyz", "p", "p.png.old"])
def test_a_picture_of_no_known_kind_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    result = run("solve", tmp_path / "absent", "--plot", tmp_path / "new" / name)
    assert result.exit_code == 2
    assert result.stderr == (
        "continuized: --plot must be a file that ends in one of .png, .svg, .pdf, got "
        f"{tmp_path / 'new' / name}\n"
    )
    assert not (tmp_path / "new").exists()


def test_data_that_an_option_took_for_its_value(tmp_path: Path) -> None:
    data = write_svmlight(tmp_path / "data", *rows())
    for option in ("--plot", "--ray"):
        result = run("solve", option, data)
        assert result.exit_code == 2
        assert result.stderr == (
            f"continuized: {option} took {data} for its own value: write DATA before {option}, or "
            f"give {option}=VALUE\n"
        )
    result = run("solve", "--plot", tmp_path / "p.png")
    assert (result.exit_code, result.stderr) == (
        2, "continuized: DATA is missing: give the file or files to fit\n"
    )  # fmt: skip
    packed = tmp_path / "table.csv"
    packed.write_bytes(gzip.compress(b"a,y\n1,2\n"))
    assert "packed (gzip); let its name end in .gz\n" in run("solve", packed).stderr
    table = tmp_path / "table.txt"
    table.write_text("a,b,y\n1,2,3\n")
    assert "a table with a header, give its name the suffix .csv" in run("solve", table).stderr


def test_a_limit_that_is_reached_is_exit_code_one(tmp_path: Path) -> None:
    X, scores = rows()
    data = write_svmlight(tmp_path / "data", X, np.sign(scores))
    shown = run("solve", data, "--maxiter", 1, "--tol", 0.0, "--out", tmp_path / "m.npz")
    assert f"Written, though the fit did not converge: {tmp_path / 'm.npz'}" in shown.stdout
    result = run("solve", data, "--maxiter", 1, "--tol", 0.0, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["status"] == "maxiter"
    assert json.loads(result.stdout)["gap"] > 0.0  # also of a run that did not converge


@pytest.mark.parametrize("largest", [2.0, 50.0])
def test_standardize_is_told_of_where_columns_differ_in_size(
    tmp_path: Path, largest: float
) -> None:
    X, y = rows()
    X *= np.linspace(1.0, largest, 5) / np.sqrt((X**2).mean(axis=0))
    np.savez(tmp_path / "data.npz", X=X, y=np.sign(y))
    hint = "Columns of very different sizes take long: --standardize may help.\n"
    for more in ((), ("--shards", 2)):
        result = run("solve", tmp_path / "data.npz", "--maxiter", 1, "--intercept", *more)
        assert (result.exit_code, hint in result.stdout) == (1, largest > 10.0)
    assert hint not in run("solve", tmp_path / "data.npz", "--intercept").stdout


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_no_gap_is_above_an_objective_that_is_at_least_0(tmp_path: Path, penalty: str) -> None:
    X, y = rows()
    data = write_svmlight(tmp_path / "data", X, np.sign(y))
    more = ("--penalty", penalty, "--alpha", 1e-9, "--maxiter", 0, "--json")
    report = json.loads(run("solve", data, *more).stdout)
    assert 0.0 < report["gap"] <= report["objective"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty"),
        ("1 1:2\n1 1:3\n", "the label is 1 in every row: there is nothing to tell apart"),
        ("1 0:2\n2 1:3\n", "line 1: the index 0 in '0:2': indices are counted from 1; give --zero"),
        ("1 1:nan\n2 1:3\n", "line 1"),
        ("1\n2\n", "labels only, and so no columns\n"),
    ],
)
def test_bad_data_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "data").write_text(text)
    result = run("solve", tmp_path / "data")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1e200 1:1\n-1e200 1:2 2:1\n3 2:1\n", "the squares of the labels overflow; divide the"),
        ("1 1:1e200\n-1 1:2 2:1\n3 2:1\n", "squares overflow"),
    ],
)
def test_squares_that_overflow_are_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "data").write_text(text)
    result = run("solve", tmp_path / "data", "--loss", "ridge")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert sentence in result.stderr


@pytest.mark.parametrize(
    "more",
    [
        ("--intercept",),
        ("--no-intercept",),
        ("--intercept", "--loss", "huber"),
        ("--no-intercept", "--loss", "huber"),
        ("--no-intercept", "--method", "dual"),
    ],
)
def test_the_unit_of_the_labels_does_not_matter(tmp_path: Path, more: tuple[str, ...]) -> None:
    X, y = rows()
    explained = []
    for unit in (1.0, 1e12, 1e-10):
        np.savez(tmp_path / "data.npz", X=X, y=y * unit)
        result = run("solve", tmp_path / "data.npz", "--json", *more)
        assert result.exit_code == 0, result.output
        explained.append(json.loads(result.stdout)["R2"])
    assert explained[0] > 0.9
    assert explained == pytest.approx([explained[0]] * 3, abs=1e-5)


@pytest.mark.parametrize("label", [0.0, 3.7])
def test_labels_that_leave_nothing_to_explain_are_fitted(tmp_path: Path, label: float) -> None:
    X, _ = rows()
    np.savez(tmp_path / "data.npz", X=X, y=np.full(len(X), label))
    for more in ((), ("--penalty", "l1"), ("--method", "nesterov")):
        result = run("solve", tmp_path / "data.npz", "--loss", "ridge", "--intercept", *more)
        assert result.exit_code == 0, result.output


def test_a_gap_that_is_down_to_rounding_is_a_success_whatever_tol(tmp_path: Path) -> None:
    X, y = rows()
    np.savez(tmp_path / "data.npz", X=X, y=y * 1e12)
    out, command = tmp_path / "m.npz", ("solve", tmp_path / "data.npz", "--intercept")
    result = run(*command, "--tol", 1e-6, "--out", out)
    assert result.exit_code == 0
    assert "cannot fall to tol" in result.stdout
    assert "The gap is down to rounding: this is the minimum all the same.\n" in result.stdout
    assert f"\nWritten: {out}" in result.stdout
    result = run(*command, "--tol", 1e-6, "--maxiter", 0)
    assert (result.exit_code, "down to rounding" in result.stdout) == (1, False)


def test_bad_arguments(tmp_path: Path) -> None:
    X, y = rows()
    data = write_svmlight(tmp_path / "data", X, np.sign(y))
    for arguments, sentence in (
        ((tmp_path / "absent",), "No such file"),
        ((tmp_path,), "a folder, not a file"),
        ((data, "--l2", -1), "--l2 must be a finite number >= 0, got -1.0"),
        ((data, "--alpha", "nan"), "--alpha must be a finite number >= 0, got nan"),
        ((data, "--l1-ratio", 2, "--penalty", "elasticnet"), "--l1-ratio must be"),
        ((data, "--l1-ratio", 0.5), "--l1-ratio goes with --penalty elasticnet"),
        ((data, "--l2", 1, "--penalty", "l1"), "--l2 is the strength of --penalty l2"),
        ((data, "--l2", 1, "--alpha", 1), "--l2 is the strength of --penalty l2"),
        ((data, "--penalty", "l1", "--method", "dual"), "goes with --method auto or continuized"),
        ((data, "--delta", 1), "--delta goes with --loss huber"),
        ((data, "--loss", "huber", "--delta", 0), "--delta must be a finite number > 0"),
        ((data, "--loss", "huber", "--method", "dual"), "is for --loss logistic and ridge"),
        ((data, "--method", "dual", "--intercept"), "add --no-intercept"),
        ((data, "--loss", "poisson"), "has numbers below 0 (-1), but --loss poisson needs counts"),
        ((data, "--tol", "-1"), "--tol must be a number >= 0, got -1.0\n"),
        ((data, "--tol", "nan"), "--tol must be a number >= 0, got nan\n"),
        ((data, "--method", "dual", "--l2", 0), "--method dual needs --l2 > 0"),
        ((data, "--method", "simplex"), "simplex"),
    ):
        result = run("solve", *arguments)
        assert result.exit_code == 2, arguments
        assert sentence in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_options_that_mean_nothing_for_a_file_are_refused(tmp_path: Path) -> None:
    X, y = rows()
    sparse = write_svmlight(tmp_path / "data.svm", X, np.sign(y))
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "X.npy", X)
    np.save(tmp_path / "folder" / "y.npy", y)
    np.savez(tmp_path / "a.npz", X=X, y=y)
    np.save(tmp_path / "a.npy", np.column_stack([X, y]))
    (tmp_path / "a.csv").write_text("a,y\n1,2.5\n2,1\n3,4\n")
    label, columns = "--label goes with a CSV file and an npy file, but ", " is a"
    for arguments, sentence in (
        ((sparse, "--label", 3), f"{label}{sparse} is a LIBSVM file\n"),
        ((tmp_path / "a.npz", "--label", 3), f"{label}{tmp_path / 'a.npz'} is an npz file, whose"),
        ((tmp_path / "folder", "--label", 3), f"{label}{tmp_path / 'folder'} is a folder, whose"),
        ((sparse, "--drop", 3), f"--drop goes with a CSV file, but {sparse}{columns}"),
        ((tmp_path / "a.npy", "--drop", 3), "--drop goes with a CSV file, but "),
        ((tmp_path / "a.csv", "--zero-based"), "--zero-based goes with a LIBSVM file, but "),
        ((tmp_path / "a.csv", sparse, "--zero-based"), "a.csv is a CSV file\n"),
        ((sparse, "--missing", "mean"), f"--missing goes with tables, but {sparse} is sparse"),
        ((sparse, "--missing", "drop"), f"--missing goes with tables, but {sparse} is sparse"),
    ):
        result = run("solve", *arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert sentence in result.stderr
        assert result.stderr.count("\n") == 1
    out = tmp_path / "m.npz"
    assert run("solve", sparse, "--out", out).exit_code == 0
    assert "goes with --out" in run("predict", out, sparse, "--json", "--proba").stderr
    more = ("--json", "--proba", "--out", tmp_path / "p.csv")
    assert run("predict", out, sparse, *more).exit_code == 0
    model.save(out, model.load(out)._replace(means=np.zeros(5)))
    assert "is sparse" in run("predict", out, sparse, "--missing", "mean").stderr


@pytest.mark.parametrize("more", [(), ("--standardize",), ("--missing", "mean")])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_folder_that_is_mapped_is_fitted_as_an_archive_is(
    tmp_path: Path, kind: type, more: tuple[str, ...]
) -> None:
    X, y = rows()
    X = X.astype(kind)
    if "--missing" in more:
        X[3, 1] = np.nan
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "X.npy", X)
    np.save(tmp_path / "folder" / "y.npy", y)
    np.savez(tmp_path / "archive.npz", X=X, y=y)
    found = []
    for name in ("folder", "archive.npz"):
        out = tmp_path / f"model of {name}"
        result = run("solve", tmp_path / name, "--intercept", "--out", out, *more)
        assert result.exit_code == 0, result.output
        found.append([float(line) for line in run("predict", out, tmp_path / name).stdout.split()])
    assert len(found[0]) == len(y)
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert np.array_equal(np.load(tmp_path / "folder" / "X.npy"), X, equal_nan=True)


def test_a_map_too_large_to_change_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "X.npy", np.eye(30))
    np.save(tmp_path / "y.npy", np.arange(30.0))
    monkeypatch.setattr("continuized.support.files.memory", lambda: 14_000.0)
    assert run("solve", tmp_path).exit_code == 0
    result = run("solve", tmp_path, "--standardize")
    assert result.exit_code == 2
    assert "--standardize changes X, which would take 1.44e-05 GB" in result.stderr
