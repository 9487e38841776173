"""Ctrl-C that waits."""

from __future__ import annotations

import os
import signal
import threading
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.files import uninterrupted


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and its children inherit that."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_comes_after_the_block() -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            interrupt()
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_no_handler_is_touched_outside_of_the_main_thread() -> None:
    seen = []

    def work() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


@pytest.mark.parametrize("what", ["the archive", "a member"])
def test_a_checkpoint_that_is_interrupted_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Just when the archive, or a member of it, is opened."""
    path = tmp_path / "run"
    checkpoints.save(path, {"k": 1}, {"x": np.ones(3)})
    open_member = zipfile.ZipFile.open

    def lock_and_interrupt() -> Any:
        interrupt()
        return threading.RLock()

    def open_and_interrupt(*given: Any, **options: Any) -> Any:
        member = open_member(*given, **options)
        interrupt()
        return member

    if what == "the archive":
        only_lock = types.SimpleNamespace(RLock=lock_and_interrupt)
        monkeypatch.setattr(zipfile, "threading", only_lock)
    else:
        monkeypatch.setattr(zipfile.ZipFile, "open", open_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(path, {"k": 2}, {"x": np.zeros(3)})
    monkeypatch.undo()
    header, arrays = checkpoints.load(path)
    assert header == {"k": 1}
    assert np.array_equal(arrays["x"], np.ones(3))
    assert os.listdir(tmp_path) == ["run"]
