"""mu_g and R: closed forms, dense linear algebra against what large graphs use, the best rates."""

import mpmath
import numpy as np
import pytest

from continuized.network import Gossip, Graph, NoGainWarning, simulate
from continuized.network.graphs import local_resistance, optimal_rates, spectrum
from continuized.process.methods import Continuized

pytestmark = pytest.mark.blas


def grid_resistance(rows, columns):
    """The largest resistance of an edge of a grid of unit conductances, as a double sum of modes.

    phi_kl(a, b) = cos(pi k (a + 1/2) / rows) cos(pi l (b + 1/2) / columns) are the eigenvectors.
    """

    def basis(n):
        k, a = np.arange(n)[:, None], np.arange(n)[None, :]
        return np.cos(np.pi * k * (a + 0.5) / n) * np.sqrt(np.where(k == 0, 1.0, 2.0) / n)

    def values(n):
        return 2.0 - 2.0 * np.cos(np.pi * np.arange(n) / n)

    lam = values(rows)[:, None] + values(columns)[None, :]
    inverse = np.divide(1.0, lam, out=np.zeros_like(lam), where=lam > 1e-14)
    U, W = basis(rows), basis(columns)
    down = np.einsum("ka,lb,kl->ab", np.diff(U) ** 2, W**2, inverse)
    across = np.einsum("ka,lb,kl->ab", U**2, np.diff(W) ** 2, inverse)
    return max(down.max(initial=0.0), across.max(initial=0.0))


def closed(spec):
    """mu_g and R of a family, with equal rates."""
    kind, _, rest = spec.partition(":")
    if kind == "grid":
        a, b = map(int, rest.split("x"))
        m, longest = a * (b - 1) + b * (a - 1), max(a, b)
        return 4.0 * np.sin(np.pi / (2 * longest)) ** 2 / m, m * grid_resistance(a, b)
    n = int(rest)
    return {
        "path": (4.0 * np.sin(np.pi / (2 * n)) ** 2 / (n - 1), n - 1),
        "cycle": (4.0 * np.sin(np.pi / n) ** 2 / n, n - 1),
        "complete": (2.0 / (n - 1), n - 1),
        "star": (1.0 / (n - 1), n - 1),
    }[kind]


SMALL = ["path:2", "path:30", "cycle:31", "complete:20", "star:20", "grid:5x9", "grid:12x12"]


@pytest.mark.parametrize("spec", SMALL)
def test_small_families_have_their_closed_forms(spec):
    g, (mu_g, R) = Graph.of(spec), closed(spec)
    np.testing.assert_allclose(g.mu_g, mu_g, rtol=1e-11)
    np.testing.assert_allclose(g.R, R, rtol=1e-11)
    assert g.mu_g_range == (g.mu_g, g.mu_g)
    np.testing.assert_allclose(g.P @ g.resistances(), g.nodes - 1)  # Foster's theorem


@pytest.mark.parametrize(
    "spec", ["path:100000", "cycle:2000", "grid:60x70", "star:3000", "star:50000"]
)
def test_large_families_have_them_within_their_range(spec):
    g, (mu_g, R) = Graph.of(spec), closed(spec)
    low, high = g.mu_g_range
    assert low <= mu_g * (1.0 + 1e-13)
    assert mu_g <= high * (1.0 + 1e-9)
    assert high - low <= 1e-5 * mu_g
    assert g.R_range[0] * (1.0 - 1e-12) <= R <= g.R * (1.0 + 1e-12)
    assert g.R_range[1] <= 1.011 * g.R_range[0]


def weighted(spec):
    g = Graph.of(spec)
    return Graph.of(g, rates=np.random.default_rng(1).uniform(0.2, 1.0, len(g.edges)))


RANDOM = ["regular:3x600", "erdos:500:0.03", "smallworld:600:4:0.1", "geometric:500:0.12"]


@pytest.mark.parametrize("spec", [*RANDOM, "grid:20x30"])
def test_what_large_graphs_use_brackets_the_dense_values(spec):
    for g in (Graph.of(spec), weighted(spec)):
        wide = spectrum._gap_wide(spectrum.laplacian(g.nodes, g.edges, g.P))
        narrow = spectrum._gap_narrow(g.nodes, g.edges, g.P)
        for low, high in (wide, narrow):
            assert low <= g.mu_g <= high * (1.0 + 1e-9)
            assert high - low <= 0.011 * g.mu_g
        R = local_resistance.bound_largest(g.nodes, g.edges, g.P, wide[0])
        assert R[0] * (1.0 - 1e-9) <= g.R <= R[1] * (1.0 + 1e-9)
        assert R[1] <= 1.011 * R[0]


@pytest.mark.parametrize("spec", ["regular:3x600", "grid:20x30"])
def test_every_edge_alone_is_bracketed_even_when_stopped_early(spec, monkeypatch):
    g = weighted(spec)
    exact = g.resistances()
    monkeypatch.setattr(local_resistance, "TOL", 0.0)
    strength = np.bincount(g.edges.ravel(), np.repeat(g.P, 2))
    both, weight = np.concatenate([g.edges, g.edges[:, ::-1]]), np.tile(g.P, 2)
    by = np.argsort(both[:, 0], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(both[:, 0]))])
    around = (indptr, both[by, 1].astype(np.int32), weight[by], strength)
    for steps in (1, 4, 12):
        for e in range(0, len(g.edges), 25):
            one = slice(e, e + 1)
            limits = local_resistance.Limits(0.0, g.nodes, steps, g.nodes)
            _, low, high = local_resistance.bound_edges(
                around, g.edges[one], g.P[one], 0.99 * g.mu_g, 0.0, 0.0, limits
            )
            assert low <= exact[e] * (1.0 + 1e-9)
            assert exact[e] <= high * (1.0 + 1e-9)


def find_exactly(g):
    """mu_g and R with 60 digits, of the P that the graph has."""
    with mpmath.workdps(60):
        n, P = g.nodes, [mpmath.mpf(p) for p in g.P.tolist()]
        Lambda = mpmath.zeros(n)
        for (i, j), p in zip(g.edges.tolist(), P, strict=True):
            for a, b in ((i, j), (j, i)):
                Lambda[a, a] += p
                Lambda[a, b] -= p
        mu_g = sorted(mpmath.eigsy(Lambda, eigvals_only=True))[1]
        inverse = (Lambda + mpmath.ones(n) / n) ** -1
        R = max(inverse[i, i] + inverse[j, j] - 2 * inverse[i, j] for i, j in g.edges.tolist())
        return mu_g, R


def spread(shape, least):
    """A small graph, some of whose rates are the smallest times the others."""
    pairs, few = {
        "the end of a path": ([(0, 1), (1, 2), (2, 3)], (0,)),
        "the middle of a path": ([(0, 1), (1, 2), (2, 3)], (1,)),
        "a cycle in two": ([(i, (i + 1) % 6) for i in range(6)], (2, 5)),
        "two triangles": ([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)], (3,)),
        "a node aside": ([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)], (3, 4, 5)),
    }[shape]
    rates = np.random.default_rng(4).uniform(0.5, 1.0, len(pairs))
    rates[list(few)] *= least
    return Graph.of(pairs, rates=rates)


SHAPES = [
    "the end of a path", "the middle of a path", "a cycle in two", "two triangles", "a node aside"
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("least", [1e-8, 1e-12, 3e-14])
def test_rates_that_differ_much_are_bounded_from_the_side_that_the_theorem_needs(shape, least):
    g = spread(shape, least)
    mu_g, R = find_exactly(g)
    shown = 2e-7 if least == 1e-8 else 0.0  # where rounding is negligible, there is one number
    for value, (low, high) in ((mu_g, g.mu_g_range), (R, g.R_range)):
        assert (low == high) == (least == 1e-8)
        assert low * (1.0 - shown) <= value <= high * (1.0 + shown)
        assert high - low <= 1.5 * value
    assert g.theta <= mpmath.sqrt(mu_g / (2 * R)) * (1.0 + shown)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("least", [1e-16, 1e-18, 1e-300])
def test_rates_of_which_rounding_leaves_nothing_are_refused(shape, least):
    g = spread(shape, least)
    asked = (
        lambda: g.mu_g,
        lambda: g.R,
        lambda: g.theta,
        g.resistances,
        g.optimise_rates,
        lambda: simulate(g, np.arange(float(g.nodes)), rng=0),
    )
    for ask in asked:
        with pytest.raises(ValueError, match=r"rates of the edges differ by a factor of .* rates"):
            ask()
    # Plain gossip to a given time asks for none of these.
    r = simulate(g, np.arange(float(g.nodes)), method="plain", until=5.0, rng=0)
    assert r.t == 5.0


def test_resistances_of_a_large_graph_need_a_gap_above_rounding():
    for least in (1e-12, 1e-16):
        rates = np.ones(1999)
        rates[1000] = least
        g = Graph.of("path:2000", rates=rates)
        if least == 1e-12:
            np.testing.assert_allclose(g.R, (1998.0 + least) / least, rtol=1e-9)
        else:
            with pytest.raises(ValueError, match=r"differ by a factor of 1e\+16"):
                _ = g.R


def test_the_names_of_other_papers():
    g = Graph.of("grid:4x5")
    assert g.chi_1 == 1.0 / g.mu_g
    assert g.chi_2 == g.R / 2.0
    np.testing.assert_allclose(g.theta, np.sqrt(g.mu_g / (2.0 * g.R)))
    np.testing.assert_allclose(g.theta, 0.5 / np.sqrt(g.chi_1 * g.chi_2))
    np.testing.assert_allclose(g.speedup, 2.0 * g.theta / g.mu_g)


def test_gossip_is_the_continuized_process():
    g = weighted("grid:4x5")
    theta, gamma, gamma_prime = Gossip(damping=1.0).constants(g)
    process = Continuized(2.0 * g.R, g.mu_g)
    assert Gossip().process(g) == process
    np.testing.assert_allclose([theta, gamma_prime], [g.theta, 1.0 / np.sqrt(2.0 * g.mu_g * g.R)])
    assert gamma == 0.5


def test_a_warning_where_acceleration_gains_nothing():
    for spec in ("complete:5", "complete:30", "path:2"):
        with pytest.warns(NoGainWarning, match=f"gains nothing on {spec}.*accelerated=False"):
            Gossip().constants(Graph.of(spec))
        Gossip(accelerated=False).constants(Graph.of(spec))
    for spec in ("path:3", "star:5", "cycle:4"):
        Gossip().constants(Graph.of(spec))
    with pytest.warns(NoGainWarning) as seen:
        simulate("complete:5", np.arange(5.0), rng=0)
    assert seen[0].filename == __file__


def test_all_resistances_are_for_small_graphs():
    with pytest.raises(ValueError, match="up to 1500 nodes"):
        Graph.of("path:1501").resistances()


@pytest.mark.parametrize("spec", ["complete:6", "cycle:9", "star:7"])
def test_equal_rates_are_best_where_all_edges_are_alike(spec):
    # theta is concave, so that the mean over the symmetries of a best P is best too.
    g = Graph.of(spec)
    found = g.optimise_rates(tol=5e-6)
    np.testing.assert_allclose([found.theta, found.bound], g.theta, rtol=1e-5)
    skewed = Graph.of(g, rates=np.linspace(1.0, 4.0, len(g.edges))).optimise_rates()
    np.testing.assert_allclose(skewed.theta, g.theta, rtol=2e-3)
    assert g.theta <= skewed.bound * (1.0 + 1e-6)


@pytest.mark.parametrize("spec", ["grid:4x4", "erdos:20:0.3"])
def test_the_best_rates_are_certified(spec):
    g = Graph.of(spec)
    found = g.optimise_rates()
    assert found.theta >= (1.0 - 1e-3) * found.bound
    assert found.theta > 1.04 * g.theta
    np.testing.assert_allclose(found.graph.theta, found.theta, rtol=1e-9)
    assert found.graph.P.min() > 0.0
    assert abs(found.graph.P.sum() - 1.0) < 1e-12
    rng = np.random.default_rng(0)  # no other rates are above the bound
    near = found.graph.P * np.exp(0.3 * rng.standard_normal((200, len(g.edges))))
    far = rng.dirichlet(np.ones(len(g.edges)), 200)
    for P in np.vstack([near, far]):
        assert Graph.of(g, rates=P).theta <= found.bound


def test_every_cut_is_above_theta_everywhere():
    g, rng = Graph.of("grid:3x4"), np.random.default_rng(2)
    first = Graph.of(g, rates=rng.dirichlet(np.ones(len(g.edges))))
    cuts = optimal_rates.find_cuts(g.nodes, g.edges, first.P)
    largest = np.argsort(-first.resistances())[: len(cuts.conductances)]
    for P in rng.dirichlet(np.ones(len(g.edges)), 50):
        other = Graph.of(g, rates=P)
        assert other.mu_g <= (cuts.gaps @ P).min() * (1.0 + 1e-9)
        conductances = 1.0 / other.resistances()[largest]
        assert np.all(conductances <= (cuts.conductances @ P) * (1.0 + 1e-9))


def test_the_best_rates_are_for_small_graphs():
    with pytest.raises(ValueError, match="at most 300 nodes"):
        Graph.of("path:301").optimise_rates()
    with pytest.raises(ValueError, match=r"tol must be a number in \(0, 1\)"):
        Graph.of("path:5").optimise_rates(tol=0.0)
