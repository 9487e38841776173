"""Clocks: when events happen, and with what mark.

All randomness of a run comes from children of one seed (`random_streams`); the clock draws the
times and the marks.

A clock is a description (a seed, a list of times); `clock.stream()` starts it from the
beginning, so that the same clock gives the same run again.  A stream is drawn in blocks;
how a run is cut into blocks does not change its times, nor independent marks.  Stratified marks
are the same if it is cut between passes, and a law that changes does so between blocks.

A run is recorded by drawing its events from its clock, and replayed by `Recorded`: see there.
"""

from continuized.process.clock.clocks import Merged, Poisson, Recorded, Unit
from continuized.process.clock.events import Clock, Event, Events, Stream

__all__ = ["Clock", "Event", "Events", "Merged", "Poisson", "Recorded", "Stream", "Unit"]
