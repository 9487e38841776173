"""The tests of linear algebra, as they run on other processors.

    python tools/check_processors.py [--one] [ARGUMENTS OF PYTEST]

The OpenBLAS inside the wheels of NumPy and SciPy has kernels for several kinds of processors.  They
round differently, and so does a product on one thread and on two.  This runs the tests marked
`blas` with each kind of kernels that this processor can execute, in turn on 1 and on 2 threads; its
own kernels are left out, for all tests run with those.  With --one, only the first kind.  It prints
a line for each pass, and the output of each that fails; the exit code is 1 if any does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What OPENBLAS_CORETYPE may say, and what a processor must have to execute those kernels.
NEEDS = {
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": {"avx2", "fma", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "Nehalem": {"sse4_2"},
}
THREADS = (1, 2)
# Whether a library heeds the variables is asked of the libraries: another BLAS may not.
KERNELS = """
import json
import numpy.linalg
import scipy.linalg
from threadpoolctl import threadpool_info

info = [i for i in threadpool_info() if i["user_api"] == "blas"]
print(json.dumps([[i["internal_api"], i.get("architecture"), i["num_threads"]] for i in info]))
"""


def flags() -> set[str]:
    """What this processor can do; nothing is known where there is no /proc/cpuinfo."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def settings() -> dict[str, dict[str, str]]:
    """The environment of each pass by its name, no two with the same kernels."""
    found = flags()
    kinds = [kind for kind, needs in NEEDS.items() if needs <= found]
    passes: dict[str, dict[str, str]] = {}
    seen = {kernels_of({"OPENBLAS_NUM_THREADS": "1"}): "this processor's own"} if kinds else {}
    for kind in kinds or [""]:
        added = {"OPENBLAS_NUM_THREADS": "1"} | ({"OPENBLAS_CORETYPE": kind} if kind else {})
        kernels = kernels_of(added)
        if kernels in seen:
            print(f"{kind}: the same kernels as {seen[kernels]}", flush=True)
            continue
        threads = THREADS[len(passes) % 2] if kind else THREADS[-1]
        name = f"{kind or 'this processor'}, {threads} thread{'s' * (threads > 1)}"
        seen[kernels], passes[name] = kind, added | {"OPENBLAS_NUM_THREADS": str(threads)}
    missing = sorted(set(NEEDS) - set(kinds))
    if missing:
        print(f"this processor does not execute: {', '.join(missing)}", flush=True)
    return passes


def kernels_of(added: dict[str, str]) -> str:
    """Which BLAS NumPy and SciPy use, with which kernels and threads."""
    command = [sys.executable, "-c", KERNELS]
    told = subprocess.run(
        command, env=os.environ | added, stdout=subprocess.PIPE, text=True, check=True
    )
    return str(sorted(json.loads(told.stdout)))


def marked_files() -> list[str]:
    """The files with marked tests: reading the others takes longer than running these."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file) for file in files if "mark.blas" in file.read_text(encoding="utf-8")]


def main(arguments: list[str]) -> int:
    """Run all passes, each whatever the others did."""
    command = [sys.executable, "-m", "pytest", "-m", "blas", "-n", "2", "--dist", "worksteal"]
    only_one = arguments[:1] == ["--one"]
    command += ["-p", "no:cacheprovider", *arguments[only_one:], *marked_files()]
    failed = []
    for name, added in list(settings().items())[: 1 if only_one else None]:
        begin = time.monotonic()
        ran = subprocess.run(
            command, cwd=ROOT, env=os.environ | added, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        verdict = "passed" if ran.returncode == 0 else "FAILED"
        print(f"{name}: {verdict} in {time.monotonic() - begin:.0f} s", flush=True)
        if ran.returncode != 0:
            failed.append(name)
            print(ran.stdout, flush=True)
    if failed:
        print(f"the tests of linear algebra fail with: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
