"""How long a node waits for an answer, learnt from those that came; and what it makes up for.

The constants of accelerated gossip are made for edges that exchange as often as their rates say:
where only the share s of the exchanges takes place, theta is too large by 1/s.  So a node makes up
for a tick of its clock that came to nothing.  If the tick found the node busy, it asks as soon as
it is free.  If its request was refused or lost, it asks again, whichever neighbour, after a random
while.

Waiting too short is safe, only wasteful: nothing is paid in an exchange that was given up, and a
transfer sent again is applied once.

What is here is plain: real nodes call it, the simulator compiles that very function.
"""

from __future__ import annotations

SPREAD = 6.0  # deviations above the mean
LEAST_SHARE = 0.01  # of the longest wait
LEARN = 0.125  # the weight of a new time in the mean, and twice that in the deviation
UNKNOWN = -1.0  # the mean before any answer came
MOST_WAKEUPS = 8  # that are made up for; more would keep a slow node in exchanges for ever
BACK_OFF = 0.25  # of the time that an answer may take
LONGER = 1.5  # times as long, after nothing came in time


def update(mean: float, deviation: float, trip: float, most: float) -> tuple[float, float, float]:
    """Return the mean and the deviation of round trips after one that took `trip`, and the time to
    wait: the mean and some deviations, at most `most`.

    >>> mean, deviation, wait = UNKNOWN, 0.0, 100.0
    >>> for _ in range(50):
    ...     mean, deviation, wait = update(mean, deviation, 1.0, 100.0)
    >>> wait
    2.0
    """
    if mean < 0.0:
        mean, deviation = trip, 0.5 * trip
    deviation += 2.0 * LEARN * (abs(trip - mean) - deviation)
    mean += LEARN * (trip - mean)
    wait = max(most * LEAST_SHARE, 2.0 * mean, mean + SPREAD * deviation)
    return mean, deviation, min(most, wait)
