"""Shards that read their own files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.network import Sharded
from continuized.network.sharded.pool import make_error
from continuized.network.sharded.shard import pack_error, read_dataset
from tests.helpers.shards import Batches, without_processes
from tests.helpers.solve_command import write_svmlight


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_processes(monkeypatch)


def rows(n: int = 60, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X @ np.arange(1.0, d + 1.0) + rng.standard_normal(n)


def write_csv(path: Path, X: np.ndarray, y: Any, header: str = "a,b,c,target") -> Path:
    pairs = zip(X.tolist(), y, strict=True)
    lines = [",".join([*map(repr, row), str(label)]) for row, label in pairs]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def write_folder(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    path.mkdir()
    np.save(path / "X.npy", X)
    np.save(path / "y.npy", y)
    return path


def write_npz(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    np.savez(path, X=X, y=y)
    return path


WRITERS = {".csv": write_csv, ".npz": write_npz, "": write_folder, ".svm": write_svmlight}


@pytest.mark.parametrize("suffix", WRITERS)
def test_files_of_every_format_are_read(tmp_path: Path, suffix: str) -> None:
    X, y = rows()
    y = np.digitize(y, [-2.0, 2.0]).astype(float)
    write: Any = WRITERS[suffix]
    paths = [write(tmp_path / f"{a}{suffix}", X[a:b], y[a:b]) for a, b in ((0, 20), (20, 60))]
    p = Sharded.read(paths, loss="softmax", l2=0.1, intercept=True)
    whole = cz.problems.SoftmaxRegression(X, y, l2=0.1, intercept=True)
    W = np.arange(12.0).reshape(4, 3) % 5
    np.testing.assert_allclose(p.grad(W), whole.grad(W), rtol=1e-12, atol=1e-14)
    assert p.classes_ == (0.0, 1.0, 2.0)


def test_folders_are_mapped_and_never_written_to(tmp_path: Path) -> None:
    X, y = rows()
    path = write_folder(tmp_path / "rows", X.astype(np.float32), y)
    data = cz.problems.read(path)
    assert isinstance(data.X, np.memmap)
    assert not data.X.flags.writeable
    p = cz.problems.LeastSquares(*data, l2=0.1)
    assert np.shares_memory(p.X, data.X)
    assert np.array_equal(p.X, X.astype(np.float32))
    np.save(path / "X.npy", np.asfortranarray(X))  # not in C order: it is read
    again = cz.problems.read(path)
    assert not isinstance(again.X, np.memmap)
    assert np.array_equal(again.X, X)


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (np.ones((3, 2)), np.ones(4), "the shapes are (3, 2) and (4,)"),
        (np.ones(3), np.ones(3), "the shapes are (3,) and (3,)"),
        (np.full((3, 2), np.nan), np.ones(3), "X[0, 0] is nan"),
        (np.ones((0, 2)), np.ones(0), "X is empty"),
        (np.ones((3, 2)), None, "a folder, not a file, and without y.npy"),
    ],
)
def test_folders_that_are_none_are_refused(
    tmp_path: Path, X: np.ndarray, y: np.ndarray | None, said: str
) -> None:
    np.save(tmp_path / "X.npy", X)
    if y is not None:
        np.save(tmp_path / "y.npy", y)
    with pytest.raises(cz.problems.DataError) as caught:
        cz.problems.read(tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (MemoryError(), MemoryError, "a: memory has no room for it"),
        (FileNotFoundError(2, "No file", "rows"), OSError, "a cannot be read: No file: rows"),
        (np.linalg.LinAlgError("singular"), ValueError, "a: singular"),
        (UnicodeDecodeError("ascii", b"x", 0, 1, "why"), ValueError, "a: 'ascii' codec can't"),
        (KeyError("k"), RuntimeError, "the worker of a raised KeyError: 'k'"),
    ],
)  # fmt: skip
def test_errors_of_workers_are_raised_again(
    raised: Exception, kind: type[Exception], said: str
) -> None:
    error = make_error(json.loads(json.dumps(pack_error(raised))), "a")
    assert type(error) is kind
    assert str(error).startswith(said)


@pytest.mark.parametrize("words", [True, False])
def test_classes_of_all_shards_are_joined(tmp_path: Path, words: bool) -> None:
    X, _ = rows()
    k = np.arange(60) // 20  # the first shard has no row of the third class
    labels: Any = np.array(["ant", "bee", "cat"])[k] if words else k * 2 + 1
    paths = [write_csv(tmp_path / f"{a}.csv", X[a:b], labels[a:b]) for a, b in ((0, 30), (30, 60))]
    p = Sharded.read(paths, loss="softmax", l2=0.1)
    assert p.classes_ == (("ant", "bee", "cat") if words else (1.0, 3.0, 5.0))
    whole = cz.problems.SoftmaxRegression(X, k, l2=0.1)
    W = np.random.default_rng(1).standard_normal(whole.dim)
    np.testing.assert_allclose(p.grad(W), whole.grad(W), rtol=1e-11)


def test_a_shard_with_one_of_two_labels_is_fine(tmp_path: Path) -> None:
    X, _ = rows()
    y = np.repeat([3.0, 7.0], 30)
    paths = [write_npz(tmp_path / f"{a}.npz", X[a:b], y[a:b]) for a, b in ((0, 30), (30, 60))]
    p = Sharded.read(paths, loss="logistic", l2=0.1)
    whole = cz.problems.LogisticRegression(X, np.sign(y - 5.0), l2=0.1)
    np.testing.assert_allclose(p.grad(np.ones(3)), whole.grad(np.ones(3)), rtol=1e-12)


def test_sparse_text_whose_last_columns_are_empty_grows(tmp_path: Path) -> None:
    one, two = tmp_path / "one.svm", tmp_path / "two.svm"
    one.write_text("1 1:2\n2 2:1\n")
    two.write_text("3 1:1 4:2\n")
    p = Sharded.read([one, two], loss="ridge", l2=0.1)
    X = np.array([[2.0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 2]])
    whole = cz.problems.LeastSquares(X, [1.0, 2.0, 3.0], l2=0.1)
    np.testing.assert_allclose(p.grad(np.ones(4)), whole.grad(np.ones(4)), rtol=1e-14)


def test_datasets_are_read_by_their_columns() -> None:
    X, y = rows()
    data = read_dataset(Batches(X, y), label="y")
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.y, y)
    words = read_dataset(Batches(X, np.where(y > 0, "up", "down")), label="y")
    assert words.classes == ("down", "up")
    assert np.array_equal(words.y, y > 0)
    with pytest.raises(ValueError, match="one of \\['a', 'y', 'more'\\], got 'z'"):
        read_dataset(Batches(X, y), label="z")
    with pytest.raises(ValueError, match="no rows"):
        read_dataset(Batches(X[:0], y[:0]), label="y")
