"""Theorems A and B, in exact rational arithmetic and against exact means; bounds of whole paths."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import continuized as cz
from continuized.theory import bound, moments, path_bound, sharp_bound, weight
from continuized.theory.bounds.sharp import LEAST_A, LEAST_B
from continuized.theory.proofs import theorem_A, theorem_B

P = cz.problems.Quadratic([0.04, 1.0, 2.0], [1.0, -2.0, 3.0])
X0 = np.array([0.5, 0.0, 1.0])
L, MU, Q = 2.0, 0.04, math.sqrt(0.02)
R2 = 0.25 + 4.0 + 4.0
F0 = 0.5 * (0.04 * 0.25 + 4.0 + 2.0 * 4.0)
PHI_0 = F0 + MU / 2 * R2
PAPER, SHARP = cz.Continuized(L, MU), cz.SharpContinuized(L, MU)

# The form of each proof as a polynomial of q (A) or p (B): times this, its entries are polynomials.
PROOFS = {
    "A": (theorem_A, lambda q: (9 + 3 * q) * (1 - q * q) * q * q, math.sqrt(1 / LEAST_A)),
    "B": (theorem_B, lambda p: (3 + 2 * p) * (2 - p * p) * p * p, math.sqrt(2 / LEAST_B)),
}
X, Z, G, G_PLUS = range(4)


def form(proof):
    return np.array(proof.form, dtype=object)


def det(m):
    """The determinant of a matrix of fractions, by its first row."""
    if len(m) == 0:
        return Fraction(1)
    minors = (np.delete(m[1:], j, axis=1) for j in range(len(m)))
    return sum((-1) ** j * m[0][j] * det(minor) for j, minor in enumerate(minors))


def interpolate(function, degree):
    """The coefficients of a polynomial, the constant first, from its values (Newton)."""
    points = [Fraction(i + 1, 100) for i in range(degree + 1)]
    table = [function(x) for x in points]
    for level in range(1, degree + 1):
        for i in range(degree, level - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (points[i] - points[i - level])
    polynomial = [Fraction(0)]
    for x, c in zip(reversed(points), reversed(table), strict=True):
        shifted = [Fraction(0), *polynomial]
        for i, a in enumerate(polynomial):
            shifted[i] -= x * a
        shifted[0] += c
        polynomial = shifted
    return strip(polynomial)


def strip(polynomial):
    while len(polynomial) > 1 and polynomial[-1] == 0:
        polynomial = polynomial[:-1]
    return polynomial


def value(polynomial, x):
    total = Fraction(0)
    for c in reversed(polynomial):
        total = total * x + c
    return total


def remainder(a, b):
    a = list(a)
    while len(a) >= len(b):
        factor, shift = a[-1] / b[-1], len(a) - len(b)
        for i, c in enumerate(b):
            a[i + shift] -= factor * c
        a.pop()
    return strip(a or [Fraction(0)])


def roots_between(polynomial, low, high):
    """How many different roots it has in (low, high], by Sturm's theorem."""
    chain = [polynomial, strip([i * c for i, c in enumerate(polynomial)][1:] or [Fraction(0)])]
    while chain[-1] != [0]:
        chain.append([-c for c in remainder(chain[-2], chain[-1])])

    def changes(x):
        signs = [v > 0 for v in (value(p, x) for p in chain) if v != 0]
        return sum(a != b for a, b in pairwise(signs))

    return changes(low) - changes(high)


@pytest.mark.parametrize("theorem", PROOFS)
def test_the_form_is_negative_for_every_ratio_in_exact_arithmetic(theorem):
    """z drops out, and minus the rest is positive definite: its three leading minors have no root
    between 0 and the largest q, and are positive at one point."""
    make, denominator, largest = PROOFS[theorem]
    last = Fraction(math.ceil(largest * 10**6), 10**6)
    for q in (Fraction(1, 7), Fraction(3, 10), last):
        assert not np.any(form(make(q))[Z])
    order = [G_PLUS, G, X]
    for size in (1, 2, 3):

        def minor(q, rows=order[:size]):
            return det(-denominator(q) * form(make(q))[np.ix_(rows, rows)])

        degree = 9 * size
        polynomial = interpolate(minor, degree)
        for q in (Fraction(5, 7), Fraction(-3, 11), Fraction(9, 2)):  # the degree is enough
            assert value(polynomial, q) == minor(q)
        while polynomial[0] == 0:  # powers of q, which is positive
            polynomial = polynomial[1:]
        assert value(polynomial, Fraction(1, 10)) > 0
        assert roots_between(polynomial, Fraction(0), last) == 0


@pytest.mark.parametrize("theorem", PROOFS)
def test_rho_raised_by_six_per_cent_fails(theorem):
    """The form is positive at a rational vector, in exact arithmetic."""
    make, _, largest = PROOFS[theorem]
    for q in (Fraction(1, 50), Fraction(1, 10), Fraction(math.floor(largest * 1000), 1000)):
        raised = form(make(q)._replace(rate=make(q).rate * Fraction(106, 100)))
        direction = np.linalg.eigh(raised.astype(float))[1][:, -1]
        v = np.array([Fraction(round(c * 10**6), 10**6) for c in direction])
        assert v @ raised @ v > 0


@pytest.mark.parametrize("theorem", PROOFS)
def test_below_its_ratio_the_form_is_positive_somewhere(theorem):
    """7.04 and 6.5 are not far from where each proof ends."""
    make, _, _ = PROOFS[theorem]
    q = {"A": Fraction(39, 100), "B": Fraction(63, 100)}[theorem]
    assert np.linalg.eigvalsh(form(make(q)).astype(float))[-1] > 1e-9


def test_the_bounds_are_the_formulas():
    t = np.array([0.0, 3.0, 50.0, 400.0])
    paper, own = PHI_0 * np.exp(-Q * t), 3 * PHI_0 * np.exp(-4 / 3 * Q * t)
    found = sharp_bound(PAPER, P, X0, t=t)
    np.testing.assert_allclose(found.bound, np.minimum(paper, own))
    assert found.theorem.tolist() == ["Theorem 3", "Theorem 3", "Theorem A", "Theorem A"]
    np.testing.assert_allclose(found.rate, Q * np.array([1.0, 1.0, 4 / 3, 4 / 3]))
    cross = 3 * math.log(3) / Q
    assert sharp_bound(PAPER, P, X0, t=0.999 * cross).theorem == "Theorem 3"
    assert sharp_bound(PAPER, P, X0, t=1.001 * cross).theorem == "Theorem A"
    sharp = 3 * PHI_0 * np.exp(-math.sqrt(2) * Q * t)
    np.testing.assert_allclose(sharp_bound(SHARP, P, X0, t=t).bound, sharp)
    np.testing.assert_allclose(bound(SHARP, P, X0, t=t), sharp)
    assert set(sharp_bound(SHARP, P, X0, t=t).theorem) == {"Theorem B"}


def test_at_events_the_weight_is_exponential():
    k = np.array([0, 7])
    nu = 8 / (9 + 3 * Q)
    found = sharp_bound(PAPER, P, X0, k=k)
    np.testing.assert_allclose(found.bound, (F0 + nu * MU / 2 * R2) / (1 - nu))
    assert found.bound[0] <= 9 * PHI_0
    np.testing.assert_allclose(found.rate, 4 / 3 * Q)
    p = math.sqrt(2) * Q
    nu = 1 / (1 + 2 * p / 3)
    expected = (F0 + nu * MU / 2 * R2) * (1 + 3 / (2 * p))
    np.testing.assert_allclose(sharp_bound(SHARP, P, X0, k=k).bound, expected)
    np.testing.assert_allclose(bound(SHARP, P, X0, k=k), expected)
    np.testing.assert_allclose(weight(SHARP, [0.0, 5.0]), np.exp([0.0, 5.0 * p]))


def test_other_parameters_have_the_papers_bound():
    small = cz.problems.Quadratic([1.0, 7.0])
    for method, p in (
        (cz.Continuized(L), P),
        (cz.Continuized(L, MU, 0.7), P),
        (cz.Continuized(7.0, 1.0), small),
    ):
        x0 = np.ones(p.dim)
        found = sharp_bound(method, p, x0, t=[1.0, 90.0])
        np.testing.assert_array_equal(found.bound, bound(method, p, x0, t=[1.0, 90.0]))
        assert set(found.theorem) == {"Theorem 3"}
        assert str(sharp_bound(method, p, x0, k=3).theorem) == "Theorem 5"
    assert math.isnan(sharp_bound(cz.Continuized(L), P, X0, t=1.0).rate)
    assert sharp_bound(cz.Continuized(7.0, 1.0), small, [1.0, 1.0], t=1.0).rate == pytest.approx(
        7.0**-0.5
    )


@pytest.mark.parametrize("ratio", [LEAST_A, 100.0, 1e4])
def test_the_sharper_bounds_hold_for_the_exact_expectation(ratio):
    p = cz.problems.Quadratic(np.geomspace(1.0 / ratio, 1.0, 7), np.ones(7))
    t = np.geomspace(0.1, 10.0, 12) * math.sqrt(ratio)
    for method in (cz.Continuized(p.L, p.mu), cz.SharpContinuized(p.L, p.mu)):
        exact = moments(p, method, np.zeros(7), t).fun
        found = sharp_bound(method, p, np.zeros(7), t=t)
        assert np.all(exact <= found.bound)
        assert exact[-1] > 1e-8 * found.bound[-1]


def test_the_moments_of_the_sharp_method_at_events_are_those_of_a_quadrature():
    nodes, shares = np.polynomial.laguerre.laggauss(20)
    total = 0.0
    for d1, w1 in zip(nodes.tolist(), shares, strict=True):
        for d2, w2 in zip(nodes.tolist(), shares, strict=True):
            r = SHARP.init(X0)
            for event in (cz.clock.Event(1, d1, d1), cz.clock.Event(2, d1 + d2, d2)):
                r, _ = SHARP.step(r, event, lambda x, mark: P.grad(x))
            total += w1 * w2 * P.fun(r.x)
    assert moments(P, SHARP, X0, k=2).fun[0] == pytest.approx(total, rel=1e-9)


def test_the_curve_of_a_path_is_the_formula():
    t, delta = np.array([0.0, 3.0, 80.0]), 0.05
    for method in (cz.Continuized(L), cz.Continuized(L, MU, 0.7)):
        curve = path_bound(method, P, X0, t[1:], delta)
        np.testing.assert_allclose(curve, bound(method, P, X0, t=t[1:]) / delta)
    nu = 8 / (9 + 3 * Q)
    by_phi = PHI_0 * np.exp(-Q * t) / delta
    by_V = (F0 + nu * MU / 2 * R2) / (1 - nu) * np.exp(-4 / 3 * Q * t) / delta
    curve = path_bound(PAPER, P, X0, t, delta)
    np.testing.assert_allclose(curve, 2.0 / (1.0 / by_phi + 1.0 / by_V))
    assert np.all(curve <= 2.0 * np.minimum(by_phi, by_V) * (1 + 1e-12))
    p = math.sqrt(2) * Q
    nu = 1 / (1 + 2 * p / 3)
    by_V = (F0 + nu * MU / 2 * R2) * (1 + 3 / (2 * p)) * np.exp(-p * t) / delta
    np.testing.assert_allclose(path_bound(SHARP, P, X0, t, delta), by_V)
    assert path_bound(PAPER, P, P.x_star, 1.0, delta) == 0.0


def test_few_runs_are_ever_above_their_curve():
    """2,000 runs; if each were above with probability 0.2, fewer than 500 would be but for 1e-9;
    without the factor 1/delta, more than half are."""
    p = cz.problems.Quadratic([1.0], [1.0], mu=0.0)
    method, times = cz.Continuized(1.0), np.linspace(0.0, 40.0, 201)[1:]
    e = cz.ensemble(p, method, np.zeros(1), runs=2000, times=times, rng=3)
    curve = path_bound(method, p, np.zeros(1), times, 0.2)
    assert 0 < np.any(e.fun > curve, axis=1).sum() < 500
    assert np.any(e.fun > 0.2 * curve, axis=1).mean() > 0.15


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sharp_bound(PAPER, P, X0), "exactly one of t= and k="),
        (lambda: bound(SHARP, P, X0, t=1.0, z0=X0), "z_0 apart from x_0 for sharp: drop z0="),
        (lambda: sharp_bound(cz.Nesterov(L), P, X0, t=1.0), "no theorem is known"),
        (lambda: sharp_bound(cz.SharpContinuized(L, 0.5), P, X0, t=1.0), "mu of the method"),
        (lambda: cz.SharpContinuized(1.0, 0.0), "needs mu > 0"),
        (lambda: path_bound(PAPER, P, X0, 1.0, 0.0), "delta must be a probability"),
        (lambda: path_bound(PAPER, P, X0, 1.0, 1.0), "delta must be a probability"),
        (lambda: bound(SHARP, P, X0, t=1.0, sigma2=0.1), "no theorem covers noise"),
        (
            lambda: bound(
                cz.SharpContinuized(6.0, 1.0), cz.problems.Quadratic([1.0, 6.0]), [1, 1], t=1.0
            ),
            "Theorem B needs L/mu >= 6.5, got 6",
        ),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()
