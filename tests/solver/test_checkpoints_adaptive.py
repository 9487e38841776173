"""Checkpoints where constants are unknown: metrics, proximal steps, restarts, bit by bit."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.solver.steppers.adaptive import AdaptiveStepper
from tests.invariants.registry import data, same_bits, user_fun, user_grad

X, Y = data(60, 6)
LOGISTIC = cz.problems.LogisticRegression(X * np.arange(1, 7.0) ** 2, np.sign(Y), l2=1e-4)
# Separable: blocks are slow, and the whole Hessian follows after two metrics, at the 14th event.
SOFTMAX = cz.problems.SoftmaxRegression(
    X * np.arange(1, 7.0) ** 2, X[:, :3].argmax(axis=1), l2=1e-7, intercept=True
)
QUADRATIC = cz.problems.Quadratic(np.geomspace(1e-3, 1.0, 8), np.ones(8))
RUNS: dict[str, dict[str, Any]] = {
    "unknown L": {"fun": QUADRATIC.fun, "jac": QUADRATIC.grad, "x0": np.zeros(8)},
    "the user's own": {"fun": user_fun, "jac": user_grad, "x0": np.zeros(4)},
    "gram": {"fun": LOGISTIC, "x0": np.zeros(6), "metric": "gram"},
    "nystrom": {"fun": LOGISTIC, "x0": np.zeros(6), "metric": "nystrom"},
    "diag": {"fun": LOGISTIC, "x0": np.zeros(6), "metric": "diag"},
    "softmax, gram": {"fun": SOFTMAX, "x0": np.zeros(21), "metric": "gram"},
    "softmax, blocks": {"fun": SOFTMAX, "x0": np.zeros(21), "metric": "blocks"},
    "softmax, nystrom": {"fun": SOFTMAX, "x0": np.zeros(21), "metric": "nystrom"},
    "rows": {"fun": LOGISTIC, "x0": np.zeros(6), "metric": "rows"},
    "known": {"fun": LOGISTIC, "x0": np.zeros(6), "metric": np.ones(6), "L": LOGISTIC.L},
    "prox": {"fun": LOGISTIC, "x0": np.zeros(6), "prox": cz.prox.L1(0.01)},
}


class Stop(Exception):
    """Interrupts a run."""


def run(name: str, **options: Any) -> Any:
    return cz.minimize(**RUNS[name], rng=3, tol=1e-10, maxiter=60, **options)


def test_the_method_of_another_run_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    fun, x0 = (lambda x: (0.5 * float(x @ x), x)), np.ones(2)
    cz.minimize(fun, x0, jac=True, rng=0, checkpoint=path)
    with pytest.raises(cz.CheckpointError, match="its method is 'continuized', but now it is Nes"):
        cz.minimize(fun, x0, jac=True, L=1.0, method="nesterov", rng=0, checkpoint=path,
                    resume=True)  # fmt: skip


@cache
def uninterrupted(name: str, record: bool) -> Any:
    return run(name, record=record)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    ("events", "record"), [(1, True), (2, True), (7, True), (7, False), (10, True), (20, True)]
)
def test_a_resumed_run_is_the_uninterrupted_one(
    name: str, events: int, record: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = uninterrupted(name, record)
    path = tmp_path / "run.npz"
    real, left = AdaptiveStepper._event, [events]

    def interrupted(self: Any, event: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Stop
        return real(self, event)

    monkeypatch.setattr(AdaptiveStepper, "_event", interrupted)
    try:
        run(name, record=record, checkpoint=path, every=0.0)
    except Stop:
        assert path.exists()
    monkeypatch.undo()
    resumed = run(name, record=record, checkpoint=path, every=0.0, resume=True)
    for key in ("x", "fun", "jac", "nit", "nfev", "njev"):
        assert same_bits(whole[key], resumed[key]), key
    for column in ("k", "t", "fun"):
        assert same_bits(getattr(whole.trace, column), getattr(resumed.trace, column))
    assert whole.status is resumed.status
    assert whole.constants == resumed.constants


@pytest.mark.parametrize(
    "pair",
    [
        (
            {"metric": cz.metric.Diagonal(np.ones(6))},
            {"metric": cz.metric.Diagonal(np.arange(1, 7.0))},
        ),
        ({"prox": lambda v, step: v}, {"prox": lambda v, step: np.maximum(v, 0.0)}),
        ({"metric": np.ones(6), "L": 10.0}, {"metric": np.ones(6), "L": 20.0}),
    ],
)
def test_a_run_is_known_by_what_its_parts_do(tmp_path: Path, pair: Any) -> None:
    options = {"rng": 3, "tol": 1e-10, "maxiter": 20, "checkpoint": tmp_path / "a"}
    cz.minimize(LOGISTIC, np.zeros(6), **pair[0], **options)
    cz.minimize(LOGISTIC, np.zeros(6), **pair[0], **options, resume=True)
    with pytest.raises(cz.CheckpointError, match="of another run"):
        cz.minimize(LOGISTIC, np.zeros(6), **pair[1], **options, resume=True)


def test_the_penalty_of_a_softmax_regression_is_seen(tmp_path: Path) -> None:
    labels = np.arange(60) % 3
    options = {"metric": "gram", "rng": 0, "maxiter": 5, "checkpoint": tmp_path / "a"}
    first = cz.problems.SoftmaxRegression(X, labels, l2=1e-4)
    cz.minimize(first, np.zeros(18), **options)
    other = cz.problems.SoftmaxRegression(X, labels, l2=1.0)
    with pytest.raises(cz.CheckpointError, match="of another run"):
        cz.minimize(other, np.zeros(18), **options, resume=True)


def test_another_metric_is_another_run(tmp_path: Path) -> None:
    run("gram", checkpoint=tmp_path / "a")
    with pytest.raises(cz.CheckpointError, match="of another run"):
        cz.minimize(LOGISTIC, np.zeros(6), metric="diag", rng=3, tol=1e-10, maxiter=60,
                    checkpoint=tmp_path / "a", resume=True)  # fmt: skip
