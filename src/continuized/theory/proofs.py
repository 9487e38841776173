"""Proofs of exponential rates, as numbers: the form that is left to look at, and three theorems.

For constant eta, eta', gamma, gamma', take

    V = f(x) - f* + P_xx |x - x*|^2 + 2 P_xz <x - x*, z - x*> + P_zz |z - x*|^2.

If the generator of the process satisfies (generator of V) + rate V <= 0 for every L-smooth,
mu-strongly convex f, then e^{rate t} V_t is a supermartingale.  Of such an f only the inequalities

    iota_ij = f_i - f_j - <g_j, x_i - x_j> - (|g_i - g_j|^2 / L + mu |x_i - x_j|^2
              - 2 (mu/L) <g_i - g_j, x_i - x_j>) / (2 (1 - mu/L)) >= 0

between the points x*, x and x+ = x - gamma grad f(x) are used: with multipliers >= 0,

    (generator of V) + rate V + sum of multiplier_ij iota_ij

must have no term in f(x) and f(x+) (`find_leftovers`), and be a negative semidefinite form in
x - x*, z - x*, grad f(x) and grad f(x+) (`dissipation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Pair = tuple[str, str]
Form = list[list[Any]]  # a symmetric matrix, of Fractions or of floats
PAIRS: tuple[Pair, ...] = (
    ("*", "x"), ("*", "x+"), ("x", "x+"), ("x", "*"), ("x+", "*"), ("x+", "x"),
)  # fmt: skip


class ConstantParameters(NamedTuple):
    """eta, eta_prime, gamma and gamma_prime of a process whose parameters are constant in time.

    >>> ConstantParameters(eta=0.1, eta_prime=0.1, gamma=1.0, gamma_prime=10.0).gamma_prime
    10.0
    """

    eta: Any
    eta_prime: Any
    gamma: Any
    gamma_prime: Any


class Proof(NamedTuple):
    """The numbers of a proof in units where L = 1: floats, Fractions or the like.

    from_star: the multiplier of the inequality between x* and x+; those between x* and x and
    between x and x+ follow, and the others are 0.

    >>> from fractions import Fraction
    >>> proof = theorem_A(Fraction(1, 10))
    >>> proof.rate, proof.multipliers[:3]
    (Fraction(2, 15), (Fraction(743, 6000), Fraction(19, 2000), Fraction(1981, 2000)))
    """

    parameters: ConstantParameters
    mu: Any
    rate: Any
    P: tuple[Any, Any, Any]
    from_star: Any

    @property
    def nu(self) -> Any:
        """V is f - f* + (nu mu/2) |x - x*|^2 where z = x."""
        P_xx, P_xz, P_zz = self.P
        return 2 * (P_xx + 2 * P_xz + P_zz) / self.mu

    @property
    def multipliers(self) -> tuple[Any, ...]:
        """The six multipliers, in the order of PAIRS."""
        none = 0 * self.from_star  # a Fraction among Fractions
        return complete_multipliers(self.rate, (self.from_star, none, none, none))

    @property
    def form(self) -> Form:
        """The form that must not be positive."""
        return dissipation(self.parameters, 1, self.mu, self.rate, self.P, self.multipliers)


def theorem_3(q: Any) -> Proof:
    """The paper's parameters and rate, q = sqrt(mu/L)."""
    mu, one = q * q, q / q
    return Proof(ConstantParameters(q, q, one, 1 / q), mu, q, (0 * one, 0 * one, mu / 2), 0 * one)


def decay_numbers_A(q: Any) -> tuple[Any, Any]:
    """Return the rate and nu of Theorem A, q = sqrt(mu/L)."""
    return 4 * q / 3, 8 / (9 + 3 * q)


def theorem_A(q: Any) -> Proof:
    """The paper's parameters, rate 4q/3: V has nu mu (|w - x*|^2 - |x - x*|^2 / 2) beside f - f*,
    with w = x/4 + 3z/4."""
    mu, one = q * q, q / q
    rate, nu = decay_numbers_A(q)
    weight = nu * mu / 16
    P = -7 * weight, 3 * weight, 9 * weight
    return Proof(ConstantParameters(q, q, one, 1 / q), mu, rate, P, 19 * mu / 20)


def theorem_B(p: Any) -> Proof:
    """The parameters of `SharpContinuized`, rate p = sqrt(2 mu/L): V as in A, with w = z."""
    mu, one, nu = p * p / 2, p / p, 3 / (3 + 2 * p)
    parameters = ConstantParameters(p, p / 2, one, 1 / p + 2 * one / 3)
    P = -nu * mu / 2, 0 * one, nu * mu
    return Proof(parameters, mu, p, P, mu * (4 + p) / 4)


def dissipation(
    process: ConstantParameters, L: Any, mu: Any, rate: Any, P: Sequence[Any],
    multipliers: Sequence[Any],
) -> Form:  # fmt: skip
    """The form that must be negative semidefinite, in x - x*, z - x*, grad f(x) and grad f(x+).

    P is (P_xx, P_xz, P_zz), the multipliers are in the order of PAIRS.  All Fractions, or floats;
    affine in P and the multipliers together.
    """
    eta, eta_prime, gamma, gamma_prime = process
    P_xx, P_xz, P_zz = P
    x, z, g, g_plus = ([int(i == j) for j in range(4)] for i in range(4))
    x_plus, z_plus = _combine(x, g, -gamma), _combine(z, g, -gamma_prime)
    form: Form = [[0] * 4 for _ in range(4)]

    def add(weight: Any, u: Sequence[Any], v: Sequence[Any]) -> None:
        """Add weight times <u, v>."""
        for i in range(4):
            for j in range(4):
                form[i][j] += weight * (u[i] * v[j] + u[j] * v[i]) / 2

    def add_quadratic(weight: Any, x: Sequence[Any], z: Sequence[Any]) -> None:
        add(weight * P_xx, x, x)
        add(2 * weight * P_xz, x, z)
        add(weight * P_zz, z, z)

    # The flow: dx = eta (z - x) dt and dz = -eta' (z - x) dt.
    towards = _combine(z, x, -1)
    add(eta, g, towards)
    add(2 * (eta * P_xx - eta_prime * P_xz), x, towards)
    add(2 * (eta * P_xz - eta_prime * P_zz), z, towards)
    # The jump, and rate V; the terms in f(x) and f(x+) are left to `find_leftovers`.
    add_quadratic(1, x_plus, z_plus)
    add_quadratic(rate - 1, x, z)
    zero = [0] * 4
    points = {"*": (zero, zero), "x": (x, g), "x+": (x_plus, g_plus)}
    for (i, j), multiplier in zip(PAIRS, multipliers, strict=True):
        (x_i, g_i), (x_j, g_j) = points[i], points[j]
        dx, dg = _combine(x_i, x_j, -1), _combine(g_i, g_j, -1)
        scale = multiplier / (2 * (1 - mu / L))
        add(-multiplier, g_j, dx)
        add(-scale / L, dg, dg)
        add(-scale * mu, dx, dx)
        add(2 * scale * mu / L, dg, dx)
    return form


def _combine(u: Sequence[Any], v: Sequence[Any], weight: Any) -> list[Any]:
    """Return u + weight v."""
    return [a + weight * b for a, b in zip(u, v, strict=True)]


def find_leftovers(rate: Any, multipliers: Sequence[Any]) -> tuple[Any, Any]:
    """Return the coefficients of f(x) - f* and f(x+) - f* that are left; both must be 0."""
    star_x, star_plus, x_plus, x_star, plus_star, plus_x = multipliers
    in_x = rate - 1 - star_x + x_plus + x_star - plus_x
    in_x_plus = 1 - star_plus - x_plus + plus_star + plus_x
    return in_x, in_x_plus


def complete_multipliers(rate: Any, free: Sequence[Any]) -> tuple[Any, ...]:
    """Return all six multipliers, from those of (*, x+), (x, *), (x+, *), (x+, x): the other two
    are such that `find_leftovers` finds none."""
    star_plus, x_star, plus_star, plus_x = free
    x_plus = 1 - star_plus + plus_star + plus_x
    star_x = rate - 1 + x_plus + x_star - plus_x
    return star_x, star_plus, x_plus, x_star, plus_star, plus_x
