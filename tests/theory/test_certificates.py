"""Certificates: the exact proof, against theorems, random functions and exact expectations.

The search for certificates, which needs cvxpy, is tested in `test_certificate_search.py`.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

import continuized as cz
from continuized.app.verify.certificates import proofs
from continuized.theory import Certificate
from continuized.theory.certificates import (
    _to_latex,
    constant_parameters,
    find_pivots,
    to_fraction,
)
from continuized.theory.proofs import (
    PAIRS,
    complete_multipliers,
    find_leftovers,
    theorem_A,
    theorem_B,
)

PAPER = (0.1, 0.1, 1, 10)
THEOREM_3 = {"P": (0, 0, 0.005), "multipliers": {("*", "x"): 0.1, ("x", "x+"): 1}}


def certify_proof(proof, rate=None, parameters=None):
    rate = proof.rate if rate is None else rate
    l = proof.from_star
    multipliers = {("*", "x+"): l, ("*", "x"): rate - l, ("x", "x+"): 1 - l}
    return Certificate(parameters or proof.parameters, 1, proof.mu, rate, proof.P, multipliers)


@pytest.mark.parametrize("proof", [proof for proof, _ in proofs()])
def test_the_theorems_are_certificates(proof):
    found = certify_proof(proof)
    assert found.proved
    assert all(isinstance(pivot, Fraction) and pivot >= 0 for pivot in found.pivots)
    # Its largest eigenvalue, in floating point and in units that make the entries comparable.
    unit = np.array([float(proof.mu) ** -0.75] * 2 + [1.0, 1.0])
    form = unit[:, None] * np.array(found.form, dtype=float) * unit
    assert np.linalg.eigvalsh(form)[-1] < 1e-9 * np.abs(form).max()


@pytest.mark.parametrize("proof", [make(Fraction(1, n)) for make in (theorem_A, theorem_B)
                                   for n in (10, 1000)])  # fmt: skip
def test_a_rate_six_per_cent_higher_is_refused(proof):
    assert not certify_proof(proof, rate=Fraction(106, 100) * proof.rate).proved


def balanced(rate, free=(0, 0, 0, 0)):
    multipliers = complete_multipliers(Fraction(rate), [Fraction(value) for value in free])
    return {"rate": rate, "multipliers": dict(zip(PAIRS, multipliers, strict=True))}


# Each breaks one of the four conditions, and only that one.
PLANTED = {
    "multipliers": {"P": (0.00004, 0.003, 0.0047)}
    | balanced(Fraction(1, 20), ("-1e-5", "0.0639", "0.0531", 0)),
    "balance": {"multipliers": {("*", "x"): 0.1, ("x", "x+"): 1, ("x", "*"): 0.1}},
    "balance at x+": {"multipliers": {("*", "x"): 0.1, ("x", "x+"): 1, ("x+", "*"): 0.1}},
    "constant": {"P": (-1, 0, -1)} | balanced(3),  # V < 0: a form that certifies anything
    "form": {"parameters": (0.1, 0.1, 1, 20)},  # gamma' twice as large
}


@pytest.mark.parametrize("condition", PLANTED)
def test_every_condition_counts(condition):
    right = {"parameters": PAPER, "L": 1, "mu": 0.01, "rate": 0.1, **THEOREM_3}
    assert Certificate(**right).proved
    planted = Certificate(**right | PLANTED[condition])
    in_x, in_x_plus = find_leftovers(planted.rate, list(planted.multipliers.values()))
    broken = {
        "multipliers": min(planted.multipliers.values()) < 0,
        "balance": in_x != 0,
        "balance at x+": in_x_plus != 0,
        "constant": planted.constant is None,
        "form": planted.pivots is None,
    }
    assert [name for name, is_broken in broken.items() if is_broken] == [condition]
    assert not planted.proved


@pytest.mark.parametrize("P", [(0.0, 0.0, -0.005), (-0.005, 0.0, 0.005), (0.0, 0.001, 0.0)])
def test_V_that_is_above_no_share_of_f_has_no_constant(P):
    assert Certificate(PAPER, 1, 0.01, 0.1, P, THEOREM_3["multipliers"]).constant is None


def test_the_constant_is_the_largest():
    P_xx, P_xz, P_zz = P = (0.00004, 0.003, 0.0047)
    c = float(Certificate(PAPER, 1, 0.01, 0.1, P, THEOREM_3["multipliers"]).constant)
    least = np.linalg.eigvalsh([[P_xx + (1.0 - c) * 0.005, P_xz], [P_xz, P_zz]])[0]
    assert 0.0 < c < 1.0
    assert abs(least) < 1e-15


def test_the_bound_is_V_at_the_start_over_the_constant():
    found = certify_proof(theorem_A(Fraction(1, 10)))
    p, x0, (P_xx, P_xz, P_zz) = cz.problems.Quadratic([0.01, 1.0], [3.0, 4.0]), [0.0, 0.0], found.P
    assert P_xz != 0
    V_0 = 0.5 * (0.01 * 9.0 + 16.0) + 25.0 * float(P_xx + 2 * P_xz + P_zz)
    expected = V_0 / float(found.constant) * np.exp(-float(found.rate) * 7.0)
    assert math.isclose(found.bound(p, x0, 7.0), expected, rel_tol=1e-12)


def test_the_pivots_are_those_of_an_independent_factorisation():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A = rng.integers(-3, 4, (4, 4))
        M = A @ A.T
        found = find_pivots([[Fraction(int(v)) for v in row] for row in M])
        assert found is not None
        assert math.isclose(float(math.prod(found)), np.linalg.det(M), rel_tol=1e-9, abs_tol=1e-6)
        M[1, 1] -= 1 + int(np.linalg.eigvalsh(M)[-1])
        assert find_pivots([[Fraction(int(v)) for v in row] for row in M]) is None
    assert find_pivots([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(2)]]) is None


def huber(x):
    """A 1-smooth, 0.01-strongly convex function that is no quadratic: f, f' at x."""
    small = np.abs(x) <= 1.0
    f = 0.005 * x**2 + 0.99 * np.where(small, 0.5 * x**2, np.abs(x) - 0.5)
    return f, 0.01 * x + 0.99 * np.clip(x, -1.0, 1.0)


@pytest.mark.parametrize("make", [theorem_A, theorem_B])
def test_V_falls_at_its_rate_on_a_function(make):
    """The generator of V, written out here, at random states of a Huber function."""
    proof = make(Fraction(1, 10) if make is theorem_A else to_fraction(0.1414213562373095))
    eta, eta_prime, gamma, gamma_prime = map(float, proof.parameters)
    P = np.array([float(v) for v in proof.P])
    rng = np.random.default_rng(1)
    x, z = rng.standard_normal((2, 4000)) * 10.0 ** rng.uniform(-2, 2, (2, 4000))

    def V(x, z):
        return huber(x)[0] + P[0] * x**2 + 2.0 * P[1] * x * z + P[2] * z**2

    g = huber(x)[1]
    slope = eta * (z - x) * (g + 2.0 * P[0] * x + 2.0 * P[1] * z)
    slope += eta_prime * (x - z) * (2.0 * P[1] * x + 2.0 * P[2] * z)
    drift = slope + V(x - gamma * g, z - gamma_prime * g) - V(x, z)
    assert np.all(drift + float(proof.rate) * V(x, z) <= 1e-12 * (x**2 + z**2))
    assert np.any(drift + 2.0 * float(proof.rate) * V(x, z) > 1e-6 * (x**2 + z**2))


def test_the_bound_of_theorem_3_is_the_papers_and_other_units_change_nothing():
    p = cz.problems.Quadratic([0.3, 30.0], [1.0, 2.0])
    c = Certificate((0.1, 0.1, Fraction(1, 30), Fraction(1, 3)), 30, 0.3, 0.1,
                    (0, 0, 0.15), THEOREM_3["multipliers"])  # fmt: skip
    assert c.proved
    method, t = cz.Continuized(30.0, 0.3), [0.0, 3.0, 30.0]
    np.testing.assert_allclose(
        c.bound(p, [0.0, 0.0], t), cz.theory.bound(method, p, [0.0, 0.0], t=t), rtol=1e-12
    )


def test_the_lemma_tells_every_number():
    text = certify_proof(theorem_A(Fraction(1, 10))).latex()
    assert r"\mu = 0.01" in text
    assert r"\rho = \tfrac{2}{15}" in text
    assert r"\lambda_{\star,x^+} = 0.0095" in text
    assert text.count("{") == text.count("}")
    assert _to_latex(Fraction(-1, 8)) == "-0.125"
    assert _to_latex(Fraction(3, 10**9)) == r"3 \cdot 10^{-9}"
    assert _to_latex(Fraction(1, 3)) == r"\tfrac{1}{3}"


def test_floats_are_the_decimals_that_they_print():
    assert to_fraction(0.1) == Fraction(1, 10)
    assert to_fraction(np.float64(1e-7)) == Fraction(1, 10**7)
    assert constant_parameters(cz.Continuized(1.0, 0.01)) == (
        Fraction(1, 10), Fraction(1, 10), 1, 10,
    )  # fmt: skip


RIGHT = {"parameters": PAPER, "L": 1.0, "mu": 0.01, "rate": 0.1, **THEOREM_3}
BAD = {
    "mu = 0": ({"mu": 0.0}, "mu must be positive"),
    "mu = L": ({"mu": 1.0}, "mu must be below L"),
    "a negative eta": (
        {"parameters": (-0.1, 0.1, 1, 10)},
        "eta must be a finite number > 0, got -0.1",
    ),
    "three numbers": ({"parameters": (0.1, 0.1, 1)}, "must be four numbers"),
    "a finite start": ({"parameters": cz.Continuized(1.0, 0.01, 3.0)}, "change with time"),
    "a convex method": ({"parameters": cz.Continuized(1.0)}, "change with time"),
    "a quasar-convex method": (
        {"parameters": cz.Continuized(1.0, 0.01, tau=0.5)},
        "for convex functions, and tau = 0.5 < 1 for others",
    ),
    "a discrete method": ({"parameters": cz.Nesterov(1.0, 0.01)}, "give the four numbers"),
    "text": ({"parameters": "paper"}, "must be a method"),
    "a rate of 0": ({"rate": 0.0}, "rate must be a finite number > 0, got 0.0"),
    "two numbers in P": ({"P": (0, 1)}, "P must be three numbers"),
    "an unknown pair": ({"multipliers": {("x", "y"): 1}}, "keys of multipliers"),
    "multipliers in a list": ({"multipliers": [1]}, "a mapping from pairs to numbers"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_bad_input_is_refused_in_a_sentence(mistake):
    change, words = BAD[mistake]
    with pytest.raises((TypeError, ValueError), match=words):
        Certificate(**RIGHT | change)


def test_what_proves_nothing_bounds_nothing():
    c = Certificate(**RIGHT | {"rate": 0.2})
    p = cz.problems.Quadratic([0.01, 1.0])
    assert not c.proved
    with pytest.raises(ValueError, match="proves nothing"):
        c.bound(p, [1.0, 1.0], 1.0)
    with pytest.raises(ValueError, match="proves nothing"):
        c.latex()
    with pytest.raises(ValueError, match="mu of the method to be at most"):
        Certificate(**RIGHT).bound(cz.problems.Quadratic([0.001, 1.0]), [1.0, 1.0], 1.0)
