"""How long to wait for an answer, learnt from those that came; and what is made up for.

The constants of accelerated gossip are made for edges that exchange as often as their rates say:
where only the share s of the exchanges takes place, theta is too large by 1/s.  So a node makes up
for a ring of its clock that came to nothing.  It found the node busy: the node asks as soon as it
is free.  It was refused or lost: the node asks again, whichever neighbour, after a random while.

Plain functions of floats: real nodes call them, the simulator compiles these very functions.
"""

from __future__ import annotations

SPREAD = 6.0  # deviations above the mean
LEAST = 0.01  # of the longest wait
LEARN = 0.125  # the weight of a new time in the mean, and twice that in the deviation
UNKNOWN = -1.0  # the mean before any answer came
MOST_RINGS = 8  # that are made up for; more would keep a slow node in exchanges for ever
BACK_OFF = 0.25  # of the time that an answer may take


def learnt(mean: float, deviation: float, trip: float, most: float) -> tuple[float, float, float]:
    """The mean and the deviation of round trips after one that took `trip`, and the time to wait:
    the mean and some deviations, at most `most`."""
    if mean < 0.0:
        mean, deviation = trip, 0.5 * trip
    deviation += 2.0 * LEARN * (abs(trip - mean) - deviation)
    mean += LEARN * (trip - mean)
    wait = max(most * LEAST, 2.0 * mean, mean + SPREAD * deviation)
    return mean, deviation, min(most, wait)


def longer(wait: float, most: float) -> float:
    """The time to wait after none came in time: perhaps it was lost, perhaps this was too short."""
    return min(most, 1.5 * wait)


def with_one_more(rings: int) -> int:
    """The rings to be made up for, one more if they are not too many."""
    return min(MOST_RINGS, rings + 1)


def back_off(wait: float, drawn: float) -> float:
    """The while before a ring is made up for; `drawn` from the exponential law of mean 1.

    Random, lest two that refused each other ask each other at the same moment again.
    """
    return BACK_OFF * wait * drawn


FORMULAS = (learnt, longer, with_one_more, back_off)


class Patience:
    """The time to wait, in the units of the trips that it is told.

    Waiting too short is safe, only wasteful: nothing is paid in an exchange that was given up,
    and a transfer sent again is applied once.

    >>> patience = Patience(100.0)
    >>> for _ in range(50):
    ...     patience.took(1.0)
    >>> patience.wait
    2.0
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self.wait = most
        self._mean, self._deviation = UNKNOWN, 0.0

    def took(self, trip: float) -> None:
        """An answer came after this time."""
        self._mean, self._deviation, self.wait = learnt(
            self._mean, self._deviation, trip, self.most
        )

    def ran_out(self) -> None:
        """None came in time."""
        self.wait = longer(self.wait, self.most)
