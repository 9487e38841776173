"""What the one loop asks of every method, and why a run ends.

`solver.loop.Loop` draws events in blocks and hands them to a `Stepper`, which knows nothing of
callbacks, progress bars, files and results.  A new kind of run is a new stepper:

    class Walk(Stepper):
        name, columns = "walk", ("k", "t", "fun")
        changing = ("k", "t", "x")          # what a checkpoint keeps; `support.checkpoints.state`

        def begin(self):                    # the first row of the trace
            return Progress(rows=(0, 0.0, self.f(self.x)))

        def advance(self, events):          # a block of events, compiled or in Python
            self.x = ...
            self.k, self.t = self.k + events.size, float(events.t[-1])
            return Progress(rows=(self.k, self.t, self.f(self.x)))

and `Loop(stepper, clock, limits).run()` runs it.  The rest has a default, or is asked for only
where somebody looks: `report` by a callback, `describe` by a progress bar, `finish`,
`evaluate_criterion` and `result` at the end.  A front door that gives back something else than a
`Result`, as those of networks do, asks its stepper for it by a method of its own (`make_outcome`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from continuized.process.clock import Events
from continuized.support.checkpoints.checkpointer import CheckpointError
from continuized.support.checkpoints.state import Checkpointed


class Status(Enum):
    """Why a run ended.  The value is the sentence that the user reads, by `Stepper.explain`.

    code: the number that SciPy's results have in its place: 0 is success, 1 the limit of steps, 99
    SciPy's own for a callback.

    >>> Status.COMPLETED.value, Status.COMPLETED.success, Status.MAXITER.success
    ('All the steps asked for were taken.', True, False)
    """

    code: int

    def __new__(cls, sentence: str, code: int) -> Status:
        member = object.__new__(cls)
        member._value_, member.code = sentence, code
        return member

    # Of every run: told by the loop (`solver.loop`), or by a stepper that knows earlier.
    CONVERGED = "The gradient norm is at most tol.", 0
    COMPLETED = "All the steps asked for were taken.", 0
    MAXITER = "The limit of steps, maxiter, was reached before the gradient norm fell to tol.", 1
    CLOCK_ENDED = "The recorded clock has no further events.", 2
    CALLBACK = "The callback raised StopIteration.", 99
    # Told by steppers alone; with known constants, most by `solver.constant_checks`.
    NOT_FINITE = (
        "A value of f, a gradient or an iterate was not finite; x is the last good point. "
        "A larger L, or a fun and jac without overflow, may help.",
        3,
    )
    DIVERGED = (
        "The gradients grew ten billion times: the run diverges; x is the last point before "
        "that. L is probably too small, or mu too large.",
        4,
    )
    WRONG_GRADIENT = (
        "The gradient is not that of f: a finite difference along it is another number; x is the "
        "best point so far. Look at the sign and the terms of jac.",
        5,
    )
    NO_DESCENT = (
        "The value of f does not fall however short the step is; x is the best point so far. "
        "f may be rough, or not convex, or jac not its gradient.",
        6,
    )
    NO_MINIMUM = "It seems that f has no minimum; x is where the run was then.", 7
    PRECISION = (
        "The gradient norm cannot fall to tol at this precision: it has stopped falling, and steps "
        "are lost in the rounding of x, which is the last point. Give a larger tol.",
        8,
    )

    @property
    def success(self) -> bool:
        """Whether the run did what was asked of it."""
        return self.code == 0


NO_LIMIT = 2**62  # events or exchanges, more than any run has


class Limits(NamedTuple):
    """When to stop.  tol None: the criterion is not tested."""

    tol: float | None
    maxiter: int


class Progress(NamedTuple):
    """What came of the start, of a block of events, or of the end.

    status: why the run ends here, if it does.  rows: new rows of the trace, an entry for each of
    the stepper's columns: a number, an array or a list where there are several; None for no rows.
    """

    status: Status | None = None
    rows: tuple[Any, ...] | None = None


class Stepper(Checkpointed):
    """A method on a problem, under way: the part of a run that differs from kind to kind.

    name: for the progress bar.  columns: of the rows that it gives for the trace.  most_rows: where
    there are more rows, every second one is dropped.  limit: what users call the largest number of
    events.  criterion_name: of what tol is compared with, in words.  sentences: what the user reads
    of a status, where that is another sentence than its own.  k, t: the number and the time
    of the last event.  block: how many events it wants next.  savable: whether the state now, after
    a block, is one to go on from (a block that was cut short may not be).
    """

    name: str
    columns: tuple[str, ...] = ("k", "t", "fun")
    most_rows: int | None = None
    limit: str = "maxiter"
    criterion_name: str = "gradient norm"
    sentences: Mapping[Status, str] = {}
    block: int = 1
    savable: bool = True
    k: int = 0
    t: float = 0.0

    def begin(self) -> Progress:
        """The start, before the first event and before a checkpoint is put back."""
        return Progress()

    def over(self) -> Status | None:
        """Why there is nothing left to do, where that is so; asked before every block."""
        return None

    def next_block(self, left: int) -> int:
        """How many events to draw next, where maxiter allows for `left` more."""
        return min(self.block, left)

    def advance(self, events: Events) -> Progress:
        """Let these events happen, or those up to one that ends the run.

        A state between two blocks is what a checkpoint keeps.  A status here ends the run at once:
        the callback is not called.
        """
        raise NotImplementedError

    def test(self) -> Status | None:
        """Return CONVERGED where the criterion has come to tol; asked after the callback."""
        return None

    def report(self) -> tuple[Any, float]:
        """A copy of x and f there, for the callback."""
        raise NotImplementedError

    def describe(self) -> str:
        """The state in a few words, for the progress bar."""
        return ""

    def finish(self, status: Status | None) -> Progress:
        """The end: find out what `evaluate_criterion` and `result` need, and the last row.

        status: why the run ended, None where maxiter or the clock ended it.  Returns another one
        where the end shows it.
        """
        return Progress(status)

    def evaluate_criterion(self) -> float:
        """Return what tol is compared with, at the end."""
        return math.inf

    def result(self, status: Status) -> dict[str, Any]:
        """What it adds to the result: x, fun, jac, nfev, njev, method, ..."""
        return {}

    def explain(self, status: Status) -> str:
        """Return why the run ended, as the user reads it."""
        sentence: str = self.sentences.get(status, status.value)
        return sentence.replace("gradient norm", self.criterion_name) + self.remark()

    def remark(self) -> str:
        """What the message says beside the status, with a space before it."""
        return ""

    def fingerprint(self) -> Any:
        """What its constants are, for a checkpoint to be known by."""
        return None

    def check_resumable(self, plain: dict[str, Any], limits: Limits) -> None:
        """Refuse (CheckpointError) to go on from a state of this stepper that is past a limit."""
        if plain["k"] > limits.maxiter:
            raise CheckpointError(
                f"the checkpoint has {plain['k']} events already, more than {self.limit} = "
                f"{limits.maxiter}",
                f"give a larger {self.limit}, or resume=False",
            )
