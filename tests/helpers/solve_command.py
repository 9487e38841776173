"""The `solve` and `predict` commands, run on data files written here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from continuized.app.cli import main


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def rows(seed: int = 0, n: int = 200, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0)
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


def write_svmlight(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    lines = [
        " ".join([repr(float(b))] + [f"{j + 1}:{float(v)!r}" for j, v in enumerate(a)])
        for a, b in zip(X, y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
