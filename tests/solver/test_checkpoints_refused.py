"""Checkpoints: those of other runs are refused, and so are arguments that make no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from tests.helpers.interrupted_runs import NOISE, RIDGE, X, Y
from tests.invariants.registry import problem, user_fun, user_grad

RUN: dict[str, Any] = {"method": cz.Continuized(1.5, 0.5), "rng": 1, "maxiter": 30}
OTHERS: dict[str, dict[str, Any]] = {
    "x0": {"x0": np.array([0.0, 0.0, 1e-300])},
    "method": {"method": cz.Continuized(1.5, 0.4)},
    "noise": {"noise": NOISE},
    "clock": {"clock": cz.clock.Poisson(1)},
    "rng": {"rng": 2},
    "record": {"record": False},
    "tol": {"tol": 1e-3},
    "problem": {"fun": cz.Problem(user_fun, lambda x: 1.001 * user_grad(x))},
}


@pytest.mark.parametrize("part", OTHERS)
def test_another_run_is_refused(part: str, path: Path) -> None:
    given = {"fun": problem("user"), "x0": np.zeros(3)} | RUN
    cz.minimize(**given, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(cz.CheckpointError, match=f"is of another run: its {part} is ") as caught:
        cz.minimize(**given | OTHERS[part], checkpoint=path, resume=True)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"fun": RIDGE}, {"fun": cz.problems.LeastSquares(X, Y, l2=0.02)}),
        ({"fun": RIDGE}, {"fun": cz.problems.LeastSquares(X[::-1], Y, l2=0.01)}),
        ({"method": cz.CoordinateDescent()}, {"method": cz.CoordinateDescent("uniform")}),
        ({"clock": cz.clock.Recorded([1.0])}, {"clock": cz.clock.Recorded([1.5])}),
        ({"x0": np.zeros(6)}, {"x0": np.zeros(6, np.float32)}),
        ({"x0": np.zeros(6)}, {"x0": np.zeros((2, 3))}),
        ({"method": cz.CustomContinuized(*[lambda t: 0.1] * 4)},
         {"method": cz.CustomContinuized(*[lambda t: 0.2] * 4)}),
    ],
)  # fmt: skip
def test_likely_mistakes_are_refused(one: Any, other: Any, path: Path) -> None:
    given = {"fun": RIDGE, "x0": np.zeros(6), "method": cz.Nesterov(9.0), "rng": 0, "maxiter": 1}
    cz.minimize(**given | one, checkpoint=path)
    with pytest.raises(cz.CheckpointError, match="another run"):
        cz.minimize(**given | other, checkpoint=path, resume=True)


def test_fewer_events_than_there_are_is_refused(path: Path) -> None:
    for p, m in ((RIDGE, cz.Nesterov(9.0)), (RIDGE, cz.CoordinateDescent())):
        cz.minimize(p, np.zeros(6), method=m, maxiter=30, rng=0, checkpoint=path)
        with pytest.raises(cz.CheckpointError, match="has 30 events already"):
            cz.minimize(p, np.zeros(6), method=m, maxiter=3, rng=0, checkpoint=path, resume=True)


def test_an_unseeded_clock_without_a_state_is_refused(path: Path) -> None:
    def merged() -> Any:
        return cz.clock.Merged([cz.clock.Poisson(), cz.clock.Poisson()])

    cz.minimize(RIDGE, np.zeros(6), maxiter=9, clock=merged(), checkpoint=path)
    with pytest.raises(cz.CheckpointError, match="the clock is not that of the checkpoint"):
        cz.minimize(RIDGE, np.zeros(6), maxiter=99, clock=merged(), checkpoint=path, resume=True)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"checkpoint": 3}, TypeError),
        ({"checkpoint": ""}, ValueError),
        ({"resume": True}, ValueError),
        ({"checkpoint": "a", "resume": 1}, TypeError),
        ({"checkpoint": "a", "every": "1"}, TypeError),
        ({"checkpoint": "a", "every": -1.0}, ValueError),
        ({"checkpoint": "a", "every": float("nan")}, ValueError),
    ],
)
def test_arguments_that_make_no_sense(given: Any, error: Any) -> None:
    with pytest.raises(error, match=r"checkpoint|resume|every"):
        cz.minimize(problem("user"), np.zeros(3), maxiter=1, **given)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_name_that_no_file_can_have_is_refused(path: str, resume: bool) -> None:
    p = cz.problems.paper_strongly_convex()
    with pytest.raises(
        ValueError, match=r"^checkpoint must be the path of a file, got .* character"
    ):
        cz.minimize(p, np.zeros(3), maxiter=3, checkpoint=path, resume=resume)
