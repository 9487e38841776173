"""The tests that run where there is no Numba, run there.

    python tools/check_without_numba.py [ARGUMENTS OF PYTEST]

Numba is hidden from Python and its children (tests/helpers/no_numba).  The files below have a part
of every kind of run; what is in them but needs Numba is skipped, and counted at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [
    "tests/marked/test_entropy.py",
    "tests/problems/test_sparse_format.py",
    "tests/process/test_prox.py",
    "tests/solver/test_minimize.py",
    "tests/solver/test_path.py",
    "tests/solver/test_sparse_newton.py",
]


def main(arguments: list[str]) -> int:
    """Run them; the exit code is that of pytest."""
    path = [str(ROOT / "tests" / "helpers" / "no_numba"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    command = [sys.executable, "-m", "pytest", *arguments, *FILES]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
