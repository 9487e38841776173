"""What may go wrong between nodes: delays, loss, duplication, clocks, deaths and joins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs.graph import Graph, count_parts
from continuized.network.protocol.transitions import draw_exponential, draw_uniform
from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.display import show_line
from continuized.support.validation import short_repr

LAWS = ("exponential", "constant")
DELAYS_TO_WAIT = 20.0  # the default timeout: e^-20 of exponential delays are longer
LEAST_TIMEOUT = 1.0  # ticks of all edges together
# Ticks: a node may come to wait for a hundredth of its timeout, and pauses for less.  A shorter
# time is lost in the rounding of t before 1e9 ticks: nodes would ask again with t standing still.
SHORTEST_TIMEOUT = 1e-4
MOST_STEPS = 1e5  # messages and ticks that an exchange may take on average: some 10 milliseconds


class Links(NamedTuple):
    """The faults of links, as numbers that compiled code takes too: see `Faults`."""

    delay: float
    constant: bool
    loss: float
    duplication: float


def draw_copies(links: Links, rng: Any) -> int:
    """Draw how often a message comes: never, once or twice."""
    if links.loss > 0.0 and draw_uniform(rng) < links.loss:
        return 0
    if links.duplication > 0.0 and draw_uniform(rng) < links.duplication:
        return 2
    return 1


def draw_delay(links: Links, rng: Any) -> float:
    """Draw how long a message takes."""
    if links.delay > 0.0:
        return float(links.delay * (1.0 if links.constant else draw_exponential(rng)))
    return 0.0


@dataclass(frozen=True, eq=False)
class Faults:
    """The faults of a simulated network.

    Parameters
    ----------
    delay : float
        The mean time a message takes, in units of the method's t; that of gossip is such that
        all edges together tick at rate 1.
    loss, duplication : float
        The probability that a message is lost, and that one which is not comes twice: every one of
        the four that make an exchange (request, answer, transfer, acknowledgement), on its own.
    skew : float or array (nodes,)
        The clock of node i runs at speed 1 + skew_i: it mixes and ticks so much faster.  A
        number s stands for speeds spread evenly over [1 - s, 1 + s], in the nodes' order.
    deaths : pairs (t, node)
        The node falls silent at t, in whatever exchange it is; what it has, what it had paid
        and not brought and what it was owed and had not got are lost with it.
    joins : pairs (t, node)
        The node comes, or comes back after a death, at t, with the x of a living neighbour drawn
        by the rates, and z = x (for `minimize` see there).  A node whose first entry is a join is
        absent before it.
    timeout : float or None
        The longest that a node waits, by its own clock, before it gives an exchange up or sends
        a transfer again; by default 20 delays, and no less than the time in which one tick of
        all edges together is expected.  It waits less once it knows how long answers take.
    law : "exponential" or "constant"
        Of the delays.

    >>> Faults(delay=0.5, loss=0.1).wait()
    10.0
    """

    __repr__ = show_line

    delay: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0
    skew: float | ArrayLike = 0.0
    deaths: tuple[tuple[float, int], ...] = ()
    joins: tuple[tuple[float, int], ...] = ()
    timeout: float | None = None
    law: str = "exponential"

    def __post_init__(self) -> None:
        check.real(self.delay, "delay", minimum=0.0)
        for name in ("loss", "duplication"):
            check.real(getattr(self, name), name, minimum=0.0, below=1.0, noun="a probability")
        if self.timeout is not None:
            check.real(self.timeout, "timeout", above=0.0, other="None")
        check.one_of(self.law, "law", LAWS)
        if check.is_real(self.skew):
            advice = "clocks run at speeds from 1 - skew to 1 + skew, all of them > 0"
            check.real(self.skew, "skew", above=-1.0, below=1.0, advice=advice)
        object.__setattr__(self, "deaths", check_pairs(self.deaths, "deaths"))
        object.__setattr__(self, "joins", check_pairs(self.joins, "joins"))

    def wait(self, rate: float = 1.0) -> float:
        """Return the timeout that holds where all edges together tick at this rate."""
        if self.timeout is not None:
            least = SHORTEST_TIMEOUT / rate
            advice = "a shorter one is lost in the rounding of t, and nodes would ask without end"
            return check.real(self.timeout, "timeout", minimum=least, other="None", advice=advice)
        return max(LEAST_TIMEOUT / rate, DELAYS_TO_WAIT * float(self.delay))

    def links(self) -> Links:
        """Return the faults of the links alone."""
        delay, loss, duplication = map(float, (self.delay, self.loss, self.duplication))
        return Links(delay, self.law == "constant", loss, duplication)

    def steps_per_exchange(self, nodes: int) -> float:
        """Estimate, from below, the messages and ticks that an exchange of gossip takes on average.

        A request and its answer must come, within the timeout, or the node asks again; a transfer
        is sent until it and its acknowledgement come.  All edges tick meanwhile: an exchange keeps
        its two ends busy for two delays each.

        >>> Faults().steps_per_exchange(10), Faults(loss=0.5).steps_per_exchange(10)
        (4.0, 16.0)
        """
        delay, come = float(self.delay), (1.0 - self.loss) ** 2
        slowest = float(self.speeds(nodes).min())
        wait = self.wait() / (slowest * delay) if delay > 0.0 else math.inf  # in delays
        in_time = float(wait > 2.0)
        if self.law == "exponential" and wait < math.inf:
            early = -math.expm1(-wait) - wait * math.exp(-wait)
            in_time = min(1.0, early * (1.0 + self.duplication) ** 2)
        asked = 2.0 / (come * in_time) if come * in_time > 0.0 else math.inf
        return asked + 2.0 / come + 4.0 * delay / nodes

    def check_cost(self, nodes: int) -> None:
        """Refuse faults with which gossip to a number of exchanges would not end in any time."""
        steps = self.steps_per_exchange(nodes)
        if steps > MOST_STEPS:
            raise ValueError(
                f"with delay = {self.delay:g}, loss = {self.loss:g} and timeout = {self.wait():g} "
                f"an exchange takes at least {steps:.2g} messages and ticks on average, more than "
                f"{MOST_STEPS:.0e}; give a smaller delay or loss, a longer timeout, or until="
            )

    def speeds(self, nodes: int) -> Array:
        """Return 1 + skew of every node."""
        noun = "a number or one for each node"
        skew = check.array(self.skew, "skew", dtype=np.float64, finite=True, noun=noun)
        if skew.ndim == 0:
            skew = skew * np.linspace(-1.0, 1.0, nodes)
        check.array(skew, "skew", above=-1.0)
        return 1.0 + np.asarray(check.shape(skew, "skew", (nodes,), each="node"))

    def changes(self, nodes: int) -> list[tuple[float, int, bool]]:
        """List (t, node, whether it joins), in time; refuse an order that makes no sense."""
        listed = [(t, i, False) for t, i in self.deaths] + [(t, i, True) for t, i in self.joins]
        listed.sort(key=lambda change: change[0])
        absent = self.absent_at_start()
        for t, i, joins in listed:
            if not i < nodes:
                act = "join" if joins else "die"
                raise ValueError(f"node {short_repr(i)} is to {act}, of only {nodes}")
            if joins != (i in absent):
                state = "is there already" if joins else "is not there"
                raise ValueError(f"node {i} cannot {'join' if joins else 'die'} at {t}: it {state}")
            absent = absent - {i} if joins else absent | {i}
        return listed

    def absent_at_start(self) -> set[int]:
        """Return the nodes that are not there at the start."""
        first = {i: min(t for t, k in self.joins if k == i) for _, i in self.joins}
        died = {i: min(t for t, k in self.deaths if k == i) for _, i in self.deaths}
        return {i for i, t in first.items() if t < died.get(i, np.inf)}


def check_pairs(given: Any, name: str, other: str = "") -> tuple[tuple[float, int], ...]:
    """Return the pairs of a time and a node; `other` names what else may be given."""
    what = f"{other}pairs of a finite time >= 0 and a node"
    try:
        listed = [(t, i) for t, i in given]
    except (TypeError, ValueError) as error:
        raise check.refusal(TypeError, name, what, given) from error
    if not all(check.is_real(t) and check.is_real(i) for t, i in listed):
        raise check.refusal(TypeError, name, what, given)
    pairs = [(check.as_float(t), check.as_float(i)) for t, i in listed]
    if not all(0.0 <= t < np.inf and i >= 0.0 and i.is_integer() for t, i in pairs):
        raise check.refusal(ValueError, name, what, given)
    return tuple((float(t), int(i)) for t, i in listed)


def choose_victims(graph: Graph, count: int, random: np.random.Generator) -> list[int]:
    """Choose `count` nodes to kill, one after the other, so that the rest stay connected.

    Raises ValueError where fewer than two nodes would be left.

    >>> nodes = choose_victims(Graph.of("path:5"), 2, np.random.default_rng(0))
    >>> sorted(nodes) in ([0, 1], [0, 4], [3, 4])
    True
    """
    if not 0 <= count <= graph.nodes - 2:
        raise ValueError(
            f"{count} of {graph.nodes} nodes cannot be killed: two at least must be left"
        )
    alive = np.ones(graph.nodes, np.bool_)
    chosen: list[int] = []
    while len(chosen) < count:
        # Every connected graph has such a node: one that is farthest from some other.
        for node in random.permutation(np.flatnonzero(alive)).tolist():
            alive[node] = False
            if count_parts(graph, alive) == 1:
                chosen.append(node)
                break
            alive[node] = True
    return chosen
