"""The reference that the fast steppers are tested against: coordinates and rows, step by step.

`CoordinateJumps` (one, or a block) and `RowJumps` (one, or a batch) give a `Jump`, eagerly: from x
as a whole, with no thought of cost; `marked_step` mixes every coordinate and takes it.
`proximal_coordinate_step` is the same on f + psi.  As `Method.step` does for full gradients, they
do what the paper says in the fewest lines, for a reader to check.
Users' runs take the same jumps in the compiled loops of `marked.kernels`, which never form x and
cost what the support costs; that both give the same x is tested, and is a claim of `verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.process import clock as clocks
from continuized.process.flow import mix
from continuized.process.methods import Method, State
from continuized.process.parameters import eta
from continuized.process.prox import Prox


def marked_step(
    process: Method, state: State, event: clocks.Event, oracle: Callable[[Any, Any], Any]
) -> State:
    """Go from one event to the next where the oracle gives a jump on a support (`Jump`).

    Eager: every coordinate is mixed.  The lazy kernels do the same at the cost of the support.
    """
    k, t, dt, mark = event
    a, b, _, gamma_prime_k, carry = process.coefficients(k, state.t, t, dt, state.carry)
    x, z = mix(state.x, state.z, a, b)
    support, dx, dz = oracle(x, mark)
    x[support] -= dx
    z[support] -= gamma_prime_k * dz
    return State(k, t, x, z, carry)


def proximal_coordinate_step(
    process: Method,
    state: State,
    event: clocks.Event,
    problem: Problem,
    prox: Prox,
    p: Array,
    blocks: Sequence[Array] | None = None,
) -> State:
    """Go from one event to the next on f + psi, psi a sum over coordinates or blocks: at mark i

        z_i+ = prox_{(gamma'/p_i) psi_i}(z_i - (gamma'/p_i) grad_i f(x))
        x_i+ = x_i + (eta/p_i) (z_i+ - z_i)

    with the eta and gamma' of the event's own time.
    """
    k, t, dt, mark = event
    a, b, _, gamma_prime_k, carry = process.coefficients(k, state.t, t, dt, state.carry)
    x, z = mix(state.x, state.z, a, b)
    support = [mark] if blocks is None else blocks[mark]
    step = gamma_prime_k / p[mark]
    move = (prox(z - step * problem.grad(x), step) - z)[support]  # the rest stays
    x[support] += eta(t, *process.constants) / p[mark] * move
    z[support] += move
    return State(k, t, x, z, carry)


class Jump(NamedTuple):
    """What an event does on its support: x[support] -= x, z[support] -= gamma' z."""

    support: Any
    x: Array
    z: Array


class CoordinateJumps:
    """Mark i: the gradient along coordinate i, or along a block of coordinates.

    x_i -= grad_i f / L_i and z_i -= (gamma'/p_i) grad_i f; L and p have an entry to a mark.
    """

    def __init__(
        self, problem: Problem, L: Array, p: Array, blocks: Sequence[Array] | None = None
    ) -> None:
        self._grad, self._L, self._p = problem.grad, L, p
        self._blocks = [np.array([i]) for i in range(len(L))] if blocks is None else blocks

    def __call__(self, x: Array, mark: int) -> Jump:
        support = self._blocks[mark]
        g = self._grad(x)[support]
        step = 1.0 / self._L[mark] if self._L[mark] > 0.0 else 0.0
        return Jump(support, step * g, g / self._p[mark])


class RowJumps:
    """Mark i: the gradient of row i, (<a, x> - b) a with a = factors_i a_i; several marks at
    once are a batch, their mean.  x -= g / R2 and z -= gamma' g, on the rows' entries."""

    def __init__(self, problem: Any, R2: float, factors: Array | None = None) -> None:
        from scipy import sparse

        problem.refuse_extras("a row at a time")
        rows = sparse.csr_array(problem.X)
        self._rows, self._y, self._R2 = rows, problem.y, R2
        self._factors = np.ones(rows.shape[0]) if factors is None else factors

    def __call__(self, x: Array, mark: Any) -> Jump:
        marks = np.atleast_1d(mark)
        a = self._rows[marks].toarray() * self._factors[marks, None]
        g = (a @ x - self._factors[marks] * self._y[marks]) @ a / len(marks)
        support = np.flatnonzero(a.any(axis=0))
        return Jump(support, g[support] / self._R2, g[support])
