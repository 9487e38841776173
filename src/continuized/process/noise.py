"""Noise models: what is added to a gradient at an event.

A model draws the marks of a block of events from the generator that the stepper gives it; it keeps
no random state of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from continuized.support import validation as check

__all__ = ["Gaussian", "Noise"]


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
    noise: Noise, rng: np.random.Generator, n: int, dim: int, dtype: Any = np.float64
) -> NDArray[Any]:
    """Draw n noise vectors as contiguous rows: compiled code reads them without a check."""
    drawn = check.array(noise.draw(rng, n, dim), "what noise.draw gives")
    rows = np.ascontiguousarray(drawn, dtype)
    if rows.shape != (n, dim):
        raise ValueError(
            f"noise.draw must give an array of shape {(n, dim)}, one vector a row, got {rows.shape}"
        )
    return rows


def check_noise(noise: Any) -> None:
    """Raise TypeError unless noise is a noise model or None."""
    for method in () if noise is None else ("draw", "sigma2"):
        check.instance(noise, "noise", method, "a noise model such as cz.noise.Gaussian(1e-4)")


@dataclass(frozen=True)
class Gaussian(Noise):
    """Additive Gaussian noise of covariance `variance` times the identity.

    Raises TypeError or ValueError unless the variance is a finite number >= 0.

    >>> Gaussian(1e-4).sigma2(dim=100)
    0.01
    """

    variance: float

    def __post_init__(self) -> None:
        variance = check.real(self.variance, "variance", minimum=0.0)
        object.__setattr__(self, "variance", variance)

    def draw(self, rng: np.random.Generator, n: int, dim: int) -> NDArray[np.float64]:
        return math.sqrt(self.variance) * rng.standard_normal((n, dim))

    def sigma2(self, dim: int) -> float:
        return self.variance * dim


def __dir__() -> list[str]:
    return sorted(__all__)
