"""What a first run compiles, in a process of its own with an empty cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BEGIN = """
import collections, json, sys
import numpy as np
import continuized as cz
from continuized import network
from numba.core import event

class Count(event.Listener):
    def on_start(self, event):
        function, kinds = event.data["dispatcher"].py_func, event.data["args"]
        if str(function.__module__).startswith("continuized"):
            compiled[function.__qualname__ + str(kinds)] += 1
    def on_end(self, event):
        pass

compiled = collections.Counter()
event.register("numba:compile", Count())
"""
SQUARED = """
X = np.random.default_rng(0).standard_normal((12, 2))
parts = network.split(cz.problems.LeastSquares(X, X.sum(axis=1), 0.1), 3, rng=0)
network.minimize("path:3", parts, method="dual", events=9, rng=0, progress=True)
"""
LOGISTIC = SQUARED.replace(
    "LeastSquares(X, X.sum(axis=1)", "LogisticRegression(X, np.sign(X[:, 0])"
)
MINIMIZE = """
cz.minimize(cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0]), [0.0, 0.0], rng=0, progress=True)
"""
UNRECORDED = """
p = cz.problems.LeastSquares(np.eye(5), np.ones(5), 0.1)
cz.minimize(p, np.zeros(5), method="continuized", record=False, rng=0, progress=True)
"""
FAULTS = """
faults = network.Faults(delay=0.1, loss=0.1)
network.simulate("path:3", [1.0, 0.0, 0.0], rng=0, events=50, faults=faults, progress=True)
"""


def run_first(code: str, cache: Path) -> tuple[dict[str, int], str]:
    """How often functions of ours were compiled, by name and types, and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code + "print(json.dumps(compiled))"],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts, done.stderr


@pytest.mark.parametrize(
    ("code", "runs", "unused"),
    [
        (MINIMIZE, "compile_fill.<locals>.fill", ["step"]),
        (
            MINIMIZE.replace("rng", "record=False, rng"),
            "make_small_entrywise_loop.<locals>.loop",
            [],
        ),
        (UNRECORDED, "make_small_loop.<locals>.loop", []),
        (SQUARED, "run_events", ["newton", "hessian", "run_messages"]),
        # By itself, to be called by its address, and in no loop.
        pytest.param(LOGISTIC, "newton", ["run_messages"], marks=pytest.mark.slow),
        pytest.param(FAULTS, "run_messages", ["die", "join", "run_events"], marks=pytest.mark.slow),
    ],
)
def test_what_is_run_is_compiled_once_and_nothing_else(
    code: str, runs: str, unused: list[str], tmp_path: Path
) -> None:
    compiled, said = run_first(code, tmp_path)
    assert max(compiled.values()) == 1, compiled
    names = {key.partition("(")[0] for key in compiled}
    assert runs in names
    assert not names & set(unused)
    assert said.count("compiling, for about") == 1
    again, said = run_first(code, tmp_path)  # from the disk
    assert not again
    assert "compiling" not in said
