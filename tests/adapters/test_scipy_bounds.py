"""Bounds through `cz.scipy_method`: proximal steps into a box, beside SciPy's L-BFGS-B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.optimize import Bounds

from tests.helpers.scipy_functions import booth, booth_grad, run

BOXES = {
    "inside": [(-10.0, 10.0), (-10.0, 10.0)],
    "a face": [(0.0, 0.5), (None, None)],
    "a corner": Bounds([-np.inf, 4.0], [0.0, 5.0]),
    "a fixed variable": [(None, None), (2.0, 2.0)],
    "x0 outside": Bounds(1.5, 2.5),
}


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("options", [{}, {"L": 18.0}, {"L": 18.0, "mu": 2.0}])
def test_bounds_are_kept(name: str, options: dict[str, Any]) -> None:
    bounds, points = BOXES[name], []
    given: Any = {"jac": booth_grad, "bounds": bounds}
    r = run(booth, [0.0, 0.0], tol=1e-9, options=options, callback=points.append, **given)
    exact = {"gtol": 1e-9, "ftol": 0.0}
    expected = optimize.minimize(booth, [0.0, 0.0], method="L-BFGS-B", options=exact, **given)
    box = bounds if isinstance(bounds, Bounds) else Bounds(*_ends(bounds))
    assert r.success
    assert np.allclose(r.x, expected.x, rtol=0.0, atol=1e-6)
    assert all(np.all((box.lb <= x) & (x <= box.ub)) for x in [*points, r.x])


def test_a_start_outside_the_bounds_is_moved_inside() -> None:
    r = run(booth, [0.0, 9.0], jac=booth_grad, bounds=Bounds(1.5, 2.5), options={"maxiter": 0})
    assert r.x.tolist() == [1.5, 2.5]
    assert r.fun == booth(r.x)


def _ends(pairs: Any) -> tuple[list[float], list[float]]:
    low = [-np.inf if low is None else low for low, _ in pairs]
    return low, [np.inf if high is None else high for _, high in pairs]


def test_bounds_that_bound_nothing_change_nothing() -> None:
    free = run(booth, [0.0, 0.0], jac=booth_grad)
    for bounds in ([(None, None)] * 2, Bounds()):
        assert np.array_equal(run(booth, [0.0, 0.0], jac=booth_grad, bounds=bounds).x, free.x)
