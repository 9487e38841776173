"""The time of a worker that learns: its own steps, and the part of the next one that has passed."""

from __future__ import annotations

import math

STEPS_REMEMBERED = 16  # over which the mean length of a step is taken


class StepClock:
    """Counts steps, and moves on between them by the clock on the wall, at most up to the next.

    So time is in units of the worker's own mean step, whatever its speed, and exchanges that are
    asked for once a step are asked for as often as there are steps: where a step takes longer than
    the last ones did, the clock waits for it.

    >>> clock = StepClock()
    >>> for now in (10.0, 12.0):  # steps of two seconds
    ...     clock.count_step(now)
    >>> clock.read(13.0), clock.read(20.0), clock.find(2.25), clock.find(3.5)
    (2.5, 3.0, 12.5, inf)
    """

    def __init__(self) -> None:
        self.steps = 0
        self.mean = math.inf  # seconds; unknown before the second step
        self._last = math.nan
        self._gaps = 0
        self._stopped = False

    def count_step(self, now: float) -> None:
        """Count a step that ends now, in seconds."""
        if not math.isnan(self._last):
            gap = now - self._last
            self._gaps = min(self._gaps + 1, STEPS_REMEMBERED)
            self.mean = gap if self._gaps == 1 else self.mean + (gap - self.mean) / self._gaps
        self.steps += 1
        self._last = now

    def stop(self) -> None:
        """Stand still: the last step was counted."""
        self._stopped = True

    def read(self, now: float) -> float:
        """Return the time, in steps, at a moment in seconds."""
        if self._stopped or math.isinf(self.mean):
            return float(self.steps)
        passed = now - self._last
        return self.steps + (1.0 if passed >= self.mean else max(0.0, passed / self.mean))

    def find(self, t: float) -> float:
        """Find the moment, in seconds, of the time t; infinite if only a step will bring it."""
        if t <= self.steps:
            return -math.inf
        part = t - self.steps
        return self._last + part * self.mean if part <= 1.0 else math.inf
