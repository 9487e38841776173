"""Reading SVMlight's text, beside scikit-learn's load_svmlight_file.

    python -m benchmarks.studies.read [FILE]

Without a file, two are written: one like w8a (50,000 rows, 300 columns, 12 ones a row) and one
of 20,000 rows with 50 values of 17 digits each.  The aim is to be at least as quick.

Both read the file in turn within each round, so that a busy machine slows both alike; the
minimum over the rounds is kept.  What they read must be the same, bit for bit.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

import continuized as cz
from benchmarks.timing import time_in_turn

ROUNDS = 10


def write(path: Path, n: int, d: int, per_row: int, ones: bool) -> Path:
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for label in rng.choice([-1, 1], n):
            columns = np.sort(rng.choice(d, per_row, replace=False)) + 1
            values = [1] * per_row if ones else rng.standard_normal(per_row).tolist()
            row = " ".join(f"{j}:{v!r}" for j, v in zip(columns.tolist(), values, strict=True))
            file.write(f"{label} {row}\n")
    return path


def compare(path: Path) -> None:
    X, y = cz.problems.read(path)
    theirs = load_svmlight_file(str(path))
    assert np.array_equal(y, theirs[1])
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(X, part), getattr(theirs[0], part))
    readers = {"continuized": cz.problems.read, "scikit-learn": load_svmlight_file}
    works = {name: partial(reader, str(path)) for name, reader in readers.items()}
    best = time_in_turn(works, ROUNDS)
    megabytes = path.stat().st_size / 1e6
    print(f"{path.name}: {megabytes:.1f} MB, minimum of {ROUNDS} interleaved rounds")
    for name, seconds in best.items():
        print(f"  {name:14}{seconds * 1e3:8.1f} ms{megabytes / seconds:8.0f} MB/s", end="")
        print(f"{seconds / best['continuized']:8.2f} x ours")


def main() -> None:
    if sys.argv[1:]:
        compare(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(write(Path(folder, "like-w8a"), 50_000, 300, 12, ones=True))
        compare(write(Path(folder, "17-digits"), 20_000, 1000, 50, ones=False))


if __name__ == "__main__":
    main()
