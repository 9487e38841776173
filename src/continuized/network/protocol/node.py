"""One node: a clock, a flow, a step and a mailbox.

A state machine without sockets or wall time: it is told "a message came" or "time passed", always
with its own time, and says what to send.  What it computes is its `Rule`'s business.

An exchange, begun when the clock of i rings:

    i: REQUEST -> j      j, if free: locks, mixes, answers with what it has; else refuses
    j: ANSWER  -> i      i mixes, fixes the transfer d, pays it, is free again
    i: TRANSFER -> j     sent again until acknowledged; j applies each number once, is free again
    j: ACK -> i

A lost REQUEST or ANSWER costs time: both give up after a while with nothing paid.  A ring that
finds its node busy, is refused or is lost is made up for later (see `patience`).

A node owes at most one transfer to each neighbour, and asks no neighbour that it owes.  Hence the
numbers of what comes from a neighbour grow, and the last two, answered and applied, are all one
must remember.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from continuized.network import result as outcome
from continuized.network.protocol import messages
from continuized.network.protocol.messages import Message
from continuized.network.protocol.node_model import Array, Rule
from continuized.network.protocol.timeouts import Patience, back_off, with_one_more

Entry = tuple[int, int, int, int, float]  # kind, node, peer, seq, time: a line of the log


class Exchange(NamedTuple):
    """The one a node is in: as the initiator, who waits for an answer, or locked by an answer."""

    peer: int
    seq: int
    asking: bool
    since: float
    deadline: float


@dataclass
class Owed:
    """A transfer that was paid and is not acknowledged."""

    seq: int
    d: Array
    plain: bool
    resend: float


@dataclass
class Counts:
    """What happened to a node; ages are those of its answers when the transfer was applied."""

    exchanges: int = 0
    refused: int = 0
    given_up: int = 0
    resent: int = 0
    strange: int = 0
    ages: int = 0
    age_sum: float = 0.0
    age_largest: float = 0.0

    def aged(self, age: float) -> None:
        """A transfer was applied, so long after the answer it rests on."""
        self.ages += 1
        self.age_sum += age
        self.age_largest = max(self.age_largest, age)


LIFE = 1 << 40  # numbers of a node that came back start above all those of its last life


@dataclass
class Node:
    """Node `number`, with the probabilities P_ij of the edges to its neighbours.

    `timeout`, in units of its own time, is the longest it waits before it gives up or sends
    again.  `life` counts how often it came back; a node that comes back has first to `join`.
    """

    number: int
    rule: Rule
    neighbours: Sequence[int]
    P: Sequence[float]
    random: np.random.Generator
    timeout: float
    life: int = 0
    logging: bool = True
    now: float = 0.0  # its own time, up to which it has mixed
    quiet: bool = False  # begins no exchange any more
    joining: bool = False
    exchange: Exchange | None = None
    counts: Counts = field(default_factory=Counts)
    log: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rate = 0.5 * sum(self.P)  # the other end of an edge rings for it just as often
        self.ring = self.now if self.joining else self.now + self._gap()
        self.owed: dict[int, Owed] = {}
        self._rings = 0  # of the clock, that are still to be answered by an exchange
        self._not_before = 0.0
        # Received, less what was given, in shares: of each neighbour's present life, and of all
        # lives that ended.  Its share is what it had at its start and the sum of these.
        self.account: dict[int, Array] = {}
        self.of_dead: Array | float = 0.0
        self.began = self._share()
        self.dead: set[int] = set()
        self._peers = frozenset(self.neighbours)
        self._lives: dict[int, int] = {}  # of neighbours that died: how often
        self._last = self.life * LIFE
        self._answered: dict[int, tuple[int, float]] = {}  # of each neighbour: number, when
        self.applied: dict[int, int] = {}
        self._patience = Patience(self.timeout)
        self._cumulative = np.cumsum(self.P) / sum(self.P)
        self._on: dict[int, Callable[[Message, float], list[Message]]] = {
            messages.REQUEST: self._request,
            messages.ANSWER: self._answer,
            messages.REFUSE: self._refuse,
            messages.TRANSFER: self._transfer,
            messages.ACK: self._ack,
            messages.JOIN: self._join,
            messages.WELCOME: self._welcome,
        }

    @property
    def idle(self) -> bool:
        """Whether it waits for nothing and owes nothing."""
        return self.exchange is None and not self.owed

    @property
    def due(self) -> float:
        """When it next wants to be told that time passed, even if nothing comes."""
        times = [self.ring, *(owed.resend for owed in self.owed.values())]
        if self.exchange is not None:
            times.append(self.exchange.deadline)
        elif self._free_to_ask:
            times.append(self._not_before)
        return min(times)

    @property
    def _free_to_ask(self) -> bool:
        return self._rings > 0 and self.exchange is None and not self.quiet

    def tick(self, now: float) -> list[Message]:
        """Time passed."""
        if self.exchange is not None and now >= self.exchange.deadline:
            self._give_up(now)
        out = [
            self._again(peer, owed, now) for peer, owed in self.owed.items() if owed.resend <= now
        ]
        while self.ring <= now:
            self.ring += self._gap()
            self._rings = with_one_more(self._rings)
        if self._free_to_ask and now >= self._not_before:
            self._rings -= 1
            out += self._ask(now)
        return out

    def receive(self, message: Message, now: float) -> list[Message]:
        """A message came."""
        if message.sender not in self._peers or message.receiver != self.number:
            self.counts.strange += 1
            return []
        if self.exchange is not None and now >= self.exchange.deadline:
            self._give_up(now)
        return self._on[message.kind](message, now)

    def bury(self, peer: int, lives: int) -> None:
        """A neighbour died, for this many times by now; what it is owed is lost with it."""
        if lives <= self._lives.get(peer, 0):
            return  # known
        self.dead.add(peer)
        self._lives[peer] = lives
        self.of_dead = self.of_dead + self.account.pop(peer, 0.0)
        self.owed.pop(peer, None)
        if self.exchange is not None and self.exchange.peer == peer:
            self.exchange = None

    def greet(self, peer: int) -> None:
        """A neighbour came back."""
        self.dead.discard(peer)

    def fall_back(self, now: float) -> None:
        """Go on as plain gossip."""
        self._mix(now)
        self.rule.fall_back()
        if not self.joining:
            self._note(outcome.FALL, self.number, 0)

    def _ask(self, now: float) -> list[Message]:
        peer = self.neighbours[int(np.searchsorted(self._cumulative, self.random.random()))]
        if peer in self.dead:
            return []
        if self.joining or peer in self.owed:
            self._later(now)  # when the debt is settled; or should no welcome come
        if peer in self.owed:
            return []
        self._last += 1
        if self.joining:
            return [Message(messages.JOIN, self.number, peer, self._last)]
        self.exchange = Exchange(peer, self._last, True, now, now + self._patience.wait)
        return [Message(messages.REQUEST, self.number, peer, self._last)]

    def _request(self, message: Message, now: float) -> list[Message]:
        peer, seq = message.sender, message.seq
        if seq <= self._answered.get(peer, (-1, 0.0))[0]:
            return []  # a copy, or one that was overtaken
        # A neighbour that asks again has given up the exchange for which this node was locked.
        locked = self.exchange is not None and (self.exchange.asking or self.exchange.peer != peer)
        if locked or self.joining or self.quiet:
            return [Message(messages.REFUSE, self.number, peer, seq)]
        self._mix(now)
        values = self.rule.answer()
        self._answered[peer] = (seq, now)
        self.exchange = Exchange(peer, seq, False, now, now + self._patience.wait)
        self._note(outcome.ANSWER, peer, seq)
        return [Message(messages.ANSWER, self.number, peer, seq, False, values)]

    def _answer(self, message: Message, now: float) -> list[Message]:
        if not self._waits_for(message):
            return []
        assert self.exchange is not None
        assert message.values is not None  # the frame's schema
        self._patience.took(now - self.exchange.since)
        self.exchange = None
        self._mix(now)
        peer, plain = message.sender, self.rule.plain
        d = self.rule.pay(message.values)
        if not np.isfinite(d).all():
            raise ArithmeticError("a transfer is no longer finite: the run diverges")
        self.counts.exchanges += 1
        self._book(peer, -self.rule.worth(plain) * d, self._lives.get(peer, 0))
        self._note(outcome.PAY, peer, message.seq)
        self.owed[peer] = Owed(message.seq, d, plain, now + self._patience.wait)
        return [Message(messages.TRANSFER, self.number, peer, message.seq, plain, d)]

    def _refuse(self, message: Message, now: float) -> list[Message]:
        if self._waits_for(message):
            self.exchange = None
            self.counts.refused += 1
            self._later(now)
        return []

    def _transfer(self, message: Message, now: float) -> list[Message]:
        peer, seq = message.sender, message.seq
        applied = self.applied.get(peer, -1)
        number, since = self._answered.get(peer, (-1, 0.0))
        if seq == number and seq > applied:
            assert message.values is not None
            self._mix(now)
            self.rule.apply(message.values, message.plain)
            self._book(peer, self.rule.worth(message.plain) * message.values, seq // LIFE)
            self._note(outcome.APPLY, peer, seq)
            self.applied[peer] = seq
            self.counts.aged(now - since)
            if self.exchange is not None and self.exchange[:3] == (peer, seq, False):
                self.exchange = None
        elif seq > applied:  # no answer of this life: nothing is known of it
            self.counts.strange += 1
            return []
        return [Message(messages.ACK, self.number, peer, seq)]

    def _ack(self, message: Message, now: float) -> list[Message]:
        owed = self.owed.get(message.sender)
        if owed is not None and owed.seq == message.seq:
            del self.owed[message.sender]
        return []

    def _join(self, message: Message, now: float) -> list[Message]:
        peer, seq = message.sender, message.seq
        if self.joining or seq <= self._answered.get(peer, (-1, 0.0))[0]:
            return []
        self._mix(now)
        values = self.rule.answer()
        self._answered[peer] = (seq, now)
        self._note(outcome.ANSWER, peer, seq)
        return [Message(messages.WELCOME, self.number, peer, seq, False, values)]

    def _welcome(self, message: Message, now: float) -> list[Message]:
        if self.joining and message.seq == self._last and message.values is not None:
            self.rule.join(message.values)
            self.now, self.joining, self.began = now, False, self._share()
            self._note(outcome.JOIN, message.sender, message.seq)
            if self.rule.plain:  # told before it was there
                self._note(outcome.FALL, self.number, 0)
        return []

    def _waits_for(self, message: Message) -> bool:
        waited = (message.sender, message.seq, True)
        return self.exchange is not None and self.exchange[:3] == waited

    def _later(self, now: float) -> None:
        """Make up for a ring that came to nothing, with whichever neighbour, after a while."""
        self._rings = with_one_more(self._rings)
        self._not_before = now + back_off(
            self._patience.wait, float(self.random.standard_exponential())
        )

    def _give_up(self, now: float) -> None:
        if self.exchange is not None and self.exchange.asking:
            self._later(now)
        self.exchange = None
        self.counts.given_up += 1
        self._patience.ran_out()

    def _again(self, peer: int, owed: Owed, now: float) -> Message:
        self.counts.resent += 1
        self._patience.ran_out()
        owed.resend = now + self._patience.wait
        return Message(messages.TRANSFER, self.number, peer, owed.seq, owed.plain, owed.d)

    def _mix(self, now: float) -> None:
        self.rule.mix(now - self.now)
        self.now = now

    def _share(self) -> Array:
        x, z = self.rule.state()
        return x + z

    def _book(self, peer: int, amount: Array, life: int) -> None:
        if life < self._lives.get(peer, 0):  # it came late, from one that is dead
            self.of_dead = self.of_dead + amount
        else:
            self.account[peer] = self.account.get(peer, 0.0) + amount

    def _note(self, kind: int, peer: int, seq: int) -> None:
        if self.logging:
            self.log.append((kind, self.number, peer, seq, self.now))

    def _gap(self) -> float:
        return float(self.random.exponential(1.0 / self.rate)) if self.rate > 0.0 else math.inf
