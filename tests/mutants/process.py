"""Planted mistakes in the process, and the checks that must catch them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from continuized.app.verify.claims import Subject
from continuized.marked.blocks import partition
from continuized.marked.coordinate import BlockStepper, CoordinateDescent, CoordinateStepper
from continuized.marked.rows import RowStepper, StochasticLeastSquares
from continuized.marked.separable import primal_form
from continuized.problems import Quadratic
from continuized.problems.base import Array, Problem
from continuized.process import clock as clocks
from continuized.process.flow import convex_flow, equal_weights
from continuized.process.marks import Categorical, Changing
from continuized.process.methods import (
    Continuized,
    GradientDescent,
    Nesterov,
    SharpContinuized,
)
from continuized.process.noise import Gaussian, Minibatch
from continuized.process.parameters import (
    convex_gamma_prime,
    eta,
    gamma,
    gamma_prime,
    sharp_eta,
    sharp_gamma_prime,
)
from continuized.process.random_streams import TIMES, Seed, generator, seed_sequence
from continuized.solver.ensemble import ensemble
from continuized.solver.minimize import minimize
from continuized.theory import Certificate, decompose, noise_step, prefactors
from continuized.theory.ito import integrate_gaps
from continuized.theory.proofs import dissipation
from tests.mutants.mutant import Mutant

Coefficients = tuple[float, float, float, float, float]


class EarlierStep(Continuized):
    """The step of z at T_k, not T_{k+1}: what the paper's Theorem 4 prints."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, _, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, gamma_prime(t0, *self.constants), carry


class AppendixStep(Continuized):
    """The step of z t / sqrt(2L) instead of t / (2L): what the paper's appendix B prints."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, step * math.sqrt(2.0 * self.L), carry


class MixedInTurn(Continuized):
    """z mixed with the x that is mixed already."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b * (1.0 - a), gamma, step, carry


class EarlierEta(Continuized):
    """eta of the step of x in f + psi taken at T_k, not T_{k+1}."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, _, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, step * eta(t0, *self.constants), step, carry


class EarlyStart(Continuized):
    """f + psi from start = 0 where mu = 0."""

    def for_composite(self, most: float = 1.0) -> Continuized:
        return self


class OneSided(Continuized):
    """z not mixed at all."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, _, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, 0.0, gamma, step, carry


class LongStep(Continuized):
    """A step of x twice too long."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, 2.0 * gamma, step, carry


class NaiveWeight(Continuized):
    """1 - (t0/t)^2 as it is printed: it cancels for large t."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return 1.0 - (t0 / t) ** 2 if self.mu == 0.0 else a, b, gamma, step, carry


class UniformGaps(Continuized):
    """Gaps uniform on [0, 2]: of mean 1, but no Poisson clock."""

    def clock(self, rng: Seed = None) -> clocks.Clock:
        return _UniformClock(rng)


@dataclass(frozen=True)
class _UniformClock:
    seed: Seed

    def stream(self) -> clocks.Stream:
        rng = generator(seed_sequence(self.seed), TIMES)
        return clocks.Stream(lambda n: rng.uniform(0.0, 2.0, n))


class LoudNoise(Gaussian):
    """The variance drawn twice as large."""

    def draw(self, rng: np.random.Generator, n: int, dim: int) -> Array:
        return math.sqrt(2.0) * super().draw(rng, n, dim)


class BiasedNoise(Gaussian):
    """Noise of mean 0.02 standard deviations."""

    def draw(self, rng: np.random.Generator, n: int, dim: int) -> Array:
        return super().draw(rng, n, dim) + 0.02 * math.sqrt(self.variance)


class HastyStep(Continuized):
    """gamma' one per cent too large where mu > 0."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, step * (1.01 if self.mu > 0.0 else 1.0), carry


class PlainSharpStep(SharpContinuized):
    """gamma' of Theorem B without 2/(3L)."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, _, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, 1.0 / math.sqrt(2.0 * self.mu * self.L), carry


def equal_sharp_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> Coefficients:
    a, b = equal_weights(sharp_eta(L, mu), dt)
    return a, b, gamma(L), sharp_gamma_prime(L, mu), carry


class EqualSharpRates(SharpContinuized):
    """eta' = eta in Theorem B, in place of eta/2.  Its rule is compiled, for many runs."""

    rule = property(lambda self: equal_sharp_rule)  # type: ignore[assignment]


def long_convex_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> Coefficients:
    a, b = convex_flow(t0, t, dt, L, mu, start)
    return a, b, 2.0 * gamma(L), convex_gamma_prime(t, L, start), carry


class LongConvexStep(Continuized):
    """A step of x twice too long where mu = 0.  Its rule is compiled, for many runs."""

    @property
    def rule(self) -> Any:
        return long_convex_rule if self.mu == 0.0 else super().rule


class ForgottenTau(Continuized):
    """The step of z without its factor tau where mu = 0, and twice too long where mu > 0."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, step / self.tau, carry


def ensemble_from_x0(*given: Any, z0: Any = None, **options: Any) -> Any:
    return ensemble(*given, **options)


def freeze_coordinate(p: Any) -> Any:
    """The function as a loop sees it that passes over a coordinate, where there are 32 or more."""
    if not isinstance(p, Quadratic):
        return p
    curvatures = p.eigenvalues.copy()
    if p.dim >= 32:
        curvatures[p.dim // 2] = 0.0
    return Quadratic(curvatures, p.x_star, mu=0.0)


def frozen_minimize(problem: Quadratic, *given: Any, **options: Any) -> Any:
    return minimize(freeze_coordinate(problem), *given, **options)


def frozen_ensemble(problem: Quadratic, *given: Any, **options: Any) -> Any:
    return ensemble(freeze_coordinate(problem), *given, **options)


class ShortDescent(GradientDescent):
    """Gradient descent with a step of 1/(100 L)."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, 0.01 * gamma, 0.01 * step, carry


class ShortNesterov(Nesterov):
    """Nesterov acceleration whose z takes the step of x."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Coefficients:
        a, b, gamma, _, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, gamma, carry


class ForgottenP(CoordinateDescent):
    """gamma' in place of gamma'/p_i."""

    def prepare(self, problem: Problem, x0: Array) -> CoordinateStepper:
        stepper = super().prepare(problem, x0)
        stepper.weights = np.ones_like(stepper.weights)
        return stepper


class ForgottenPOfX(CoordinateDescent):
    """eta in place of eta/p_i, with prox."""

    def prepare(self, problem: Problem, x0: Array) -> CoordinateStepper:
        stepper = super().prepare(problem, x0)
        stepper.steps = np.ones_like(stepper.steps)
        return stepper


class OtherLaw(CoordinateDescent):
    """The coordinates drawn with probabilities 3 per cent off, in turn more and less."""

    def prepare(self, problem: Problem, x0: Array) -> CoordinateStepper:
        stepper = super().prepare(problem, x0)
        off = stepper.p * np.where(np.arange(stepper.p.size) % 2, 0.97, 1.03)
        law = Categorical(off / off.sum())
        object.__setattr__(law, "p", stepper.p)  # it does not say so
        stepper.law = Changing(law)
        return stepper


class LargestL(CoordinateDescent):
    """S replaced by max L_i."""

    def prepare(self, problem: Problem, x0: Array) -> CoordinateStepper:
        stepper = super().prepare(problem, x0)
        L = float(stepper.form.L_i.max())
        stepper.process = Continuized(L, min(stepper.form.mu, L), self.start)
        return stepper


class LargestLOfBlock(CoordinateDescent):
    """L_B replaced by the largest L_i in the block."""

    def prepare(self, problem: Problem, x0: Array) -> CoordinateStepper:
        blocks, form = partition(self.blocks, x0.size), primal_form(problem)
        L = np.maximum.reduceat(form.L_i[blocks.members], blocks.bounds[:-1])
        return BlockStepper(replace(form, L_i=L), self, x0.ravel(), problem, blocks)


class NoMean(StochasticLeastSquares):
    """R2 of batches without the term (1 - 1/b) L_H."""

    def prepare(self, problem: Problem, x0: Array) -> RowStepper:
        stepper = super().prepare(problem, x0)
        stepper.R2 = stepper.row.R2 / stepper.batch
        L = stepper.R2 * stepper.kappa
        stepper.process = Continuized(L, min(stepper.mu, L), self.start)
        return stepper


class NoKappa(StochasticLeastSquares):
    """R2 in place of R2 kappa in the parameters."""

    def prepare(self, problem: Problem, x0: Array) -> RowStepper:
        stepper = super().prepare(problem, x0)
        stepper.process = Continuized(stepper.R2, min(stepper.mu, stepper.R2), self.start)
        return stepper


class StronglyConvexTwice(Certificate):
    """-mu |x - x+|^2 counted twice among the inequalities."""

    @property
    def form(self):
        form = [list(row) for row in super().form]
        factor = self.multipliers["x", "x+"] / (2 * (1 - self.mu / self.L))
        form[2][2] -= factor * self.mu * self.parameters.gamma**2
        return form


class StillZ(Certificate):
    """The flow of z forgotten in the generator."""

    @property
    def form(self):
        still = self.parameters._replace(eta_prime=0)
        weights = list(self.multipliers.values())
        return dissipation(still, self.L, self.mu, self.rate, self.P, weights)


class HastyCertificate(Certificate):
    """The bound with twice the rate."""

    def bound(self, problem: Problem, x0: Any, t: Any) -> Array:
        return super().bound(problem, x0, 2.0 * np.asarray(t))


class Credulous(Certificate):
    """What was found is proved, whatever the numbers."""

    @property
    def proved(self) -> bool:
        return True


class WholeVariance(Minibatch):
    """The variance of single rows, whatever the batch."""

    def variance(self, x: Any) -> float:
        return self.batch * super().variance(x)


class FirstRowLeftOut(Minibatch):
    """One row of 40 never drawn."""

    def _draw(self, x: Array, rng: np.random.Generator) -> Array:
        index = rng.integers(1, len(self.problem.y), size=self.batch)
        return self.row_gradients(x, index).mean(axis=0) + self._penalty(x)


class LowVariance(Minibatch):
    """A third of the variance."""

    def variance(self, x: Any) -> float:
        return super().variance(x) / 3.0


def noise_step_with_L(p: Any, L: float, sigma2: float) -> Any:
    """gamma = 1/L in place of 1/sqrt(L L')."""
    found = noise_step(p, L, sigma2)
    return found._replace(floors=(found.floors[0], noise_step(p, p.L, sigma2).floors[0]))


def compensate_by_half(*given: Any) -> Any:
    """Half of what the jumps are expected to be."""
    flow, compensator, error = integrate_gaps(*given)
    return flow, 0.5 * compensator, error


def decompose_without_compensator(*given: Any) -> Any:
    """The jumps alone taken for the martingale."""
    parts = decompose(*given)
    jumps = parts.phi - parts.phi[0]
    return parts._replace(martingale=jumps)


def prefactors_with_L_gamma(*given: Any, **parameters: Any) -> Any:
    """A gamma (1 - L gamma), the 1/2 forgotten."""
    found = prefactors(*given, **parameters)
    off = 0.5 * parameters["A"] * given[0] * parameters["gamma"] ** 2
    return found._replace(gradient_squared=found.gradient_squared + off)


CERTIFIED_FORM = "certificates: the form is the generator's"
VERDICTS = "certificates: only proofs are accepted"
PROCESS = "the iteration is the process"
PARAMETERS = "the parameters are the paper's"
LONG_RUNS = "runs of 200 variables"
PHI = "phi is a supermartingale"
COMPOSITE_PHI = "f + psi: phi is a supermartingale"
COMPOSITE_PATHS = "f + psi: the paths"
DOMAIN = "f + psi: x stays in the domain"
FORM = "Theorems A and B: the form of the proof"
NEW_PATHS = "sharp and quasar-convex: the paths"
LAZY = "lazy mixing is eager mixing"
GROUPS_LAZY = "blocks and batches: lazy is eager"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "gamma' taken at T_k (the paper's Theorem 4 as printed)",
        Subject(continuized=EarlierStep),
        (PROCESS, PHI),
        is_slow=True,
    ),
    Mutant(
        "gamma' = t / sqrt(2L) (the paper's appendix B as printed)",
        Subject(continuized=AppendixStep),
        (PROCESS, PHI),
        is_slow=True,
    ),
    Mutant(
        "eta of the step of x in f + psi taken at T_k",
        Subject(continuized=EarlierEta),
        (COMPOSITE_PHI, COMPOSITE_PATHS, DOMAIN),
        is_slow=True,
    ),
    Mutant(
        "the variance of a batch is that of a row",
        Subject(minibatch=WholeVariance),
        ("minibatches: mean and exact variance",),
        is_slow=True,
    ),
    Mutant(
        "a row of 40 is never drawn",
        Subject(minibatch=FirstRowLeftOut),
        ("minibatches: mean and exact variance",),
        is_slow=True,
    ),
    Mutant(
        "a third of the variance of rows",
        Subject(minibatch=LowVariance),
        ("minibatches: mean and exact variance", "minibatches: the drift of phi"),
        is_slow=True,
    ),
    Mutant(
        "gamma = 1/L with the larger L'",
        Subject(noise_step=noise_step_with_L),
        ("the exact noise floor, both steps",),
    ),
    Mutant(
        "half of the compensator in Ito's formula",
        Subject(integrate_gaps=compensate_by_half),
        ("Ito's formula: E M_t = 0",),
        is_slow=True,
    ),
    Mutant(
        "no compensator in Ito's formula",
        Subject(decompose=decompose_without_compensator),
        ("Ito's formula closes",),
    ),
    Mutant(
        "1 - L gamma in the fifth prefactor",
        Subject(prefactors=prefactors_with_L_gamma),
        ("the five prefactors vanish",),
    ),
    Mutant("a certificate is taken at its word", Subject(certificate=Credulous), (VERDICTS,)),
    Mutant(
        "the flow of z forgotten in certificates",
        Subject(certificate=StillZ),
        (VERDICTS, CERTIFIED_FORM),
        is_slow=True,
    ),
    Mutant(
        "strong convexity counted twice in certificates",
        Subject(certificate=StronglyConvexTwice),
        (CERTIFIED_FORM,),
    ),
    Mutant(
        "the certified bound with twice the rate",
        Subject(certificate=HastyCertificate),
        ("certificates: E f(x_t) is below the bound",),
    ),
    Mutant("f + psi from start = 0", Subject(continuized=EarlyStart), (DOMAIN,)),
    Mutant("x and z mixed in turn", Subject(continuized=MixedInTurn), (PROCESS,)),
    Mutant("z not mixed", Subject(continuized=OneSided), (PROCESS,)),
    Mutant("a step of 2/L", Subject(continuized=LongStep), (PROCESS, PHI, FORM), is_slow=True),
    Mutant(
        "a step of 2/L in compiled runs",
        Subject(continuized=LongConvexStep),
        (
            "E f(x_t), convex",
            "a whole run is below its curve",
            "mu = 0: Huber's function meets the bound",
        ),
        is_slow=True,
    ),
    Mutant(
        "gamma' of Theorem B without 2/(3L)",
        Subject(sharp_continuized=PlainSharpStep),
        (FORM, NEW_PATHS),
    ),
    Mutant(
        "eta' = eta in Theorem B",
        Subject(sharp_continuized=EqualSharpRates),
        (FORM, NEW_PATHS),
        is_slow=True,
    ),
    Mutant(
        "tau forgotten in gamma'",
        Subject(continuized=ForgottenTau),
        ("quasar-convex: phi is a supermartingale", NEW_PATHS),
    ),
    Mutant(
        "z starts where x does",
        Subject(ensemble=ensemble_from_x0),
        ("two starting points: E f(x_t)", NEW_PATHS),
        is_slow=True,
    ),
    Mutant(
        "1 - (T_k/T_{k+1})^2 in floating point",
        Subject(continuized=NaiveWeight),
        ("mixing keeps its digits",),
    ),
    Mutant(
        "uniform gaps",
        Subject(continuized=UniformGaps),
        ("T_k is Gamma(k, 1)", "gaps: mean, variance, independence"),
    ),
    Mutant(
        "noise of twice the variance",
        Subject(gaussian=LoudNoise),
        ("E f(x_t) with noise", "the noise floor", "noise: mean, variance, independence"),
        is_slow=True,
    ),
    Mutant(
        "noise of mean 0.02 standard deviations",
        Subject(gaussian=BiasedNoise),
        ("noise: mean, variance, independence",),
    ),
    Mutant(
        "gamma' one per cent too large where mu > 0",
        Subject(continuized=HastyStep),
        (PARAMETERS, LONG_RUNS, PROCESS),
    ),
    Mutant(
        "one coordinate of 32 or more stands still",
        Subject(minimize=frozen_minimize),
        (LONG_RUNS,),
    ),
    Mutant(
        "one coordinate of 32 or more stands still in ensembles",
        Subject(ensemble=frozen_ensemble),
        (LONG_RUNS,),
    ),
    Mutant(
        "coordinates drawn with probabilities 3 per cent off",
        Subject(coordinate_descent=OtherLaw),
        ("marks are drawn as often as they should",),
    ),
    Mutant(
        "gradient descent with short steps",
        Subject(gradient_descent=ShortDescent),
        ("gradient descent converges", PARAMETERS),
    ),
    Mutant(
        "Nesterov acceleration with gamma' = gamma",
        Subject(nesterov=ShortNesterov),
        ("Nesterov acceleration converges", PARAMETERS),
    ),
    Mutant(
        "p_i forgotten in gamma'/p_i",
        Subject(coordinate_descent=ForgottenP),
        ("coordinates: E f(x_t)", LAZY, "prox: lazy is eager"),
        is_slow=True,
    ),
    Mutant(
        "p_i forgotten in eta/p_i",
        Subject(coordinate_descent=ForgottenPOfX),
        ("prox: lazy is eager",),
    ),
    Mutant(
        "S replaced by max L_i",
        Subject(coordinate_descent=LargestL),
        ("coordinates: E f(x_t) is below its bound",),
    ),
    Mutant(
        "kappa forgotten in R2 kappa",
        Subject(stochastic_least_squares=NoKappa),
        ("rows: E |x_t - x*|^2 is below its bound",),
    ),
    Mutant(
        "p_B forgotten in gamma'/p_B",
        Subject(coordinate_descent=ForgottenP),
        ("blocks: E f(x_t)", GROUPS_LAZY),
        is_slow=True,
    ),
    Mutant(
        "L_B replaced by the largest L_i of the block",
        Subject(coordinate_descent=LargestLOfBlock),
        ("blocks: E f(x_t) is below its bound",),
    ),
    Mutant(
        "R2 of batches without (1 - 1/b) L_H",
        Subject(stochastic_least_squares=NoMean),
        ("batches: E |x_t - x*|^2 is below its bound",),
    ),
)
