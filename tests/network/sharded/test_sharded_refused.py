"""What does not go together is refused in one sentence, and no worker is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.network import Sharded
from continuized.network.sharded.shard import join_files
from tests.helpers.shards import cut, without_processes
from tests.helpers.weighted_regressions import make

X, Y = np.arange(12.0).reshape(6, 2) % 5, np.array([1.0, -1, 1, -1, 1, 1])
LOGISTIC, SQUARED = cz.problems.LogisticRegression, cz.problems.LeastSquares
ONE = LOGISTIC(X, Y, l2=0.1)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_processes(monkeypatch)


def refusal(call: Any, *given: Any, **how: Any) -> str:
    with pytest.raises((TypeError, ValueError, OSError)) as caught:
        call(*given, **how)
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "at least one regression"),
        (ONE, "parts must be a list of regressions"),
        ("rows.csv", "parts must be a list of regressions"),
        (["rows.csv"], "give paths and Ray datasets to Sharded.read"),
        ([cz.problems.Quadratic([1.0], [1.0])], "parts[0] must be one of the regressions"),
        ([ONE, SQUARED(X, Y, l2=0.1)], "the same kind, but that of parts[1] is LeastSquares"),
        ([ONE, LOGISTIC(X, Y, l2=0.2)], "the same l2, but that of parts[1] is 0.2"),
        ([ONE, LOGISTIC(X[:, :1], Y, l2=0.1)], "the same number of columns"),
        ([ONE, LOGISTIC(X, Y, l2=0.1, intercept=True)], "the same intercept"),
        (
            [cz.problems.HuberRegression(X, Y, delta=delta) for delta in (1.0, 2.0)],
            "the same delta",
        ),
        ([ONE, make("logistic", "sparse", False, False, l2=0.1, d=2)], "shards must be alike"),
    ],
)
def test_parts_that_do_not_go_together(parts: Any, said: str) -> None:
    assert said in refusal(Sharded, parts)


def test_options_that_make_no_sense() -> None:
    assert 'transport must be "local", "ray"' in refusal(Sharded, [ONE], "tcp")
    assert 'is for transport="ray"' in refusal(Sharded, [ONE], address="127.0.0.1:6379")
    assert "threads must be an integer >= 1" in refusal(Sharded, [ONE], threads=0)
    assert "loss must be" in refusal(Sharded.read, ["a"], loss="hinge", l2=0.1)
    assert "l2 must be a finite number >= 0" in refusal(Sharded.read, ["a"], loss="ridge", l2=-1.0)
    assert "at least one path" in refusal(Sharded.read, [], loss="ridge", l2=0.1)
    assert "a list of paths" in refusal(Sharded.read, "a.csv", loss="ridge", l2=0.1)
    assert "paths[0] must be a path" in refusal(Sharded.read, [3], loss="ridge", l2=0.1)


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.csv"
    said = refusal(Sharded.read, [missing], loss="ridge", l2=0.1)
    assert said == f"there is no file {missing}: check the path"


def test_labels_of_two_kinds_in_the_files_of_one_shard_are_said_of_files(tmp_path: Path) -> None:
    pieces = []
    for name, text in (("0.csv", CSV), ("1.csv", "a,b,y\n1,2,yes\n1,3,no\n")):
        (tmp_path / name).write_text(text)
        pieces.append(cz.problems.read(tmp_path / name))
    with pytest.raises(ValueError, match=r"of file 0 are numbers, .* of one kind in all files"):
        join_files(pieces)


CSV = "a,b,y\n1,2,1\n2,1,0\n"


@pytest.mark.parametrize(
    ("one", "two", "loss", "said"),
    [
        (CSV, "a,y\n1,1\n", "ridge", "has 1 columns, but"),
        (CSV, "a,c,y\n1,2,0\n", "ridge", "has other names of columns than"),
        (CSV, "b,a,y\n1,2,0\n", "ridge", "; write the columns of all in one order"),
        (CSV, "a,b,y\n1,2,yes\n1,3,no\n", "softmax", "labels must be of one kind in all shards"),
        (CSV, "a,b,y\n1,2,2\n", "logistic", "needs two labels in all shards together, got 3"),
        (CSV, CSV.replace("1\n", "0\n"), "poisson", ""),
        (CSV, "a,b,y\n1,2,-1\n", "poisson", "counts >= 0, but one is -1.0"),
        (CSV, "a,b,y\n1,x,1\n", "ridge", "two.csv, line 2: column 'b' must hold numbers"),
        (CSV, "a,b,y\n", "ridge", "two.csv: "),
        ("a,b,y\n1,2,u\n", "a,b,y\n1,2,v\n", "ridge", "the labels are text (u, v)"),
        ("a,b,y\n1,2,1\n", "a,b,y\n1,2,1\n", "logistic", "got 1 (1.0)"),
    ],
)
def test_files_that_do_not_go_together(
    tmp_path: Path, one: str, two: str, loss: str, said: str
) -> None:
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for path, text in zip(paths, (one, two), strict=True):
        path.write_text(text)
    if said:
        assert said in refusal(Sharded.read, paths, loss=loss, l2=0.1)
    else:
        Sharded.read(paths, loss=loss, l2=0.1)


def test_folders_with_other_numbers_of_columns_are_refused(tmp_path: Path) -> None:
    for columns in (2, 3):
        folder = tmp_path / str(columns)
        folder.mkdir()
        np.save(folder / "X.npy", np.ones((4, columns)))
        np.save(folder / "y.npy", np.arange(4.0))
    said = refusal(Sharded.read, [tmp_path / "2", tmp_path / "3"], loss="ridge", l2=0.1)
    assert "has 3 columns, but" in said


def test_sparse_text_does_not_grow_beside_a_file_that_tells_its_columns(tmp_path: Path) -> None:
    text, told = tmp_path / "rows.svm", tmp_path / "rows.npz"
    text.write_text("1 1:2\n2 4:1\n")
    rows = sparse.csr_array(np.eye(3))
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
    np.savez(told, y=np.arange(3.0), format=b"csr", **parts)
    for paths in ([text, told], [told, text]):
        assert "columns, but" in refusal(Sharded.read, paths, loss="ridge", l2=0.1)


def test_a_file_that_changed_is_noticed_when_it_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(CSV)
    p = Sharded.read([path], loss="ridge", l2=0.1)
    p._pool._drop(0)
    assert p.fun(np.zeros(2)) == 0.25
    path.write_text(CSV + "3,3,3\n")
    p._pool._drop(0)
    assert "is not what it was" in refusal(p.fun, np.zeros(2))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "rows"}, "made of all rows in one place"),
        ({"method": cz.DualCoordinate()}, "got Sharded"),
        ({"method": cz.CoordinateDescent()}, "got Sharded"),
    ],
)
def test_what_takes_rows_one_by_one_is_refused(options: Any, said: str) -> None:
    p = Sharded(cut(ONE, 3))
    assert said in refusal(cz.minimize, p, np.zeros(2), **options)


def test_an_x_of_another_size_is_refused() -> None:
    p = Sharded(cut(ONE, 3))
    assert "x has 3 entries, but the problem has dimension 2" in refusal(p.fun, np.zeros(3))
