"""Gradients from several workers at random times: does acceleration survive?

Run `python examples/stale_gradients.py [KAPPA]`; prints a verdict for each number of workers.

Workers send gradients to one point, each at the times of its own Poisson clock, together at rate
1.  A *fresh* gradient is taken at the point as it is when the gradient comes.  A *stale* one is
taken where the point was when that worker last sent one: `workers` events ago, in the mean.

On a quadratic each direction is a problem of its own.  With its eigenvalue lambda, the state is
u = (x, z, p_1, ..., p_m), where p_j is the point that worker j has.  An event of worker j takes u
to J_j F(dt) u:  F mixes x and z, and J_j takes gamma lambda p_j off x and gamma' lambda p_j off
z, and then puts x for p_j.  So E[u u^T] goes by a linear map, the mean over j and dt of
S -> J_j F S F^T J_j^T, whose spectral radius tells exactly how fast E|x|^2 falls, or that it grows.
Nothing is sampled.  The map keeps positive semidefinite matrices so: its radius belongs to one of
them, and workers are alike, so that one may be taken in which all p_j are.  Of such matrices seven
entries are enough, however many workers there are.

The prediction.  In the scaling limit with L = c L_f, x'' + 2 sqrt(mu) x' + grad f(x(s - d)) = 0 is
stable while lambda d < 2 sqrt(mu), and an age of a events is d = a / sqrt(c L_f).  A gradient taken
at the point before it mixes is half an event old, one taken after is not; workers make it
a = m - 1/2.  Hence c > (L_f/mu) (m - 1/2)^2 / 4, by which sqrt(mu/L) has come down to
(mu/L_f) 2/(m - 1/2), of the order of gradient descent's 2 mu/L_f.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuized import Continuized, GradientDescent, parameters

Array = NDArray[np.float64]

WORKERS = (1, 2, 4, 8)
MULTIPLIERS = tuple(float(2**k) for k in range(13))
DIRECTIONS = 31  # eigenvalues between mu and L, in equal ratios, of which the slowest counts
CLEARLY = 1.1  # by how much a rate must be larger to count as larger


class Verdict(NamedTuple):
    """The best that accelerated and plain steps do, over the multiples c of L that they may take.

    Rates are r where E|x|^2 falls as e^{-rk} over k gradients; negative: it grows, for every c.
    workers, stale: the case.  accelerated, plain: the best rates, had at accelerated_c, plain_c.

    >>> Verdict(2, True, accelerated=0.01, accelerated_c=64.0, plain=0.02, plain_c=1.0).survives
    False
    """

    workers: int
    stale: bool
    accelerated: float
    accelerated_c: float
    plain: float
    plain_c: float

    @property
    def survives(self) -> bool:
        """Tells whether acceleration gains anything."""
        return self.accelerated > CLEARLY * self.plain

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        many = f"{self.workers} worker{'s' if self.workers > 1 else ''}"
        who = f"stale gradients of {many}" if self.stale else "fresh gradients of any workers"
        if self.accelerated <= 0.0:
            return f"{who}: no multiple of L tried makes accelerated steps stable"
        ratio = self.accelerated / self.plain
        if self.survives:
            return f"{who}: acceleration is {ratio:.1f} times as fast"
        return f"{who}: acceleration gains nothing ({ratio:.2f} times as fast)"


class Study(NamedTuple):
    """Rates by case, method and multiple of L, and a verdict for each case.

    kappa, multipliers: as given.  cases: pairs (workers, whether stale).  accelerated, plain: the
    rates, a row for each case, a column for each multiple.  verdicts: one for each case.

    >>> study = study_workers(100.0, workers=[2], multipliers=[1.0, 4.0])
    >>> study.cases, study.accelerated.shape, study.verdicts[0].survives
    (((1, False), (2, True)), (2, 2), True)
    """

    kappa: float
    multipliers: tuple[float, ...]
    cases: tuple[tuple[int, bool], ...]  # workers, whether stale
    accelerated: Array  # (cases, multipliers)
    plain: Array
    verdicts: tuple[Verdict, ...]


def study_workers(
    kappa: float = 1000.0,
    workers: Sequence[int] = WORKERS,
    multipliers: Sequence[float] = MULTIPLIERS,
) -> Study:
    """Compare Continuized with gradient descent, with fresh and with stale gradients, exactly.

    Parameters
    ----------
    kappa : float
        L / mu of the quadratic.
    workers : integers >= 1
        Numbers of workers.  Fresh gradients do not depend on it, and are one case.
    multipliers : numbers > 0
        Multiples c of L: the methods are Continuized(cL, mu) and GradientDescent(cL).

    Returns
    -------
    Study

    Raises
    ------
    ValueError
        On other numbers.

    >>> for verdict in study_workers(100.0, workers=[1, 2]).verdicts:
    ...     print(verdict.sentence)
    fresh gradients of any workers: acceleration is 8.3 times as fast
    stale gradients of 1 worker: acceleration gains nothing (1.07 times as fast)
    stale gradients of 2 workers: acceleration gains nothing (0.33 times as fast)
    """
    if not 1.0 <= kappa < math.inf:
        raise ValueError(f"kappa must be a finite number >= 1, got {kappa}")
    if min(workers, default=1) < 1:
        raise ValueError(f"workers must be integers >= 1, got {workers}")
    if len(multipliers) == 0 or not all(0.0 < c < math.inf for c in multipliers):
        raise ValueError(f"multipliers must be finite numbers > 0, got {multipliers}")
    cases = ((1, False), *((int(m), True) for m in workers))
    mu = 1.0 / kappa
    rates = np.empty((2, len(cases), len(multipliers)))
    for i, (m, stale) in enumerate(cases):
        for j, c in enumerate(multipliers):
            rates[0, i, j] = slowest_rate(Continuized(float(c), mu), mu, 1.0, m, stale)
            rates[1, i, j] = slowest_rate(GradientDescent(float(c)), mu, 1.0, m, stale)
    best = rates.argmax(axis=2)
    verdicts = tuple(
        Verdict(
            m,
            stale,
            float(rates[0, i, best[0, i]]),
            float(multipliers[best[0, i]]),
            float(rates[1, i, best[1, i]]),
            float(multipliers[best[1, i]]),
        )
        for i, (m, stale) in enumerate(cases)
    )
    return Study(float(kappa), tuple(map(float, multipliers)), cases, rates[0], rates[1], verdicts)


def predict_multiplier(kappa: float, workers: int) -> float:
    """Predict the multiple of L from which accelerated steps with stale gradients are stable."""
    return kappa * (workers - 0.5) ** 2 / 4.0


def slowest_rate(
    method: Continuized | GradientDescent, mu: float, L: float, workers: int, stale: bool
) -> float:
    """Return `mean_square_rate` of the slowest direction, with eigenvalues in [mu, L]."""
    directions = np.geomspace(mu, L, DIRECTIONS)
    return min(mean_square_rate(method, float(v), workers, stale) for v in directions)


def mean_square_rate(
    method: Continuized | GradientDescent, eigenvalue: float, workers: int, stale: bool
) -> float:
    """Return r where E|u|^2 falls as e^{-rk} over k gradients; it grows where r is negative."""
    points = workers if stale else 0
    gamma, gamma_prime, eta = 1.0 / method.L, 1.0 / method.L, 0.0
    if isinstance(method, Continuized):
        eta = 2.0 * parameters.omega(method.L, method.mu)
        gamma_prime = parameters.exponential_gamma_prime(method.L, method.mu)
    classes = list_classes(points)
    J, at = np.eye(points + 2), 2 if stale else 0
    J[0, at] -= gamma * eigenvalue
    J[1, at] -= gamma_prime * eigenvalue
    if stale:
        J[at] = J[0]
    images = J @ average_flow(classes, eta) @ J.T
    # The mean over j of what worker j does, read off what the first does: that over the class.
    read = classes / classes.sum(axis=(1, 2), keepdims=True)
    whole = np.einsum("aik,bik->ab", read, images)
    if eta == 0.0:  # z does not come back to x: it is no part of the method
        kept = np.flatnonzero(~classes[:, 1, :].any(axis=1))
        whole = whole[np.ix_(kept, kept)]
    radius = float(np.abs(np.linalg.eigvals(whole)).max())
    return -math.log(radius) if radius > 0.0 else math.inf


def list_classes(points: int) -> Array:
    """List the entries of E[u u^T] that are equal, each class as a matrix of zeros and ones."""
    kind = np.minimum(np.arange(points + 2), 2)
    low, high = np.minimum.outer(kind, kind), np.maximum.outer(kind, kind)
    label = 6 * low + 2 * high + np.eye(points + 2, dtype=np.int64)
    return np.array([label == one for one in np.unique(label)], dtype=np.float64)


def average_flow(S: Array, eta: float) -> Array:
    """Compute E[F(dt) S F(dt)^T] over dt ~ Exp(1), for matrices S.

    x and z mix by (1 - e^{-2 eta dt})/2, so F = F_0 + F_1 e^{-2 eta dt}, and
    E e^{-c dt} = 1/(1 + c).
    """
    F0, F1 = np.eye(S.shape[-1]), np.zeros(S.shape[-2:])
    F0[:2, :2] = 0.5
    F1[:2, :2] = [[0.5, -0.5], [-0.5, 0.5]]
    crossed = F0 @ S @ F1.T + F1 @ S @ F0.T
    ends = F0 @ S @ F0.T, F1 @ S @ F1.T
    return np.asarray(ends[0] + crossed / (1.0 + 2.0 * eta) + ends[1] / (1.0 + 4.0 * eta))


def main(kappa: float = 1000.0) -> None:
    """Print the verdicts, with the best rates and the multiples of L that give them."""
    for verdict in study_workers(kappa).verdicts:
        print(
            f"{verdict.sentence}; accelerated {verdict.accelerated:.2e} at "
            f"{verdict.accelerated_c:g} L, plain {verdict.plain:.2e} at {verdict.plain_c:g} L"
        )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
