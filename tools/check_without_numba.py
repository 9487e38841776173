"""What runs where there is no Numba, run there: tests of every kind, and `verify --quick`.

    python tools/check_without_numba.py [ARGUMENTS OF PYTEST]

Numba is hidden from Python and its children (tests/helpers/no_numba).  That results are the same
with Numba is a test of its own, tests/support/test_without_numba.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Of each kind of run, what is quick without compiled loops too, and asks for none.
FILES = [
    "tests/invariants/test_penalties.py",
    "tests/marked/test_entropy.py",
    "tests/marked/test_marked_clocks.py",
    "tests/network/optimisation/test_decentralized_paths.py",
    "tests/network/protocol/test_nodes_are_the_process.py",
    "tests/problems/test_sparse_format.py",
    "tests/process/test_clock.py",
    "tests/process/test_exponential.py",
    "tests/process/test_prox.py",
    "tests/solver/test_gradients_in_python.py",
    "tests/solver/test_metric.py",
    "tests/solver/test_metric_runs.py",
    "tests/solver/test_minimize.py",
    "tests/solver/test_path.py",
    "tests/solver/test_sparse_newton.py",
]


def main(arguments: list[str]) -> int:
    """Run both at once; the exit code is 1 if one fails."""
    path = [str(ROOT / "tests" / "helpers" / "no_numba"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    verify = [sys.executable, "-m", "continuized", "verify", "--quick"]
    tests = [sys.executable, "-m", "pytest", *arguments, *FILES]
    with subprocess.Popen(
        verify, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as checks:  # fmt: skip
        failed = subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode != 0
        print(checks.communicate()[0], flush=True)
    return int(failed or checks.returncode != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
