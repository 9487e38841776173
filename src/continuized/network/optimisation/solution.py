"""What a run of decentralised optimisation gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from continuized.network.outcome import decay_rate
from continuized.problems.base import Array


class Trace(NamedTuple):
    """Rows along a run, the first at the start.

    t, and the exchanges and gradients (of conjugates, for the dual method) so far; the error
    mean_i |x_i - x*|^2 / |x*|^2; excess, F(mean x) - F*; and consensus,
    mean_i |x_i - mean x|^2 / |x*|^2.
    """

    t: Array
    messages: Array
    gradients: Array
    error: Array
    excess: Array
    consensus: Array


@dataclass
class Decentralized:
    """A run of decentralised optimisation.

    x (nodes, dim): every node's guess at the end.  x_star: what one machine with all the data
    finds.  rate_theory is NaN where no theorem gives one.  t: see the method.
    """

    x: Array
    x_star: Array = field(repr=False)
    t: float
    method: str
    messages: int
    gradients: int
    tol: float
    reached: bool
    error: float
    trace: Trace = field(repr=False)
    rate_theory: float

    @property
    def rate_measured(self) -> float:
        """r where the error falls as e^{-rt}: see `Outcome.rate_measured`."""
        return decay_rate(self.trace.t, self.trace.error)
