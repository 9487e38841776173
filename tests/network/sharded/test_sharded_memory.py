"""Data larger than a limit of memory, on one machine: mapped files, shared out to processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.support import blas
from tests.helpers.shards import without_processes

# |g| <= 1e-9 in the dual norm of the Hessian, whose eigenvalues are above 0.01 at the minimiser.
CLOSE = 1e-7


def solve(folders: list[Path], memory: str) -> dict[str, Any]:
    """Solve in processes of so much memory each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.limited_memory", "--memory", memory, *folders],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
             "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def block(d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, d))
    return X, np.sign(X[:, 0] - 0.3 + rng.standard_normal(1000))


def write_shards(folder: Path, shards: int, n: int, d: int) -> tuple[list[Path], np.ndarray]:
    """Write shards whose rows are those of one small block, again and again.

    So the optimum is that of the block, which any process can find.
    """
    X, y = block(d)
    folders = [folder / f"shard{k}" for k in range(shards)]
    for each in folders:
        each.mkdir()
        mapped = np.lib.format.open_memmap(each / "X.npy", "w+", np.float64, (n, d))
        for start in range(0, n, 1000):
            mapped[start : start + 1000] = X
        np.save(each / "y.npy", np.tile(y, n // 1000))
    small = cz.problems.LogisticRegression(X, y, l2=1e-3, intercept=True)
    assert small.x_star is not None
    return folders, small.x_star


def test_sums_over_mapped_files_hold_a_small_part_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_processes(monkeypatch)
    monkeypatch.setattr(blas, "ENTRIES_AT_ONCE", 2**16)
    folders, star = write_shards(tmp_path, 2, 20_000, 50)
    (X, y), read = block(50), cz.network.Sharded.read
    W = np.random.default_rng(1).standard_normal((50, 2))
    size = sum((folder / "X.npy").stat().st_size for folder in folders)
    tracemalloc.start()
    try:
        slopes = read(folders, loss="softmax", l2=0.1).grad(W)
        p = read(folders, loss="logistic", l2=1e-3, intercept=True)
        hessian, scales = p.hessian_block(star), p.column_scales
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 3
    small = cz.problems.LogisticRegression(X, y, l2=1e-3, intercept=True)
    np.testing.assert_allclose(hessian, small.hessian_block(star), atol=1e-12)
    np.testing.assert_allclose(scales, small.column_scales, rtol=1e-12)
    classes = cz.problems.SoftmaxRegression(X, (y > 0.0).astype(float), l2=0.1)
    np.testing.assert_allclose(slopes, classes.grad(W), atol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit elsewhere counts mapped files too")
def test_data_larger_than_the_memory_of_a_process(tmp_path: Path) -> None:
    folders, star = write_shards(tmp_path, 2, 700_000, 50)
    answer = solve(folders, "500M")
    assert answer["bytes"] > 500 * 2**20
    assert not answer["held"]  # so that the limit is one
    assert answer["success"]
    assert answer["restarts"] == 0
    np.testing.assert_allclose(answer["x"], star, atol=CLOSE)
