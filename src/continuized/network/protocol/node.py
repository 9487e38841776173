"""One node: a clock, a flow, a step and a mailbox.

A state machine without sockets or wall time: it is told "a message came" or "time passed", always
with its own time, and says what to send.  What it computes is its `NodeModel`'s business, and what
it does in an exchange that of `transitions`, which the simulator follows too.  A node has its own
row of numbers, the first, and those of its edges: to its neighbours, and then from them.

A lost REQUEST or ANSWER costs time: both ends give up after a while with nothing paid.  A tick of
its clock that finds the node busy, is refused or is lost is made up for later (see `timeouts`).

A node owes at most one transfer to each neighbour, and asks no neighbour that it owes.  Hence the
numbers of what comes from a neighbour grow, and the last two, answered and applied, are all one
must remember.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from continuized.network.logs.entries import (
    LOG_ANSWER,
    LOG_APPLY,
    LOG_FALL,
    LOG_JOIN,
    LOG_PAY,
    LOG_STEP,
)
from continuized.network.protocol import transitions
from continuized.network.protocol.node_model import NodeModel, check_numbers, read_estimate
from continuized.network.protocol.transitions import (
    ACTIVE_EDGE,
    ANSWERED,
    ANSWERED_AT,
    APPLIED,
    FREE,
    LOCKED_SEQ,
    NOT_BEFORE,
    NOTHING,
    OWED,
    OWN_SEQ,
    PHASE,
    SOURCE,
    TIME,
    WAIT,
    WAKEUPS,
    Message,
)
from continuized.problems.base import Array

Entry = tuple[int, int, int, int, float]  # kind, node, peer, seq, time: a line of the log
SELF = 0  # its own row


@dataclass
class Owed:
    """A transfer that was paid and is not acknowledged."""

    seq: int
    d: Array
    plain: bool
    resend: float


@dataclass
class Counts:
    """What happened to a node; ages are those of its answers when the transfer was applied.

    `answers` are those it found, for others or to pay; `steps` are gradients of its own.
    """

    exchanges: int = 0
    answers: int = 0
    steps: int = 0
    refused: int = 0
    given_up: int = 0
    resent: int = 0
    strange: int = 0
    ages: int = 0
    age_sum: float = 0.0
    age_largest: float = 0.0

    def count_age(self, age: float) -> None:
        """Count a transfer that was applied so long after the answer it rests on."""
        self.ages += 1
        self.age_sum += age
        self.age_largest = max(self.age_largest, age)


LIFE = 1 << 40  # numbers of a node that came back start above all those of its last life
MOST_DRAWN = 1 << 53  # numbers that steps draw from: those that floats hold, as logs may


@dataclass
class Node:
    """Node `number`, with the rates P_ij of the edges to its neighbours.

    `timeout`, in units of its own time, is the longest it waits before it gives up or sends
    again.  `life` counts how often it came back: then it has first to join.  A node that goes on
    from a checkpoint is given its own `time` and the number `seq` of its last exchange, and has its
    values already.  It takes gradients of its own at the rate `step_rate`, whatever exchange it is
    in.  With `dim`, what its model tells others is checked to be so many finite numbers: the node
    itself fails where it is not, and not those that would have been told.
    """

    number: int
    model: NodeModel
    neighbours: Sequence[int]
    P: Sequence[float]
    random: np.random.Generator
    timeout: float
    speed: float = 1.0  # of its own clock
    step_rate: float = 0.0
    life: int = 0
    logging: bool = True
    time: float = 0.0
    seq: int | None = None
    quiet: bool = False  # begins no exchange any more
    dim: int | None = None  # None: the model itself sees to what it tells
    counts: Counts = field(default_factory=Counts)
    log: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.joining = self.life > 0 and self.seq is None
        n = len(self.neighbours)
        own, others = np.full(n, SELF), np.arange(1, n + 1)
        ends = np.column_stack([np.append(own, others), np.append(others, own)])
        work = np.column_stack([np.zeros(n + 1), np.ones(n + 1)])  # its clock is its time
        self.rows = transitions.make_rows(ends, work, 0, self.timeout)
        self.rows.edge[:, [ANSWERED, APPLIED]] = -1
        self.rows.node[SELF, OWN_SEQ] = self.life * LIFE if self.seq is None else self.seq
        self.rows.work[SELF, TIME] = self.time
        self._edge_to = {peer: k for k, peer in enumerate(self.neighbours)}
        self.deadline = math.inf  # of the exchange it is in
        self.rate = 0.5 * sum(self.P)  # the other end of an edge ticks for it just as often
        self.next_tick = self.now if self.joining else self.now + self._draw_gap()
        self.next_step = math.inf if self.joining else self.now + self._draw_step_gap()
        self.owed: dict[int, Owed] = {}
        # Received, less what was given, of what exchanges only move: of each neighbour's present
        # life, and of all lives that ended.  What it has is what it had at its start and the sum
        # of these.
        self.account: dict[int, Array] = {}
        self.of_dead: Array | float = 0.0
        self.began = self._conserved()
        self._lives: dict[int, int] = {}  # of neighbours that died: how often
        self._cumulative = np.cumsum(self.P) / sum(self.P)
        self._on: dict[int, Callable[[Message, float], list[Message]]] = {
            transitions.REQUEST: self._request,
            transitions.ANSWER: self._answer,
            transitions.REFUSE: self._refuse,
            transitions.TRANSFER: self._transfer,
            transitions.ACK: self._ack,
            transitions.JOIN: self._join,
            transitions.WELCOME: self._welcome,
        }

    @property
    def now(self) -> float:
        """Its own time, up to which it has mixed."""
        return float(self.rows.work[SELF, TIME])

    @property
    def last_seq(self) -> int:
        """The number of the exchange that it began last."""
        return int(self.rows.node[SELF, OWN_SEQ])

    @property
    def busy(self) -> bool:
        """Whether it is in an exchange: it waits for an answer, or was locked by its own."""
        return bool(self.rows.node[SELF, PHASE] != FREE)

    @property
    def last_applied(self) -> dict[int, int]:
        """The number last applied, of each neighbour from which a transfer came."""
        last = self.rows.edge[len(self.neighbours) :, APPLIED].tolist()
        return {peer: seq for peer, seq in zip(self.neighbours, last, strict=True) if seq >= 0}

    @property
    def idle(self) -> bool:
        """Whether it waits for nothing and owes nothing."""
        return not self.busy and not self.owed

    @property
    def due(self) -> float:
        """When it next wants to be told that time passed, even if nothing comes."""
        times = [self.next_tick, *(owed.resend for owed in self.owed.values())]
        if not self.quiet:
            times.append(self.next_step)
        if self.busy:
            times.append(self.deadline)
        elif self.rows.node[SELF, WAKEUPS] > 0 and not self.quiet:
            times.append(float(self.rows.waits[SELF, NOT_BEFORE]))
        return min(times)

    @property
    def _wait(self) -> float:
        return float(self.rows.waits[SELF, WAIT])

    def tick(self, now: float) -> list[Message]:
        """Let time pass; returns what it sends."""
        rows = self.rows
        self._take_steps(now)
        if self.busy and now >= self.deadline:
            self._give_up(now)
        out = [
            self._resend(peer, owed, now) for peer, owed in self.owed.items() if owed.resend <= now
        ]
        while self.next_tick <= now:
            self.next_tick += self._draw_gap()
            transitions.tick(rows, SELF)
        if not self.quiet and transitions.may_ask(rows, SELF, now):
            out += self._ask(now)
        return out

    def receive(self, message: Message, now: float) -> list[Message]:
        """Take a message that came; returns what it sends."""
        if message.sender not in self._edge_to or message.receiver != self.number:
            self.counts.strange += 1
            return []
        self._take_steps(now)
        if self.busy and now >= self.deadline:
            self._give_up(now)
        return self._on[message.kind](message, now)

    def note_deaths(self, peer: int, deaths: int, back: bool) -> None:
        """Take note of how often a node has died by now, and whether it is back.

        What a neighbour is owed is lost with it.
        """
        if peer not in self._edge_to:
            return
        e = self._edge_to[peer]
        self.rows.alive[1 + e] = back
        if deaths > self._lives.get(peer, 0):
            self._lives[peer] = deaths
            self.of_dead = self.of_dead + self.account.pop(peer, 0.0)
            self.owed.pop(peer, None)
            self.rows.edge[e, OWED] = 0
            if self.rows.node[SELF, ACTIVE_EDGE] in (e, len(self.neighbours) + e):
                self.rows.node[SELF, PHASE] = FREE

    def fall_back(self, now: float) -> None:
        """Go on as plain gossip."""
        self._mix(now)
        self.model.fall_back()
        if not self.joining:
            self._note(LOG_FALL, self.number, 0)

    def _ask(self, now: float) -> list[Message]:
        rows = self.rows
        e = int(np.searchsorted(self._cumulative, self.random.random()))
        peer = self.neighbours[e]
        if self.joining:
            return self._ask_to_join(e, peer, now)
        reply = transitions.ask(rows, self.random, e, now)
        if reply == NOTHING:
            return []
        self.deadline = now + self._wait
        return [self._message(reply, peer, int(rows.node[SELF, OWN_SEQ]))]

    def _ask_to_join(self, e: int, peer: int, now: float) -> list[Message]:
        rows = self.rows
        rows.node[SELF, WAKEUPS] -= 1
        if not rows.alive[1 + e]:
            return []
        # To ask again, should no welcome come.
        transitions.make_up(rows, self.random, SELF, now)
        rows.node[SELF, OWN_SEQ] += 1
        return [self._message(transitions.JOIN, peer, int(rows.node[SELF, OWN_SEQ]))]

    def _request(self, message: Message, now: float) -> list[Message]:
        rows, e = self.rows, self._edge_from(message)
        accepts = not (self.joining or self.quiet)
        reply = transitions.on_request(rows, e, message.seq, accepts)
        if reply == NOTHING:
            return []
        if reply == transitions.REFUSE:
            return [self._message(reply, message.sender, message.seq)]
        self.deadline = now + self._wait
        return [self._tell(reply, e, message, now)]

    def _tell(self, kind: int, e: int, message: Message, now: float) -> Message:
        """Mix, and answer with what it has."""
        self._mix(now)
        welcomes = kind == transitions.WELCOME
        values = read_estimate(self.model) if welcomes else self.model.answer()
        values = self._check(values, "answer")
        self.counts.answers += 1
        self.rows.transfer[e, ANSWERED_AT] = now
        self._note(LOG_ANSWER, message.sender, message.seq)
        return self._message(kind, message.sender, message.seq, values)

    def _answer(self, message: Message, now: float) -> list[Message]:
        rows, e = self.rows, self._edge_to[message.sender]
        if not transitions.waits_for(rows, e, message.seq):
            return []
        assert message.values is not None  # the frame's schema
        self._mix(now)
        reply = transitions.on_answer(rows, e, message.seq, self.timeout)
        peer, plain = message.sender, self.model.plain
        d = self._check(self.model.pay(message.values), "transfer")
        self.counts.exchanges += 1
        self.counts.answers += 1
        self._book(peer, -1.0, d, plain, self._lives.get(peer, 0))
        self._note(LOG_PAY, peer, message.seq)
        self.owed[peer] = Owed(message.seq, d, plain, now + self._wait)
        return [self._message(reply, peer, message.seq, d, plain)]

    def _refuse(self, message: Message, now: float) -> list[Message]:
        rows, e = self.rows, self._edge_to[message.sender]
        if transitions.on_refusal(rows, self.random, e, message.seq, now):
            self.counts.refused += 1
        return []

    def _transfer(self, message: Message, now: float) -> list[Message]:
        rows, e, peer, seq = self.rows, self._edge_from(message), message.sender, message.seq
        reply, fresh = transitions.on_transfer(rows, e, seq)
        if reply == NOTHING:  # no answer of this life: nothing is known of it
            self.counts.strange += 1
            return []
        if fresh:
            assert message.values is not None
            self._mix(now)
            self.model.apply(message.values, message.plain)
            self._book(peer, 1.0, message.values, message.plain, seq // LIFE)
            self._note(LOG_APPLY, peer, seq)
            self.counts.count_age(now - float(rows.transfer[e, ANSWERED_AT]))
            transitions.unlock(rows, e, seq)
        return [self._message(reply, peer, seq)]

    def _ack(self, message: Message, now: float) -> list[Message]:
        if transitions.on_ack(self.rows, self._edge_to[message.sender], message.seq):
            del self.owed[message.sender]
        return []

    def _join(self, message: Message, now: float) -> list[Message]:
        e = self._edge_from(message)
        if self.joining or message.seq <= self.rows.edge[e, ANSWERED]:
            return []
        self.rows.edge[e, ANSWERED] = message.seq
        return [self._tell(transitions.WELCOME, e, message, now)]

    def _welcome(self, message: Message, now: float) -> list[Message]:
        waits = self.joining and message.seq == self.rows.node[SELF, OWN_SEQ]
        if waits and message.values is not None:
            self.model.join(message.values)
            self.rows.work[SELF, TIME] = now
            self.joining, self.began = False, self._conserved()
            self.next_step = now + self._draw_step_gap()
            self._note(LOG_JOIN, message.sender, message.seq)
            if self.model.plain:  # told before it was there
                self._note(LOG_FALL, self.number, 0)
        return []

    def _give_up(self, now: float) -> None:
        """Leave the exchange that it is in, for nothing came in time."""
        rows, e = self.rows, int(self.rows.node[SELF, ACTIVE_EDGE])
        own, held = int(rows.node[SELF, OWN_SEQ]), int(rows.node[SELF, LOCKED_SEQ])
        if rows.edge[e, SOURCE] == SELF:
            transitions.on_give_up(rows, self.random, e, own, now, self.timeout)
        else:
            transitions.on_unlock(rows, e, held, self.timeout)
        self.counts.given_up += 1

    def _resend(self, peer: int, owed: Owed, now: float) -> Message:
        rows, e = self.rows, self._edge_to[peer]
        reply = transitions.on_resend(rows, e, owed.seq, self.timeout)
        self.counts.resent += 1
        owed.resend = now + self._wait
        return self._message(reply, peer, owed.seq, owed.d, owed.plain)

    def _edge_from(self, message: Message) -> int:
        return len(self.neighbours) + self._edge_to[message.sender]

    def _message(
        self, kind: int, peer: int, seq: int, values: Array | None = None, plain: bool = False
    ) -> Message:
        return Message(kind, self.number, peer, seq, plain, values)

    def _mix(self, now: float) -> None:
        self.model.mix(now - self.now)
        self.rows.work[SELF, TIME] = now

    def _check(self, values: Array, what: str) -> Array:
        return values if self.dim is None else check_numbers(values, self.dim, what)

    def _conserved(self) -> Array:
        x, z = self.model.state()
        return x + z

    def _book(self, peer: int, sign: float, transfer: Array, plain: bool, life: int) -> None:
        amount = sign * self.find_moved(transfer, plain)
        if life < self._lives.get(peer, 0):  # it came late, from one that is dead
            self.of_dead = self.of_dead + amount
        else:
            self.account[peer] = self.account.get(peer, 0.0) + amount

    def find_moved(self, transfer: Array, plain: bool) -> Array:
        """Find how much of what exchanges only move a transfer moves."""
        return self.model.conserved_per_transfer(plain) * transfer

    def _note(self, kind: int, peer: int, seq: int) -> None:
        if self.logging:
            self.log.append((kind, self.number, peer, seq, self.now))

    def _take_steps(self, now: float) -> None:
        """Take the gradients that were due up to now, each at its own time."""
        while self.next_step <= now and not self.quiet:
            self._mix(max(self.now, self.next_step))
            draw = int(self.random.integers(MOST_DRAWN))
            self.model.step(draw)  # type: ignore[attr-defined]
            self.counts.steps += 1
            self._note(LOG_STEP, self.number, draw)
            self.next_step += self._draw_step_gap()

    def _draw_gap(self) -> float:
        return self._draw_exponential(self.rate)

    def _draw_step_gap(self) -> float:
        return self._draw_exponential(self.step_rate)

    def _draw_exponential(self, rate: float) -> float:
        return float(self.random.exponential(1.0 / rate)) if rate > 0.0 else math.inf
