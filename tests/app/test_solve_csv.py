"""`solve` and `predict` on tables as people have them, against scikit-learn and by definition."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, preprocessing

from continuized.app import fitting
from continuized.app import model_file as model
from tests.helpers.solve_command import run, write_svmlight

N, D, CLASSES = 240, 4, ("blue", "green, dark", "red")


def table(seed: int = 0) -> np.ndarray:
    """Columns of several scales, two of them far from 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 3.0, 5.0, 0.0]
    return X.round(6)


def labels(kind: str, X: np.ndarray) -> list[Any]:
    rng = np.random.default_rng(1)
    score = X[:, 0] - 0.1 * X[:, 1] + rng.standard_normal(N)
    if kind == "logistic":
        return ["yes" if s > 0.0 else "no" for s in score]
    if kind == "softmax":
        return [CLASSES[int(s > -0.5) + int(s > 0.7)] for s in score]
    if kind == "poisson":
        return [int(v) for v in rng.poisson(np.exp(0.5 * score))]
    return [float(v) for v in (7.0 + score).round(6)]


def write(path: Path, X: np.ndarray, y: list[Any] | None) -> Path:
    cells = [["a", "b", "c", "d"], *X.tolist()]
    if y is not None:
        cells = [[*row, label] for row, label in zip(cells, ["kind", *y], strict=True)]
    quoted = lambda c: f'"{c}"' if "," in str(c) else str(c)  # noqa: E731
    path.write_text("\n".join(",".join(map(quoted, row)) for row in cells) + "\n")
    return path


def solve(data: Path, *more: Any) -> tuple[Any, model.Model]:
    out = data.with_suffix(".npz")
    result = run("solve", data, "--tol", 1e-9, "--out", out, "--json", *more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), model.load(out)


def by_scikit_learn(kind: str, X: np.ndarray, y: list[Any], alpha: float) -> tuple[Any, Any]:
    """The coefficients and the intercept of scikit-learn, for alpha beside the mean loss."""
    if kind in ("logistic", "softmax"):
        fit = linear_model.LogisticRegression(C=1.0 / (N * alpha), tol=1e-10, max_iter=100_000)
        fit.fit(X, y)
        return fit.coef_, fit.intercept_
    if kind == "poisson":
        fit = linear_model.PoissonRegressor(alpha=alpha, tol=1e-10, max_iter=100_000).fit(X, y)
    else:
        fit = linear_model.Ridge(alpha=N * alpha, tol=1e-12).fit(X, y)
    return fit.coef_, fit.intercept_


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "softmax", "ridge", "poisson"])
def test_against_scikit_learn(tmp_path: Path, kind: str, standardize: bool) -> None:
    X = table()
    y = labels(kind, X)
    data = write(tmp_path / "data.csv", X, y)
    more = [*(["--standardize"] if standardize else []), *(["--loss", kind] * (kind == "poisson"))]
    report, fitted = solve(data, "--alpha", 0.03, *more)
    assert (report["loss"], report["n"], report["d"], report["intercept"]) == (kind, N, D, True)
    scaled = preprocessing.scale(X) if standardize else X
    coef, intercept = by_scikit_learn(kind, scaled, y, 0.03)
    w = np.vstack([np.atleast_2d(coef).T, np.atleast_1d(intercept)])
    mine = fitted.w.reshape(D + 1, -1)
    if kind == "softmax":  # whose intercepts are determined up to a constant
        mine[-1] -= mine[-1].mean()
        w[-1] -= w[-1].mean()
    np.testing.assert_allclose(mine, w, atol=2e-4, rtol=2e-4)
    assert 0.0 <= report["gap"] <= 1e-12
    # What the model predicts of the file, whose columns are in other units.
    scores = scaled @ w[:-1] + w[-1]
    expected = {"poisson": np.exp, "ridge": np.asarray}.get(kind)
    lines = run("predict", tmp_path / "data.npz", data).stdout.splitlines()
    if expected is not None:
        found = [float(line) for line in lines]
        np.testing.assert_allclose(found, expected(scores[:, 0]), rtol=1e-3, atol=1e-3)
        return
    places = scores.argmax(axis=1) if kind == "softmax" else (scores[:, 0] > 0.0).astype(int)
    named = [(CLASSES if kind == "softmax" else ("no", "yes"))[place] for place in places]
    agree = [line.strip('"') == name for line, name in zip(lines, named, strict=True)]
    assert np.mean(agree) > 0.99
    quality = json.loads(run("predict", tmp_path / "data.npz", data, "--json").stdout)
    assert quality["accuracy"] == report["accuracy"]


@pytest.mark.parametrize(("penalty", "ratio"), [("l1", 1.0), ("elasticnet", 0.3)])
def test_l1_penalties_leave_the_intercept_alone(tmp_path: Path, penalty: str, ratio: float) -> None:
    X = table()
    y = [100.0 + label for label in labels("ridge", X)]
    data = write(tmp_path / "data.csv", X, y)
    more = ["--l1-ratio", ratio] if penalty == "elasticnet" else []
    report, fitted = solve(data, "--standardize", "--penalty", penalty, "--alpha", 0.2, *more)
    theirs = linear_model.ElasticNet(alpha=0.2, l1_ratio=ratio, tol=1e-12, max_iter=100_000)
    theirs.fit(preprocessing.scale(X), y)
    np.testing.assert_allclose(fitted.w[:-1], theirs.coef_, atol=1e-6)
    assert fitted.w[-1] == pytest.approx(theirs.intercept_, rel=1e-7)
    assert np.sum(fitted.w == 0.0) == np.sum(theirs.coef_ == 0.0)
    assert 0.0 <= report["gap"] <= 1e-6


def test_huber_resists_outliers(tmp_path: Path) -> None:
    X = table()
    y = (3.0 * X[:, 0] + 5.0).tolist()
    y[:6] = [1e4] * 6
    data = write(tmp_path / "data.csv", X, y)
    _, fitted = solve(data, "--loss", "huber", "--standardize", "--alpha", 1e-6, "--delta", 0.1)
    slope = fitted.w[0] / fitted.scale[0]  # type: ignore[index]
    assert slope == pytest.approx(3.0, abs=0.05)
    spread = fitting.choose_delta(np.array(y), "data")
    assert spread == pytest.approx(1.35 * 3.0, rel=0.2)  # of normal numbers, times 3


@pytest.mark.parametrize("intercept", [True, False])
def test_sparse_data_are_scaled_but_not_centred(tmp_path: Path, intercept: bool) -> None:
    rng = np.random.default_rng(2)
    X = sparse.random_array((N, D), density=0.4, rng=rng).toarray() * [1.0, 100.0, 0.01, 1.0]
    y = X @ [1.0, 0.02, 50.0, -1.0] + 0.1 * rng.standard_normal(N) + 2.0
    data = write_svmlight(tmp_path / "data", X, y)
    words = [
        [w for w in line.split() if not w.endswith(":0.0")]
        for line in data.read_text().splitlines()
    ]
    data.write_text("\n".join(" ".join(line) for line in words))
    flag = "--intercept" if intercept else "--no-intercept"
    more = ("--loss", "ridge", "--standardize", "--alpha", 0.1, flag)
    _, fitted = solve(data, *more)
    assert fitted.centre is None
    np.testing.assert_allclose(fitted.scale, X.std(axis=0), rtol=1e-12)
    theirs = linear_model.Ridge(alpha=N * 0.1, fit_intercept=intercept).fit(X / X.std(axis=0), y)
    np.testing.assert_allclose(fitted.w[:D], theirs.coef_, atol=1e-6)
    found = [float(line) for line in run("predict", tmp_path / "data.npz", data).stdout.split()]
    np.testing.assert_allclose(found, theirs.predict(X / X.std(axis=0)), atol=1e-6)
    # With an intercept, centring the columns would have changed nothing.
    np.savez(tmp_path / "dense.npz", X=X, y=y)
    result = run("solve", tmp_path / "dense.npz", *more, "--tol", 1e-9, "--out", tmp_path / "m.npz")
    assert result.exit_code == 0
    dense = model.load(tmp_path / "m.npz")
    assert (dense.centre is None) is not intercept
    np.testing.assert_allclose(dense.score(X), fitted.score(X), atol=1e-6)


@pytest.mark.parametrize("standardize", [False, True])
def test_missing_cells_hold_the_means_in_both_commands(tmp_path: Path, standardize: bool) -> None:
    X = table()
    y = labels("ridge", X)
    holes = X.copy()
    holes[::7, 1] = np.nan
    filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    text = write(tmp_path / "data.csv", holes, y).read_text().replace("nan", "")
    (tmp_path / "data.csv").write_text(text)
    result = run("solve", tmp_path / "data.csv")
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "data.csv, line 2: column 'b' is empty in row 1; give --missing mean (the mean of its "
        "column) or --missing drop (leave out its row)\n"
    )
    more = ["--standardize"] if standardize else []
    _, fitted = solve(tmp_path / "data.csv", "--missing", "mean", *more)
    _, other = solve(write(tmp_path / "filled.csv", filled, y), *more)
    np.testing.assert_allclose(fitted.w, other.w, atol=1e-8)
    outputs = [
        run("predict", tmp_path / f"{fit}.npz", tmp_path / f"{rows}.csv").stdout
        for fit, rows in (("data", "data"), ("filled", "filled"))
    ]
    found = [[float(line) for line in output.split()] for output in outputs]
    np.testing.assert_allclose(*found, atol=1e-7)
    refused = run("predict", tmp_path / "filled.npz", tmp_path / "data.csv")
    assert "row 1; give --missing mean: the means of the rows that the model" in refused.stderr
    given = run("predict", tmp_path / "filled.npz", tmp_path / "data.csv", "--missing", "mean")
    np.testing.assert_allclose([float(v) for v in given.stdout.split()], found[1], atol=1e-7)


def test_rows_with_missing_cells_are_dropped_and_counted(tmp_path: Path) -> None:
    X = table()
    y = labels("logistic", X)
    y[3], X[5, 0] = "", np.nan
    data = write(tmp_path / "data.csv", X, y)
    result = run("solve", data, "--missing", "drop")
    assert "238 (2 with empty cells dropped)" in result.stdout
    kept = [i for i in range(N) if i not in (3, 5)]
    cut = write(tmp_path / "cut.csv", X[kept], [y[i] for i in kept])
    mine, theirs = solve(data, "--missing", "drop")[1], solve(cut)[1]
    np.testing.assert_array_equal(mine.w, theirs.w)
    refused = run("solve", write(tmp_path / "y.csv", table(), y), "--missing", "mean")
    assert "the label is empty in row 4, and has no mean; give --missing drop" in refused.stderr


SUMMARY = """\
rows       240
columns    4
label      kind (the last column)
classes    3: blue (@), green, dark (@), red (@)
loss       softmax (the label 'kind' has 3 different words)
penalty    l2, alpha = 0.00416667 (1/rows)
intercept  yes, not penalised (the default for CSV)
scaling    columns centred and scaled
objective  @
gap        at most @
tol        @ (relative to the loss at the start)
steps      @
seconds    @
accuracy   @ on these rows
"""


def test_the_summary(tmp_path: Path) -> None:
    X = table()
    data = write(tmp_path / "data.csv", X, labels("softmax", X))
    text = run("solve", data, "--standardize").stdout
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0].split() == ["data.csv"]
    for line, expected in zip(lines[2:], SUMMARY.splitlines(), strict=False):
        parts = expected.split("@")
        assert line.startswith(parts[0])
        assert all(part in line for part in parts)
    assert lines[-1].startswith("The gradient norm is at most tol. Full gradients with metric=")


@pytest.mark.parametrize(
    ("y", "loss", "why"),
    [
        ([0, 1] * 20, "logistic", "2 different whole numbers"),
        ([0.5, 1.5] * 20, "logistic", "2 different numbers"),
        ([1, 2, 3, 4] * 10, "softmax", "4 different whole numbers; --loss ridge or poisson"),
        ([0.5, 1, 2, 3] * 10, "ridge", "4 different numbers"),
        (list(range(40)), "ridge", "40 different numbers"),
        (list(range(21)) * 3, "ridge", "21 different numbers"),
    ],
)
def test_the_loss_that_is_chosen_and_why(y: list[float], loss: str, why: str) -> None:
    from continuized.problems import Data

    target = fitting.choose_target(np.array(y, float), Data(None, None), None, "data")
    assert (target.loss, target.why.startswith(f"the label has {why}")) == (loss, True)


BAD = [
    (
        "a,y\n1,cat\n2,cat\n",
        (),
        "the label 'y' is cat in every row: there is nothing",
    ),
    ("a,y\n1,7\n2,7\n", (), "the label 'y' is 7 in every row"),
    (
        "a,y\n1,9007199254740993\n2,9007199254740992\n",
        (),
        "has whole numbers of 2^53 or more, of which several may be read as one; write a letter",
    ),
    ("a,y\n1,-1e16\n2,1\n", ("--loss", "logistic"), "has whole numbers of 2^53 or more"),
    ("a,y\n1,x\n2,y\n3,z\n", (), "has 3 different values in 3 rows, which are no classes"),
    (
        "a,y\n1,x\n2,z\n",
        ("--loss", "ridge"),
        "line 2: the label 'y' is 'x', which is no number, but --loss ridge needs numbers; mend it",
    ),
    ("a,y\n1,x\n2,y\n3,z\n", (), "check --label, or turn it into numbers, if amounts are meant"),
    *[
        (
            f"a,y\n1,0.5\n2,1.5\n\n3,{slip}\n4,4.5\n",
            more,
            f"data.csv, line 5: the label 'y' is '{slip}', which is no number, {why}; mend it, ",
        )
        for slip in ("?", "inf", "$5", "1.234.567")
        for more, why in [
            ((), "as most others are"),
            (("--loss", "ridge"), "but --loss ridge needs numbers"),
        ]
    ],
    ("a,y\n" + "1,1\n2,2\n" * 5 + "3,?\n", (), "data.csv, line 12: the label 'y' is '?', which"),
    ("a,y\n1,1\n2,-1\n", ("--loss", "poisson"), "needs counts; use --loss ridge or huber"),
    ("a,y\n1,1\n2,1\n3,2\n", ("--loss", "huber"), "more than half of the labels are equal"),
    ("a,c,y\n1,Rome,1\n", (), "column 'c' must hold numbers, but 'Rome' stands there; turn it"),
    ("a,y\n1,\n2,0\n", (), "column 'y' is empty in row 1; give --missing drop"),
    ("a,y\n,1\n,0\n", ("--missing", "mean"), "column 'a' is empty in every row; leave it out"),
    ("a,y\n,1\n2,\n", ("--missing", "drop"), "every row has an empty cell, so that none is left"),
    ("y,label,a\n1,2,3\n", (), "both 'y' and 'label' may be the label: say which; give --label"),
    ("a,y\n1,1\n2,0\n", ("--method", "dual"), "--method dual knows no intercept: add --no-inter"),
    (
        "a,y\n" + "1,x\n2,y\n1,z\n" * 2,
        ("--method", "dual", "--no-intercept"),
        "is for --loss logistic",
    ),
    ("a,y\n1,1\n2,0\n", ("--loss", "poisson", "--method", "nesterov"), "bound of the curvature"),
    ("a,y\n1e200,1\n2,0\n", ("--standardize",), "the squares of X overflow"),
]


@pytest.mark.parametrize(("text", "more", "sentence"), BAD)
def test_bad_tables_are_one_sentence(
    tmp_path: Path, text: str, more: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "data.csv").write_text(text)
    result = run("solve", tmp_path / "data.csv", *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_more_columns_than_memory_holds(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("1 1:1 2147483000:1\n-1 2:1\n")
    result = run("solve", tmp_path / "data")
    assert result.exit_code == 2
    assert "has 2,147,483,000 columns: a run would take 275 GB, more than" in result.stderr
    assert "number anew, from 1 on, the 3 that hold entries\n" in result.stderr


def test_the_index_of_pandas_is_said(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(",a,y\n0,1,x\n1,2,z\n2,1,x\n3,2,z\n")
    result = run("solve", tmp_path / "data.csv", "--out", tmp_path / "m.npz")
    assert result.exit_code == 0
    assert (
        "data.csv: the first column is an index, as pandas and R write one, and was"
        in result.stderr
    )
    assert run("predict", tmp_path / "m.npz", tmp_path / "data.csv").stdout == "x\nz\nx\nz\n"


IMPORTED = """
import sys
from click.testing import CliRunner
from continuized.app.cli import main
result = CliRunner().invoke(main, sys.argv[1:])
heavy = {"numpy", "scipy", "numba", "matplotlib", "rich"}
print(result.exit_code, sorted(heavy & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("text", "more", "loaded"),
    [
        ("a,b,y\n1,Berlin,2\n", (), "2 ['numpy']"),
        ("a,b,y\n1,2,3\n", ("--label", "z"), "2 ['numpy']"),
        ("a,b,y\n1,2,3\n", ("--alpha", "-1"), "2 []"),
        ("a,b,y\n1,2,3\n", ("--help",), "0 []"),
    ],
)
def test_what_is_refused_loads_little(
    tmp_path: Path, text: str, more: tuple[str, ...], loaded: str
) -> None:
    (tmp_path / "data.csv").write_text(text)
    command = [sys.executable, "-c", IMPORTED, "solve", str(tmp_path / "data.csv"), *more]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"{loaded}\n"


def test_classes_that_are_numbers_and_words_are_fitted_where_classes_are_asked_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "data.csv").write_text("a,y\n" + "1,1\n2,2\n3,3+\n" * 5)
    assert "the label 'y' is '3+'" in run("solve", tmp_path / "data.csv").stderr
    result = run("solve", tmp_path / "data.csv", "--loss", "logistic", "--json")
    assert json.loads(result.stdout)["classes"] == ["1", "2", "3+"]
