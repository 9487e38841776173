"""Numba, as it is set up for the package."""

from __future__ import annotations

import os
import subprocess
import sys

RUN = "import continuized as cz; cz.minimize(cz.problems.Quadratic([1.0]), [1.0])"


def test_without_compilation_nothing_is_half_done() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("RuntimeError: NUMBA_DISABLE_JIT is set, but")
