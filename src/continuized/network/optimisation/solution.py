"""What a run of decentralised optimisation gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from continuized.network.result import EPSILON, ROUNDINGS, Staleness, decay_rate
from continuized.problems.base import Array


class Trace(NamedTuple):
    """Rows along a run, the first at the start.

    t; messages, which are exchanges over an edge, each counted once, and gradients (of conjugates,
    for the dual method), so far; the error
    mean_i |x_i - x*|^2 / |x*|^2; excess, F(mean x) - F*; and consensus,
    mean_i |x_i - mean x|^2 / |x*|^2.  Means are over living nodes, NaN where there is none; the
    error is the distance to `Decentralized.agreed` where not all are there, or some have died.

    >>> import numpy as np
    >>> from continuized import network, problems
    >>> parts = network.split(problems.LeastSquares(np.eye(3), [1.0, 2.0, 3.0], l2=0.1), 3)
    >>> trace = network.minimize("path:3", parts, network.Dual(), tol=1e-6, seed=0).trace
    >>> float(trace.t[0]), int(trace.messages[0]), bool(trace.error[-1] <= 1e-6 < trace.error[0])
    (0.0, 0, True)
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

    Attributes
    ----------
    x : array (nodes, dim)
        Every node's guess at the end; of a dead one at its death.
    x_star : array (dim,)
        What one machine with all the data finds.
    t : float
        The time of the end; in what unit, the method says.
    method : str
        Its name.
    messages, gradients : int
        Exchanges over an edge, each counted once as in `Outcome`, and gradients (of conjugates, for
        the dual method), of all nodes.
    tol : float
        What was asked for.
    reached : bool
        Whether the error fell to tol.
    error : float
        mean_i |x_i - x*|^2 / |x*|^2 at the end, over living nodes, and with `agreed` for x* where
        that is another point; NaN where nobody is left.
    trace : Trace
    rate_theory : float
        r where the theorem says that the error falls as e^{-rt}; NaN where none does.
    agreed : array (dim,)
        Where the living nodes agree in the end: x_star as long as all are there and none has
        died, and then the point to which the error is the distance.  With a node goes its
        function, and what it had of what the method keeps in sum: in the dual method and in DADAO
        the others then minimise the sum of their f_i(w) - <tilt, w>, where tilt is what is
        missing; in A²CiD² the sum of their f_i.  If the living are no longer connected they come
        there in no number of events: each part goes its own way, and the error stays.
    deaths, joins : lists of (t, node)
        As far as the run got.
    ledger_error : float
        With faults: how far exchanges are from having only moved what they move, relative.
    staleness : Staleness or None
        With faults: how old answers were.
    rounding : float
        An error of this size may be rounding alone: no rate is measured there.

    >>> import numpy as np
    >>> from continuized import network, problems
    >>> parts = network.split(problems.LeastSquares(np.eye(3), [1.0, 2.0, 3.0], l2=0.1), 3)
    >>> r = network.minimize("path:3", parts, network.Dual(), tol=1e-8, seed=0)
    >>> r.reached, r.x.shape, bool(np.allclose(r.x, r.x_star, atol=1e-3))
    (True, (3, 3), True)
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
    rounding: float = 0.0

    @property
    def rate_measured(self) -> float:
        """r where the error falls as e^{-rt}: see `Outcome.rate_measured`."""
        return decay_rate(self.trace.t, self.trace.error, self.rounding)


def rounding_of_solution(condition: float) -> float:
    """What rounding may make of |x - x*|^2 / |x*|^2, where a gradient is off by some roundings of
    L |x*| and the solution by so much over mu; condition = L / mu.
    """
    return ((ROUNDINGS + condition) * EPSILON) ** 2
