"""The exact second moments of the dual method, against the whole system written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from continuized import theory
from continuized.network import Dual, Gossip, Graph, Objective
from continuized.problems import LeastSquares, LogisticRegression
from continuized.theory.moments.edges import _follow_plain, edge_marks

pytestmark = pytest.mark.blas

GRAPH = Graph.of([(0, 1), (1, 2), (0, 2)], rates=[1.0, 2.0, 0.5])
TIMES = np.array([0.0, 1.5, 40.0])


def ridge() -> list[LeastSquares]:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((3, 4, 2)) * [1.0, 0.4]
    return [LeastSquares(X, X @ [1.0, -2.0] + rng.standard_normal(4), l2=0.1) for X in rows]


def hessians_and_slopes() -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """H_i and h_i of f_i(w) = <w, H_i w>/2 - <h_i, w> + const, and x*."""
    H = [p.X.T @ p.X / 4.0 + 0.1 * np.eye(2) for p in ridge()]
    h = [p.X.T @ p.y / 4.0 for p in ridge()]
    return H, h, np.linalg.solve(sum(H), sum(h))


def write_out(accelerated: bool, wrong: float) -> np.ndarray:
    """E mean_i |w_i - x*|^2, from the generator of E uu^T, u all y - y* and then all z - y*."""
    H, h, x_star = hessians_and_slopes()
    ends = np.linalg.eigvalsh(H)
    L, mu, mu_g, R = ends.max(), ends.min(), GRAPH.mu_g, GRAPH.R
    theta = np.sqrt(mu_g * mu / (2.0 * R * L)) if accelerated else 0.0
    gamma = mu / 2.0
    step = wrong * np.sqrt(L * mu / (2.0 * mu_g * R)) if accelerated else wrong * gamma
    K = np.zeros((6, 12))  # u -> the estimates less x*
    for i in range(3):
        K[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = np.linalg.inv(H[i])
    one = np.eye(12)
    flow = theta * np.kron([[-1.0, 1.0], [1.0, -1.0]], np.eye(6))
    total = np.kron(flow, one) + np.kron(one, flow)
    for (i, j), P in zip(GRAPH.edges, GRAPH.P, strict=True):
        b = np.kron(np.eye(3)[i] - np.eye(3)[j], np.eye(2))
        jump = one - np.vstack([gamma * b.T @ b @ K, step * b.T @ b @ K])
        total += P * (np.kron(jump, jump) - np.eye(144))
    u = np.tile(-np.concatenate([H[i] @ x_star - h[i] for i in range(3)]), 2)
    moments = [(expm(t * total) @ np.kron(u, u)).reshape(12, 12) for t in TIMES]
    return np.array([np.trace(K @ m @ K.T) / 3.0 for m in moments])


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_moments_are_those_of_the_whole_system(accelerated: bool) -> None:
    found = theory.moments((GRAPH, Objective.of(ridge())), Dual(accelerated), 0.0, TIMES)
    np.testing.assert_allclose(found.fun, write_out(accelerated, 1.0), rtol=1e-8)
    if accelerated:  # a wrong gamma' shows
        gap = found.fun / write_out(accelerated, 0.99) - 1.0
        assert np.abs(gap[1:]).min() > 1e-5
    assert found.xx.shape == (3, 3)
    np.testing.assert_allclose(found.z2, found.zz.sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_bound_is_the_formula(accelerated: bool) -> None:
    """2/(mu n) (D(0) - D* + |y*|^2 / (2L)) e^{-rt}; plain, without the second term."""
    H, h, x_star = hessians_and_slopes()
    ends, mu_g, R = np.linalg.eigvalsh(H), GRAPH.mu_g, GRAPH.R
    L, mu = ends.max(), ends.min()

    def dual(y: list[np.ndarray]) -> float:
        pairs = zip(H, [y_i + h_i for y_i, h_i in zip(y, h, strict=True)], strict=True)
        return sum(0.5 * float(v @ np.linalg.solve(H_i, v)) for H_i, v in pairs)

    y_star = [H_i @ x_star - h_i for H_i, h_i in zip(H, h, strict=True)]
    first, rate = dual([0.0 * y for y in y_star]) - dual(y_star), 0.5 * mu_g * mu / L
    if accelerated:
        first += float(np.sum(np.square(y_star))) / (2.0 * L)
        rate = np.sqrt(mu_g * mu / (2.0 * R * L))
    found = theory.bound(Dual(accelerated), (GRAPH, Objective.of(ridge())), 0.0, t=TIMES)
    np.testing.assert_allclose(found, 2.0 / (3.0 * mu) * first * np.exp(-rate * TIMES), rtol=1e-9)


def test_the_moments_decay_for_ever_at_one_rate() -> None:
    """Rounding errors would not, and such as are not symmetric would grow."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((6, 3, 2)) * np.geomspace(1.0, 5.0, 6)[:, None, None]
    pair = Graph.of("star:6"), Objective.of([LeastSquares(X, np.ones(3), l2=0.5) for X in rows])
    times = np.linspace(4.0, 12.0, 5) / Dual(accelerated=False).rate(*pair)
    found = theory.moments(pair, Dual(accelerated=False), 0.0, times).fun
    falls = np.diff(np.log(found))
    np.testing.assert_allclose(falls[2:], falls[-1], rtol=0.02)
    assert found[-1] < theory.bound(Dual(accelerated=False), pair, 0.0, t=times[-1])


@pytest.mark.parametrize("accelerated", [True, False])
def test_gossip_is_a_special_case(accelerated: bool) -> None:
    values = np.array([1.0, -2.0, 4.0])
    parts = Objective.of([LeastSquares([[1.0]], [v]) for v in values])
    ours = theory.moments((GRAPH, parts), Dual(accelerated), 0.0, TIMES)
    theirs = theory.moments(GRAPH, Gossip(accelerated, damping=1.0), values, TIMES)
    np.testing.assert_allclose(3.0 * ours.fun, theirs.fun, rtol=1e-12)
    np.testing.assert_allclose(ours.z2, theirs.z2, rtol=1e-12)


def logistic() -> Objective:
    return Objective.of([LogisticRegression([[1.0]], [1.0], l2=0.5) for _ in range(3)])


def many() -> tuple[str, Objective]:
    return "cycle:401", Objective.of([LeastSquares([[1.0]], [1.0]) for _ in range(401)])


@pytest.mark.parametrize(
    ("make", "options", "complaint"),
    [
        (lambda: (GRAPH, logistic()), {"times": [1.0]}, "least squares only"),
        (lambda: (GRAPH, Objective.of(ridge())), {"k": [1]}, "give times"),
        (lambda: (GRAPH, Objective.of(ridge())), {"times": [1.0], "sigma2": 1.0}, "sigma2"),
        (lambda: GRAPH, {"times": [1.0]}, r"pair \(graph, Objective\)"),
        (many, {"times": [1.0]}, "at most 400"),
    ],
)
def test_bad_input(make: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        theory.moments(make(), Dual(), 0.0, **options)


def test_plain_gossip_dies_out_and_ends() -> None:
    """The least number of all, 5e-324, is rounded to itself at every step."""
    shown: list[int] = []
    start = np.arange(5.0)
    late = theory.moments("path:5", Gossip(accelerated=False), start, [1e12]).fun
    assert late.tolist() == [0.0]
    marks = edge_marks(Graph.of("path:5"), None, 1)
    u = start - start.mean()
    found = _follow_plain(
        marks, 0.5, np.outer(u, u), np.array([50.0]), lambda m: m, lambda k, w="": shown.append(k)
    )
    assert np.trace(next(found)[0]) > 0.0
    assert shown[-1] == 100
