"""`continuized solve` with several files, or one that is shared out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.app import model_file
from continuized.app.sharded import share_out
from tests.helpers.shards import without_processes
from tests.helpers.solve_command import rows, run, write_svmlight


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_processes(monkeypatch)


def write_csv(path: Path, X: np.ndarray, labels: Any) -> Path:
    names = ",".join(f"c{j}" for j in range(X.shape[1]))
    pairs = zip(X.tolist(), labels, strict=True)
    lines = [",".join([*map(repr, row), str(label)]) for row, label in pairs]
    path.write_text("\n".join([f"{names},target", *lines]) + "\n")
    return path


LABELS: dict[str, Any] = {
    "ridge": lambda y: y.tolist(),
    "logistic": lambda y: np.where(y > 0.0, "yes", "no"),
    "softmax": lambda y: np.array(["cat", "ant", "bee"])[np.digitize(y, [-4.0, 4.0])],
    "poisson": lambda y: np.round(np.exp(np.clip(y, -2.0, 2.0))),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("loss", LABELS)
def test_files_apart_give_what_they_give_together(tmp_path: Path, loss: str) -> None:
    X, y = rows(n=90)
    labels = LABELS[loss](y)
    both = write_csv(tmp_path / "both.csv", X, labels)
    parts = [write_csv(tmp_path / f"{a}.csv", X[a:b], labels[a:b]) for a, b in ((0, 30), (30, 90))]
    how = ["--json", "--tol", "1e-10", "--seed", 1]
    how += ["--loss", "poisson"] if loss == "poisson" else []
    outs = [tmp_path / f"model{k}.npz" for k in range(3)]
    answers = [
        run("solve", *files, *how, *more, "--out", out)
        for files, more, out in (
            ([both], [], outs[0]),
            (parts, [], outs[1]),
            ([both], ["--shards", 3], outs[2]),
        )
    ]
    assert [answer.exit_code for answer in answers] == [0, 0, 0]
    whole, *others = (json.loads(answer.output.splitlines()[-1]) for answer in answers)
    expected = model_file.load(outs[0])
    for other, out in zip(others, outs[1:], strict=True):
        assert other["objective"] == pytest.approx(whole["objective"], rel=1e-9)
        for name in ("loss", "n", "d", "classes", "intercept", "l2", "status"):
            assert other[name] == whole[name]
        for name in {"accuracy", "R2", "D2"} & set(whole):
            assert other[name] == pytest.approx(whole[name], rel=1e-6)
        model = model_file.load(out)
        np.testing.assert_allclose(model.w, expected.w, rtol=1e-4, atol=1e-6)
        assert model._replace(w=expected.w) == expected._replace(means=None)


@pytest.mark.usefixtures("here")
def test_l1_a_checkpoint_and_the_summary(tmp_path: Path) -> None:
    X, y = rows(n=90)
    files = [write_csv(tmp_path / f"{a}.csv", X[a : a + 45], y[a : a + 45]) for a in (0, 45)]
    kept = tmp_path / "run.npz"
    how = ["--penalty", "l1", "--alpha", 0.5, "--checkpoint", kept]
    first = run("solve", *files, *how)
    assert first.exit_code == 0
    assert kept.exists()
    assert "0.csv and 1 more" in first.output
    assert "R²" in first.output
    assert run("solve", *files, *how).exit_code == 0


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shards", 3], "--shards 3 is more than the 2 files"),
        (["--standardize"], "--standardize needs all rows in one process"),
        (["--missing", "drop"], "--missing needs all rows in one process"),
        (["--method", "dual", "--no-intercept"], "--method dual needs all rows in one process"),
        (["--loss", "huber"], "--loss huber of several shards needs --delta"),
        (["--label", "nothing"], "0.csv, line 1: label: no column is called 'nothing'"),
        (["--method", "nesterov", "--loss", "poisson"], "needs counts"),
    ],
)
def test_what_does_not_go_is_said_in_a_sentence(
    tmp_path: Path, options: list[Any], said: str
) -> None:
    X, y = rows(n=20)
    files = [write_csv(tmp_path / f"{a}.csv", X[a : a + 10], y[a : a + 10]) for a in (0, 10)]
    answer = run("solve", *files, *options)
    assert answer.exit_code == 2
    assert said in answer.output


@pytest.mark.usefixtures("here")
def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    X, y = rows(n=20)
    one = write_csv(tmp_path / "one.csv", X, y)
    answer = run("solve", one, tmp_path / "two.csv")
    assert answer.exit_code == 2
    assert f"there is no file {tmp_path / 'two.csv'}" in answer.output


@pytest.mark.usefixtures("here")
def test_more_shards_than_rows_are_refused(tmp_path: Path) -> None:
    X, y = rows(n=3)
    answer = run("solve", write_csv(tmp_path / "one.csv", X, y), "--shards", 5)
    assert answer.exit_code == 2
    assert "has 3 rows, too few for 5 shards" in answer.output


def test_files_are_shared_out_in_order() -> None:
    paths = list("abcde")
    assert [[path for path, *_ in pieces] for pieces in share_out(paths, 2)] == [
        ["a", "b"],
        ["c", "d", "e"],
    ]
    assert share_out(["a"], None) == [[("a", 0, 1)]]


@pytest.mark.slow
def test_processes_read_sparse_files(tmp_path: Path) -> None:
    X, y = rows(n=90)
    X[:30, 4] = 0.0  # the first file ends with a column less
    files = [
        write_svmlight(tmp_path / f"{a}.svm", X[a : a + 30], y[a : a + 30]) for a in (0, 30, 60)
    ]
    answer = run("solve", *files, "--shards", 2, "--json", "--l2", 0.1, "--tol", 1e-10)
    assert answer.exit_code == 0
    found = json.loads(answer.output.splitlines()[-1])
    whole = cz.problems.LeastSquares(X, y, l2=0.1)
    assert whole.f_star is not None
    assert 0.0 <= found["objective"] - whole.f_star + 1e-12 <= 1e-9


@pytest.mark.parametrize("shards", [(), ("--shards", 1)])
def test_a_label_that_is_no_number_is_told_with_its_file(
    tmp_path: Path, shards: tuple[Any, ...]
) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("a,y\n" + "1,0.5\n2,1.5\n" * 4)
    two.write_text("a,y\n1,2.5\n2,?\n")
    result = run("solve", one, two, *shards)
    assert result.exit_code == 2
    assert f"'?' in {two}, line 3" in result.stderr
    result = run("solve", two, "--shards", 2, "--loss", "ridge")
    assert f"{two}, line 3: the label 'y' is '?', which is no number" in result.stderr
