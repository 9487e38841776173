"""Certificates: proofs in exact arithmetic that the process converges on every f of a class.

`proofs` says what such a proof is made of: V, a rate, and multipliers of inequalities, whose sum is
a form that must not be positive.  Besides, V >= c (f - f*) for some c > 0, which
f - f* >= mu/2 |x - x*|^2 makes a matter of two by two numbers.  All of it is checked in fractions:
no rounding enters.

A float stands for the decimal that it prints: 0.1 is 1/10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.process import parameters as scalars
from continuized.process.methods import Continuized, CustomContinuized, SharpContinuized
from continuized.support import validation as check
from continuized.support.display import show_html, show_lines
from continuized.theory.checks import (
    check_any_method,
    check_constants_hold,
    excess,
    name_of,
    squared_distance,
    start_of,
)
from continuized.theory.moments.pair import rates_of
from continuized.theory.proofs import (
    PAIRS,
    ConstantParameters,
    Form,
    Pair,
    dissipation,
    find_leftovers,
)

LONGEST_DECIMAL = 40  # characters, in a lemma


def constant_parameters(method: Any) -> ConstantParameters:
    """Return the four constants of a method, or of a sequence of four numbers, as Fractions.

    ValueError for a method whose parameters change with time, and for numbers that are not
    positive; TypeError for what is neither.

    >>> constant_parameters(Continuized(1.0, 0.01)).gamma_prime
    Fraction(10, 1)
    """
    if isinstance(method, Continuized) and (method.mu == 0.0 or method.start != math.inf):
        raise ValueError(
            f"the parameters of Continuized with mu = {method.mu:.6g} and start = "
            f"{method.start:.6g} change with time, and no certificate for constant ones fits; "
            "use mu > 0 and start = inf"
        )
    if isinstance(method, Continuized) and method.tau < 1.0:
        raise ValueError(
            f"a certificate is for convex functions, and tau = {method.tau:.6g} < 1 for others: "
            "use tau=1, or give the four numbers (eta, eta', gamma, gamma')"
        )
    if isinstance(method, Continuized | SharpContinuized) or (
        isinstance(method, CustomContinuized) and method.is_constant
    ):
        method = tuple(float(rate(0.0)) for rate in rates_of(method))
    if not isinstance(method, Sequence | np.ndarray) or isinstance(method, str | bytes):
        check_any_method(method)
        raise ValueError(
            f"certify knows no constant parameters of the method {name_of(method)}; give the four "
            "numbers (eta, eta', gamma, gamma') in its place"
        )
    if len(method) != 4:
        raise ValueError(
            f"the parameters must be four numbers, eta, eta', gamma and gamma', got {len(method)}"
        )
    names = ("eta", "eta_prime", "gamma", "gamma_prime")
    return ConstantParameters(*map(check_positive, method, names))


def check_positive(value: Any, name: str) -> Fraction:
    """Return a positive number as a Fraction, a float as the decimal that it prints."""
    check.real(value, name, above=0.0)
    return to_fraction(value)


def to_fraction(value: Any) -> Fraction:
    """Return a number as a Fraction: itself, or of a float the decimal that it prints.

    >>> to_fraction(0.1), to_fraction(Fraction(1, 3))
    (Fraction(1, 10), Fraction(1, 3))
    """
    if isinstance(value, Fraction | int):
        return Fraction(value)
    return Fraction(repr(check.as_float(value)))


def check_class(L: Any, mu: Any) -> tuple[Fraction, Fraction]:
    """Return L and mu as Fractions; ValueError unless 0 < mu < L."""
    if check.real(mu, "mu", minimum=0.0) == 0.0:
        raise ValueError(
            "mu must be positive: where mu = 0 the bound falls as 1/t^2, and a certificate with "
            "a rate does not exist; use theory.bound"
        )
    L, mu = check_positive(L, "L"), to_fraction(mu)
    if mu >= L:
        raise ValueError(f"mu must be below L, got mu = {float(mu)} and L = {float(L)}")
    return L, mu


def find_pivots(form: Form) -> list[Fraction] | None:
    """Find the pivots of L D L^T, in Fractions; None unless the form is positive semidefinite.

    >>> find_pivots([[Fraction(2), Fraction(2)], [Fraction(2), Fraction(2)]])
    [Fraction(2, 1), Fraction(0, 1)]
    >>> find_pivots([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(2)]]) is None
    True
    """
    rest, found = [list(row) for row in form], []
    while rest:
        pivot, row = rest[0][0], rest[0][1:]
        if pivot < 0 or (pivot == 0 and any(row)):
            return None
        found.append(pivot)
        rest = [
            [
                entry - (a * b / pivot if pivot else 0)
                for entry, b in zip(line[1:], row, strict=True)
            ]
            for line, a in zip(rest[1:], row, strict=True)
        ]
    return found


@dataclass(frozen=True, repr=False)
class Certificate:
    """That V falls at a rate on every L-smooth, mu-strongly convex f: the numbers of a proof.

    `proved` is computed from them, in fractions; a certificate of your own is checked as one of
    `certify` is.  Then E f(x_t) - f* <= V_0 e^{-rate t} / `constant`, see `bound`.

    Parameters
    ----------
    parameters : four numbers or a method
        eta, eta', gamma and gamma', constant in time.
    L, mu : float or Fraction
        The class of functions, 0 < mu < L.
    rate : float or Fraction
    P : three numbers
        P_xx, P_xz and P_zz.
    multipliers : mapping
        From pairs of "*", "x" and "x+", such as ("*", "x"), to numbers; those left out are 0.

    Numbers are kept as Fractions, a float as the decimal that it prints.  TypeError and ValueError
    for what is none of these.

    >>> theorem_3 = Certificate(  # of the paper, at L = 1 and mu = 1/100
    ...     (0.1, 0.1, 1, 10), 1, 0.01, rate=0.1, P=(0, 0, 0.005),
    ...     multipliers={("*", "x"): 0.1, ("x", "x+"): 1},
    ... )
    >>> theorem_3.proved, theorem_3.constant
    (True, Fraction(1, 1))
    """

    parameters: ConstantParameters
    L: Fraction
    mu: Fraction
    rate: Fraction
    P: tuple[Fraction, Fraction, Fraction]
    multipliers: dict[Pair, Fraction]

    def __post_init__(self) -> None:
        process = constant_parameters(self.parameters)
        L, mu = check_class(self.L, self.mu)
        P = check.sequence(self.P, "P", "three numbers, P_xx, P_xz and P_zz")
        if len(P) != 3:
            raise ValueError(f"P must be three numbers, P_xx, P_xz and P_zz, got {len(P)}")
        for value in P:
            check.real(value, "P")
        check.instance(self.multipliers, "multipliers", Mapping, "a mapping from pairs to numbers")
        for pair, value in self.multipliers.items():
            if pair not in PAIRS:
                what = 'pairs of two among "*", "x" and "x+"'
                raise check.refusal(ValueError, "the keys of multipliers", what, pair)
            check.real(value, "a multiplier")
        fields = {
            "parameters": process, "L": L, "mu": mu, "rate": check_positive(self.rate, "rate"),
            "P": tuple(to_fraction(value) for value in P),
            "multipliers": {p: to_fraction(self.multipliers.get(p, 0)) for p in PAIRS},
        }  # fmt: skip
        for name, field in fields.items():
            object.__setattr__(self, name, field)

    @cached_property
    def form(self) -> Form:
        """The form in x - x*, z - x*, grad f(x) and grad f(x+) that must not be positive."""
        multipliers = list(self.multipliers.values())
        return dissipation(self.parameters, self.L, self.mu, self.rate, self.P, multipliers)

    @cached_property
    def pivots(self) -> list[Fraction] | None:
        """The four pivots of minus the form, all >= 0; None where it is not semidefinite."""
        return find_pivots([[-entry for entry in row] for row in self.form])

    @cached_property
    def constant(self) -> Fraction | None:
        """The largest c <= 1 with V >= c (f - f*); None where there is none above 0."""
        P_xx, P_xz, P_zz = self.P
        if P_zz < 0 or (P_zz == 0 and P_xz != 0):
            return None
        least = P_xx - (P_xz**2 / P_zz if P_zz else 0)  # of the form P over z
        c = min(1 + 2 * least / self.mu, Fraction(1))
        return c if c > 0 else None

    @cached_property
    def proved(self) -> bool:
        """Whether the numbers are a proof, by exact arithmetic."""
        return (
            all(value >= 0 for value in self.multipliers.values())
            and not any(find_leftovers(self.rate, list(self.multipliers.values())))
            and self.constant is not None
            and self.pivots is not None
        )

    def bound(self, problem: Problem, x0: ArrayLike, t: ArrayLike) -> Array:
        """Compute V_0 e^{-rate t} / c, a bound on E f(x_t) - f* from z_0 = x_0.

        problem: of the class, with x* and f* known.  ValueError where it is not of the class, or
        where nothing is proved.

        >>> import continuized as cz
        >>> p = cz.problems.Quadratic([0.01, 1.0], [1.0, 1.0])
        >>> c = Certificate((0.1, 0.1, 1, 10), 1, 0.01, 0.1, (0, 0, 0.005),
        ...                 {("*", "x"): 0.1, ("x", "x+"): 1})
        >>> method = cz.Continuized(1.0, 0.01)
        >>> bool(np.isclose(c.bound(p, [0, 0], 9.0), cz.theory.bound(method, p, [0, 0], t=9.0)))
        True
        """
        if not self.proved or self.constant is None:
            raise ValueError("it proves nothing, and bounds nothing: ask certify for a proof")
        check_constants_hold(Continuized(float(self.L), float(self.mu)), problem)
        x = start_of(problem, x0)
        P_xx, P_xz, P_zz = map(float, self.P)
        V0 = excess(problem, x) + (P_xx + 2.0 * P_xz + P_zz) * squared_distance(problem, x)
        return V0 / float(self.constant) * np.exp(-float(self.rate) * check.times(t, "t"))[()]

    def latex(self) -> str:
        """Return the certificate as a lemma with its proof, in LaTeX; ValueError unless proved."""
        if not self.proved or self.constant is None or self.pivots is None:
            raise ValueError("it proves nothing, and makes no lemma: ask certify for a proof")
        eta, eta_prime, gamma, gamma_prime = map(_to_latex, self.parameters)
        P_xx, P_xz, P_zz = map(_to_latex, self.P)
        names = {"*": r"\star", "x": "x", "x+": "x^+"}
        used = {pair: value for pair, value in self.multipliers.items() if value}
        weights = ",\\quad ".join(
            rf"\lambda_{{{names[i]},{names[j]}}} = {_to_latex(value)}"
            for (i, j), value in used.items()
        )
        found = ",\\ ".join(_round_to_latex(pivot) for pivot in self.pivots)
        return LEMMA.format(
            L=_to_latex(self.L), mu=_to_latex(self.mu), eta=eta, eta_prime=eta_prime, gamma=gamma,
            gamma_prime=gamma_prime, P_xx=P_xx, P_xz=P_xz, P_zz=P_zz, rate=_to_latex(self.rate),
            constant=_round_to_latex(self.constant, down=True), weights=weights, pivots=found,
        )  # fmt: skip

    def _facts(self) -> dict[str, Any]:
        return {
            "parameters": list(map(float, self.parameters)),
            "L": float(self.L),
            "mu": float(self.mu),
            "rate": f"{float(self.rate):.6g} = {float(self.rate) / self._q:.4f} sqrt(mu/L)",
            "P": list(map(float, self.P)),
            "multipliers": {f"({i}, {j})": float(v) for (i, j), v in self.multipliers.items() if v},
            "constant": math.nan if self.constant is None else float(self.constant),
            "proved": self.proved,
        }

    @property
    def _q(self) -> float:
        return 2.0 * scalars.omega(float(self.L), float(self.mu))

    __repr__ = show_lines
    _repr_html_ = show_html


LEMMA = r"""\begin{{lemma}}
Let $f$ be $L$-smooth and $\mu$-strongly convex with minimiser $x_\star$, $L = {L}$,
$\mu = {mu}$. At the times of a Poisson process of rate $1$ let
$x \leftarrow x - \gamma \nabla f(x)$ and $z \leftarrow z - \gamma' \nabla f(x)$, and between them
$\mathrm{{d}}x = \eta (z - x)\,\mathrm{{d}}t$, $\mathrm{{d}}z = \eta' (x - z)\,\mathrm{{d}}t$, with
\[ \eta = {eta},\quad \eta' = {eta_prime},\quad \gamma = {gamma},\quad \gamma' = {gamma_prime}. \]
Let $V = f(x) - f(x_\star) + P_{{xx}} \|x - x_\star\|^2
+ 2 P_{{xz}} \langle x - x_\star, z - x_\star\rangle + P_{{zz}} \|z - x_\star\|^2$ with
\[ P_{{xx}} = {P_xx},\quad P_{{xz}} = {P_xz},\quad P_{{zz}} = {P_zz}. \]
Then $e^{{\rho t}} V_t$ is a supermartingale for $\rho = {rate}$, and
$\mathbf{{E}} f(x_t) - f(x_\star) \le V_0 e^{{-\rho t}} / c$ with $c = {constant}$.
\end{{lemma}}
\begin{{proof}}
Write $x^+ = x - \gamma \nabla f(x)$, and for two of the points $\star$, $x$, $x^+$
\[ \iota_{{ij}} = f_i - f_j - \langle g_j, x_i - x_j\rangle
 - \frac{{\|g_i - g_j\|^2 / L + \mu \|x_i - x_j\|^2
 - 2 (\mu / L) \langle g_i - g_j, x_i - x_j\rangle}}{{2 (1 - \mu / L)}} \ge 0. \]
Let $\mathcal{{G}}$ be the generator of the process, and
\[ {weights}. \]
In $\mathcal{{G}} V + \rho V + \sum \lambda_{{ij}} \iota_{{ij}}$ the terms in $f(x)$ and $f(x^+)$
cancel, and what is left is a quadratic form in $x - x_\star$, $z - x_\star$, $\nabla f(x)$ and
$\nabla f(x^+)$. Minus this form is positive semidefinite: in exact rational arithmetic, the pivots
of its $LDL^\top$ factorisation are ${pivots}$ (rounded). Hence $\mathcal{{G}} V + \rho V \le 0$.
With $f(x) - f(x_\star) \ge \frac{{\mu}}{{2}} \|x - x_\star\|^2$, also
$V \ge c (f(x) - f(x_\star))$.
\end{{proof}}
"""


def _to_latex(value: Fraction) -> str:
    """Write a Fraction as a decimal where it is one that is not too long, else as a fraction."""
    rest, places = value.denominator, 0
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest, power = rest // prime, power + 1
        places = max(places, power)
    digits = str(abs(value.numerator) * 10**places // value.denominator)
    if rest != 1 or max(len(digits), places) > LONGEST_DECIMAL:
        return rf"\tfrac{{{value.numerator}}}{{{value.denominator}}}"
    sign = "-" if value < 0 else ""
    if places == 0:
        return sign + digits
    if len(digits) + 3 < places:  # small: a power of ten tells it better
        head = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return rf"{sign}{head} \cdot 10^{{{len(digits) - 1 - places}}}"
    digits = digits.rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def _round_to_latex(value: Fraction, down: bool = False) -> str:
    """Write a Fraction to four digits, or `down`, to four places and not above it."""
    if down:
        return _to_latex(max(Fraction(math.floor(value * 10**4), 10**4), Fraction(0)) or value)
    mantissa, _, exponent = f"{float(value):.3e}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if int(exponent) else mantissa
