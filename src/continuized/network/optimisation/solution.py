"""What a run of decentralised optimisation gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from continuized.network.outcome import Staleness, decay_rate
from continuized.problems.base import Array


class Trace(NamedTuple):
    """Rows along a run, the first at the start.

    t, and the exchanges and gradients (of conjugates, for the dual method) so far; the error
    mean_i |x_i - x*|^2 / |x*|^2; excess, F(mean x) - F*; and consensus,
    mean_i |x_i - mean x|^2 / |x*|^2.  Means are over living nodes; after a death the error is the
    distance to `Decentralized.agreed`.
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

    x (nodes, dim): every node's guess at the end; of a dead one at its death.  x_star: what one
    machine with all the data finds.  rate_theory is NaN where no theorem gives one.  t: see the
    method.

    agreed: where the living nodes agree in the end.  That is x_star as long as nobody has died.
    With a node its function goes, and what it had of what the method keeps in sum: of the dual
    method and of DADAO, the others then minimise the sum of their f_i(w) - <tilt, w>, where tilt
    is what is missing; of A²CiD², the sum of their f_i.

    With faults: deaths (t, node) and joins (t, node), as far as the run got; ledger_error, how far
    exchanges are from having only moved what they move, relative; staleness, how old answers were.
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
    agreed: Array = field(repr=False)
    deaths: list[tuple[float, int]] = field(default_factory=list)
    joins: list[tuple[float, int]] = field(default_factory=list)
    ledger_error: float = 0.0
    staleness: Staleness | None = None

    @property
    def rate_measured(self) -> float:
        """r where the error falls as e^{-rt}: see `Outcome.rate_measured`."""
        return decay_rate(self.trace.t, self.trace.error)
