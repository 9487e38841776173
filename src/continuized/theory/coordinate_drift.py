"""The drift of V = A (f(x) + psi^ - F*) + B |z - x*|^2 where events have coordinates as marks.

psi^ and zeta^ are sums over coordinates or blocks, which mix as x and z do; at mark i zeta^_i
becomes psi_i(z_i+), and psi^_i moves by eta/p_i times what zeta^_i does (docs/proofs/separable.md).
In the drift they cancel, but for A eta psi(z+), z+ being what z would be if all marks came at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.marked.coordinate import CoordinateDescent, CoordinateStepper
from continuized.problems.base import Array, Problem
from continuized.process.methods import Continuized
from continuized.process.prox import Separable
from continuized.support import validation as check
from continuized.theory.bounds.marked import minimise_penalised
from continuized.theory.bounds.paper import log_A, log_B
from continuized.theory.checks import minimiser
from continuized.theory.moments.pair import parameter_rows


def prepare_drift(method: Any, p: Problem, x: Array) -> tuple[CoordinateStepper, Continuized]:
    """Return the run of a method from x, and its process; ValueError where the drift is not
    known."""
    if not (isinstance(method, CoordinateDescent) and method.accelerated):
        given = "plain steps" if isinstance(method, CoordinateDescent) else method.name
        raise ValueError(
            f"drift is known for Continuized and for accelerated CoordinateDescent, got {given}"
        )
    stepper = method.prepare(p, x)
    assert isinstance(stepper.process, Continuized)
    return stepper, stepper.process


def coordinate_drift(
    method: CoordinateDescent, stepper: CoordinateStepper, p: Problem, t: Array, x: Array, z: Array,
    x_star: ArrayLike | None,
) -> Array:  # fmt: skip
    """Compute the exact generator of V at states (t, x, z), a row each; see `lyapunov.drift`.

    stepper: of `prepare_drift`.
    """
    process = stepper.process
    assert isinstance(process, Continuized)
    shape, n, penalty = x.shape[1:], len(x), stepper.penalty
    star = _find_star(method, p, x[0], x_star)
    x, z = x.reshape(n, -1), z.reshape(n, -1)
    eta, eta_prime, _, gamma_prime = parameter_rows(process, t).T
    A, B = np.exp(log_A(process, t)), np.exp(log_B(process, t))
    l2 = np.zeros(x.shape[1]) if penalty is None else penalty.l2

    def f(points: Array) -> Array:
        """f with the l2 of psi."""
        ridge = 0.5 * (l2 * points * points).sum(axis=1)
        return np.asarray(p.values(points.reshape(n, *shape)) + ridge)

    g = p.grads(x.reshape(n, *shape)).reshape(n, -1) + l2 * x
    w, share = z - star, stepper.per_coordinate(stepper.weights)  # 1/p_i, and 0 where p_i = 0
    lengths = gamma_prime[:, None] * share
    z_plus = z - lengths * g
    x_plus = x - stepper.per_coordinate(stepper.steps) * g  # without psi, steps of 1/L_i
    psi = np.zeros(n)
    if penalty is not None:
        z_plus = np.where(share > 0.0, _step_rows(penalty, z_plus, lengths), z)
        x_plus = x + eta[:, None] * stepper.per_coordinate(stepper.steps) * (z_plus - z)
        psi = _values(penalty, z_plus, shape)
    least = float(p.fun(star.reshape(shape)))
    least += 0.0 if penalty is None else penalty.value(star)
    before = f(x)
    total = eta * A * (before + (g * (z - x)).sum(axis=1) + psi - least)
    total += eta_prime * B * ((w * w).sum(axis=1) + 2.0 * (w * (x - z)).sum(axis=1))
    farther = (z_plus - star) ** 2 - w * w
    mark = stepper.per_coordinate(np.arange(stepper.p.size))
    for i, probability in enumerate(stepper.p.tolist()):
        at_mark = mark == i
        rise = A * (f(np.where(at_mark, x_plus, x)) - before)
        total += probability * (rise + B * farther[:, at_mark].sum(axis=1))
    return np.asarray(total)


def _find_star(method: CoordinateDescent, p: Problem, x: Array, x_star: ArrayLike | None) -> Array:
    if x_star is not None:
        star = check.array(x_star, "x_star", dtype=np.float64, finite=True)
        check.shape(star, "x_star", x.shape, like="x")
        return star.ravel()
    return minimiser(p).ravel() if method.prox is None else minimise_penalised(method, p, x)


def _step_rows(penalty: Any, v: Array, lengths: Array) -> Array:
    """Take the proximal step of each row, with the lengths of each entry."""
    if penalty.groups is None:
        return np.asarray(penalty.step(v, lengths))
    return np.array([penalty.step(*row) for row in zip(v, lengths, strict=True)])


def _values(penalty: Any, z: Array, shape: tuple[int, ...]) -> Array:
    """Return psi without its l2 at each row."""
    if isinstance(penalty.prox, Separable):
        values = penalty.prox.values(z.reshape(len(z), *shape))
    else:
        values = np.array([penalty.value(row) for row in z])
    return np.asarray(values - 0.5 * (penalty.l2 * z * z).sum(axis=1))
