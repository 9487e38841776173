"""The theory of gossip: exact moments, the exact rate, the bounds.

Chance: the Monte Carlo test, of two methods, fails a right implementation with probability 2e-7.
"""

import numpy as np
import pytest

from continuized import theory
from continuized.network import Gossip, Graph
from continuized.network.gossip import Constants
from continuized.support.statistics import SampleMoments, mean_test

pytestmark = pytest.mark.blas

ALPHA = 1e-7
METHODS = [Gossip(), Gossip(accelerated=False)]
GRAPHS = ["path:5", "cycle:6", "grid:2x3", "star:5"]


def graph_of(spec):
    g = Graph.of(spec)
    return Graph.of(g, rates=np.linspace(1.0, 2.0, len(g.edges)))


def start(nodes):
    return np.arange(nodes) ** 2.0 - 3.0


def kronecker(g, method):
    """The generator of E (u, w)(u, w)^T as one matrix, from the jumps themselves."""
    n, (theta, gamma, gamma_prime) = g.nodes, method.constants(g)
    one, zero = np.eye(n), np.zeros((n, n))
    F = theta * np.block([[-one, one], [one, -one]])
    total = np.kron(F, np.eye(2 * n)) + np.kron(np.eye(2 * n), F)
    for (i, j), p in zip(g.edges, g.P, strict=True):
        b = one[i] - one[j]
        J = np.eye(2 * n) - np.block(
            [[gamma * np.outer(b, b), zero], [gamma_prime * np.outer(b, b), zero]]
        )
        total += p * (np.kron(J, J) - np.eye(4 * n * n))
    return total


@pytest.mark.parametrize("spec", GRAPHS)
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_the_moments_are_those_of_the_jumps(spec, method):
    from scipy.linalg import expm

    g = graph_of(spec)
    x0, times = start(g.nodes), [0.0, 1.0, 7.0, 40.0]
    u = np.tile(x0 - x0.mean(), 2)
    found = theory.moments(g, method, x0, times)
    for k, t in enumerate(times):
        second = (expm(t * kronecker(g, method)) @ np.kron(u, u)).reshape(2 * g.nodes, -1)
        diagonal = np.diagonal(second)
        np.testing.assert_allclose(found.xx[k], diagonal[: g.nodes], rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.fun[k], diagonal[: g.nodes].sum(), rtol=1e-9)
        if method.accelerated:
            cross = np.diagonal(second[: g.nodes, g.nodes :])
            np.testing.assert_allclose(found.zz[k], diagonal[g.nodes :], rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(found.xz[k], cross, rtol=1e-8, atol=1e-11)
            np.testing.assert_allclose(found.z2[k], diagonal[g.nodes :].sum(), rtol=1e-9)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_late_moments_keep_their_digits(method):
    """Where they have fallen by 1e-16, against one exponential applied again and again."""
    from scipy.linalg import expm

    g, pieces = Graph.of("path:5"), 40
    x0 = np.arange(5.0) ** 2
    u, piece = np.tile(x0 - x0.mean(), 2), 1.0 / method.rate(g)
    M, ahead = np.kron(u, u), expm(piece * kronecker(g, method))
    beside = np.eye(10) - np.kron(np.eye(2), np.full((5, 5), 0.2))
    for _ in range(pieces):  # what rounding leaves of the sums would not decay
        M = np.ravel(beside @ (ahead @ M).reshape(10, 10) @ beside)
    expected = np.diagonal(M.reshape(10, 10))
    found = theory.moments(g, method, x0, [pieces * piece])
    assert found.fun[0] < 1e-14
    np.testing.assert_allclose(found.xx[0], expected[:5], rtol=1e-9)
    if method.accelerated:
        np.testing.assert_allclose(found.zz[0], expected[5:], rtol=1e-9)


@pytest.mark.parametrize("spec", GRAPHS)
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_the_rate_is_the_slowest_mode(spec, method):
    g = graph_of(spec)
    np.testing.assert_allclose(theory.gossip_rate(g, method), slowest(g, method), rtol=1e-8)


@pytest.mark.parametrize("wrong", [(1.0, 10.0), (8.0, 1.0), (0.1, 0.1), (1.0, 0.05)])
def test_the_rate_of_wrong_constants_too_even_where_they_diverge(wrong):
    g = graph_of("grid:2x3")
    method = with_constants(wrong[0] * g.mu_g, wrong[1] * g.R)
    np.testing.assert_allclose(theory.gossip_rate(g, method), slowest(g, method), rtol=1e-8)


def slowest(g, method):
    """The rate of the slowest mode of the moments, from the matrix of them all."""
    # On vectors orthogonal to the constants, all in the one basis.
    Q = np.linalg.qr(np.column_stack([np.ones(g.nodes), np.eye(g.nodes)[:, 1:]]))[0][:, 1:]
    if method.accelerated:
        Q = np.kron(np.eye(2), Q)
        A = np.kron(Q, Q).T @ kronecker(g, method) @ np.kron(Q, Q)
    else:  # z does not count: without it, the first block
        n = g.nodes
        first = [a * 2 * n + b for a in range(n) for b in range(n)]
        A = np.kron(Q, Q).T @ kronecker(g, method)[np.ix_(first, first)] @ np.kron(Q, Q)
    return -np.linalg.eigvals(A).real.max()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_the_moments_decay_at_the_rate(method):
    g, x0 = Graph.of("path:20"), np.eye(20)[0]
    rate = theory.gossip_rate(g, method)
    t = np.array([60.0, 61.0]) / rate
    first, second = theory.moments(g, method, x0, t).fun
    np.testing.assert_allclose(np.log(first / second) / (t[1] - t[0]), rate, rtol=1e-6)


def test_rates_of_larger_graphs_are_above_what_is_promised():
    for spec in ("path:60", "grid:8x8"):
        g = Graph.of(spec)
        plain, accelerated = (theory.gossip_rate(g, m) for m in (METHODS[1], METHODS[0]))
        assert 0.5 * g.mu_g <= plain <= g.mu_g
        assert g.theta <= accelerated <= 2.0 * g.theta
        assert theory.gossip_rate(spec) == accelerated


def runs(g, method, x0, T, count, seed):
    """x and z at T in independent runs, all side by side, every node mixed at every event."""
    rng = np.random.default_rng(seed)
    theta, gamma, gamma_prime = method.constants(g)
    x, z, t = np.tile(x0, (count, 1)), np.tile(x0, (count, 1)), np.zeros(count)
    run = np.arange(count)
    while np.any(t < T):
        dt = np.minimum(rng.exponential(size=count), T - t)
        t += dt
        a = 0.5 * (1.0 - np.exp(-2.0 * theta * dt))[:, None]
        x, z = x + a * (z - x), z + a * (x - z)
        i, j = g.edges[rng.choice(len(g.edges), count, p=g.P)].T
        d = np.where(t < T, x[run, i] - x[run, j], 0.0)
        for y, step in ((x, gamma), (z, gamma_prime)):
            y[run, i] -= step * d
            y[run, j] += step * d
    return x, z


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_the_mean_square_of_runs_is_the_moment(method):
    # The slow mode of a grid at 1/theta: the sum of squares is nearly normal there.
    g = Graph.of("grid:5x6")
    x0, T = np.tile(np.cos(np.pi * (np.arange(6) + 0.5) / 6), 5), 1.0 / g.theta
    x, z = runs(g, method, x0, T, 4000, seed=4)
    np.testing.assert_allclose((x + z).sum(axis=1), 0.0, atol=1e-12)  # what is conserved
    exact = theory.moments(g, method, x0, [T])
    squares = SampleMoments.of(np.column_stack([(y**2).sum(axis=1) for y in (x, z)]))
    test = mean_test(squares, np.array([exact.fun[0], exact.z2[0]]), ALPHA)
    assert test.passed, test
    for gap, resistance in ((1.0, 1.2), (1.2, 1.0)):  # slightly wrong constants are seen
        wrong = (
            with_constants(1.0 / gap * g.mu_g, resistance * g.R)
            if method.accelerated
            else Short(False)
        )
        other = theory.moments(g, wrong, x0, [T])
        z_wrong = mean_test(squares, np.array([other.fun[0], other.z2[0]]), ALPHA).measured
        assert z_wrong > 8.0, z_wrong


class Short(Gossip):
    """Plain gossip whose steps are 10 % short."""

    def constants(self, graph):
        return Constants(0.0, 0.45, 0.45)


def with_constants(mu_g, R):
    """Accelerated gossip with other constants than the graph's."""

    class Other(Gossip):
        def constants(self, graph):
            return Constants(np.sqrt(mu_g / (2.0 * R)), 0.5, 1.0 / np.sqrt(2.0 * mu_g * R))

    return Other()


@pytest.mark.parametrize("spec", GRAPHS)
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_the_bound_holds(spec, method):
    g = graph_of(spec)
    times = np.linspace(0.0, 8.0, 5) / g.theta
    slowest = np.linalg.eigh(np.cov(np.eye(g.nodes)[g.edges].sum(axis=1).T))[1]  # a full basis
    for x0 in (start(g.nodes), *slowest.T, np.eye(g.nodes)[0]):
        exact = theory.moments(g, method, x0, times).fun
        assert np.all(exact <= theory.bound(method, g, x0, t=times) * (1.0 + 1e-9) + 1e-300)


def test_the_bound_is_the_formula_and_takes_columns():
    g = graph_of("path:5")
    x0 = np.column_stack([start(5), np.ones(5), -start(5)])
    u2 = 2.0 * ((start(5) - start(5).mean()) ** 2).sum()
    t = np.array([0.0, 3.0])
    plain = Gossip(accelerated=False)
    np.testing.assert_allclose(
        theory.bound(Gossip(damping=0.8), g, x0, t=t),
        1.8 * u2 * np.exp(-0.8 * np.sqrt(g.mu_g / (2 * g.R)) * t),
    )
    np.testing.assert_allclose(theory.bound(plain, g, x0, t=t), u2 * np.exp(-g.mu_g * t / 2))
    np.testing.assert_allclose(
        theory.bound(plain, g, x0, k=[0, 4]), u2 * (1 - g.mu_g / 2) ** np.array([0, 4])
    )
    np.testing.assert_allclose(theory.bound(Gossip(damping=1.0), g, x0, k=[0, 4]), 2.0 * u2)
    assert theory.bound(Gossip(), "path:5", np.ones(5), t=1.0) == 0.0
    np.testing.assert_allclose(theory.moments(g, Gossip(), x0, [0.0, 2.0]).fun[0], u2)


BAD = [
    (lambda: theory.bound(Gossip(), 5, [1.0], t=1.0), TypeError, "runs on a Graph"),
    (lambda: theory.bound(Gossip(), "path:3", [1.0], t=1.0), ValueError, "each of 3 nodes"),
    (lambda: theory.bound(Gossip(), "path:2", [1.0, np.nan], t=1.0), ValueError, "finite"),
    (lambda: theory.bound(Gossip(), "path:2", ["a", "b"], t=1.0), TypeError, "real numbers"),
    (lambda: theory.bound(Gossip(), "path:2", [0, 1], t=1, sigma2=1.0), ValueError, "sigma2=0"),
    (lambda: theory.bound(Gossip(), "path:2", [0, 1]), ValueError, "exactly one of t= and k="),
    (lambda: theory.moments("path:2", Gossip(), [0, 1], k=3), ValueError, "give times"),
    (lambda: theory.moments("path:401", Gossip(), range(401), [1]), ValueError, "at most 400"),
    (lambda: theory.moments("path:3", Gossip(), [0, 1, 2], [1], sigma2=1.0), ValueError, "be 0"),
    (lambda: theory.gossip_rate("path:3001"), ValueError, "at most 3000"),
]


@pytest.mark.parametrize(("ask", "error", "message"), BAD)
def test_bad_input_is_refused(ask, error, message):
    with pytest.raises(error, match=message):
        ask()
