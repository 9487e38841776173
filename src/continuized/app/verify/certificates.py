"""Checks of certificates: the proofs of Theorem 3 and of two sharper theorems, as their numbers.

No solver is asked: P and the multipliers are as the proofs give them, at values of mu/L for
which all of them are fractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from continuized import theory
from continuized.app.verify.claims import LARGEST_RATIO, Effort, Found, Subject, at_most
from continuized.problems import Quadratic
from continuized.process.methods import Continuized
from continuized.support.statistics import Measurement
from continuized.theory.proofs import PAIRS, Proof, find_leftovers, theorem_3, theorem_A, theorem_B

L = Fraction(1)
TOO_FAST = Fraction(106, 100)  # times the rate: no longer a proof, of the two sharper theorems


def proofs() -> Iterator[tuple[Proof, bool]]:
    """Yield each theorem at several mu/L, and whether it breaks at 1.06 times its rate."""
    for n in (3, 10, 100, 10**4):
        yield theorem_3(Fraction(1, n)), False
        yield theorem_A(Fraction(1, n)), True
        yield theorem_B(Fraction(1, n)), True


def certificate(subject: Subject, proof: Proof, rate: Fraction, parameters: Any) -> Any:
    """Make the certificate of a proof, its rate and parameters perhaps changed."""
    multipliers = dict(zip(PAIRS, proof._replace(rate=rate).multipliers, strict=True))
    return subject.certificate(parameters, L, proof.mu, rate, proof.P, multipliers)


def verdicts(subject: Subject, effort: Effort) -> Found:
    """Measure how many proofs are refused, and how many that are none are accepted."""
    wrong = 0
    for proof, breaks in proofs():
        right = proof.rate, proof.parameters
        eta, eta_prime, gamma, gamma_prime = proof.parameters
        planted = [
            (proof.rate, (eta, eta_prime, gamma, 2 * gamma_prime)),
            (proof.rate, (eta, eta_prime, 2 * gamma, gamma_prime)),
            (proof.rate, (eta, eta_prime / 2, gamma, gamma_prime)),
            (proof.rate, (eta / 2, eta_prime, gamma, gamma_prime)),
            *([(TOO_FAST * proof.rate, proof.parameters)] if breaks else []),
        ]
        wrong += not certificate(subject, proof, *right).proved
        wrong += sum(bool(certificate(subject, proof, *other).proved) for other in planted)
    yield Measurement(float(wrong), 0.0)


def forms(subject: Subject, effort: Effort) -> Found:
    """Compare the form at random points, against the generator and the inequalities as they are
    printed.

    In one dimension, with f(x) and f(x+) any numbers; the difference is exact.
    """
    rng = np.random.default_rng([effort.seed, 17])

    def draw(n: int, most: int = 9) -> list[Fraction]:
        return [Fraction(int(k), 7) for k in rng.integers(1, most, n)]

    pairs = [("*", "x"), ("*", "x+"), ("x", "x+"), ("x", "*"), ("x+", "*"), ("x+", "x")]
    for _ in range(20):
        eta, eta_prime, gamma, gamma_prime, rate, L, *P = draw(9)
        mu, weights = L / 3, dict(zip(pairs, draw(6), strict=True))
        found = subject.certificate((eta, eta_prime, gamma, gamma_prime), L, mu, rate, P, weights)
        x, z, g, g_plus, f, f_plus = draw(6)
        z, g_plus = -z, -g_plus

        def V(f: Fraction, x: Fraction, z: Fraction, P: list[Fraction] = P) -> Fraction:
            return f + P[0] * x**2 + 2 * P[1] * x * z + P[2] * z**2

        after = x - gamma * g, z - gamma_prime * g
        slope_x, slope_z = g + 2 * P[0] * x + 2 * P[1] * z, 2 * P[1] * x + 2 * P[2] * z
        total = eta * (z - x) * slope_x + eta_prime * (x - z) * slope_z
        total += V(f_plus, *after) - V(f, x, z) + rate * V(f, x, z)
        zero = Fraction(0)
        points = {"*": (zero, zero, zero), "x": (x, g, f), "x+": (after[0], g_plus, f_plus)}
        for (i, j), weight in weights.items():
            (x_i, g_i, f_i), (x_j, g_j, f_j) = points[i], points[j]
            bracket = (g_i - g_j) ** 2 / L + mu * (x_i - x_j) ** 2
            bracket -= 2 * (mu / L) * (g_i - g_j) * (x_i - x_j)
            total += weight * (f_i - f_j - g_j * (x_i - x_j) - bracket / (2 * (1 - mu / L)))
        in_f, in_f_plus = find_leftovers(rate, list(found.multipliers.values()))
        u = (x, z, g, g_plus)
        form = sum(u[i] * found.form[i][j] * u[j] for i in range(4) for j in range(4))
        yield Measurement(abs(float(form + in_f * f + in_f_plus * f_plus - total)), 0.0)


def bounds(subject: Subject, effort: Effort) -> Found:
    """Measure the exact E f(x_t) over the certified bound, on quadratics with eigenvalues in [mu,
    L]."""
    times = np.geomspace(0.1, 300.0, 25)
    for make in (theorem_3, theorem_A):
        proof = make(Fraction(1, 10))
        found = certificate(subject, proof, proof.rate, proof.parameters)
        mu = float(proof.mu)
        p = Quadratic(np.geomspace(mu, 1.0, 7), np.linspace(-1.0, 2.0, 7))
        exact = theory.moments(p, Continuized(1.0, mu), np.zeros(7), times).fun
        yield at_most(LARGEST_RATIO, exact / found.bound(p, np.zeros(7), times))
