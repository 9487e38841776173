"""Numba, as it is set up for the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching

from continuized.support import jit

RUN = "import continuized as cz; cz.minimize(cz.problems.Quadratic([1.0]), [1.0])"


def test_without_compilation_nothing_is_half_done() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("RuntimeError: NUMBA_DISABLE_JIT is set, but")


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
