"""The search for a certificate: a small semidefinite programme, then a proof in fractions.

cvxpy with Clarabel proposes P and the multipliers; they are rounded to a few digits, and only what
`Certificate` proves of the rounded numbers counts.  cvxpy is imported when it is used.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.process.methods import Method
from continuized.theory.certificates import (
    Certificate,
    check_class,
    check_positive,
    constant_parameters,
    to_fraction,
)
from continuized.theory.proofs import PAIRS, ConstantParameters, complete_multipliers, dissipation

MOST_KAPPA = 10**30  # L/mu
UNKNOWNS = 7  # P_xx, P_xz, P_zz, and four multipliers; the other two follow
DIGITS = range(2, 15)  # of the rounded numbers, the fewest that are a proof
MARGIN = 1e-9  # of both matrices, scaled; a solver's zero is not much smaller
LEAST_CONSTANT = 1e-3  # the c of V >= c (f - f*); the bound is V_0 / c
SLOWEST = 1e-4  # times sqrt(mu/L): the least rate that is tried
FASTEST = 1.0  # V stays what it is until the first event, of rate 1, once x and z have met
PRECISION = 1e-4  # relative, of the best rate
RETREATS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)  # of the best rate, until a proof is found


class NoCertificateError(ValueError):
    """No certificate of this form: not a proof that the process diverges.

    >>> raise NoCertificateError("no certificate of this form")
    Traceback (most recent call last):
    ...
    continuized.theory.certificate_search.NoCertificateError: no certificate of this form
    """


def certify(
    method: Method | ConstantParameters | tuple[float, float, float, float],
    L: float | None = None,
    mu: float | None = None,
    rate: float | None = None,
) -> Certificate:
    """Prove that the process converges at a rate on every L-smooth, mu-strongly convex f.

    Searches V = f - f* + a quadratic form in (x - x*, z - x*) such that e^{rate t} V_t is a
    supermartingale for every such f, and proves it in exact rational arithmetic.

    Parameters
    ----------
    method : Method or four numbers
        Continuized with mu > 0 and start = inf, SharpContinuized, CustomContinuized made of
        numbers, or four numbers (eta, eta', gamma, gamma'), constant in time.
        A float stands for the decimal that it prints; a Fraction is taken as it is.
    L, mu : float or Fraction
        The class of functions, 0 < mu < L; those of the method where they are not given.
    rate : float or Fraction, optional
        By default the best rate is found by bisection, to about 1e-4 of it.

    Returns
    -------
    Certificate
        With `rate`, `P`, `multipliers` and `proved`; `bound` and `latex()` make use of it.  Where a
        rate is given, `proved` is False if the solver found what no rounding could prove.

    Raises
    ------
    NoCertificateError
        A ValueError: there is no certificate of this form.  That is no proof of divergence.
    ValueError, TypeError
        For a method whose parameters change with time, and for numbers that are not positive.
    ArithmeticError
        Where the solver gives no answer.
    ImportError
        Where cvxpy is not installed: it comes with the extra `certify`.

    >>> import continuized as cz
    >>> c = cz.theory.certify(cz.Continuized(L=1.0, mu=0.01))
    >>> c.proved, bool(c.rate > 1.35 * 0.1)  # Theorem 3 of the paper has sqrt(mu/L) = 0.1
    (True, True)
    """
    process = constant_parameters(method)
    if isinstance(method, Method) and not math.isnan(method.L):
        L, mu = (method.L if L is None else L), (method.mu if mu is None else mu)
    if L is None or mu is None:
        raise ValueError("four numbers do not tell L and mu: give L= and mu=")
    L_, mu_ = check_class(L, mu)
    wanted = None if rate is None else check_positive(rate, "rate")
    search = Search(process, L_, mu_)
    if wanted is None:
        return search.find_best()
    if not search.exists(float(wanted)):
        raise search.refuse(float(wanted))
    return search.prove(wanted)


class Search:
    """Certificates for one process and one class; the programme is compiled once."""

    def __init__(self, process: ConstantParameters, L: Fraction, mu: Fraction) -> None:
        self.process, self.L, self.mu = process, L, mu
        self.q = math.sqrt(mu / L)
        self._floats = ConstantParameters(*map(float, process)), float(L), float(mu)
        # Units in which the unknowns, and the entries of the form, are of order 1.
        self._units = np.array([*[float(mu)] * 3, self.q**2, self.q, self.q, self.q])
        if mu < L / MOST_KAPPA:
            raise ValueError(
                f"mu = {float(mu):.6g} is too small beside L = {float(L):.6g} for a search in "
                f"floating-point numbers: L/mu may be {MOST_KAPPA:g} at most"
            )
        of_points, of_gradients = 1.0 / math.sqrt(self.q * float(mu)), math.sqrt(float(L))
        self._sides = np.array([of_points, of_points, of_gradients, of_gradients])
        self._programme = Programme()

    def find_best(self) -> Certificate:
        """Bisect the rate, then step back until the rounded numbers are a proof."""
        low, high = SLOWEST * self.q, FASTEST
        if not self.exists(low):
            raise self.refuse()
        while high > low * (1.0 + PRECISION):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._finds(middle) else (low, middle)
        for retreat in RETREATS:
            rate = to_fraction(float(f"{low * (1.0 - retreat):.5g}"))
            if self._finds(float(rate)):
                found = self.prove(rate)
                if found.proved:
                    return found
        raise ArithmeticError(
            f"the solver finds certificates up to the rate {low:.6g}, but no rounding of them is a "
            "proof; give a smaller rate="
        )

    def exists(self, rate: float) -> bool:
        """Ask the solver whether there is a certificate, and let it keep the one with most room."""
        self._programme.set(*self._affine(rate))
        return self._programme.widen_margin() > MARGIN

    def _finds(self, rate: float) -> bool:
        """Tell whether it exists; no answer counts as no here, where other rates are tried."""
        try:
            return self.exists(rate)
        except ArithmeticError:
            return False

    def prove(self, rate: Fraction) -> Certificate:
        """Round what the solver keeps; to the fewest digits that are a proof, or to the most.

        The certificate with the larger c is tried before the one with most room.
        """
        for values in self._programme.proposals():
            for digits in DIGITS:
                found = self._round(rate, values * self._units, digits)
                if found.proved:
                    return found
        return found

    def _round(self, rate: Fraction, values: Array, digits: int) -> Certificate:
        places = [digits - math.floor(math.log10(unit)) for unit in self._units]
        rounded = [round(Fraction(v), k) for v, k in zip(values.tolist(), places, strict=True)]
        free = [max(value, Fraction(0)) for value in rounded[3:]]
        multipliers = dict(zip(PAIRS, complete_multipliers(rate, free), strict=True))
        P = (rounded[0], rounded[1], rounded[2])
        return Certificate(self.process, self.L, self.mu, rate, P, multipliers)

    def refuse(self, rate: float | None = None) -> NoCertificateError:
        """Make the error that says that there is none."""
        how = f"of {SLOWEST * self.q:.3g} or more" if rate is None else f"of {rate:.6g}"
        return NoCertificateError(
            f"no certificate of this form: no V = f - f* + a quadratic form falls at a rate {how} "
            f"for every f with L = {float(self.L):.6g} and mu = {float(self.mu):.6g}; this is no "
            "proof of divergence"
        )

    def _affine(self, rate: float) -> tuple[list[Array], Array]:
        """Return the form, and the two multipliers that follow, as affine functions.

        Each as a constant and a slope for each unknown, in our units.
        """
        process, L, mu = self._floats

        def evaluate(unknowns: Array) -> tuple[Array, Array]:
            P, free = unknowns[:3].tolist(), unknowns[3:].tolist()
            multipliers = complete_multipliers(rate, free)
            form = np.array(dissipation(process, L, mu, rate, P, multipliers), dtype=np.float64)
            followers = [multipliers[PAIRS.index(pair)] for pair in (("*", "x"), ("x", "x+"))]
            return self._sides[:, None] * form * self._sides, np.array(followers)

        constant = evaluate(np.zeros(UNKNOWNS))
        each = [evaluate(row) for row in np.diag(self._units)]
        forms = [constant[0], *(form - constant[0] for form, _ in each)]
        return forms, np.array([constant[1], *(row - constant[1] for _, row in each)])


class Programme:
    """The semidefinite programme, compiled once and solved for many rates.

    Both matrices, minus the form and P + (1 - c) (mu/2) e_x e_x^T, in units of mu, are at least a
    margin times the identity.  First the margin is made as wide as possible, which decides whether
    there is a certificate; then c as large as half of that margin allows, for the bound is V_0 / c.
    """

    def __init__(self) -> None:
        cp = require_cvxpy()
        self._cp = cp
        self._forms = [cp.Parameter((4, 4), symmetric=True) for _ in range(UNKNOWNS + 1)]
        self._followers = cp.Parameter((UNKNOWNS + 1, 2))
        self._unknowns, self._margin, c = cp.Variable(UNKNOWNS), cp.Variable(), cp.Variable()
        self._room = cp.Parameter()
        u = self._unknowns
        form = self._forms[0] + sum(u[k] * self._forms[k + 1] for k in range(UNKNOWNS))
        P = cp.bmat([[u[0] + 0.5 * (1.0 - c), u[1]], [u[1], u[2]]])
        constraints = [
            -form >> self._margin * np.eye(4),
            P >> self._margin * np.eye(2),
            u[3:] >= 0.0,
            self._followers[0] + u @ self._followers[1:] >= 0.0,
            c >= LEAST_CONSTANT,
            c <= 1.0,
            self._margin <= 1.0,
        ]
        self._widest = cp.Problem(cp.Maximize(self._margin), constraints)
        self._largest_c = cp.Problem(cp.Maximize(c), [*constraints, self._margin >= self._room])

    def set(self, forms: list[Array], followers: Array) -> None:
        """Take the numbers of another rate."""
        for parameter, form in zip(self._forms, forms, strict=True):
            parameter.value = 0.5 * (form + form.T)
        self._followers.value = followers

    def widen_margin(self) -> float:
        """Return the widest margin; not above 0 where there is no certificate."""
        self._solve(self._widest)
        return float(self._margin.value)

    def proposals(self) -> Iterator[Array]:
        """Yield P and the four multipliers: with the largest c, and with the widest margin."""
        widest: Array = np.array(self._unknowns.value)
        self._room.value = 0.5 * self._margin.value
        try:
            self._solve(self._largest_c)
        except ArithmeticError:  # the other will do
            pass
        else:
            yield np.array(self._unknowns.value)
        yield widest

    def _solve(self, problem: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an answer that is not quite exact is rounded anyway
            try:
                problem.solve(solver=self._cp.CLARABEL)
            except self._cp.SolverError as error:
                raise ArithmeticError("the solver Clarabel failed; try other numbers") from error
        if self._margin.value is None:
            raise ArithmeticError(f"the solver Clarabel gives no answer, only {problem.status!r}")


def require_cvxpy() -> Any:
    """Import cvxpy; ImportError with the remedy where it, or Clarabel, is missing."""
    try:
        import clarabel  # noqa: F401
        import cvxpy
    except ImportError as error:
        raise ImportError(
            'certificates need cvxpy and Clarabel: run pip install "continuized[certify]"',
            name="cvxpy",
        ) from error
    return cvxpy
