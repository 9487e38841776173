"""Where Numba cannot be imported: the same results, slower, and a warning that says so once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from continuized.problems import losses
from continuized.support import jit_numba, jit_plain
from tests.helpers.runs_without_numba import RUNS
from tests.helpers.without_numba import find_differences, without_numba

# One of each kind whose loops other tests compile too; the rest is slow for Numba's sake.
SOME = ["to tol", "auto poisson", "L1", "coordinates", "rows", "ensemble", "gossip"]
OTHERS = [name for name in RUNS if name not in SOME]


@pytest.mark.parametrize("names", [SOME, pytest.param(OTHERS, marks=pytest.mark.slow)])
def test_results_are_those_with_numba(names: list[str], tmp_path: Path) -> None:
    assert find_differences(names, tmp_path / "plain.npz") == {}


IN_A_BROWSER = """
import sys, threading
import numpy, scipy.linalg
from runpy import run_module

here, sys.platform = sys.platform, "emscripten"
import continuized.support.threads
sys.platform = here

def refuse(thread):
    raise RuntimeError("can't start new thread")

threading.Thread.start = refuse
run_module("tests.helpers.runs_without_numba", run_name="__main__", alter_sys=True)
"""


def test_no_thread_is_started_where_there_are_none(tmp_path: Path) -> None:
    """A browser's Python has none: what would run on one, runs at once."""
    path = tmp_path / "plain.npz"
    names = ["to tol", "gram", "ensemble", "gossip", "network ridge", "moments"]
    without_numba("-c", IN_A_BROWSER, str(path), *names)
    with np.load(path) as made:
        assert {name.partition("/")[0] for name in made} == set(names)


WARNED = """
import json, sys, time, warnings
began = time.perf_counter()
import continuized as cz
loaded = sorted({"numpy", "scipy", "numba"} & {n for n, m in sys.modules.items() if m})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        cz.minimize(cz.problems.Quadratic([1.0]), [1.0])
        cz.network.simulate("path:3", [1.0, 0.0, 0.0], rng=0)
print(json.dumps([loaded, [[str(w.message), w.category.__name__, w.filename] for w in caught]]))
"""


@pytest.mark.parametrize(
    ("disabled", "why"), [("0", "import of numba halted"), ("1", "NUMBA_DISABLE_JIT is set")]
)
def test_one_sentence_says_so_once(disabled: str, why: str) -> None:
    told = without_numba("-c", WARNED, NUMBA_DISABLE_JIT=disabled)
    loaded, caught = json.loads(told.stdout)
    assert loaded == []  # importing the package loads nothing
    ((message, category, filename),) = caught
    assert message.startswith("loops run in plain Python and NumPy, with the same results")
    assert why in message
    assert category == "RuntimeWarning"
    assert filename == "<string>"  # where the user's code is


def test_both_have_the_same_names() -> None:
    assert jit_plain.__all__ == jit_numba.__all__
    for name in jit_numba.__all__:
        assert hasattr(jit_plain, name), name


@pytest.mark.parametrize("kind", [losses.SQUARED, losses.LOGISTIC, losses.POISSON, -0.5], ids=str)
def test_losses_of_arrays_are_the_formulas(kind: float) -> None:
    """To a few units in the last place: NumPy's exp is not that of the formulas."""
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.normal(scale=3.0, size=200), [0.0, -40.0, 40.0, np.nan]])
    y = np.where(rng.random(p.size) < 0.5, -1.0, 1.0)
    values, slopes = losses.losses_in_numpy(kind, p, y)
    pairs = list(zip(p.tolist(), y.tolist(), strict=True))
    for found, formula in ((values, losses.loss), (slopes, losses.loss_slope)):
        exact = np.array([formula(kind, *pair) for pair in pairs])
        np.testing.assert_allclose(found, exact, rtol=1e-14, atol=1e-16)
