"""`minimize`: callbacks, methods by name, clocks, and what a result says."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized import Status
from tests.helpers.half_square import X0
from tests.invariants.registry import problem, same_bits

# Callbacks


def test_a_callback_with_xk() -> None:
    seen: list[np.ndarray] = []
    r = cz.minimize(problem("user"), X0, rng=0, maxiter=4, record="path", callback=seen.append)
    assert same_bits(np.array(seen), r.path.x[1:])


@pytest.mark.parametrize("record", [True, False])
def test_a_callback_with_intermediate_result(record: bool) -> None:
    seen = []

    def callback(intermediate_result: Any) -> None:
        seen.append(intermediate_result)

    r = cz.minimize(problem("user"), X0, rng=0, maxiter=4, record=record, callback=callback)
    full = cz.minimize(problem("user"), X0, rng=0, maxiter=4)
    assert [s.nit for s in seen] == [1, 2, 3, 4]
    assert [s.fun for s in seen] == full.trace.fun[1:].tolist()
    assert [s.t for s in seen] == full.trace.t[1:].tolist()
    assert same_bits(seen[-1].x, r.x)


def test_a_callback_that_stops() -> None:
    calls = []

    def callback(xk: np.ndarray) -> None:
        calls.append(xk)
        if len(calls) == 3:
            raise StopIteration

    r = cz.minimize(problem("user"), X0, rng=0, maxiter=100, callback=callback)
    assert (r.nit, r.status, r.success) == (3, Status.CALLBACK, False)
    assert same_bits(r.x, calls[-1])


def test_a_callback_that_raises() -> None:
    class Mine(Exception):
        pass

    def callback(xk: np.ndarray) -> None:
        raise Mine("at once")

    with pytest.raises(Mine, match="at once"):
        cz.minimize(problem("user"), X0, callback=callback)


def test_a_callback_may_write_into_what_it_is_given() -> None:
    def callback(xk: np.ndarray) -> None:
        xk[:] = 1e9

    r = cz.minimize(problem("user"), X0, rng=0, maxiter=9, callback=callback)
    assert same_bits(r.x, cz.minimize(problem("user"), X0, rng=0, maxiter=9).x)


# Methods, clocks, words


def test_methods_by_name() -> None:
    p = problem("user")
    for name, same in (
        ("continuized", cz.Continuized(1.5, 0.5)),
        ("nesterov", cz.Nesterov(1.5, 0.5)),
        ("gradient-descent", cz.GradientDescent(1.5)),
    ):
        r = cz.minimize(p, X0, method=name, rng=0, maxiter=5)
        assert r.method == same
        assert same_bits(r.x, cz.minimize(p, X0, method=same, rng=0, maxiter=5).x)
    assert cz.minimize(p, X0, L=2.0, mu=0.1, maxiter=1).method == cz.Continuized(2.0, 0.1)
    assert cz.minimize(p, X0, L=2.0, maxiter=1).method == cz.Continuized(2.0, 0.5)


def test_a_recorded_clock_replays_a_run() -> None:
    p = problem("user")
    r = cz.minimize(p, X0, rng=3, maxiter=200, record="path")
    replay = cz.clock.Recorded(r.path.t[1:], r.path.dt[1:])
    again = cz.minimize(p, X0, clock=replay, record="path")
    assert (again.nit, again.status) == (200, Status.COMPLETED)
    assert same_bits(again.path.x, r.path.x)
    assert same_bits(again.path.z, r.path.z)
    by_times = cz.minimize(p, X0, clock=cz.clock.Recorded(r.trace.t[1:]), record="path")
    np.testing.assert_allclose(by_times.path.x, r.path.x, rtol=1e-11)


def test_a_recorded_clock_ends() -> None:
    p, clock = problem("user"), cz.clock.Recorded([0.5, 2.0, 3.0])
    for options, nit, status in (
        ({}, 3, Status.COMPLETED),
        ({"maxiter": 2}, 2, Status.COMPLETED),
        ({"maxiter": 3}, 3, Status.COMPLETED),
        ({"maxiter": 9}, 3, Status.CLOCK_ENDED),
        ({"tol": 1e-9}, 3, Status.CLOCK_ENDED),
        ({"tol": 1e-9, "maxiter": 9}, 3, Status.CLOCK_ENDED),
        ({"tol": 1e-9, "maxiter": 2}, 2, Status.MAXITER),
    ):
        r = cz.minimize(p, X0, clock=clock, **options)
        assert (r.nit, r.status) == (nit, status)
    none = cz.clock.Recorded([])
    assert cz.minimize(p, X0, clock=none).nit == 0
    assert cz.minimize(p, X0, clock=none, maxiter=4).nit == 0


def test_a_clock_may_be_exchanged() -> None:
    p = problem("user")
    unit = cz.minimize(p, X0, clock=cz.clock.Unit(), maxiter=5)
    assert unit.trace.t.tolist() == [0, 1, 2, 3, 4, 5]
    poisson = cz.minimize(p, X0, clock=cz.clock.Poisson(3), rng=8, maxiter=5)
    assert same_bits(poisson.x, cz.minimize(p, X0, rng=3, maxiter=5).x)
    nesterov = cz.minimize(p, X0, method="nesterov", clock=cz.clock.Poisson(3), maxiter=5)
    assert same_bits(nesterov.x, cz.minimize(p, X0, method="nesterov", maxiter=5).x)


def test_every_status_is_a_sentence() -> None:
    for status in Status:
        assert status.value.endswith(".")
        assert "\n" not in status.value
        assert status.value[0].isupper()
    assert [s for s in Status if s.success] == [Status.CONVERGED, Status.COMPLETED]


def test_the_result_has_keys_that_are_attributes() -> None:
    r = cz.minimize(problem("user"), X0, rng=0, maxiter=3, record="path")
    assert r["nit"] == r.nit == 3
    assert "message: All the steps" in repr(r)
    r.note = "kept"
    assert r["note"] == "kept"
    again = copy.deepcopy(r)
    assert type(again) is cz.Result
    assert again.keys() == r.keys()
    assert same_bits(again.at(0.5)[0], r.at(0.5)[0])
    del r.note
    assert "note" not in r
    with pytest.raises(AttributeError, match="this result has no 'note', only nit, success"):
        _ = r.note
    assert not hasattr(r, "__array_interface__")


def test_scipys_optimisers_are_not_imported() -> None:
    """To import them takes longer than all else that a first run does."""
    code = (
        "import sys, numpy as np, continuized as cz\n"
        "cz.minimize(cz.problems.Quadratic([1.0, 0.1]), np.ones(2), rng=0, callback=print)\n"
        "assert 'numba' in sys.modules\n"
        "sys.exit('scipy.optimize' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_a_function_of_ones_own_needs_no_compiler() -> None:
    """Importing Numba would take longer than the run."""
    code = (
        "import sys, numpy as np, continuized as cz\n"
        "r = cz.minimize(lambda x: 0.5 * x @ x, np.ones(3), lambda x: x, rng=0)\n"
        "print(r.success, sys.modules.get('numba') is not None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"


def test_dir_of_a_result_has_all_of_it() -> None:
    assert {"x", "fun", "trace", "at"} <= set(dir(cz.minimize(problem("user"), X0, maxiter=1)))
