"""Mirror steps: the geometries, runs against SciPy's solutions, the drift, and what is refused."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import continuized as cz
from continuized import theory
from continuized.process.mirror import Entropy, MirrorComposite, PNorm
from tests.helpers.composite_problems import CASES, FullQuadratic, quadratic

pytestmark = pytest.mark.blas
RNG = np.random.default_rng(0)


def points(shape: tuple[int, ...], n: int, seed: int = 0) -> np.ndarray:
    """Points of simplices, inside and near their faces."""
    rng = np.random.default_rng(seed)
    raw = rng.exponential(size=(n, *shape)) ** rng.uniform(1.0, 12.0, (n, *[1] * len(shape)))
    raw = np.maximum(raw, 1e-12 * raw.max(axis=-1, keepdims=True))
    return raw / raw.sum(axis=-1, keepdims=True)


# The geometries


@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_the_step_of_entropy_minimises(shape: tuple[int, ...]) -> None:
    """Along random directions of the simplices nothing is lower; the slope there is 0."""
    (z,), rng = points(shape, 1), np.random.default_rng(1)
    g, step = rng.standard_normal(shape), 0.7
    u = Entropy().step(z, g, step, None)
    np.testing.assert_allclose(u.sum(axis=-1), 1.0, rtol=1e-14)
    for _ in range(20):
        v = rng.standard_normal(shape)
        v -= v.mean(axis=-1, keepdims=True)
        v *= 0.2 * u.min() / np.abs(v).max()

        def value(s: float, v: np.ndarray = v) -> float:
            return step * float((g * (u + s * v)).sum()) + Entropy().divergence(u + s * v, z)

        assert abs(value(1e-4) - value(-1e-4)) < 1e-9 * (1.0 + abs(value(0.0)))
        assert min(value(1.0), value(-1.0)) > value(0.0)


@pytest.mark.parametrize("p", [1.05, 1.3, 2.0])
@pytest.mark.parametrize("weight", [None, 0.3])
def test_the_step_of_a_p_norm_minimises(p: float, weight: float | None) -> None:
    rng = np.random.default_rng(2)
    z, g, step, mirror = rng.standard_normal(4), rng.standard_normal(4), 0.4, PNorm(p)
    prox = None if weight is None else cz.prox.L1(weight)

    def value(u: np.ndarray) -> float:
        psi = 0.0 if prox is None else prox.value(u)
        return step * (float(g @ u) + psi) + mirror.divergence(u, z)

    u = mirror.step(z, g, step, prox)
    best = value(u)
    for i in range(4):  # convex, and its kinks are along the axes: no axis leads below

        def along(s: float, i: int = i) -> float:
            return value(u + s * np.eye(4)[i])

        assert minimize_scalar(along, bracket=(-0.1, 0.1)).fun > best - 1e-12
    for _ in range(30):
        assert value(u + 0.01 * rng.standard_normal(4)) >= best


@pytest.mark.parametrize("mirror", [Entropy(), PNorm(1.1), PNorm(1.7), PNorm(2.0)])
def test_the_divergence_is_at_least_half_the_squared_norm(mirror: Any) -> None:
    """1-strong convexity, which the theorem needs; and the norms are dual to each other."""
    is_simplex = isinstance(mirror, Entropy)
    pairs = points((2, 6), 400) if is_simplex else RNG.standard_normal((400, 2, 6)) ** 3
    for u, z in pairs:
        D = mirror.divergence(u, z)
        assert 0.5 * mirror.norm(u - z) ** 2 * (1.0 - 1e-9) - 1e-13 <= D
        assert abs(float(u @ z)) <= mirror.norm(u) * mirror.dual_norm(z) * (1.0 + 1e-12)
        assert mirror.divergence(z, z) == pytest.approx(0.0, abs=1e-12)


def test_a_p_norm_of_2_is_the_plain_geometry() -> None:
    c = CASES["lasso"]()
    method = cz.Continuized(c.f.L)
    how: Any = {"prox": c.prox, "maxiter": 40, "rng": 0, "record": "path", "method": method}
    plain, mirror = (cz.minimize(c.f, c.x0, **how, mirror=m) for m in (None, PNorm(2.0)))
    np.testing.assert_allclose(mirror.path.x, plain.path.x, rtol=1e-10, atol=1e-12)
    given: Any = {"t": [1.0, 9.0], "prox": c.prox, "x_star": c.x_star}
    np.testing.assert_allclose(
        theory.bound(method, c.f, c.x0, **given, mirror=PNorm(2.0)),
        theory.bound(method, c.f, c.x0, **given),
        rtol=1e-12,
    )


def largest_ratio(H: np.ndarray, mirror: Any, shape: tuple[int, ...]) -> float:
    """The largest u' H u / |u|^2 found among directions that could make it large."""
    rng, d = np.random.default_rng(0), H.shape[0]
    tried = [*np.eye(d), *rng.standard_normal((200, d)), *np.linalg.eigh(H)[1].T]
    tried += [np.eye(d)[i] + s * np.eye(d)[j] for i in range(d) for j in range(d) for s in (1, -1)]
    found = [float(u @ H @ u) / max(mirror.norm(u.reshape(shape)), 1e-9) ** 2 for u in tried]
    return max(found)


@pytest.mark.parametrize("sparse", [False, True])
def test_L_in_the_norm_of_the_geometry(sparse: bool) -> None:
    from scipy import sparse as sp

    X = RNG.standard_normal((40, 12)) * (RNG.random((40, 12)) < 0.5)
    given = sp.csr_array(X) if sparse else X
    H = X.T @ X / 40 + 0.1 * np.eye(12)
    p, labels = cz.problems.LeastSquares(given, X[:, 0], l2=0.1), np.where(X[:, 0] > 0, 1.0, -1.0)
    assert Entropy().find_L(p, (12,)) == pytest.approx(np.abs(H).max(), rel=1e-9)
    blocks = np.abs(H).reshape(3, 4, 3, 4).max(axis=(1, 3))
    expected = min(np.linalg.eigvalsh(blocks)[-1], np.linalg.eigvalsh(H)[-1])
    assert Entropy().find_L(p, (3, 4)) == pytest.approx(expected, rel=1e-6)
    for mirror, shape in ((Entropy(), (12,)), (Entropy(), (3, 4)), (PNorm(1.3), (12,))):
        L = mirror.find_L(p, shape)
        assert largest_ratio(H, mirror, shape) <= L * (1.0 + 1e-9)
        assert L <= p.L * (1.0 + 1e-9)
    logistic = cz.problems.LogisticRegression(given, labels, l2=0.1)
    expected = 0.25 * (X * X).sum(axis=0).max() / 40 + 0.1
    assert Entropy().find_L(logistic, (12,)) == pytest.approx(expected, rel=1e-9)
    assert Entropy().find_L(cz.problems.Quadratic([1.0, 5.0]), (2,)) == 5.0
    assert Entropy().find_L(cz.Problem(lambda x: 0.0, lambda x: x), (2,)) is None
    assert Entropy().find_L(cz.Problem(lambda x: 0.0, lambda x: x, L=3.0), (2,)) == 3.0
    assert PNorm(1.3).find_L(cz.problems.Quadratic([1.0, 5.0]), (2,)) == pytest.approx(5.0)


# Runs


def entropy_L(f: FullQuadratic) -> float:
    return float(np.abs(f.H).max())


def test_runs_on_the_simplex_come_to_the_solution_of_scipy() -> None:
    for seed in range(3):
        c = CASES["simplex"](seed=seed)
        r = cz.minimize(c.f, c.x0, mirror=Entropy(), L=entropy_L(c.f), tol=1e-4, rng=seed)
        assert r.success
        assert r.message == "The gap is at most tol."
        excess = r.fun - c.f.fun(c.x_star)
        assert -1e-13 <= excess <= r.gap <= 1e-4
        assert r.x.sum() == pytest.approx(1.0, rel=1e-14)
        assert np.all(r.x >= 0.0)


def test_products_of_simplices() -> None:
    """Rows that do not see each other are as many problems."""
    cases = [CASES["simplex"](seed=seed) for seed in (2, 3)]
    H = np.zeros((16, 16))
    H[:8, :8], H[8:, 8:] = cases[0].f.H, cases[1].f.H
    f = FullQuadratic(H, np.concatenate([c.f.c for c in cases]))
    L = max(entropy_L(c.f) for c in cases)
    r = cz.minimize(f, np.full((2, 8), 0.125), mirror=Entropy(), L=L, tol=1e-4, rng=0)
    assert r.success
    assert r.x.shape == (2, 8)
    best = sum(c.f.fun(c.x_star) for c in cases)
    assert 0.0 <= r.fun - best + 1e-13 <= r.gap + 1e-13
    np.testing.assert_allclose(r.x.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("prox", [None, cz.prox.L1(0.4)])
def test_runs_in_a_p_norm_come_to_the_solution(prox: Any) -> None:
    c = CASES["lasso"](seed=1)
    star = c.x_star if prox is not None else np.linalg.solve(c.f.H, c.f.c)
    r = cz.minimize(c.f, c.x0, mirror=PNorm(1.5), prox=prox, L=c.f.L, tol=1e-3, rng=0)
    assert r.success
    value = (lambda x: 0.0) if prox is None else prox.value
    best = c.f.fun(star) + value(star)
    # The step sees sqrt(2 D) L <= 1e-3, and kappa = 100.
    assert -1e-12 <= r.fun - best < 1e-4 * (1.0 + abs(best))


def test_every_state_is_on_the_simplex_and_the_mean_below_its_bound() -> None:
    """200 runs: the mean is 0.3 of the bound or less, some 50 standard errors below it."""
    c = CASES["simplex"](seed=3)
    method, times = cz.Continuized(entropy_L(c.f)), [3.0, 10.0, 30.0]
    e = cz.ensemble(c.f, method, c.x0, runs=200, times=times, rng=0, mirror=Entropy())
    bound = theory.bound(method, c.f, c.x0, t=times, mirror=Entropy(), x_star=c.x_star)
    assert np.all(e.mean() - c.f.fun(c.x_star) + 5.0 * e.standard_error() < bound)
    how: Any = {"mirror": Entropy(), "maxiter": 300, "record": "path", "method": method}
    for i in range(3):
        r = cz.minimize(c.f, c.x0, rng=e.seed(i), **how)
        for states in r.path[2:]:
            assert np.all(states >= 0.0)
            np.testing.assert_allclose(states.sum(axis=1), 1.0, rtol=1e-12)
        at = r.at(times)[0]
        np.testing.assert_allclose(c.f.values(at), e.fun[i], rtol=1e-12)


def test_the_bound_is_the_formula() -> None:
    c, mirror = CASES["simplex"](seed=1), Entropy()
    L, s, t = entropy_L(c.f), 3.0, np.array([1.0, 20.0])
    excess = c.f.fun(c.x0) - c.f.fun(c.x_star)
    D = mirror.divergence(c.x_star, c.x0)
    support = c.x_star > 0.0
    assert pytest.approx(math.log(8.0) + float(c.x_star[support] @ np.log(c.x_star[support]))) == D
    expected = (s * s / (4.0 * L) * excess + D) * 4.0 * L / (t + s) ** 2
    method = cz.Continuized(L, start=s)
    found = theory.bound(method, c.f, c.x0, t=t, mirror=mirror, x_star=c.x_star)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    computed = theory.bound(method, c.f, c.x0, t=t, mirror=mirror)
    np.testing.assert_allclose(computed, expected, rtol=1e-6)


STATES = 20_000


@pytest.mark.parametrize(
    ("mirror", "scale"),
    [(Entropy(), 1.0), pytest.param(PNorm(1.3), 1.0, marks=pytest.mark.slow)],
)
def test_the_drift_is_not_positive_in_20000_random_states(mirror: Any, scale: float) -> None:
    c = CASES["simplex"](seed=3)
    rng, prox = np.random.default_rng(5), None
    if isinstance(mirror, Entropy):
        L, star, (x, z) = entropy_L(c.f), c.x_star, points((8,), 2 * STATES).reshape(2, STATES, 8)
    else:
        c, prox = CASES["lasso"](seed=3), cz.prox.L1(0.4)
        L, star = c.f.L, c.x_star
        x, z = star + rng.standard_normal((2, STATES, 8)) * 10.0 ** rng.uniform(
            -3, 1, (2, STATES, 1)
        )
    t, method = rng.choice([0.0, 0.3, 2.0, 20.0], STATES), cz.Continuized(L)
    found = theory.drift(method, c.f, t, x, z, prox=prox, mirror=mirror, x_star=star)
    A = (t + 2.0) ** 2 / (2.0 * L)
    D = np.array([mirror.divergence(star, row) for row in z])
    size = A * (1.0 + np.abs(c.f.values(x))) + 2.0 * D + ((x - z) ** 2).sum(axis=1)
    assert np.max(found / size) <= 1e-12
    assert np.mean(found < -1e-6 * size) > 0.5


def test_a_tenth_of_L_makes_the_drift_positive() -> None:
    """The planted mistake: L in no norm of the geometry."""
    c = CASES["simplex"](seed=3)
    x, z = points((8,), 4000).reshape(2, 2000, 8)
    method = cz.Continuized(0.1 * entropy_L(c.f))
    t = np.full(2000, 1.0)
    found = theory.drift(method, c.f, t, x, z, mirror=Entropy(), x_star=c.x_star)
    assert found.max() > 1e-3


def test_an_L_of_the_wrong_norm_is_witnessed() -> None:
    c = CASES["simplex"](seed=3)
    with pytest.warns(cz.ConstantsWarning, match="is too small: two gradients show"):
        cz.minimize(c.f, c.x0, mirror=Entropy(), L=0.05 * entropy_L(c.f), maxiter=60, rng=0)


def test_lyapunov_along_a_path_is_in_the_geometry() -> None:
    c, mirror = CASES["simplex"](seed=3), Entropy()
    method = cz.Continuized(entropy_L(c.f))
    r = cz.minimize(c.f, c.x0, method=method, mirror=mirror, maxiter=20, rng=0, record="path")
    phi = theory.lyapunov(r, c.f, x_star=c.x_star)
    for k in (0, 7, 20):
        A = (r.path.t[k] + 2.0) ** 2 / (2.0 * method.L)
        excess = c.f.fun(r.path.x[k]) - c.f.fun(c.x_star)
        expected = A * excess + 2.0 * mirror.divergence(c.x_star, r.path.z[k])
        assert phi.phi[k] == pytest.approx(expected, rel=1e-9)


class Plain:
    """|u - z|^2 / 2, the user's own; it writes into what it is given."""

    sign = 1.0

    def step(self, z: np.ndarray, g: np.ndarray, gamma_prime: float, prox: Any) -> np.ndarray:
        z -= self.sign * gamma_prime * g
        g[:] = 7.0
        return z if prox is None else prox(z, gamma_prime)

    def divergence(self, u: np.ndarray, z: np.ndarray) -> float:
        return 0.5 * float(np.sum((u - z) ** 2))


class Uphill(Plain):
    sign = -1.0


class Short(Plain):
    def step(self, z: Any, g: Any, gamma_prime: float, prox: Any) -> Any:
        return z[:2]


class Negative(Plain):
    def divergence(self, u: Any, z: Any) -> float:
        return -1.0


def test_a_geometry_of_the_users_own() -> None:
    c = CASES["box"](seed=1)
    how: Any = {"prox": c.prox, "maxiter": 50, "rng": 0, "record": "path", "L": c.f.L, "mu": 0.0}
    own = cz.minimize(c.f, c.x0, mirror=Plain(), **how)
    plain = cz.minimize(c.f, c.x0, **how)
    # One is NumPy's, the other compiled: of 50 steps on entries below 1.
    np.testing.assert_allclose(own.path.x, plain.path.x, atol=1e-13)
    bounds = [
        theory.bound(own.method, c.f, c.x0, t=3.0, prox=c.prox, x_star=c.x_star, **options)
        for options in ({}, {"mirror": Plain()})
    ]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-12)
    with pytest.raises(ValueError, match="give x_star="):
        theory.bound(own.method, c.f, c.x0, t=3.0, mirror=Plain())


def test_a_run_is_resumed_bit_by_bit(tmp_path: Any) -> None:
    c = CASES["simplex"](seed=3)
    options: Any = {"L": entropy_L(c.f), "mirror": Entropy(), "rng": 3, "record": False}
    whole = cz.minimize(c.f, c.x0, maxiter=2500, **options)
    kept = options | {"checkpoint": tmp_path / "run.npz", "every": 0.0}
    cz.minimize(c.f, c.x0, maxiter=1200, **kept)
    again = cz.minimize(c.f, c.x0, maxiter=2500, resume=True, **kept)
    np.testing.assert_array_equal(again.x, whole.x)


class OwnEntropy:
    """The entropy, as a user would write it."""

    def step(self, z: np.ndarray, g: np.ndarray, gamma_prime: float, prox: Any) -> np.ndarray:
        return Entropy().step(z, g, gamma_prime, prox)

    def divergence(self, u: np.ndarray, z: np.ndarray) -> float:
        return Entropy().divergence(u, z)


def least_squares_on_a_simplex(dtype: Any) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    p = cz.problems.LeastSquares(rng.standard_normal((30, 10)), rng.standard_normal(30))
    return p, np.full(10, 0.1, dtype)


@pytest.mark.parametrize("mirror", [Entropy(), OwnEntropy()])
@pytest.mark.parametrize(("dtype", "events"), [(np.float64, 4000), (np.float32, 300)])
def test_a_run_near_its_minimum_is_resumed(
    mirror: Any, dtype: Any, events: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step there is all rounding, and may seem to lose: it is not the first, which is looked at.

    Of these seeds the check refused some, until it knew that the run had begun before.
    """
    monkeypatch.setattr("continuized.process.mirror.ROUNDINGS", 0.0)  # so that no slack helps
    (p, x0), L = least_squares_on_a_simplex(dtype), 2.0
    for seed in range(10):
        options: Any = {"L": L, "mirror": mirror, "rng": seed, "checkpoint": tmp_path / f"{seed}"}
        cz.minimize(p, x0, maxiter=events, **options)
        assert cz.minimize(p, x0, maxiter=events + 1, resume=True, **options).nit == events + 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_run_may_begin_at_its_minimum(dtype: Any) -> None:
    """There the first step of a user's own geometry is all rounding, along a gradient that is not
    0; a tenth of the slack would do."""
    p = cz.Problem(lambda x: 1e3 * float(x.sum()), lambda x: np.full_like(x, 1e3))
    for x0 in points((10,), 20):
        r = cz.minimize(p, x0.astype(dtype), mirror=OwnEntropy(), L=1.0, rng=0, maxiter=3)
        assert r.nit == 3


def test_late_steps_do_not_underflow_to_zero() -> None:
    """z_i falls as exp(-gamma' g_i); at 0 it would stay there."""
    z = np.array([1.0 - 1e-300, 1e-300])
    for _ in range(5):
        z = Entropy().step(z, np.array([0.0, 1.0]), 1e3, None)
    assert z[1] > 0.0
    assert math.isfinite(Entropy().divergence(np.array([0.5, 0.5]), z))
    for dtype in (np.float32, np.float64):
        x = Entropy().step(np.full(3, 1 / 3, dtype), np.arange(3, dtype=dtype), 1e4, None)
        assert x.dtype == dtype
        assert np.all(x > 0.0)


F = FullQuadratic(np.eye(3), np.ones(3))
UNIFORM = np.full(3, 1.0 / 3.0)


@pytest.mark.parametrize(
    ("x0", "options", "error", "words"),
    [
        (
            np.zeros(3),
            {"mirror": Entropy()},
            ValueError,
            "outside the simplex of cz.mirror.Entropy",
        ),
        ([0.5, 0.5, 0.0], {"mirror": Entropy()}, ValueError, "x0 must be > 0 in every entry"),
        (np.full((1, 1, 3), 1 / 3), {"mirror": Entropy()}, ValueError, "vectors, and for matrices"),
        (
            UNIFORM,
            {"mirror": Entropy(), "mu": 0.5},
            ValueError,
            "mirror= is for mu = 0, got mu = 0.5: with mu > 0 the flow has no closed form; drop mu",
        ),
        (
            UNIFORM,
            {"mirror": Entropy(), "method": cz.Continuized(1.0, start=1.0)},
            ValueError,
            "use start >= 2",
        ),
        (UNIFORM, {"mirror": Entropy(), "prox": cz.prox.L1(1.0)}, ValueError, "drop prox="),
        (UNIFORM, {"mirror": PNorm(1.5), "prox": cz.prox.Box(0, 1)}, ValueError, "prox.L1(weight)"),
        (UNIFORM, {"mirror": Entropy(), "metric": np.ones(3)}, ValueError, "do not go together"),
        (UNIFORM, {"mirror": Entropy(), "noise": cz.noise.Gaussian(1.0)}, ValueError, "no theorem"),
        (UNIFORM, {"mirror": Entropy(), "method": "nesterov"}, ValueError, "mirror= goes with"),
        (
            UNIFORM,
            {"mirror": Entropy(), "method": cz.CoordinateDescent()},
            ValueError,
            "mirror= goes with",
        ),
        (UNIFORM, {"mirror": 3.0}, TypeError, "mirror must be an object such as cz.mirror.Entropy"),
        (UNIFORM, {"mirror": Entropy}, TypeError, "mirror must be an object such as"),
        (UNIFORM, {"mirror": Uphill()}, ValueError, "but at its first point that is larger than"),
        (UNIFORM, {"mirror": Short()}, ValueError, "in the shape of x, (3,), got shape (2,)"),
        (UNIFORM, {"mirror": Negative()}, ValueError, "the divergence of mirror must be"),
    ],
)
def test_refused(x0: Any, options: dict[str, Any], error: Any, words: str) -> None:
    method = options.get("method")
    given = {} if method is not None and not isinstance(method, str) else {"L": 1.0}
    with pytest.raises(error, match=re.escape(words)):
        cz.minimize(F, x0, maxiter=5, **given, **options)


def test_an_unknown_L_is_asked_for() -> None:
    p = cz.Problem(lambda x: 0.5 * float(x @ x), lambda x: x)
    with pytest.raises(ValueError, match="L is the smoothness in the norm of the geometry"):
        cz.minimize(p, UNIFORM, mirror=Entropy())
    with pytest.raises(ValueError, match="is not known here: give L="):
        cz.minimize(F, UNIFORM, mirror=Plain())
    for wrong in (1.0, 2.5, math.nan):
        with pytest.raises(ValueError, match="p must be a number in"):
            PNorm(wrong)


def test_it_is_public() -> None:
    assert cz.mirror.Entropy() == Entropy()
    assert isinstance(MirrorComposite(Entropy(), None, (3,)).given["mirror"], Entropy)
    assert pytest.approx(1.0) == quadratic(3, 0).L
