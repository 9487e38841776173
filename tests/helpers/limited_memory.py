"""Solves shards that are larger than the memory of any process that works on them.

    python -m tests.helpers.limited_memory --memory 500M FOLDER FOLDER

The limit is that of the system (RLIMIT_DATA), which workers inherit: it counts what a process
allocates, but not files that are mapped to be read.  Prints x as JSON, and what happens to an array
as large as all X together.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path

import numpy as np

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def read_size(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=read_size, required=True)
    parser.add_argument("folders", nargs="+", type=Path)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (given.memory, given.memory))

    import continuized as cz

    size = sum((folder / "X.npy").stat().st_size for folder in given.folders)
    try:
        np.ones(size // 8)
        held = True
    except MemoryError:
        held = False
    how = {"loss": "logistic", "l2": 1e-3, "intercept": True}
    with cz.network.Sharded.read(given.folders, **how) as p:
        r = cz.minimize(p, np.zeros(p.dim), method="auto", tol=1e-9, rng=0)
        told = {"x": r.x.tolist(), "success": r.success, "restarts": p.restarts}
    print(json.dumps({**told, "held": held, "bytes": size}))


if __name__ == "__main__":
    main()
