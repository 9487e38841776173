"""Numba, as it is set up for the package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from llvmlite.binding.executionengine import ExecutionEngine
from numba.core import caching
from numba.core.codegen import JITCodeLibrary

from continuized.support import jit_numba as jit

# A function of the package's, called with a type that is the user's own, as of a node model.
MODEL = """
from typing import NamedTuple

class Model(NamedTuple):
    rate: float
"""
FIRST = "def add(model, x):\n    return x + model[0]\n"
CALL = """
import sys
sys.path[:0] = sys.argv[2:]
import continuized.support.jit_numba as setup
{before}
from first import add
added = setup.jit(add)
"""
WITH_MODEL = "import users\nprint(added(users.Model(1.0), 2.0), added((1.0,), 3.0))"
WITHOUT = "print(added((1.0,), 2.0), added((1.0,), 3), len(added.stats.cache_hits))"
AS_BEFORE = "setup._is_covered = lambda kind: True"  # the user's types were kept too


def run_python(script: str, cache: Path, *folders: Path) -> str:
    """Return what a process printed that may import from these folders."""
    done = subprocess.run(
        [sys.executable, "-c", script, "", *map(str, folders)],
        # Numba's names of code have sets of options in them, in an order that the seed tells.
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("before", ["", pytest.param(AS_BEFORE, marks=pytest.mark.slow)])
def test_a_type_of_the_users_own_spoils_no_cache(before: str, tmp_path: Path) -> None:
    """A process that cannot import the class goes on, and keeps what it compiled."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, name, text in ((ours, "first", FIRST), (theirs, "users", MODEL)):
        folder.mkdir()
        (folder / f"{name}.py").write_text(text)

    def run(script: str, *folders: Path) -> str:
        return run_python(CALL.format(before=before) + script, tmp_path / "cache", *folders)

    assert run(WITH_MODEL, ours, theirs) == "3.0 4.0"
    assert run(WITHOUT, ours).startswith("3.0 4.0")
    assert run(WITHOUT, ours) == "3.0 4.0 2"


CLOSURES = """
import sys
sys.path[:0] = sys.argv[2:]
import continuized.support.jit_numba as setup
{before}
from multiples import make
"""
MULTIPLES = "def make(factor):\n    def times(x):\n        return factor * x\n    return times\n"
KEEP = "setup.jit(make(2.0), setup.types.float64(setup.types.float64))"
# Which of two of one name is found is a matter of chance: so the names are compared.
MEET = """
kind = setup.types.float64(setup.types.float64)
own, kept = setup.jit(make(3.0), kind), setup.jit(make(2.0), kind)
names = {only.fndesc.llvm_func_name for f in (own, kept) for only in f.overloads.values()}
print(sum(kept.stats.cache_hits.values()), own(1.0), kept(1.0), len(names))
"""
FROM_ONE = "setup.FunctionIdentity._unique_ids = setup.itertools.count(1)"  # as Numba has it
IN_A_FORK = f"import os\nif not os.fork():\n    {KEEP}\n    os._exit(0)\nos.wait()\n"


@pytest.mark.parametrize(
    ("before", "names"), [("", 2), pytest.param(FROM_ONE, 1, marks=pytest.mark.slow)]
)
def test_code_from_disk_is_not_taken_for_code_of_the_same_name(
    before: str, names: int, tmp_path: Path
) -> None:
    """Two closures of one function were one and the same to Numba, if their numbers agreed."""
    (tmp_path / "multiples.py").write_text(MULTIPLES)
    script = CLOSURES.format(before=before)
    run_python(script + KEEP, tmp_path / "cache", tmp_path)
    assert run_python(script + MEET, tmp_path / "cache", tmp_path).split()[::3] == ["1", str(names)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forks_do_not_name_code_alike(tmp_path: Path) -> None:
    (tmp_path / "multiples.py").write_text(MULTIPLES)
    script = CLOSURES.format(before="") + IN_A_FORK + MEET
    assert run_python(script, tmp_path / "cache", tmp_path) == "1 3.0 2.0 2"


ROOTS = """
import math
import numpy as np

def root(x):
    if x < 0.0:
        raise ValueError("negative")
    return math.sqrt(x)

def roots(x):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = root(x[i])
    return out
"""
USE_ROOTS = """
import sys
sys.path[:0] = sys.argv[2:]
import numpy as np
import continuized.support.jit_numba as setup
import users_roots
setup.compile_formulas(users_roots.root)
roots = setup.jit(users_roots.roots)
answers, message = roots(np.array([0.0, 4.0])), ""
try:
    roots(np.array([-1.0]))
except ValueError as error:
    message = str(error)
found = sum(roots.stats.cache_hits.values())
print(answers.tolist(), message, found, "scipy.linalg" in sys.modules)
"""
COMPILE_ANOTHER = """
norm = setup.jit(lambda x: np.linalg.norm(x) + np.sort(x)[0], cached=False)
print(norm(np.array([4.0, 3.0])))
"""


def test_code_from_disk_is_loaded_without_all_that_numba_can_compile(tmp_path: Path) -> None:
    """It can allocate, call and raise; what is compiled afterwards finds all that Numba has."""
    (tmp_path / "users_roots.py").write_text(ROOTS)
    script = USE_ROOTS + COMPILE_ANOTHER
    answers = [run_python(script, tmp_path / "cache", tmp_path) for _ in range(2)]
    expected = "[0.0, 2.0] negative {}\n8.0"
    assert answers == [expected.format(found) for found in ("0 True", "1 False")]


def test_a_cache_of_other_sources_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may name classes that are no more."""

    def never(data: bytes) -> Any:
        raise AssertionError("the index was opened")

    other = caching.IndexDataCacheFile(str(tmp_path), "index", "the stamp of other sources")
    other.flush()
    ours = jit._Cache(jit.is_ours)._cache_file
    monkeypatch.setattr(ours, "_index_path", other._index_path)
    monkeypatch.setattr(caching.pickle, "loads", never)
    assert ours._load_index() == {}


def double(x: float) -> float:
    return 2.0 * x


@pytest.mark.parametrize("cached", [False, True])
def test_a_ctrl_c_that_comes_while_llvm_calls_python_is_heard(
    cached: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such a call prints errors and loses them; with a cache, Numba then missed the code."""
    lost: list[Any] = []
    find = ExecutionEngine._find_module_ptr

    def find_interrupted(self: Any, pointer: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return find(self, pointer)

    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    compiled = jit.jit(double, cached=cached)
    with monkeypatch.context() as patch:
        patch.setattr(ExecutionEngine, "_find_module_ptr", find_interrupted)
        patch.setattr(sys, "unraisablehook", lost.append)
        with pytest.raises(KeyboardInterrupt):
            compiled(3.0)
    assert all(error.exc_type is KeyboardInterrupt for error in lost)
    assert lost
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert compiled(3.0) == 6.0


def halve(x: float) -> float:
    if x < 0.0:
        raise ValueError("it is negative")
    return 0.5 * x


def quarter(x: float) -> float:
    return halve(halve(x))


def test_machine_code_is_made_of_what_python_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called from compiled code alone is optimised there; its errors come through."""
    made: list[str] = []
    finalize = JITCodeLibrary._finalize_specific

    def note(library: Any) -> None:
        made.append(library.name)
        finalize(library)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", note)
    jit.compile_formulas(halve, quarter)
    ours, theirs = jit.jit(lambda x: quarter(x), cached=False), numba.njit(lambda x: quarter(x))
    for compiled in (ours, theirs):
        assert compiled(3.0) == 0.75
        with pytest.raises(ValueError, match="it is negative"):
            compiled(-1.0)
    assert made
    assert not {"halve", "quarter"} & set(made)
