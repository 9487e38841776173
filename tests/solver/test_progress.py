"""Progress: silent by default, a line in a pipe, a bar on a terminal, and the same run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

import continuized as cz
from continuized.solver.kernels import loop as kernel
from tests.helpers.half_square import X0
from tests.invariants.registry import USER, problem, same_bits, user_fun, user_grad


def test_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    cz.minimize(problem("user"), X0, rng=0, maxiter=30)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("record", [True, False])
def test_progress_in_a_pipe(record: bool, capsys: pytest.CaptureFixture[str]) -> None:
    cz.minimize(problem("user"), X0, rng=0, maxiter=30, progress=True, record=record)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("continuized 30/30")
    assert "f = " in err
    assert "steps/s" in err
    assert "\x1b" not in err


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    r = cz.minimize(problem("user"), X0, rng=0, maxiter=30, progress=True)
    shown = terminal.getvalue()
    assert "\x1b" in shown
    for part in ("continuized", "30/30", f"f = {r.fun:.6g}", "steps/s"):
        assert part in shown


CELL = """
import numpy as np
import continuized as cz
r = cz.minimize(lambda x: 0.5 * float(x @ x), np.ones(3), lambda x: x, L=1.0, mu=0.01,
                maxiter=300, tol=0.0, progress=True, rng=0)
"""


@pytest.mark.slow
@pytest.mark.needs("nbclient", "ipykernel")
def test_progress_in_a_notebook() -> None:
    """One bar, which shows where the run ended; nothing about widgets that are missing."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(book, timeout=300).execute()
    (output,) = book.cells[0].outputs
    assert output["output_type"] == "display_data"
    assert "300/300" in output["data"]["text/plain"]
    assert "f = " in output["data"]["text/plain"]
    assert '<progress value="300" max="300">' in output["data"]["text/html"]


@pytest.mark.parametrize("record", [True, False, "path"])
def test_progress_does_not_change_the_run(record: bool | str) -> None:
    p, noise = problem("user"), cz.noise.Gaussian(1e-4)
    options: dict[str, Any] = {"rng": 0, "maxiter": 300, "noise": noise, "record": record}
    shown, silent = (cz.minimize(p, X0, progress=show, **options) for show in (True, False))
    assert same_bits(shown.x, silent.x)
    assert same_bits(shown.trace.fun, silent.trace.fun)


def test_progress_of_a_slow_function_is_shown_while_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Seen between the gradients: what the bar was told last.  Every look at the time is a second.
    told: list[int] = []
    asked: list[int] = []
    clock = iter(range(10**6))
    slow = SimpleNamespace(perf_counter=lambda: float(next(clock)))
    monkeypatch.setattr("continuized.solver.steppers.fixed.time", slow)

    @contextmanager
    def bar(*_: object) -> Iterator[Any]:
        yield lambda done, words="": told.append(done)

    monkeypatch.setattr("continuized.solver.minimize.bar", bar)

    def grad(x: np.ndarray) -> np.ndarray:
        asked.append(told[-1] if told else 0)
        return user_grad(x)

    cz.minimize(user_fun, X0, grad, **USER, rng=0, maxiter=20, progress=True)
    assert told == list(range(1, 21))
    assert asked[:20] == list(range(20))


@numba.njit
def compiled_grad(x: Any, out: Any) -> None:
    out[:] = 0.5 * x


@pytest.mark.parametrize("cost", [1e-6, 0.03, 0.5])
def test_compiled_events_give_back_control(cost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events cost this many seconds on a clock of the test's; Ctrl-C is heard between calls."""
    p = cz.Problem(lambda x: 0.25 * float(x @ x), compiled_grad)
    plain = cz.minimize(p, X0, L=1.0, rng=0, maxiter=3000)
    now, calls = [0.0], []
    compiled = kernel.compile_loop

    def timed_loop(*kind: Any) -> Any:
        def loop(*given: Any) -> Any:
            done, signal = compiled(*kind)(*given)
            *_, first, _ = given  # and the event at which to stop
            now[0] += cost * (done - first)
            calls.append(done - first)
            return done, signal

        return loop

    monkeypatch.setattr(kernel, "compile_loop", timed_loop)
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr("continuized.solver.steppers.fixed.time", clock)
    r = cz.minimize(p, X0, L=1.0, rng=0, maxiter=3000)
    assert same_bits(r.x, plain.x)
    assert same_bits(r.trace.fun, plain.trace.fun)
    assert sum(calls) == 3000
    assert calls[0] == 1
    assert max(calls) <= max(1.0, 0.1 / cost + 1e-9)
    assert len(calls) < 8 or cost > 1e-6  # what is quick stays as quick


ON_A_TERMINAL = """
import random, sys
import numpy as np
assert sys.stderr.isatty() and "rich" not in sys.modules
before = random.getstate(), np.random.get_state()[1].tobytes()
import continuized as cz
cz.minimize(lambda x: 0.5 * float(x @ x), np.ones(3), lambda x: x, rng=0, maxiter=5, progress=True)
assert "rich" in sys.modules
after = random.getstate(), np.random.get_state()[1].tobytes()
assert before[0] == after[0], "Python's"
assert before[1] == after[1], "NumPy's"
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_progress_on_a_terminal_draws_no_number_of_the_users() -> None:
    """In another process, for it is the import of a library that would draw from `random`."""
    master, terminal = os.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", ON_A_TERMINAL],
            env=environment,
            stderr=terminal,
            timeout=120,
            check=False,
        )
        shown = os.read(master, 2**16).decode()  # as little as this is never held back
    finally:
        os.close(master)
        os.close(terminal)
    assert done.returncode == 0, shown
    assert "5/5" in shown
    assert "\x1b" in shown
