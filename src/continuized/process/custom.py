"""The continuized process with parameters of the user's own.

Apart from `methods`, whose rules of scalars are in closed form and compiled: here the four
parameters are any functions of t, so that the flow is integrated, and the events run in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from continuized.process import clock as clocks
from continuized.process import random_streams as seeds
from continuized.process.flow import integrated_weights
from continuized.process.methods import Method
from continuized.process.parameters import check_constants
from continuized.support.validation import brief, is_real


@dataclass(frozen=True)
class CustomContinuized(Method):
    """The process with the user's own eta, eta', gamma, gamma', callables of t.

    The flow is integrated numerically, to about 1e-13 where eta and eta' are smooth.  An
    infinite eta(0) means that x joins z at once, as with eta = 2/t.  No theorem is claimed for
    it.  L and mu, if given, are only watched for witnesses against them.  Raises TypeError where
    one of the four, eta, eta_prime, gamma and gamma_prime, is not callable.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> method = cz.CustomContinuized(
    ...     eta=lambda t: 0.3,
    ...     eta_prime=lambda t: 0.3,
    ...     gamma=lambda t: 1.0,
    ...     gamma_prime=lambda t: 3.0,
    ... )
    >>> cz.minimize(p, [0.0, 0.0], method=method, tol=1e-6, seed=0).success
    True
    """

    eta: Callable[[float], float]
    eta_prime: Callable[[float], float]
    gamma: Callable[[float], float]
    gamma_prime: Callable[[float], float]
    L: float = math.nan
    mu: float = 0.0
    name: ClassVar[str] = "custom"

    def __post_init__(self) -> None:
        for name in ("eta", "eta_prime", "gamma", "gamma_prime"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function of t, got {brief(getattr(self, name))}")
        if not (is_real(self.L) and math.isnan(self.L)):
            check_constants(self.L, self.mu)

    def clock(self, seed: seeds.Seed = None) -> clocks.Clock:
        return clocks.Poisson(seed)

    def coefficients(
        self, k: int, t0: float, t: float, dt: float, carry: float
    ) -> tuple[float, float, float, float, float]:
        a, b = self.flow(t0, t, dt)
        return a, b, float(self.gamma(t)), float(self.gamma_prime(t)), carry

    def flow(self, t0: float, t: float, dt: float) -> tuple[float, float]:
        return integrated_weights(self.eta, self.eta_prime, t0, dt)
