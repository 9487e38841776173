"""The scalars of a run, one event after the other: known constants, or an L that changes."""

from __future__ import annotations

from continuized.process.clock import Event
from continuized.process.flow import convex_flow
from continuized.process.methods import Method
from continuized.process.parameters import carried_time, convex_gamma_prime, gamma
from continuized.support.checkpoints.state import Checkpointed

LEAST_L, MOST_L = 1e-300, 1e300  # beyond, a step or its square would overflow


class FixedSchedule(Checkpointed):
    """L and mu are given: the coefficients of the method."""

    changing = ("_t", "_carry")

    def __init__(self, method: Method) -> None:
        self._method, self.L = method, method.L
        self._t, self._carry, self._steps = 0.0, method.init(0.0).carry, (0.0, 0.0)

    def weights(self, event: Event) -> tuple[float, float]:
        """The mixing weights before the event."""
        a, b, *steps, carry = self._method.coefficients(
            event.k, self._t, event.t, event.dt, self._carry
        )
        self._t, self._carry, self._steps = event.t, carry, (steps[0], steps[1])
        return a, b

    def steps(self) -> tuple[float, float]:
        """(gamma, gamma') at the event."""
        return self._steps


class AdaptiveSchedule(Checkpointed):
    """L unknown and mu = 0: the convex parameters, whose pair (sqrt A, sqrt B) is carried on.

    sqrt(A / B) = s / sqrt(2L), with s the time on the clock of the parameters since the last
    restart, so that a change of L multiplies s by sqrt(L_new / L).
    """

    changing = ("L", "_s")

    def __init__(self, L: float) -> None:
        self.L, self._s = L, 0.0

    def weights(self, event: Event) -> tuple[float, float]:
        before, self._s = self._s, self._s + event.dt
        return convex_flow(before, self._s, event.dt, self.L, 0.0, 0.0)

    def steps(self) -> tuple[float, float]:
        return gamma(self.L), convex_gamma_prime(self._s, self.L, 0.0)

    def change_L(self, L: float) -> None:
        """Carry on from the same pair with another L."""
        L = min(max(L, LEAST_L), MOST_L)
        self._s = carried_time(self._s, self.L, L)
        self.L = L

    def restart(self) -> None:
        """From time 0 again: A = 0."""
        self._s = 0.0
