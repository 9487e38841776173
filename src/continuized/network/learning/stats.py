"""What a worker can tell of its exchanges."""

from __future__ import annotations

import math
from dataclasses import dataclass

from continuized.network.learning.background import BackgroundNode
from continuized.support.display import show_lines


@dataclass(frozen=True)
class GossipStats:
    """The exchanges of one worker, since it started or was resumed.

    steps: of its program.  asked, realised: exchanges for each gradient over the whole network, as
    asked for and as this worker takes part in them.  exchanges: those in which it took part.
    refused, given_up: requests of its own that found the other busy, or silent for too long.
    nonfinite: steps, and exchanges, that were left out because numbers were not finite.
    seconds: from a request to its answer, the mean.  staleness: the mean age of an answer when the
    transfer that rests on it came, in its own steps; longest_staleness: the largest.  distance:
    |x_i - x_j| over an edge, the root of its mean square, of exchanges that it began.
    sent_bytes, received_bytes: on its links.  dead, left: ranks that died, and that said goodbye.
    cut_off: ranks that are there and out of reach.  silent: neighbours that do not answer now.
    share: of the exchanges it was to begin, those that took place, lately; its flow is slowed down
    by it.  strangers: connections that were ended, for nothing of this run came over them.
    """

    __repr__ = show_lines

    steps: int
    asked: float
    realised: float
    exchanges: int
    refused: int
    given_up: int
    nonfinite: int
    seconds: float
    staleness: float
    longest_staleness: float
    distance: float
    sent_bytes: int
    received_bytes: int
    dead: tuple[int, ...]
    left: tuple[int, ...]
    cut_off: tuple[int, ...]
    silent: tuple[int, ...]
    share: float
    strangers: int


def read_stats(background: BackgroundNode, first_step: int) -> GossipStats:
    """Read the counters of a node; `first_step` is the count of steps with which it started."""
    with background.lock:
        node, membership, counts = background.node, background.membership, background.node.counts
        steps, began = node.clock.steps - first_step, counts.exchanges
        taken = began + counts.ages
        asked = membership.method.communications
        wanted = sum(membership.rates) * steps
        length = node.clock.mean
        return GossipStats(
            steps=node.clock.steps,
            asked=asked,
            realised=asked * taken / wanted if wanted > 0.0 else math.nan,
            exchanges=taken,
            refused=counts.refused,
            given_up=counts.given_up,
            nonfinite=background.nonfinite,
            seconds=node.answer_seconds / began if began else math.nan,
            staleness=counts.age_sum / counts.ages / length if counts.ages else math.nan,
            longest_staleness=counts.age_largest / length if counts.ages else math.nan,
            distance=math.sqrt(node.squared_distances / began) if began else math.nan,
            sent_bytes=background.sent_bytes,
            received_bytes=background.received_bytes,
            dead=tuple(membership.dead),
            left=tuple(membership.left),
            cut_off=tuple(membership.find_cut_off()),
            silent=tuple(sorted(node.silent)),
            share=node.share,
            strangers=background.strangers,
        )
