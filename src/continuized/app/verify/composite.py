"""Checks of f + psi and of mirror steps: no theorem of the paper, but its bounds.  None involves
chance.

The functions are separable, so that the minimisers are known in closed form, or small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from continuized import theory
from continuized.app.verify import formulas
from continuized.app.verify.claims import Effort, Found, Subject, at_most
from continuized.app.verify.literal import compare_each
from continuized.problems import Quadratic
from continuized.problems.base import Array
from continuized.process.clock import Poisson
from continuized.process.composite import Composite
from continuized.process.methods import Continuized
from continuized.process.mirror import Entropy
from continuized.process.prox import L1, Box, Simplex

DIM = 40
EVENTS = 60
CLOCKS = 8
ROUNDING = 1e-11  # relative to the sizes of the terms of the drift
CURVATURES = np.geomspace(0.05, 1.0, DIM)
CENTRE = np.cos(np.arange(DIM))


class Case(NamedTuple):
    """psi, the minimiser of f + psi, and a start in the domain."""

    prox: Any
    x_star: Array
    x0: Array


def soft(v: Array, least: Any) -> Array:
    """Return v, nearer to 0 by `least`."""
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - least, 0.0))


def on_simplex() -> Array:
    """Return the minimiser of f on the simplex: lambda (x - c) = m where x > 0, m found by
    bisection."""
    low, high = -10.0, 10.0
    for _ in range(200):
        m = 0.5 * (low + high)
        x = np.maximum(CENTRE + m / CURVATURES, 0.0)
        low, high = (m, high) if x.sum() < 1.0 else (low, m)
    return np.asarray(x / x.sum())


def cases() -> dict[str, Case]:
    """Return the penalties and sets, each with the function below."""
    return {
        "lasso": Case(L1(0.1), soft(CENTRE, 0.1 / CURVATURES), np.full(DIM, 0.3)),
        "box": Case(Box(-0.3, 0.6), np.clip(CENTRE, -0.3, 0.6), np.zeros(DIM)),
        "simplex": Case(Simplex(), on_simplex(), np.full(DIM, 1.0 / DIM)),
    }


def function() -> Quadratic:
    """Return a quadratic with condition number 20."""
    return Quadratic(CURVATURES, CENTRE)


def methods(subject: Subject) -> Iterator[Continuized]:
    """Yield the member for mu = 0, and two for mu > 0."""
    yield subject.continuized(1.0)
    yield subject.continuized(1.0, 0.05)
    yield subject.continuized(1.0, 0.05, 6.0)


def states(case: Case, n: int, seed: int) -> tuple[Array, Array]:
    """Draw random states in the domain, near the minimiser and far from it."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-3.0, 1.0, (2, n, 1))
    raw = case.x_star + sizes * rng.standard_normal((2, n, DIM))
    if not isinstance(case.prox, Simplex):
        return tuple(np.asarray(case.prox(v, 1e-30)) for v in raw)  # type: ignore[return-value]
    raw = np.abs(raw) + 1e-9
    return tuple(raw / raw.sum(axis=-1, keepdims=True))


def drift(subject: Subject, effort: Effort) -> Found:
    """Measure the exact drift of phi at random states, over the size of its terms, in both
    geometries."""
    p, n = function(), max(effort.states // 6, 50)
    times = np.random.default_rng(effort.seed).choice([0.0, 0.5, 3.0, 20.0], n)
    for name, case in cases().items():
        x, z = states(case, n, effort.seed)
        given: list[Any] = [{"prox": case.prox}]
        if name == "simplex":
            given.append({"mirror": Entropy()})
        for options in given:
            for method in methods(subject):
                if "mirror" in options and method.mu > 0.0:
                    continue
                found = theory.drift(method, p, times, x, z, **options, x_star=case.x_star)
                start = method.for_composite().constants
                A, B = np.transpose([formulas.lyapunov_weights(t, *start) for t in times.tolist()])
                distance = ((z - case.x_star) ** 2 + (x - z) ** 2).sum(axis=1) + 1.0
                yield at_most(ROUNDING, found / (A * (p.values(x) + 1.0) + B * distance))


def supermartingale(subject: Subject, effort: Effort) -> Found:
    """Measure the share of states whose phi is expected to rise until the next event.

    In one dimension, where the inequalities of the proof are nearly equalities.
    """
    p, rng = Quadratic([1.0], [0.8], mu=0.0), np.random.default_rng(effort.seed)
    n = max(effort.states // 8, 50)
    for prox, star in ((L1(0.1), 0.7), (Box(-0.3, 0.6), 0.6)):
        x, z = (prox(star + 3.0 * rng.standard_normal((n, 1)), 1e-30) for _ in range(2))
        for given in methods(subject):
            for t in (0.0, 2.0):
                gap = theory.supermartingale_gap(
                    given, p, np.full(n, t), x, z, prox=prox, x_star=[star]
                )
                yield at_most(0.0, np.mean(gap.value > gap.error + 1e-9 * gap.phi))


def paths(subject: Subject, effort: Effort) -> Found:
    """Compare x and z of runs, and f + psi of ensembles, against the step written a second time."""
    p = function()
    for case in cases().values():
        for method in methods(subject):
            given: Any = {"method": method, "prox": case.prox, "rng": effort.seed}
            yield from _compare_path(subject, p, case, given, _proximal(case))
            e: Any = subject.ensemble(
                p, method, case.x0, runs=2, steps=EVENTS, rng=effort.seed, prox=case.prox
            )
            constants = method.for_composite().constants
            for t, found in zip(e.t, e.fun, strict=True):
                points = formulas.composite_iterate(
                    p.grad, _proximal(case), case.x0, t[1:], *constants
                )
                expected = [p.fun(x) + _psi(case, x) for x, _ in points]
                yield from compare_each(found[1:], expected)
    case = cases()["simplex"]
    given = {"method": subject.continuized(1.0), "mirror": Entropy(), "rng": effort.seed}
    yield from _compare_path(subject, p, case, given, _multiply)


def _compare_path(subject: Subject, p: Quadratic, case: Case, given: Any, move: Any) -> Found:
    path: Any = subject.minimize(p, case.x0, **given, maxiter=EVENTS, record="path").path
    constants = given["method"].for_composite().constants
    points = formulas.composite_iterate(p.grad, move, case.x0, path.t[1:], *constants)
    for k, (x, z) in enumerate(points, 1):
        yield from compare_each((path.x[k], path.z[k]), (x, z))


def _proximal(case: Case) -> Any:
    """Return z after an event, with the proximal steps written a second time."""

    def move(z: Array, g: Array, step: float) -> Array:
        v = z - step * g
        if isinstance(case.prox, L1):
            return soft(v, 0.1 * step)
        if isinstance(case.prox, Box):
            return np.asarray(np.clip(v, -0.3, 0.6))
        u = np.sort(v)[::-1]
        c = (np.cumsum(u) - 1.0) / np.arange(1, len(v) + 1)
        return np.asarray(np.maximum(v - c[np.flatnonzero(u > c)[-1]], 0.0))

    return move


def _multiply(z: Array, g: Array, step: float) -> Array:
    w = z * np.exp(-step * g)
    return np.asarray(w / w.sum())


def _psi(case: Case, x: Array) -> float:
    return 0.1 * float(np.abs(x).sum()) if isinstance(case.prox, L1) else 0.0


def domain(subject: Subject, effort: Effort) -> Found:
    """Measure how far x is outside the domain after any event, and psi(x) above psi^.

    By the reference step, which puts nothing back; on several clocks, for what goes wrong does so
    where the first events come early.
    """
    for name, case in cases().items():
        for given in methods(subject):
            for seed in range(effort.seed, effort.seed + CLOCKS):
                yield at_most(1e-12, _find_excess(name, case, given.for_composite(), seed))


def _find_excess(name: str, case: Case, method: Continuized, seed: int) -> tuple[float, float]:
    """Return the largest of both on one clock."""
    p, composite = function(), Composite(case.prox, case.x0.shape)
    low, high = {"lasso": (-math.inf, math.inf), "box": (-0.3, 0.6), "simplex": (0.0, 1.0)}[name]
    state = method.init(case.x0)
    psi = zeta = _psi(case, case.x0)
    above = outside = 0.0
    for event in Poisson(seed).stream().draw(EVENTS).each():
        a, b = method.flow(state.t, event.t, event.dt)
        eta = formulas.process_parameters(event.t, *method.constants).eta
        state, _ = method.step(state, event, lambda x, mark: p.grad(x), composite.move)
        psi, zeta = psi + a * (zeta - psi), zeta + b * (psi - zeta)
        psi, zeta = psi + eta * (_psi(case, state.z) - zeta), _psi(case, state.z)
        above = max(above, _psi(case, state.x) - psi)
        off = abs(float(state.x.sum()) - 1.0) if name == "simplex" else 0.0
        past = float(np.abs(state.x - np.clip(state.x, low, high)).max())
        outside = max(outside, past, off)
    return above, outside
