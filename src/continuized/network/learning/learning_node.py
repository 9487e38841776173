"""A node of `network.protocol` whose clock counts the steps of a program that learns.

Its messages and waits are in seconds, as the clock on the wall has them; its ticks and its flow are
in steps (`StepClock`).  Links lose nothing, so that a neighbour of which nothing came in time is
stopped, or very slow: it is not asked again before something comes from it, or a long time has
passed.  An answer that comes too late is cancelled: otherwise the node that gave it would wait in
vain for the transfer.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.network.learning.membership import Membership
from continuized.network.learning.model import LearningModel
from continuized.network.learning.step_clock import StepClock
from continuized.network.protocol import transitions
from continuized.network.protocol.node import SELF, Node
from continuized.network.protocol.transitions import (
    ACTIVE_EDGE,
    ASKING,
    MEAN,
    NOT_BEFORE,
    OWED,
    PHASE,
    SOURCE,
    WAKEUPS,
    Message,
)
from continuized.problems.base import Array

CANCEL = 16  # a kind of message beside those of the protocol
RETRY_AFTER = 10.0  # timeouts after which a neighbour that stays silent is asked once more
LATENCY, BANDWIDTH = 1e-3, 1e9  # seconds, and bytes a second: until it knows better
TICKS_REMEMBERED = 64  # over which the share of exchanges that took place is taken


class LearningNode(Node):
    """Worker `rank` of a membership; `timeout` in seconds.

    With a `ledger`, it books what exchanges brought from every neighbour, less what they took; of
    the dead and of those that left too.  That takes, for each neighbour, the memory of two models.
    """

    model: LearningModel

    def __init__(
        self,
        membership: Membership,
        model: LearningModel,
        random: np.random.Generator,
        timeout: float,
        ledger: bool = False,
    ) -> None:
        self.clock = StepClock()
        self.ledger = ledger
        self.silent: dict[int, float] = {}  # until when a neighbour is not asked
        self.answer_seconds = 0.0  # that answers took to come, all together
        self.squared_distances = 0.0  # of the exchanges that it began
        self._finished = False
        self._t = 0.0  # up to which it has mixed, in steps
        self._asked = self._begun = float(TICKS_REMEMBERED)
        self._counted = self._ticks = 0
        super().__init__(
            membership.rank,
            model,
            membership.neighbours,
            membership.rates,
            random,
            timeout,
            logging=False,
            quiet=True,  # until its first step
        )
        self._on[CANCEL] = self._cancel
        self._next_t = self._t + self._draw_steps()
        self._first_guess = LATENCY + model.x.nbytes / BANDWIDTH

    @property
    def share(self) -> float:
        """The share of the exchanges it was to begin that took place, lately.

        The flow is slowed down by it, for eta is in proportion to the rate of exchanges.  So slow
        links cost exchanges, and not stability: an exchange keeps both ends for as long as it
        takes, and eta times that time stays bounded (`docs/learning.md`).
        """
        return min(1.0, self._begun / self._asked)

    @property
    def due_at(self) -> float:
        """The second at which it next wants to be told that time passed.

        A tick need not wake it where it is in an exchange, or has ticks to make up for.
        """
        occupied = self.quiet or self.busy or self.rows.node[SELF, WAKEUPS] > 0
        return min(self.due, math.inf if occupied else self.clock.find(self._next_t))

    @property
    def has_ended_own(self) -> bool:
        """Whether no exchange that it began is under way."""
        return not self.owed and self.rows.node[SELF, PHASE] != ASKING

    def pass_time(self, now: float) -> list[Message]:
        """Let time pass; return what it sends."""
        for peer in [peer for peer, until in self.silent.items() if now >= until]:
            self._hear_again(peer)
        if self._finished:  # nor does it make up for a request that was refused
            self.rows.node[SELF, WAKEUPS] = 0
        t = self.clock.read(now)
        while self._next_t <= t and not self.quiet:
            self._next_t += self._draw_steps()
            transitions.tick(self.rows, SELF)
            self._count_tick()
        return self.tick(now)

    def take(self, new: Array, old: Array, now: float) -> None:
        """Take what the program did to the parameters; see `LearningModel.add`."""
        self.quiet = False
        self._mix(now)
        self.model.add(new, old)

    def resume(self, steps: int) -> None:
        """Count on from so many steps."""
        self.clock.steps, self._t = steps, float(steps)
        self._next_t = self._t + self._draw_steps()

    def finish(self, now: float) -> None:
        """Begin no exchange any more, but go on answering, as a node of plain gossip."""
        self._mix(now)
        self.clock.stop()
        self._finished, self._next_t = True, math.inf
        self.model.fall_back()

    def drop(self, peer: int) -> None:
        """Forget a neighbour that died or left; its share of ticks goes with it."""
        self.note_deaths(peer, 1, back=False)
        self.silent.pop(peer, None)
        self.P = [0.0 if i == peer else p for i, p in zip(self.neighbours, self.P, strict=True)]
        total = sum(self.P)
        self.rate = 0.5 * total
        if total > 0.0:
            self._cumulative = np.cumsum(self.P) / total
        else:
            self._next_t = math.inf

    def _count_tick(self) -> None:
        """Compare the exchanges since the last tick with the one that it asked for."""
        fade = 1.0 - 1.0 / TICKS_REMEMBERED
        self._asked = fade * self._asked + (self._ticks > 0)
        self._begun = fade * self._begun + (self.counts.exchanges - self._counted)
        self._counted, self._ticks = self.counts.exchanges, self._ticks + 1

    def abandon(self, message: Message) -> None:
        """Forget an exchange that failed before anything was paid."""
        self.rows.edge[self._edge_to[message.sender], OWED] = 0

    def receive(self, message: Message, now: float) -> list[Message]:
        if message.sender in self.silent:
            self._hear_again(message.sender)
        return super().receive(message, now)

    def _hear_again(self, peer: int) -> None:
        del self.silent[peer]
        self.rows.alive[1 + self._edge_to[peer]] = True

    def _ask(self, now: float) -> list[Message]:
        out = super()._ask(now)
        self._shorten_pause(now)
        return out

    def _refuse(self, message: Message, now: float) -> list[Message]:
        out = super()._refuse(message, now)
        self._shorten_pause(now)
        return out

    def _shorten_pause(self, now: float) -> None:
        """Make up for a tick sooner than after a lost message: in about the time of an exchange."""
        waits = self.rows.waits[SELF]
        if waits[NOT_BEFORE] > now:
            known = waits[MEAN] >= 0.0
            pause = 2.0 * (waits[MEAN] if known else self._first_guess)
            pause *= self.random.standard_exponential()
            waits[NOT_BEFORE] = min(waits[NOT_BEFORE], now + pause)

    def _answer(self, message: Message, now: float) -> list[Message]:
        e = self._edge_to[message.sender]
        if not transitions.waits_for(self.rows, e, message.seq):
            return [self._message(CANCEL, message.sender, message.seq)]
        asked = float(self.rows.waits[SELF, transitions.ASKED])
        out = super()._answer(message, now)
        self.squared_distances += self.model.squared_distance
        self.answer_seconds += now - asked
        return out

    def _cancel(self, message: Message, now: float) -> list[Message]:
        transitions.unlock(self.rows, self._edge_from(message), message.seq)
        return []

    def _give_up(self, now: float) -> None:
        e = int(self.rows.node[SELF, ACTIVE_EDGE])
        if self.rows.edge[e, SOURCE] == SELF:
            self.silent[self.neighbours[e]] = now + RETRY_AFTER * self.timeout
            self.rows.alive[1 + e] = False
        super()._give_up(now)

    def _mix(self, now: float) -> None:
        t = max(self._t, self.clock.read(now))
        self.model.mix(self.share * (t - self._t))
        self._t = t
        self.rows.work[SELF, transitions.TIME] = now

    def _conserved(self) -> Any:
        return np.add(*self.model.state(), dtype=np.float64) if self.ledger else np.zeros(0)

    def _book(self, peer: int, sign: float, transfer: Array, plain: bool, life: int) -> None:
        if self.ledger:
            super()._book(peer, sign, transfer, plain, life)

    def find_moved(self, transfer: Array, plain: bool) -> Array:
        return self.model.find_moved(transfer)

    def _draw_gap(self) -> float:
        return math.inf  # its ticks are counted in steps, by `pass_time`

    def _draw_steps(self) -> float:
        return super()._draw_gap()
