"""Stochastic gradients whose noise depends on the state: `Oracle` and `Minibatch`."""

import math
import re
import warnings

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.process.noise import Minibatch, NoiseWarning, Oracle

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3)) * np.geomspace(0.5, 2.0, 30)[:, None]
SIGNS, NUMBERS, COUNTS = np.sign(X[:, 0] + 0.3), X @ np.ones(3), np.arange(30) % 4
WEIGHTS = RNG.uniform(0.5, 2.0, 30)
POINT = np.array([0.3, -0.2, 0.5])
REGRESSIONS = {
    "logistic": cz.problems.LogisticRegression(X, SIGNS, 0.1),
    "weights": cz.problems.LogisticRegression(X, SIGNS, 0.1, weights=WEIGHTS),
    "intercept": cz.problems.LogisticRegression(X, SIGNS, 0.1, intercept=True),
    "sparse": cz.problems.LogisticRegression(sparse.csr_array(X), SIGNS, 0.1),
    "least squares": cz.problems.LeastSquares(X, NUMBERS, 0.1),
    "poisson": cz.problems.PoissonRegression(X, COUNTS, 0.1),
    "huber": cz.problems.HuberRegression(X, NUMBERS, 0.1, delta=0.5),
}
QUADRATIC = cz.problems.Quadratic([1.0, 0.5, 0.2], [1.0, 1.0, 1.0])
GAUSSIAN = 1e-2


def add_gaussian(x, rng):
    """As `cz.noise.Gaussian` adds it, drawn at the event."""
    return QUADRATIC.grad(x) + math.sqrt(GAUSSIAN) * rng.standard_normal(x.size)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_rows_average_to_the_gradient_and_the_variance_is_theirs(name):
    p = REGRESSIONS[name]
    x = np.linspace(-0.2, 0.4, p.dim)
    chances, g = Minibatch(p, sigma2=1.0).outcomes(x)
    np.testing.assert_allclose(chances @ g, p.grad(x), rtol=1e-12, atol=1e-14)
    variance = chances @ ((g - p.grad(x)) ** 2).sum(axis=1)
    for batch in (1, 5):
        found = Minibatch(p, batch, sigma2=1.0).variance(x)
        assert math.isclose(found, variance / batch, rel_tol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "weights", "intercept", "huber"])
def test_bounded_slopes_bound_the_variance_everywhere(name):
    p = REGRESSIONS[name]
    oracle, rng = Minibatch(p, 3), np.random.default_rng(1)
    points = rng.standard_normal((200, p.dim)) * 10.0 ** rng.uniform(-2.0, 3.0, (200, 1))
    largest = max(oracle.variance(x) for x in points)
    assert 0.05 * oracle.sigma2() < largest <= oracle.sigma2()


def test_gaussian_noise_as_an_oracle_is_the_same_run():
    """The oracle draws from the stream that the noise model draws from, in the same order."""
    method = cz.Continuized(QUADRATIC.L, QUADRATIC.mu)
    how = {"method": method, "maxiter": 200, "rng": 5, "record": "path"}
    one = cz.minimize(QUADRATIC, np.zeros(3), noise=cz.noise.Gaussian(GAUSSIAN), **how)
    other = cz.minimize(QUADRATIC, np.zeros(3), noise=Oracle(add_gaussian, 3 * GAUSSIAN), **how)
    np.testing.assert_allclose(one.path.x, other.path.x, rtol=1e-12, atol=1e-14)


def test_an_ensemble_and_a_prox_take_an_oracle():
    method = cz.Continuized(QUADRATIC.L, QUADRATIC.mu)
    oracle = Oracle(add_gaussian, 3 * GAUSSIAN, check=True)
    e = cz.ensemble(QUADRATIC, method, np.zeros(3), runs=5, steps=20, noise=oracle, rng=0)
    same = cz.ensemble(
        QUADRATIC, method, np.zeros(3), runs=5, steps=20, noise=cz.noise.Gaussian(GAUSSIAN), rng=0
    )
    np.testing.assert_allclose(e.fun, same.fun, rtol=1e-9)
    r = cz.minimize(QUADRATIC, np.zeros(3), method=method, noise=oracle, prox=cz.prox.L1(0.1),
                    maxiter=50, rng=0)  # fmt: skip
    assert r.nit == 50


def test_a_run_with_an_oracle_resumes_bit_by_bit(path):
    method, oracle = cz.Continuized(1.0, 0.2), Oracle(add_gaussian, 1.0)
    how = {"method": method, "noise": oracle, "rng": 3, "tol": None}
    whole = cz.minimize(QUADRATIC, np.zeros(3), maxiter=80, **how)
    cz.minimize(QUADRATIC, np.zeros(3), maxiter=40, checkpoint=path, **how)
    rest = cz.minimize(QUADRATIC, np.zeros(3), maxiter=80, checkpoint=path, resume=True, **how)
    np.testing.assert_array_equal(rest.x, whole.x)


@pytest.mark.parametrize(
    ("draw", "sigma2", "words"),
    [
        (lambda x, rng: add_gaussian(x, rng) + 0.02, 1.0, r"biased at x0: .* standard errors"),
        (add_gaussian, GAUSSIAN, r"variance at x0 is about 0\.0297, above sigma2 = 0\.01"),
        (add_gaussian, 3.0 * GAUSSIAN, None),
    ],
)
def test_the_check_warns_with_its_statistic(draw, sigma2, words):
    """A right oracle is warned of with probability 1e-6; the draws are of a fixed seed."""
    oracle = Oracle(draw, sigma2, check=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        checked = cz.minimize(QUADRATIC, np.zeros(3), method="continuized", L=1.0, mu=0.2,
                              noise=oracle, maxiter=20, rng=0)  # fmt: skip
    assert [w.category for w in seen] == [NoiseWarning] * (words is not None)
    if words is not None:
        assert re.search(words, str(seen[0].message))
        assert seen[0].filename == __file__
    plain = cz.minimize(QUADRATIC, np.zeros(3), method="continuized", L=1.0, mu=0.2,
                        noise=Oracle(draw, sigma2), maxiter=20, rng=0)  # fmt: skip
    np.testing.assert_array_equal(checked.x, plain.x)  # the test draws from its own generator


def test_the_drift_with_rows_for_gradients():
    """Exact from the outcomes, below the upper bound that sigma2 gives, and Theorem 6's."""
    p = REGRESSIONS["logistic"]
    method, oracle = cz.Continuized(p.L, p.mu), Minibatch(p)
    rng = np.random.default_rng(2)
    for x, z in rng.standard_normal((20, 2, 3)):
        exact = cz.theory.drift(method, p, 1.0, x, z, noise=oracle)
        variance = oracle.variance(x)
        without = cz.theory.drift(method, p, 1.0, x, z)
        assert without < exact <= cz.theory.drift(method, p, 1.0, x, z, sigma2=variance)
        A = math.exp(math.sqrt(p.mu / p.L))
        assert exact <= variance * A / p.L
        # E |z - gamma' g_i|^2 is in closed form: the part in z alone is B gamma'^2 variance.
        B = 0.5 * p.mu * A
        assert exact - without >= B / (p.mu * p.L) * variance * 0.999


REFUSED = {
    "no function": (lambda: Oracle(3.0, 1.0), "draw must be a function of x and rng"),
    "sigma2 < 0": (lambda: Oracle(add_gaussian, -1.0), "sigma2 must be"),
    "least squares": (lambda: Minibatch(REGRESSIONS["least squares"]), "give sigma2="),
    "no regression": (lambda: Minibatch(QUADRATIC), "problem must be a regression"),
    "several classes": (
        lambda: Minibatch(cz.problems.SoftmaxRegression(X, COUNTS, 0.1, classes=4)),
        "problem must be a regression with one prediction a row",
    ),
    "batch = 0": (lambda: Minibatch(REGRESSIONS["logistic"], 0), "batch must be"),
    "a wrong size": (lambda: Minibatch(REGRESSIONS["logistic"]).variance([1.0]), "has 1 entries"),
    "outcomes not known": (
        lambda: cz.theory.drift(cz.Continuized(1.0, 0.2), QUADRATIC, 1.0, np.zeros(3), np.ones(3),
                                noise=Oracle(add_gaussian, 1.0)),
        "the drift needs all outcomes",
    ),
    "another problem": (
        lambda: cz.theory.drift(cz.Continuized(1.0, 0.2), QUADRATIC, 1.0, np.zeros(3), np.ones(3),
                                noise=Minibatch(REGRESSIONS["logistic"])),
        "is not the gradient of this problem",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", REFUSED)
def test_bad_input_is_refused_in_a_sentence(mistake):
    call, words = REFUSED[mistake]
    with pytest.raises((TypeError, ValueError), match=words):
        call()


# Floors with gamma = 1/sqrt(L L') over those with 1/L', for L'/L = 2, 10, 100.
RATIOS = {10: (1.10, 1.14, 1.11), 100: (0.97, 0.88, 0.80), 1000: (0.92, 0.80, 0.70)}


@pytest.mark.parametrize("kappa", RATIOS)
def test_the_longer_step_has_the_lower_floor_where_it_is_chosen(kappa):
    p = cz.problems.Quadratic(np.geomspace(1.0 / kappa, 1.0, 40))
    for larger, ratio in zip((2.0, 10.0, 100.0), RATIOS[kappa], strict=True):
        found = cz.theory.noise_step(p, larger, 0.01)
        assert math.isclose(found.floors[1] / found.floors[0], ratio, abs_tol=0.006)
        assert (found.gamma > 1.0 / larger) == (ratio < 1.0)
        assert found.method.name == ("custom" if ratio < 1.0 else "continuized")


def test_the_floor_is_the_late_mean_and_below_theorem_6():
    p = cz.problems.Quadratic([1.0, 0.3, 0.05], [1.0, 1.0, 1.0])
    found = cz.theory.noise_step(p, 4.0, 0.01)
    for method in (cz.Continuized(4.0, 0.05), found.method):
        late = cz.theory.moments(p, method, np.zeros(3), [600.0], sigma2=0.01).fun[0]
        floor = cz.theory.noise_floor(method, p, 0.01)
        assert math.isclose(floor, late, rel_tol=1e-8)
        assert floor < 0.01 / math.sqrt(0.05 * 4.0)
    with pytest.raises(ValueError, match=r"no less than p\.L"):
        cz.theory.noise_step(p, 0.5, 0.01)
    with pytest.raises(ValueError, match=r"mu > 0|eigenvalues > 0"):
        cz.theory.noise_step(cz.problems.Quadratic([1.0, 0.0]), 2.0, 0.01)
    with pytest.raises(TypeError, match="p must be a Quadratic"):
        cz.theory.noise_floor(method, REGRESSIONS["logistic"], 0.01)
