"""Checkpoints: a run interrupted and resumed is the run that was never interrupted, bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.marked.stepper import SMALLEST_BLOCK
from continuized.solver.constant_checks import STEPS
from continuized.support.checkpoints import checkpointer as checkpoints
from tests.helpers.interrupted_runs import NOISE, RIDGE, X, Y, resumed_until_done, same
from tests.invariants.registry import (
    METHODS,
    SOME_PAIRS,
    method,
    problem,
    same_bits,
    user_fun,
    user_grad,
    x0_of,
)

LABELS = np.where(Y > 0.0, 1.0, -1.0)
LOGISTIC = cz.problems.LogisticRegression(X, LABELS, l2=0.01)
PLAIN = cz.problems.LeastSquares(X, X @ np.arange(6.0))
MARKED = {
    "coordinates": (RIDGE, cz.CoordinateDescent()),
    "coordinates, plain": (RIDGE, cz.CoordinateDescent(accelerated=False)),
    "coordinates, logistic": (LOGISTIC, cz.CoordinateDescent("uniform", start=0.3)),
    "dual": (RIDGE, cz.DualCoordinate()),
    "dual, plain": (RIDGE, cz.DualCoordinate(accelerated=False)),
    "dual, logistic": (LOGISTIC, cz.DualCoordinate()),
    "rows": (PLAIN, cz.StochasticLeastSquares()),
    "rows, plain": (PLAIN, cz.StochasticLeastSquares(accelerated=False)),
    "Kaczmarz": (PLAIN, cz.Kaczmarz()),
}


@pytest.mark.parametrize(
    ("name", "on"),
    [
        pytest.param(*pair, marks=pytest.mark.slow if ", d = " in pair[1] else ())
        for pair in SOME_PAIRS
    ],
)
def test_every_method_on_every_problem(name: str, on: str, path: Path, interrupt: Any) -> None:
    p = problem(on)
    how = {"method": method(name, p), "rng": 4, "maxiter": 60, "record": "path"}
    whole = cz.minimize(p, x0_of(p), **how)
    assert same(whole, resumed_until_done(interrupt, path, 5, p, x0_of(p), **how))


VARIATIONS: dict[str, dict[str, Any]] = {
    "values": {},
    "no record": {"record": False},
    "noise": {"noise": NOISE},
    "noise, path": {"noise": NOISE, "record": "path"},
    "tol": {"tol": 1e-5, "maxiter": 5000},
    "tol, no record": {"tol": 1e-5, "maxiter": 5000, "record": False},
    "callback": {"callback": lambda x: None, "record": False, "maxiter": 20},
    "no seed": {"rng": None},
    "Poisson clock": {"clock": cz.clock.Poisson(9, rate=2.0)},
    "recorded clock": {"clock": cz.clock.Recorded(np.arange(1.0, 50.0))},
    "merged clock": {"clock": cz.clock.Merged([cz.clock.Poisson(1), cz.clock.Poisson(2)])},
}


@pytest.mark.parametrize(
    ("variation", "dtype", "on"),
    [
        *((variation, np.float64, "quadratic") for variation in VARIATIONS),
        *(
            (variation, dtype, on)
            for variation in ("values", "noise, path", "tol, no record", "callback")
            for dtype, on in (
                (np.float32, "quadratic"),
                (np.float64, "user"),
                (np.float64, "least squares, sparse"),
            )
        ),
    ],
)
def test_every_variation(variation: str, dtype: Any, on: str, path: Path, interrupt: Any) -> None:
    p = problem(on)
    how = {"rng": 4, "maxiter": 60, "method": cz.Continuized(p.L, p.mu)} | VARIATIONS[variation]
    whole = cz.minimize(p, x0_of(p, dtype), **how)
    r = resumed_until_done(interrupt, path, 3, p, x0_of(p, dtype), **how)
    if variation != "no seed":
        assert same(whole, r)
    else:  # fresh times: they go on from where they were
        times = cz.clock.Recorded(r.trace.t[1:], np.diff(r.trace.t))
        again = cz.minimize(p, x0_of(p, dtype), method=how["method"], clock=times, maxiter=60)
        assert np.all(np.diff(r.trace.t) > 0.0)
        np.testing.assert_allclose(again.x, r.x, rtol=1e-5)
    assert r.success == (variation != "recorded clock")


@pytest.mark.parametrize("case", MARKED)
@pytest.mark.parametrize(
    "given",
    [{"maxiter": 1000}, {"tol": 1e-4, "maxiter": 60_000}, {"record": False, "maxiter": 17_000}],
    ids=["values", "tol", "no record"],
)
def test_marked_methods(case: str, given: Any, path: Path, interrupt: Any) -> None:
    p, m = MARKED[case]
    whole = cz.minimize(p, np.zeros(6), method=m, rng=3, **given)
    blocks = max(3, len(whole.trace) // 5)
    how = {"method": m, "rng": 3} | given
    assert same(whole, resumed_until_done(interrupt, path, blocks, p, np.zeros(6), **how))


@pytest.mark.parametrize("case", [*MARKED, *METHODS])
def test_a_longer_run_is_that_run(case: str, path: Path) -> None:
    """Extended beyond maxiter, where blocks and tests fall elsewhere; and, once ended, again."""
    marked = case in MARKED
    p, m = MARKED[case] if marked else (problem("quadratic"), method(case, problem("quadratic")))
    x0 = np.zeros(p.dim)
    how = {"method": m, "rng": 3, "tol": 1e-4}
    most = 50_000 if marked else 5_000
    whole = cz.minimize(p, x0, **how, maxiter=most)
    assert whole.success
    # A pass is 6 or 30 events: that of the first run is cut short by maxiter.
    first = whole.nit // 90 * 30 + 7 if marked else max(1, whole.nit // 3)
    assert first < whole.nit
    cz.minimize(p, x0, **how, maxiter=first, checkpoint=path)
    for _ in range(2):
        r = cz.minimize(p, x0, **how, maxiter=most, checkpoint=path, resume=True)
        assert same(whole, r)
    finer = how | {"tol": 1e-5}  # a smaller tol goes on too
    r = cz.minimize(p, x0, **finer, maxiter=2 * most, checkpoint=path, resume=True)
    whole = cz.minimize(p, x0, **finer, maxiter=2 * most)
    assert r.success
    if marked:  # tol decides when it is tested, and so where it stops, but not the iterates
        n = min(len(r.trace), len(whole.trace))
        assert r.trace.k[n - 1] > first
        assert same_bits(r.trace.fun[:n], whole.trace.fun[:n])
    else:
        assert same(whole, r)


@pytest.mark.parametrize("case", [*MARKED, *METHODS])
@pytest.mark.parametrize("record", [True, False])
def test_a_run_that_has_ended_is_given_again(case: str, record: bool, path: Path) -> None:
    """After a last block that was whole, no event is left to do."""
    marked = case in MARKED
    p, m = MARKED[case] if marked else (problem("quadratic"), method(case, problem("quadratic")))
    events = 2 * SMALLEST_BLOCK if marked and not record else 120
    how = {"method": m, "rng": 3, "record": record, "maxiter": events}
    whole = cz.minimize(p, np.ones(p.dim), **how)
    for resume in (False, True, True):
        again = cz.minimize(p, np.ones(p.dim), **how, checkpoint=path, resume=resume)
        assert same(whole, again)


def test_an_error_in_the_middle_of_a_block(path: Path) -> None:
    """The state written is that of the block's start, though the block had begun to change it."""
    calls, last = 0, -1

    def grad(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == last:
            raise KeyboardInterrupt
        return user_grad(x)

    p = cz.Problem(user_fun, grad, L=1.5, mu=0.5)
    how = {"rng": 1, "maxiter": 60, "record": "path", "noise": NOISE}
    whole = cz.minimize(p, np.zeros(3), **how)
    for fatal in (2, 3, 7, 30):
        calls, last = 0, fatal
        with pytest.raises(KeyboardInterrupt):
            cz.minimize(p, np.zeros(3), **how, checkpoint=path, every=1e9)
        # One gradient was asked for the identity and one failed; blocks are of 1, 2, ... events.
        header, arrays = checkpoints.load(path)
        reached = header["state"]["stepper"]["k"]
        assert (fatal > 2) <= reached <= fatal - 2
        assert header["state"]["stepper"]["oracle"]["calls"] == reached
        assert arrays["stepper.watch"][STEPS] == reached
        last = -1
        assert same(whole, cz.minimize(p, np.zeros(3), **how, checkpoint=path, resume=True))
        path.unlink()


def test_a_callback_that_stops_is_a_pause(path: Path) -> None:
    p = problem("user")
    whole = cz.minimize(p, np.zeros(3), rng=1, maxiter=50)

    def stop(intermediate_result: Any) -> None:
        if intermediate_result.nit % 7 == 0:
            raise StopIteration

    for k in range(7, 50, 7):
        r = cz.minimize(p, np.zeros(3), rng=1, maxiter=50, callback=stop, checkpoint=path,
                        resume=True)  # fmt: skip
        assert r.nit == k
    r = cz.minimize(p, np.zeros(3), rng=1, maxiter=50, checkpoint=path, resume=True)
    assert same(whole, r)
