"""What a check is given, and what it gives back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.marked.coordinate import CoordinateDescent
from continuized.marked.rows import Kaczmarz, StochasticLeastSquares
from continuized.network import DADAO, A2CiD2, Dual
from continuized.network.gossip import Gossip
from continuized.network.simulation.messages import MessageEngine
from continuized.problems.base import Array
from continuized.process.methods import (
    Continuized,
    GradientDescent,
    Nesterov,
    SharpContinuized,
)
from continuized.process.noise import Gaussian, Minibatch
from continuized.solver.ensemble import Ensemble, ensemble
from continuized.solver.minimize import minimize
from continuized.solver.result import Result
from continuized.support.statistics import Measurement
from continuized.theory import (
    Certificate,
    Decomposition,
    NoiseStep,
    Prefactors,
    decompose,
    noise_step,
    prefactors,
)
from continuized.theory.ito import integrate_gaps

Found = Iterable[Measurement]
LARGEST_RATIO = 1.0 + 1e-9  # to a bound: 1, and what rounding adds


@dataclass(frozen=True)
class Subject:
    """The implementation under test; tests replace parts of it by planted mistakes."""

    continuized: Callable[..., Continuized] = Continuized
    nesterov: Callable[..., Nesterov] = Nesterov
    gradient_descent: Callable[..., GradientDescent] = GradientDescent
    sharp_continuized: Callable[..., SharpContinuized] = SharpContinuized
    gaussian: Callable[[float], Gaussian] = Gaussian
    coordinate_descent: Callable[..., CoordinateDescent] = CoordinateDescent
    stochastic_least_squares: Callable[..., StochasticLeastSquares] = StochasticLeastSquares
    kaczmarz: Callable[..., Kaczmarz] = Kaczmarz
    gossip: Callable[..., Gossip] = Gossip
    messages: Callable[..., MessageEngine] = MessageEngine
    dual: Callable[..., Dual] = Dual
    dadao: Callable[..., DADAO] = DADAO
    a2cid2: Callable[..., A2CiD2] = A2CiD2
    minimize: Callable[..., Result] = minimize
    ensemble: Callable[..., Ensemble] = ensemble
    certificate: Callable[..., Certificate] = Certificate
    decompose: Callable[..., Decomposition] = decompose
    integrate_gaps: Callable[..., tuple[Array, Array, Array]] = integrate_gaps
    prefactors: Callable[..., Prefactors] = prefactors
    minibatch: Callable[..., Minibatch] = Minibatch
    noise_step: Callable[..., NoiseStep] = noise_step


class Effort(NamedTuple):
    """How much work a check may do, and its share of the error budget.

    times: as many samples as usual, in checks with a number of samples of their own.
    """

    seed: int
    runs: int
    states: int
    alpha: float = 0.0
    times: int = 1


FULL = Effort(seed=0, runs=200_000, states=20_000)
QUICK = Effort(seed=0, runs=20_000, states=2_000)


def at_most(allowed: float, numbers: ArrayLike) -> Measurement:
    """Judge the largest of these numbers, found by np.max, which keeps a NaN; max would drop it."""
    return Measurement(float(np.max(numbers)), allowed)


def worst_of(measurements: Iterable[Measurement]) -> Measurement:
    """Find one that failed, and of those the one that measured most.

    One that cannot be judged is worse, and so is a NaN, which the plain max would pass over.
    """
    return max(
        measurements, key=lambda m: (not m.usable, math.isnan(m.measured), not m.passed, m.measured)
    )


class Check(NamedTuple):
    """A claim, where the paper makes it, what is measured, and the function that does so.

    It yields what it measured in each of its cases; the worst of them counts.
    """

    claim: str
    where: str
    statistic: str
    measure: Callable[[Subject, Effort], Found]
    statistical: bool = False  # whether chance can make it fail


class Claim(NamedTuple):
    """A check and its outcome."""

    check: Check
    measurement: Measurement
    seconds: float
    raised: str = ""  # the error that ended the check, if one did

    @property
    def verdict(self) -> str:
        if not self.measurement.usable:
            return "not judged"
        return "holds" if self.measurement.passed else "FAILS"
