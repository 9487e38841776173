"""Noise models: what is added to a gradient at an event, or given in its place.

A model draws the marks of a block of events from the generator that the stepper gives it; it keeps
no random state of its own.  An `Oracle` is asked at each event, where the event is: its noise
depends on the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuized.problems.base import Array, Problem
from continuized.problems.losses import LOGISTIC, loss_slope
from continuized.problems.regression.models import SingleOutput
from continuized.support import validation as _validation
from continuized.support.display import show_html, show_line
from continuized.support.progress import warn_caller
from continuized.support.statistics import Measurement, SampleMoments, mean_test

__all__ = ["Gaussian", "Minibatch", "Noise", "NoiseWarning", "Oracle"]

TESTED = 2_000  # draws of a test of an oracle
SKEWED = 3.0  # times the limit, where 2,000 draws are too few for their skewness
ALPHA = 1e-6  # the probability with which the test warns of a right oracle


class Noise(Protocol):
    """What a run needs of a noise model.  One of your own:

    >>> class Signs:
    ...     def draw(self, rng, n, dim):
    ...         return rng.choice([-0.1, 0.1], size=(n, dim))
    ...     def sigma2(self, dim):
    ...         return 0.01 * dim
    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.5], [1.0, 1.0])
    >>> cz.minimize(p, [0.0, 0.0], noise=Signs(), maxiter=100, rng=0).nit
    100
    """

    def draw(self, rng: np.random.Generator, n: int, dim: int) -> NDArray[np.float64]:
        """Draw n independent noise vectors of mean 0 from rng, as rows of length dim."""
        ...

    def sigma2(self, dim: int) -> float:
        """Return the total variance E|noise|^2 in dimension dim (the paper's sigma^2)."""
        ...


def draw_noise(
    noise: Noise, rng: np.random.Generator, n: int, dim: int, dtype: Any
) -> NDArray[Any]:
    """Draw n noise vectors as contiguous rows: compiled code reads them without a check."""
    drawn = _validation.array(noise.draw(rng, n, dim), "what noise.draw gives")
    rows = np.ascontiguousarray(drawn, dtype)
    if rows.shape != (n, dim):
        raise ValueError(
            f"noise.draw must give an array of shape {(n, dim)}, one vector a row, got {rows.shape}"
        )
    return rows


def check_noise(noise: Any) -> None:
    """Raise TypeError unless noise is a noise model, an Oracle or None."""
    for method in () if noise is None else ("draw", "sigma2"):
        _validation.instance(
            noise, "noise", method, "a noise model such as cz.noise.Gaussian(1e-4)"
        )


def fingerprint_noise(noise: Any, dim: int) -> Any:
    """Return what a checkpoint knows a noise model by; None where there is none."""
    if noise is None:
        return None
    known = [noise, noise.sigma2(dim)]
    return [*known, noise.fingerprint()] if isinstance(noise, Minibatch) else known


@dataclass(frozen=True)
class Gaussian(Noise):
    """Additive Gaussian noise of covariance `variance` times the identity.

    Raises TypeError or ValueError unless the variance is a finite number >= 0.

    >>> Gaussian(1e-4).sigma2(dim=100)
    0.01
    """

    variance: float

    def __post_init__(self) -> None:
        variance = _validation.real(self.variance, "variance", minimum=0.0)
        object.__setattr__(self, "variance", variance)

    def draw(self, rng: np.random.Generator, n: int, dim: int) -> NDArray[np.float64]:
        return math.sqrt(self.variance) * rng.standard_normal((n, dim))

    def sigma2(self, dim: int) -> float:
        return self.variance * dim


class NoiseWarning(UserWarning):
    """What an oracle draws contradicts what was said of it: it is biased, or its variance larger.

    >>> import warnings
    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.5], [1.0, 1.0])
    >>> biased = Oracle(lambda x, rng: p.grad(x) + rng.uniform(0.0, 1.0, 2), sigma2=1.0, check=True)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", NoiseWarning)
    ...     try:
    ...         _ = cz.minimize(p, [0.0, 0.0], noise=biased, maxiter=9, rng=0)
    ...     except NoiseWarning as seen:
    ...         print(str(seen)[:44])
    the oracle is biased at x0: the mean of 2000
    """


class Oracle:
    """Stochastic gradients of the user's own, grad f(x, xi): unbiased, of variance at most sigma2.

    Parameters
    ----------
    draw : callable
        (x, rng) -> an unbiased estimate of the gradient at x, drawn from the generator rng.
    sigma2 : float
        A bound on E|estimate - gradient|^2 at every x, as Theorem 6 and `cz.theory.bound` need it.
    check : bool
        Whether a run first draws 2,000 estimates at x0, from a generator of its own, and warns
        (`NoiseWarning`, with the statistic) where their mean is not the gradient, or their variance
        is above sigma2.  It warns of a right oracle with probability 1e-6, by the normal limit; of
        estimates that skew, three times as many standard errors are allowed.

    Events with an oracle run in Python.  TypeError or ValueError for what is none of these.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.5], [1.0, 1.0])
    >>> halves = Oracle(lambda x, rng: p.grad(x) * rng.choice([0.0, 2.0], 2), sigma2=2.0)
    >>> cz.minimize(p, [0.0, 0.0], noise=halves, maxiter=100, rng=0).nit
    100
    """

    def __init__(
        self,
        draw: Callable[[Array, np.random.Generator], ArrayLike],
        sigma2: float,
        check: bool = False,
    ) -> None:
        self.draw = _validation.function(draw, "draw", "a function of x and rng")
        self._sigma2 = _validation.real(sigma2, "sigma2", minimum=0.0)
        self.check = _validation.flag(check, "check")

    def sigma2(self, dim: int = 0) -> float:
        """Return the bound on the variance, E|estimate - gradient|^2."""
        return self._sigma2

    def without_check(self) -> Oracle:
        """Return the same oracle, for runs that need no test: one of many was tested."""
        return Oracle(self.draw, self._sigma2)

    def outcomes(self, x: Array) -> tuple[Array, Array] | None:
        """Return the probabilities of all estimates at x, and them as rows; None if not known."""
        return None

    def test(self, problem: Problem, x: Array) -> None:
        """Warn where estimates at x contradict the gradient, or their variance sigma2."""
        rng = np.random.default_rng(0)
        drawn = [
            np.asarray(self.draw(x.copy(), rng), dtype=np.float64).ravel() for _ in range(TESTED)
        ]
        off = np.array(drawn) - np.asarray(problem.grad(x.copy()), dtype=np.float64).ravel()
        mean = mean_test(SampleMoments.of(off), 0.0, 0.5 * ALPHA)
        if mean.measured > _limit(mean):
            warn_caller(
                f"the oracle is biased at x0: the mean of {TESTED} estimates is "
                f"{mean.measured:.3g} standard errors from the gradient, where "
                f"{_limit(mean):.3g} are allowed",
                NoiseWarning,
            )
        squares = SampleMoments.of((off * off).sum(axis=1)[:, None])
        variance = mean_test(squares, self.sigma2(x.size), 0.5 * ALPHA, side="upper")
        if variance.measured > _limit(variance):
            warn_caller(
                f"the oracle's variance at x0 is about {float(squares.mean[0]):.3g}, above "
                f"sigma2 = {self.sigma2(x.size):.3g} by {variance.measured:.3g} standard errors",
                NoiseWarning,
            )

    def _facts(self) -> dict[str, Any]:
        return {"draw": self.draw, "sigma2": self._sigma2}

    __repr__ = show_line
    _repr_html_ = show_html


def _limit(test: Measurement) -> float:
    """Return how many standard errors are allowed: more where estimates skew."""
    return test.allowed if test.usable else SKEWED * test.allowed


class Minibatch(Oracle):
    """The gradients of batches of rows of a regression, drawn uniformly with replacement.

    Unbiased; `variance(x)` is their exact variance at a point, (mean |g_i|^2 - |mean g_i|^2)/batch
    over the gradients g_i of the rows.

    Parameters
    ----------
    problem : regression
        With one prediction a row: least squares, logistic, Poisson or Huber.
    batch : int
        The number of rows of an estimate.
    sigma2 : float, optional
        A bound on the variance at every x.  By default the one that bounded slopes give, of the
        logistic and Huber's loss; other losses have none.
    check : bool
        As for `Oracle`.

    TypeError or ValueError for what is none of these.

    >>> import continuized as cz
    >>> p = cz.problems.LogisticRegression([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]], [1, -1, 1], l2=0.1)
    >>> noise = Minibatch(p, batch=2)
    >>> bool(noise.variance([0.0, 0.0]) <= noise.sigma2())
    True
    >>> cz.minimize(p, [0.0, 0.0], noise=noise, maxiter=100, rng=0).nit
    100
    """

    def __init__(
        self,
        problem: SingleOutput,
        batch: int = 1,
        sigma2: float | None = None,
        check: bool = False,
    ) -> None:
        what = (
            "a regression with one prediction a row, such as cz.problems.LogisticRegression(X, y)"
        )
        _validation.instance(problem, "problem", SingleOutput, what)
        if problem.dim != problem.variables:  # the scale of Huber's loss is one more
            raise ValueError(f"problem must be {what}; this one has a further variable")
        self.problem, self.batch = problem, _validation.whole(batch, "batch", minimum=1)
        if sigma2 is None:
            sigma2 = self._bound()
        super().__init__(self._draw, sigma2, check)

    def variance(self, x: ArrayLike) -> float:
        """Compute the exact variance of an estimate at x."""
        g = self.row_gradients(_validation.array(x, "x", dtype=np.float64, finite=True).ravel())
        centred = g - g.mean(axis=0)
        return float(np.einsum("ij,ij->", centred, centred)) / len(g) / self.batch

    def row_gradients(self, w: Array, index: Any = slice(None)) -> Array:
        """Return the gradient of the loss of each row, weighted, without the l2 part."""
        p = self.problem
        if w.size != p.dim:
            raise ValueError(f"x has {w.size} entries, but the problem has dimension {p.dim}")
        predictions, y = p.predictions(w, index), p.y[index]
        pairs = zip(predictions.tolist(), y.tolist(), strict=True)
        slopes = np.array([loss_slope(p.loss, prediction, each) for prediction, each in pairs])
        if p.shares is not None:
            slopes = slopes * p.shares[index]
        rows = p.X[index]
        rows = rows.toarray() if p.is_sparse else rows
        if p.intercept:
            rows = np.column_stack([rows, np.ones(len(rows))])
        return np.asarray(slopes[:, None] * rows)

    def outcomes(self, x: Array) -> tuple[Array, Array] | None:
        """Return the n estimates of single rows, equally probable; None for larger batches."""
        if self.batch > 1:
            return None
        g = self.row_gradients(x.ravel()) + self._penalty(x.ravel())
        return np.full(len(g), 1.0 / len(g)), g

    def _draw(self, x: Array, rng: np.random.Generator) -> Array:
        index, w = rng.integers(len(self.problem.y), size=self.batch), x.ravel()
        mean = self.row_gradients(w, index).mean(axis=0) + self._penalty(w)
        return np.asarray(mean.reshape(x.shape), dtype=x.dtype)

    def _penalty(self, w: Array) -> Array:
        """Return the gradient of l2/2 |w|^2, of which the intercept has no part."""
        penalty = self.problem.l2 * w
        if self.problem.intercept:
            penalty[-1] = 0.0
        return penalty

    def _bound(self) -> float:
        p = self.problem
        steepest = 1.0 if p.loss == LOGISTIC else -p.loss if p.loss < 0.0 else math.inf
        if math.isinf(steepest):
            raise ValueError(
                "the rows of this regression have gradients of any size, and no bound on their "
                "variance over all x: give sigma2=, a bound where the run goes"
            )
        shares = np.ones(len(p.y)) if p.shares is None else p.shares
        norms2 = np.asarray(p.row_norms2)
        return float(np.mean((steepest * shares) ** 2 * norms2)) / self.batch

    def _facts(self) -> dict[str, Any]:
        return {"problem": self.problem, "batch": self.batch, "sigma2": self._sigma2}

    def fingerprint(self) -> list[Any]:
        """Tell what its estimates are drawn from: two with one sigma2 may have other batches."""
        return [self.batch, self.problem.fingerprint(np.zeros(self.problem.dim))]


def __dir__() -> list[str]:
    return sorted(__all__)
