"""How long to wait for an answer, learnt from those that came."""

from __future__ import annotations

SPREAD = 6.0  # deviations above the mean
LEAST = 0.01  # of the longest wait
LEARN = 0.125  # the weight of a new time in the mean, and twice that in the deviation


class Patience:
    """The time to wait: the mean of past round trips and some deviations, at most `most`.

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
        self._mean: float | None = None
        self._deviation = 0.0

    def took(self, trip: float) -> None:
        """An answer came after this time."""
        if self._mean is None:
            self._mean, self._deviation = trip, 0.5 * trip
        self._deviation += 2.0 * LEARN * (abs(trip - self._mean) - self._deviation)
        self._mean += LEARN * (trip - self._mean)
        wait = max(self.most * LEAST, 2.0 * self._mean, self._mean + SPREAD * self._deviation)
        self.wait = min(self.most, wait)

    def ran_out(self) -> None:
        """None came in time: perhaps it was lost, perhaps this was too short."""
        self.wait = min(self.most, 1.5 * self.wait)
