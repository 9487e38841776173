"""Python where Numba cannot be imported, and how far its runs are from those with Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.helpers import runs_without_numba
from tests.helpers.runs_without_numba import UNKNOWN

ROOT = Path(__file__).parents[2]
NO_NUMBA = ROOT / "tests" / "helpers" / "no_numba"
# Both round differently.  Relative to the largest entry, x differed by 1e-15, and by up to 3e-14
# where L is found on the way: what is seen of L is a quotient of small differences, and all that
# follows depends on it.  There, other kernels of BLAS changed gradients by 1e-12.
CLOSE = 1e-12
CLOSE_UNKNOWN = 1e-9
CLOSE_FLOAT32 = 1e-5


def without_numba(
    *arguments: str, first: Path = NO_NUMBA, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python where Numba cannot be imported; first: where packages are looked for before."""
    path = os.pathsep.join([str(first), str(NO_NUMBA), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path} | variables
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done


def find_differences(
    names: list[str], path: Path, first: Path = NO_NUMBA
) -> dict[str, tuple[float, float]]:
    """Make these runs with Numba and, into a file, without; return which of their arrays are not
    the same to rounding, by how much, and their size."""
    without_numba("-m", "tests.helpers.runs_without_numba", str(path), *names, first=first)
    expected, differing = runs_without_numba.make(names), {}
    with np.load(path) as plain:
        assert set(plain) == set(expected)
        for name, wanted in expected.items():
            found, scale = plain[name], 1.0 + np.abs(wanted.astype(float)).max(initial=0.0)
            close = CLOSE_UNKNOWN if name.partition("/")[0] in UNKNOWN else CLOSE
            close = CLOSE_FLOAT32 if name.startswith("float32") else close
            if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
                differing[name] = np.inf, scale
                continue
            difference = np.abs(found.astype(float) - wanted.astype(float)).max(initial=0.0)
            if not difference <= close * scale:
                differing[name] = difference, scale
    return differing
