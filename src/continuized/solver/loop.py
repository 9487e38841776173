"""The one loop over events: of known and unknown constants, coordinates, rows and networks.

It draws a block of events, asks the stepper to advance, records, calls back, tests, shows
progress and saves, until a limit; no formula and no kind of problem is known here.  What differs
from run to run is the stepper's: see `process.stepper`, which tells how to write one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from continuized.process.clock import Clock, Events, Stream
from continuized.process.stepper import Limits, Progress, Status, Stepper
from continuized.solver.recording import Recorder
from continuized.solver.result import Result
from continuized.support.checkpoints.checkpointer import Checkpointer
from continuized.support.checkpoints.state import Checkpointed
from continuized.support.progress import Bar, silent

Callback = Callable[[Any], Any]

MAY_GO_ON = (None, Status.CALLBACK)  # with any other status, the last block may have ended early


class Loop(Checkpointed):
    """A run: events from a stream, or from that of a clock, taken by a stepper, until a limit."""

    changing = ("stepper", "stream", "recorder")

    def __init__(
        self,
        stepper: Stepper,
        source: Stream | Clock,
        limits: Limits,
        *,
        callback: Callback | None = None,
        bar: Bar = silent,
        checkpointer: Checkpointer | None = None,
    ) -> None:
        self.stepper, self._source, self.limits = stepper, source, limits
        self.callback, self.bar, self.checkpointer = callback, bar, checkpointer
        self.recorder = Recorder(stepper.columns, stepper.most_rows)
        self.status: Status  # once it has run

    @cached_property
    def stream(self) -> Stream:
        """The stream of events; that of a clock is made when it is asked for, as some runs end
        before their first event."""
        return self._source if isinstance(self._source, Stream) else self._source.stream()

    def run(self) -> Status:
        """Take events until the criterion is at most tol, or maxiter of them are done.

        The stepper decides what else ends a run; `status` says in the end why it was.
        """
        stepper, maxiter = self.stepper, self.limits.maxiter
        checkpointer = self.checkpointer
        status = self._record(stepper.begin())
        with nullcontext() if checkpointer is None else checkpointer.around(self):
            while status is None and stepper.k < maxiter:
                status = stepper.over()
                if status is not None:
                    break
                events = self.stream.draw(stepper.next_block(maxiter - stepper.k))
                if events.size == 0:
                    break
                if isinstance(self.stream, Stream):  # a user's own need not be
                    # A guess: where `next_block` asks for another number, it is drawn again.
                    self.stream.draw_ahead(min(events.size, maxiter - stepper.k - events.size))
                status = self._take(events)
                if checkpointer is not None and status in MAY_GO_ON and stepper.savable:
                    checkpointer.save_if_due(self)
        status = self._record(stepper.finish(status))
        self.status = status or self._status_at_end()
        return self.status

    def _take(self, events: Events) -> Status | None:
        """One block of events; and why it ends the run, if it does."""
        stepper = self.stepper
        status = self._record(stepper.advance(events))
        if status is None:
            stopped = None if self.callback is None else self._call_back(self.callback)
            status = stepper.test() or stopped
        if self.bar is not silent:
            self.bar(stepper.k, stepper.describe())
        return status

    def _call_back(self, callback: Callback) -> Status | None:
        """Show the callback where the run is; the status, if it says to stop."""
        (x, fun), stepper = self.stepper.report(), self.stepper
        try:
            callback(Result(x=x, fun=fun, nit=stepper.k, t=stepper.t))
        except StopIteration:
            return Status.CALLBACK
        return None

    def _status_at_end(self) -> Status:
        """Why a run is over that none of its events ended: tol, maxiter, or the clock."""
        tol = self.limits.tol
        if tol is not None and self.stepper.evaluate_criterion() <= tol:
            return Status.CONVERGED
        if self.stepper.k < self.limits.maxiter:
            return Status.CLOCK_ENDED
        return Status.COMPLETED if tol is None else Status.MAXITER

    def _record(self, progress: Progress) -> Status | None:
        if progress.rows is not None:
            self.recorder.add(progress.rows)
        return progress.status

    def restore(self, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Go on from a checkpoint, with the limits of now."""
        self.stepper.check_resumable(plain["stepper"], self.limits)
        super().restore(plain, arrays)

    def result(self) -> Result:
        """The result of a run that is over, as `minimize` gives it."""
        stepper, status = self.stepper, self.status
        return Result(
            nit=stepper.k,
            success=status.success,
            status=status,
            message=stepper.explain(status),
            trace=self.recorder.trace(),
            path=self.recorder.path(),
            **stepper.result(status),
        )
