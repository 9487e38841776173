"""What runs on networks give back: of averaging, and of decentralised optimisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from continuized.network.logs.entries import Log
from continuized.problems.base import Array
from continuized.process.stepper import Status
from continuized.support.display import show_html, show_lines, shown
from continuized.support.table import Table

if TYPE_CHECKING:
    from continuized.network.graphs.graph import Graph

EPSILON = float(np.finfo(np.float64).eps)
ROUNDINGS = 10.0  # of a number, that the last digits of a result may have gone through
# A rate is fitted to no less.  Two rows always lie on a line: a third must bear it out.  A single
# exchange may change the error by a factor of a few: over less than 10, chance decides the slope.
LEAST_ROWS, LEAST_DECAY = 3, math.log(10.0)


class Trace(Table):
    """Rows along a run, the first at the start: the time t, the messages so far, and the error.

    `messages` and `error` are those of `Outcome`: exchanges over an edge, each counted once.

    >>> from continuized import network
    >>> trace = network.simulate("path:3", [0.0, 1.0, 2.0], rng=0).trace
    >>> int(trace.messages[0]), float(trace.error[0]), bool(trace.error[-1] <= 1e-8)
    (0, 1.0, True)
    """

    names = ("t", "messages", "error")
    t: Array
    messages: Array
    error: Array


@shown
class Staleness(NamedTuple):
    """How old an answer was when its transfer was applied, by the clock of the node that gave it.

    That is the way of the answer and of the transfer: two one-way delays, in units of t.  The
    mean and the largest of them, and over how many exchanges.

    >>> from continuized import network
    >>> late = network.Faults(delay=0.5, law="constant")
    >>> r = network.simulate("path:3", [0.0, 1.0, 2.0], rng=0, faults=late)
    >>> round(r.staleness.mean, 9), round(r.staleness.largest, 9)
    (1.0, 1.0)
    """

    mean: float
    largest: float
    exchanges: int


# Why a run on a network ended, as the user reads it.
SENTENCES = {
    Status.CONVERGED: "The error is at most tol.",
    Status.COMPLETED: "The time asked for has passed.",
    Status.MAXITER: "The limit of events was reached before the error fell to tol.",
    Status.CLOCK_ENDED: "No two living nodes are neighbours any more, and none is to come.",
    Status.DIVERGED: "The error grew without end; plain gossip, or milder faults, may help.",
    Status.NOT_FINITE: "The error is not finite: no node is left, or steps are too long.",
}


@dataclass(kw_only=True, repr=False)
class NetworkResult:
    """What every run on a network gives back; see `Outcome` and `Decentralized` for the rest.

    Attributes
    ----------
    x : array (nodes,) or (nodes, dim)
        Of every node at the end; of a dead node, what it had at its death.
    t : float
        The time of the end.
    method : str
        Its name.
    messages : int
        Exchanges over an edge that were carried out, each counted once.  Where nodes exchange
        message by message, one takes a request, an answer, a transfer and an acknowledgement, or
        more where some are lost or refused: it still counts once.
    tol : float
        What was asked for.
    reached : bool
        Whether the error fell to tol.
    message : str
        Why the run ended, in a sentence.
    error : float
        At the end.
    trace : Trace or OptimisationTrace
        Rows along the run.
    joins : list of (t, node)
        As far as the run got.
    ledger_error : float
        How far exchanges are from having only moved what they move, relative: rounding, unless a
        transfer was lost or counted twice.
    staleness : Staleness or None
        How old answers were; None where exchanges are instantaneous.
    rounding : float
        An error of this size may be rounding alone: no rate is measured there.
    graph : Graph or None
        On which it ran.
    """

    x: Array
    t: float
    method: str
    messages: int
    tol: float
    reached: bool
    error: float
    trace: Any
    message: str = ""
    joins: list[tuple[float, int]] = field(default_factory=list)
    ledger_error: float = 0.0
    staleness: Staleness | None = None
    rounding: float = 0.0
    graph: Graph | None = None

    def _facts(self) -> dict[str, Any]:
        """Tell what is shown of it, and what went wrong only where something did."""
        names = ["message", "method", "reached", "x", "t", "messages", "gradients", "error", "tol"]
        names += ["trace", "ledger_error"]
        there = ["joins", "deaths", "staleness", "log", "dropped", "fell_back"]
        names += [name for name in there if getattr(self, name, None)]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    __repr__ = show_lines
    _repr_html_ = show_html

    @property
    def rate_measured(self) -> float:
        """r where the error falls as e^{-rt}: least squares on log error over the second half (by
        time) of the trace.  For this the trace ends where the error first falls to `rounding`, or
        to tol: real nodes fall silent there, and their clocks run on.  NaN where that is too short
        to measure a rate: fewer than 3 rows, or an error that changes by less than a factor of 10.

        >>> t = np.arange(100.0)
        >>> end = {"x": np.zeros(2), "t": 99.0, "method": "plain", "messages": 99, "tol": 1e-8}
        >>> trace = Trace(t, t, np.maximum(np.exp(-0.5 * t), 1e-20))
        >>> r = NetworkResult(**end, reached=True, error=1e-20, trace=trace, rounding=1e-18)
        >>> round(r.rate_measured, 9)
        0.5
        """
        error = self.trace.error
        ends = [*np.flatnonzero(error <= self.rounding)[:1], *np.flatnonzero(error <= self.tol) + 1]
        end = min(ends, default=len(error))
        t, error = self.trace.t[:end], error[:end]
        use = (t >= 0.5 * t.max(initial=0.0)) & np.isfinite(error)
        if len(np.unique(t[use])) < LEAST_ROWS:
            return math.nan
        logs = np.log(error[use])
        if abs(logs[-1] - logs[0]) < LEAST_DECAY:
            return math.nan
        centred = t[use] - t[use].mean()
        return float(-(centred @ logs) / (centred @ centred))


@dataclass(kw_only=True, repr=False)
class Outcome(NetworkResult):
    """A run of gossip.

    The error is sum_i |x_i - xbar|^2 over living nodes, relative to the start, with xbar the
    mean over them of (x_i + z_i) / 2, what is on its way to them included: the value at which
    they would agree.  Where fewer than two nodes are there at the start, it is relative to when
    the second one came.  All edges together tick at rate 1.

    Attributes
    ----------
    x, t, method, messages, tol, reached, message, error, joins, staleness, rounding, graph
        See `NetworkResult`; each node is mixed to its own now.
    z, x0 : arrays of the shape of x
        x0 are the values at the start; of real nodes with models of their own, None.
    trace : Trace
    snapshots : dict
        {t: x} at the times asked for.
    deaths : list of (t, node, why)
    ledger_error : float
        sum over living nodes of (x + z), and what is on its way, and what died, less what was
        there at the start and what came with joining nodes, relative to the sum of their sizes.
    mean_drift : float
        How far xbar moved, relative to the root mean square deviation at the start (absolute
        where that is 0): not at all but by deaths and joins.
    events_per_s : float
        Exchanges a second of wall time.
    log : Log or None
    dropped : int
        Of real nodes: frames that came and were none of this run's, and connections that were ended
        because nothing of this run's came over them in time.
    fell_back : bool
        Of real nodes: whether they went on as plain gossip, their messages being too slow.

    >>> from continuized import network
    >>> r = network.simulate("cycle:6", [6.0, 0.0, 0.0, 0.0, 0.0, 0.0], tol=1e-10, rng=0)
    >>> r.reached, r.x.round(3).tolist(), bool(r.ledger_error < 1e-12)
    (True, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], True)
    """

    z: Array
    trace: Trace
    snapshots: dict[float, Array] = field(default_factory=dict)
    deaths: list[tuple[float, int, str]] = field(default_factory=list)
    mean_drift: float = 0.0
    events_per_s: float = 0.0
    log: Log | None = None
    dropped: int = 0
    fell_back: bool = False
    x0: Array | None = None


def rounding_of_mean(x: Array, scale: float) -> float:
    """Return what rounding may make of sum_i |x_i - mean|^2 / scale, where all x_i are equal.

    A sum of n numbers is off by at most n roundings of its size.
    """
    off = (ROUNDINGS + len(x)) * EPSILON
    return off * off * float(np.vdot(x, x)) / scale if scale > 0.0 else 0.0


class OptimisationTrace(Table):
    """Rows along a run, the first at the start.

    t; messages and gradients so far, and the error, as in `Decentralized`; excess,
    F(mean x) - F*; and consensus, mean_i |x_i - mean x|^2 / |x*|^2.  Means are over living nodes,
    NaN where there is none.

    >>> import numpy as np
    >>> from continuized import network, problems
    >>> parts = network.split(problems.LeastSquares(np.eye(3), [1.0, 2.0, 3.0], l2=0.1), 3)
    >>> trace = network.minimize("path:3", parts, method=network.Dual(), tol=1e-6, rng=0).trace
    >>> float(trace.t[0]), int(trace.messages[0]), bool(trace.error[-1] <= 1e-6 < trace.error[0])
    (0.0, 0, True)
    """

    names = ("t", "messages", "gradients", "error", "excess", "consensus")
    t: Array
    messages: Array
    gradients: Array
    error: Array
    excess: Array
    consensus: Array


@dataclass(kw_only=True, repr=False)
class Decentralized(NetworkResult):
    """A run of decentralised optimisation.

    Attributes
    ----------
    x, t, method, messages, tol, reached, message, joins, ledger_error, staleness, rounding, graph
        See `NetworkResult`; x (nodes, dim) are estimates.  In what unit t is, the method says.
    x_star : array (dim,)
        What one machine with all the data finds.
    gradients : int
        Gradients (of conjugates, for the dual method), of all nodes.
    error : float
        mean_i |x_i - x*|^2 / |x*|^2 at the end, over living nodes, and with `agreed` for x* where
        that is another point; NaN where nobody is left.
    trace : OptimisationTrace
    rate_theory : float
        r where the theorem says that the error falls as e^{-rt}; NaN where none does.
    agreed : array (dim,)
        Where the living nodes agree in the end: x_star as long as all are there and none has
        died, and then the point to which the error is the distance.  With a node goes its
        function, and what it had of what the method keeps in sum: in the dual method and in DADAO
        the others then minimise the sum of their f_i(w) - <tilt, w>, where tilt is what is
        missing; in A²CiD² the sum of their f_i.  If the living are no longer connected they come
        there in no number of events: each part goes its own way, and the error stays.
    deaths : list of (t, node)
        As far as the run got.
    log : Log or None
        Of real nodes: every event, for `network.replay`.
    dropped : int
        Of real nodes, as in `Outcome`.

    >>> import numpy as np
    >>> from continuized import network, problems
    >>> parts = network.split(problems.LeastSquares(np.eye(3), [1.0, 2.0, 3.0], l2=0.1), 3)
    >>> r = network.minimize("path:3", parts, method=network.Dual(), tol=1e-8, rng=0)
    >>> r.reached, r.x.shape, bool(np.allclose(r.x, r.x_star, atol=1e-3))
    (True, (3, 3), True)
    """

    x_star: Array
    gradients: int
    trace: OptimisationTrace
    rate_theory: float
    agreed: Array
    deaths: list[tuple[float, int]] = field(default_factory=list)
    log: Log | None = None
    dropped: int = 0


def rounding_of_solution(condition: float) -> float:
    """Return what rounding may make of |x - x*|^2 / |x*|^2, where a gradient is off by some
    roundings of L |x*| and the solution by so much over mu; condition = L / mu.
    """
    return ((ROUNDINGS + condition) * EPSILON) ** 2
