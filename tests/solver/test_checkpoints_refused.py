"""Checkpoints: those of other runs are refused, and so are arguments that make no sense."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.support.checkpoints import checkpointer
from tests.helpers.interrupted_runs import NOISE, RIDGE, X, Y
from tests.invariants.registry import problem, user_fun, user_grad

LOGISTIC = cz.problems.LogisticRegression(X, np.sign(Y), l2=0.01)
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
        ({"fun": LOGISTIC, "method": "auto"},
         {"fun": LOGISTIC, "method": "continuized", "metric": "gram"}),
        ({"noise": cz.noise.Minibatch(LOGISTIC, batch=1, sigma2=5.0)},
         {"noise": cz.noise.Minibatch(LOGISTIC, batch=30, sigma2=5.0)}),
        ({"noise": cz.noise.Minibatch(LOGISTIC, sigma2=5.0)},
         {"noise": cz.noise.Minibatch(RIDGE, sigma2=5.0)}),
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


FORGED: dict[str, tuple[Any, Any]] = {
    "known constants": (problem("user"), {"L": 1.5}),
    "unknown constants": (problem("user"), {}),
    "coordinates": (
        cz.problems.Quadratic([0.5, 1.0, 2.0], np.ones(3)),
        {"method": cz.CoordinateDescent()},
    ),
    "metric": (
        cz.problems.LogisticRegression(X[:, :3], np.where(Y > 0.0, 1.0, -1.0), l2=1e-6),
        {"metric": "gram", "tol": None},
    ),
}


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all parts of what JSON can keep."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*way, key)
            yield from places(part, (*way, key))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (name, wrong)
        for i, name in enumerate(FORGED)
        for wrong in ([None, 2**70, "k"] if i % 2 else [True, 0.5, {}])
    ],
)
def test_a_state_of_other_types_is_refused_in_a_sentence(
    name: str, wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum fits.  Where a value can be taken the run goes on; no other error is raised."""
    monkeypatch.setattr("os.fsync", lambda file: None)  # hundreds of files
    p, options = FORGED[name]
    options = {"rng": 1, "checkpoint": tmp_path / "run", **options}
    cz.minimize(p, np.zeros(3), maxiter=20, **options)
    header, arrays = checkpointer.load(tmp_path / "run")
    refused = 0
    for way in places(header):
        forged = inner = copy.deepcopy(header)
        for key in way[:-1]:
            inner = inner[key]
        inner[way[-1]] = wrong
        checkpointer.save(tmp_path / "run", forged, arrays, keep=False)
        try:
            cz.minimize(p, np.zeros(3), maxiter=30, resume=True, **options)
        except cz.CheckpointError:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize("name", FORGED)
def test_arrays_of_other_shapes_are_refused(name: str, tmp_path: Path) -> None:
    p, options = FORGED[name]
    options = {"rng": 1, "checkpoint": tmp_path / "run", **options}
    cz.minimize(p, np.zeros(3), maxiter=20, **options)
    header, arrays = checkpointer.load(tmp_path / "run")
    for part in arrays:
        if not part.startswith("recorder"):  # rows may be as many as they like
            for other in (np.zeros(7), arrays[part].astype(np.complex128)):
                checkpointer.save(tmp_path / "run", header, arrays | {part: other}, keep=False)
                with pytest.raises(cz.CheckpointError):
                    cz.minimize(p, np.zeros(3), maxiter=30, resume=True, **options)


SOFTMAX = cz.problems.SoftmaxRegression(X[:30], np.arange(30) % 3, l2=0.1)


@pytest.mark.parametrize(
    ("p", "metric", "taken"),
    [
        (cz.problems.LogisticRegression(X, np.where(Y > 0, 1.0, -1.0)), "diag", {"diag"}),
        (cz.problems.LogisticRegression(X, np.where(Y > 0, 1.0, -1.0)), "gram", {"gram"}),
        (SOFTMAX, "gram", {"gram", "blocks"}),
        (SOFTMAX, "blocks", {"blocks"}),
    ],
)
def test_a_metric_that_such_a_run_does_not_make_is_refused(
    p: Any, metric: str, taken: set[str], path: Path
) -> None:
    given: dict[str, Any] = {"metric": metric, "rng": 1, "checkpoint": path}
    cz.minimize(p, np.zeros(p.dim), maxiter=5, **given)
    header, arrays = checkpointer.load(path)
    for kind in ("diag", "gram", "blocks", "nystrom", ""):
        header["state"]["stepper"]["metric"]["kind"] = kind
        checkpointer.save(path, header, arrays, keep=False)
        if kind in taken:
            cz.minimize(p, np.zeros(p.dim), maxiter=6, resume=True, **given)
        else:
            with pytest.raises(cz.CheckpointError, match="does not hold the state of such a run"):
                cz.minimize(p, np.zeros(p.dim), maxiter=6, resume=True, **given)
