"""The exact second moments of DADAO, against the whole system written out, and the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from continuized import theory
from continuized.network import DADAO, Graph, Objective
from continuized.problems import LeastSquares
from tests.helpers.dadao_reference import XT, Constants, Linear, X, logistic, ridge

UNEVEN = Graph.of([(0, 1), (1, 2), (0, 2)], rates=[1.0, 2.0, 0.5])


def write_out(graph: Graph, parts: Objective, H: np.ndarray, t: float, wrong: float) -> list[float]:
    """E mean (x_i - x*)^2 and E sum (x~_i - x*)^2, from the generator of E uu^T."""
    n, c = graph.nodes, Constants.of(graph, H.max(), H.min())
    system = Linear.of(graph, c, [np.eye(6)[X] * (h - c.nu) for h in H], wrong)
    x = float(parts.x_star[0])
    y = H * x - parts.X[:, 0] * parts.y - c.nu * x
    z = -y - c.nu * x
    same = np.full(n, x)
    u = -np.column_stack([same, same, y, y, y + z, z]).ravel()
    one = np.eye(6 * n)
    total = np.kron(system.flow, one) + np.kron(one, system.flow)
    for J, rate in zip(system.jumps, system.rates, strict=True):
        total += rate * (np.kron(J, J) - np.eye(len(total)))
    diagonal = np.diag((expm(t * total) @ np.kron(u, u)).reshape(6 * n, 6 * n)).reshape(n, 6)
    return [float(diagonal[:, X].mean()), float(diagonal[:, XT].sum())]


@pytest.mark.blas
def test_the_moments_are_those_of_the_whole_system() -> None:
    parts, H = ridge(3, 20.0)
    found = theory.moments((UNEVEN, parts), DADAO(), 0.0, [0.0, 3.0, 3.0, 90.0])
    assert found.fun[0] == pytest.approx(float(parts.x_star[0]) ** 2, rel=1e-12)
    assert found.fun[1] == found.fun[2]
    for k, t in ((1, 3.0), (3, 90.0)):
        expected = write_out(UNEVEN, parts, H, t, 1.0)
        np.testing.assert_allclose([found.fun[k], found.z2[k]], expected, rtol=1e-10)
        mistaken = write_out(UNEVEN, parts, H, t, 0.99)
        assert abs(found.fun[k] / mistaken[0] - 1.0) > 1e-6
    np.testing.assert_allclose(found.fun, found.xx.mean(axis=1), rtol=1e-14)
    np.testing.assert_allclose(found.z2, found.zz.sum(axis=1), rtol=1e-14)
    assert found.xz.shape == (4, 3)


@pytest.mark.blas
def test_the_unit_of_the_functions_does_not_matter() -> None:
    found = []
    for scale in (1e-8, 1.0, 1e8):
        pair = UNEVEN, ridge(3, 20.0, scale)[0]
        bound = theory.bound(DADAO(), pair, 0.0, t=5.0)
        found.append([bound, *theory.moments(pair, DADAO(), 0.0, [3.0, 900.0]).fun])
    np.testing.assert_allclose(found, [found[1]] * 3, rtol=1e-9)


@pytest.mark.parametrize("spec", ["path:2", "star:5", "cycle:4"])
@pytest.mark.parametrize("kappa", [1.0, pytest.param(10.0, marks=pytest.mark.slow), 1e4])
def test_the_bound_holds(spec: str, kappa: float) -> None:
    graph = Graph.of(spec)
    pair = graph, ridge(graph.nodes, kappa)[0]
    times = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 12)]) / DADAO().rate(*pair)
    exact = theory.moments(pair, DADAO(), 0.0, times).fun
    assert np.all(exact > 0.0)
    assert np.all(exact <= theory.bound(DADAO(), pair, 0.0, t=times))


@pytest.mark.blas
def test_nothing_to_do() -> None:
    parts = Objective.of([LeastSquares([[1.0]], [0.0])] * 2)
    assert theory.bound(DADAO(), ("path:2", parts), 0.0, t=0.0) == 0.0
    assert theory.moments(("path:2", parts), DADAO(), 0.0, [0.0, 5.0]).fun.tolist() == [0.0, 0.0]


PAIR = UNEVEN, ridge(3, 2.0)[0]
LARGE = "cycle:9", ridge(9, 2.0)[0]


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: theory.moments(PAIR, DADAO(), 1.0, [1.0]), "x0 must be 0"),
        (lambda: theory.moments(PAIR, DADAO(), 0.0, k=[1]), "give times"),
        (lambda: theory.moments(PAIR, DADAO(), 0.0, [1.0], sigma2=1.0), "sigma2 must be 0"),
        (lambda: theory.moments(LARGE, DADAO(), 0.0, [1.0]), "at most 8, not 9"),
        (
            lambda: theory.moments((UNEVEN, logistic(3, 2.0)), DADAO(), 0.0, [1.0]),
            "least squares only",
        ),
    ],
)
def test_bad_input(call: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        call()


def test_late_moments_are_nothing_and_no_global_state_is_used() -> None:
    parts = Objective.of([LeastSquares([[1.0]], [1.0], 0.1), LeastSquares([[2.0]], [0.0], 0.1)])
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    late = theory.moments(("path:2", parts), DADAO(), 0.0, [1.0, 1e300]).fun
    assert late[0] > 0.0 == late[1]
    # SciPy estimates norms with random vectors.
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    again = theory.moments(("path:2", parts), DADAO(), 0.0, [1.0, 1e300]).fun
    assert np.array_equal(again, late)
