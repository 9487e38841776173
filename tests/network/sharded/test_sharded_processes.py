"""Shards as processes: what ends them, what starts them again, and that none is left over."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.network import Sharded
from continuized.network.sharded import pool
from tests.helpers.processes import assert_all_end, is_alive
from tests.helpers.shards import cut, exit_now, fail, pids
from tests.helpers.weighted_regressions import make

WITHIN = 20.0  # seconds, far more than an end takes
WHOLE = make("logistic", "dense", False, False, l2=0.01, n=300)


@pytest.fixture(scope="module")
def sharded() -> Iterator[Any]:
    with Sharded(cut(WHOLE, 100, 180)) as p:  # of two, the order of a sum does not show
        yield p


def solve(p: Any, **more: Any) -> Any:
    options = {"metric": "diag", "tol": 1e-12, "rng": 0} | more
    return cz.minimize(p, np.zeros(p.dim), **options)


def test_a_killed_worker_is_started_again_and_the_run_is_the_same(sharded: Any) -> None:
    theirs, before, events = solve(WHOLE), sharded.restarts, []
    undisturbed = solve(sharded)

    def kill(intermediate_result: Any) -> None:
        events.append(intermediate_result.nit)
        if len(events) == 2:
            os.kill(pids(sharded)[1], signal.SIGKILL)

    disturbed = solve(sharded, callback=kill)
    assert sharded.restarts == before + 1
    assert np.array_equal(disturbed.x, undisturbed.x)
    assert np.array_equal(disturbed.trace.fun, undisturbed.trace.fun)
    np.testing.assert_allclose(disturbed.x, theirs.x, rtol=1e-9)


def test_sums_do_not_depend_on_who_answers_first(sharded: Any) -> None:
    w = np.full(sharded.dim, 0.1)
    expected = sharded.value_and_gradient(w)
    for number in pids(sharded):
        os.kill(number, signal.SIGSTOP)
        timer = threading.Timer(0.1, os.kill, (number, signal.SIGCONT))
        timer.start()
        f, g = sharded.value_and_gradient(w)
        timer.join()
        assert f == expected[0]
        assert np.array_equal(g, expected[1])


def test_a_worker_that_raises_is_told_of_and_goes_on(sharded: Any) -> None:
    before = pids(sharded)
    with pytest.raises(RuntimeError) as caught:
        sharded.sum_over_rows(fail)
    assert str(caught.value) == ("the worker of parts[0] raised KeyError: 'what is not there'")
    assert pids(sharded) == before
    assert sharded.fun(np.zeros(sharded.dim)) == pytest.approx(np.log(2.0))


@pytest.mark.slow
def test_a_worker_that_ends_at_every_try_is_given_up(
    sharded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MOST_RESTARTS", 1)
    with pytest.raises(RuntimeError) as caught:
        sharded.sum_over_rows(exit_now)
    said = str(caught.value)
    assert "ended 2 times at the same request (its process ended with exit code 3)" in said
    assert "\n" not in said
    assert sharded.fun(np.zeros(sharded.dim)) == pytest.approx(np.log(2.0))


def test_ctrl_c_ends_a_question_and_the_next_one_is_answered(sharded: Any) -> None:
    w = np.full(sharded.dim, 0.1)
    expected = sharded.grad(w)
    stopped = pids(sharded)[-1]
    os.kill(stopped, signal.SIGSTOP)  # its answer would be waited for
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        sharded.grad(w)
    assert not is_alive(stopped)
    assert np.array_equal(sharded.grad(w), expected)


def test_closing_ends_the_workers() -> None:
    p = Sharded(cut(WHOLE, 100))
    numbers = pids(p)
    assert all(map(is_alive, numbers))
    p.close()
    p.close()
    assert not any(map(is_alive, numbers))
    with pytest.raises(RuntimeError, match="closed: make the problem anew"):
        p.fun(np.zeros(p.dim))


@pytest.mark.slow
def test_a_problem_that_nobody_holds_ends_its_workers() -> None:
    p = Sharded(cut(WHOLE, 100))
    numbers = pids(p)
    del p
    gc.collect()
    assert_all_end(numbers)


PARENT = """
    import sys, numpy as np
    from continuized.network import Sharded
    from tests.helpers.shards import cut, pids
    from tests.network.sharded.test_sharded_processes import WHOLE, solve
    p = Sharded(cut(WHOLE, 100))
    print(*pids(p), flush=True)
    while True:
        solve(p)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(number: int) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert parent.stdout is not None
    with parent, parent.stdout:
        numbers = [int(each) for each in parent.stdout.readline().split()]
        assert all(map(is_alive, numbers))
        time.sleep(0.5)
        parent.send_signal(number)
        parent.wait(WITHIN)
    assert len(numbers) == 2
    assert_all_end(numbers)


def test_a_checkpoint_is_gone_on_from(sharded: Any, path: Path) -> None:
    whole = solve(sharded)
    part = solve(sharded, maxiter=3, checkpoint=path)
    assert part.nit < whole.nit
    again = solve(sharded, checkpoint=path, resume=True)
    assert again.nit == whole.nit
    assert np.array_equal(again.x, whole.x)
