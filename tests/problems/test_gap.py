"""The bound on F - F*: never below the truth, and near it where the run has ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.problems.regression.gap import bound_gap
from tests.helpers.weighted_regressions import FORMS, KINDS, make


def minimise(p: Any, l1: float, tol: float) -> Any:
    weights = np.repeat(np.where(np.arange(p.variables) < p.X.shape[1], l1, 0.0), p.classes)
    options: dict[str, Any] = {"prox": cz.prox.L1(weights)} if l1 else {"metric": "auto"}
    return cz.minimize(p, np.zeros(p.dim), tol=tol, rng=0, **options)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.1), (0.05, 0.0), (0.05, 0.1)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_holds_and_closes(
    kind: str, form: str, l1: float, l2: float, intercept: bool
) -> None:
    p = make(kind, form, True, intercept, l2=l2)
    end = minimise(p, l1, 1e-10)
    least = end.fun
    rng = np.random.default_rng(1)
    shifted = end.x.reshape(p.variables, -1).copy()
    if intercept:  # only the intercepts are wrong
        shifted[-1] += rng.standard_normal(p.classes)
    away = [end.x + distance * rng.standard_normal(p.dim) for distance in (1e-3, 0.1, 1.0)]
    for x in (np.zeros(p.dim), shifted.ravel(), *away):
        value = p.fun(x) + l1 * np.abs(x.reshape(p.variables, -1)[: p.X.shape[1]]).sum()
        gap = bound_gap(p, x, l1)
        assert gap is not None
        assert gap >= (value - least) * (1.0 - 1e-9) - 1e-13
    closed = bound_gap(p, end.x, l1)
    assert closed is not None
    assert -1e-13 <= closed <= 1e-8


def test_without_a_penalty_there_is_no_bound() -> None:
    assert bound_gap(make("squared", "dense", False, True, l2=0.0), np.zeros(6)) is None


def test_x_is_not_changed() -> None:
    p, x = make("logistic", "dense", False, True), np.ones(6)
    bound_gap(p, x)
    assert x.tolist() == [1.0] * 6
