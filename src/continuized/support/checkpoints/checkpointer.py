"""Checkpoints: the state of a run in a file, whole or not at all, to go on from later.

A loop that can be continued is `Checkpointed` (`state`): it names what its blocks of events
change.  It hands itself to a checkpointer, around its blocks and after each of them:

    with checkpointer.around(self):
        while ...:
            ...one block of events...
            checkpointer.save_if_due(self)

The checkpointer writes when it is time, at the end, and when the block is left by an error or by
Ctrl-C.  What it writes is always a state between two blocks, so that `save_if_due` is for whole
blocks only: a block that ends the run in its middle is left out, and done again on resuming.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from continuized.support import validation as check
from continuized.support.checkpoints.files import CheckpointError, load, previous, save
from continuized.support.checkpoints.state import Checkpointed, GrowingRows, SavedState, capture
from continuized.support.files import Lock, remove_leftovers
from continuized.support.progress import warn_caller

EVERY = 30.0  # seconds


class OtherRunError(CheckpointError):
    """A checkpoint of another run."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or the one before it had to be used.

    >>> import pathlib, tempfile, warnings
    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 4.0])
    >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     file = pathlib.Path(folder) / "run"
    ...     r = cz.minimize(p, [1.0, 1.0], maxiter=5, rng=0, checkpoint=file)
    ...     _ = file.write_bytes(b"damaged")
    ...     r = cz.minimize(p, [1.0, 1.0], maxiter=9, rng=0, checkpoint=file, resume=True)
    >>> r.nit, [warning.category.__name__ for warning in seen]
    (9, ['CheckpointWarning'])
    """


class Checkpointer:
    """Writes the checkpoints of one run, and has found the one that it goes on from.

    It is made while the path is locked (`open_checkpointer`).  `identity` says what run it is, a
    sentence for each of its parts; a checkpoint in which one of them is another is refused.
    """

    def __init__(self, path: Path, every: float, resume: bool, identity: dict[str, str]) -> None:
        self.path, self.every, self.identity = path, every, identity
        self._sound = False  # whether the file at `path` is good, and so may replace the previous
        remove_leftovers(path)
        self._found = self._look() if resume else None
        if not resume:
            self._look_away()
        self._latest: SavedState | None = None  # not written yet
        self._when = -math.inf
        self._warned = False

    @contextmanager
    def around(self, run: Checkpointed) -> Iterator[None]:
        """Around the loop: first the state found is put back, and at the end the last is written.

        CheckpointError where the state found is not one of such a run; OSError where the first one
        cannot be written: better now than after an hour.
        """
        if self._found is not None:
            try:
                run.restore(*self._found)
            except CheckpointError:
                raise
            except Exception as error:
                raise CheckpointError(
                    f"the checkpoint {self.path} does not hold the state of such a run",
                    "give another path, or resume=False",
                ) from error
            self._found = None
        self._latest = capture(run)
        try:
            self._write()
        except OSError as error:
            raise OSError(
                error.errno,
                f"the checkpoint cannot be written ({error.strerror or error}); give a path in a "
                "folder that exists, may be written to and has room",
                str(self.path),
            ) from error
        try:
            yield
        finally:
            self._try()

    def save_if_due(self, run: Checkpointed) -> None:
        """Between two blocks: remember the state, and write it if it is time to."""
        self._latest = capture(run)
        if time.monotonic() - self._when >= self.every:
            self._try()

    def _try(self) -> None:
        """Write; a run of hours shall not end because a disk is full for a minute."""
        try:
            self._write()
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn_caller(
                    f"the checkpoint {self.path} cannot be written ({error.strerror or error}); "
                    "the last good one is kept, and the run goes on",
                    CheckpointWarning,
                )

    def _write(self) -> None:
        if self._latest is None:
            return
        self._when = time.monotonic()
        plain, given = self._latest
        arrays = {name: a.join() if isinstance(a, GrowingRows) else a for name, a in given.items()}
        header = {"identity": self.identity, "state": plain}
        save(self.path, header, arrays, keep=self._sound)
        self._sound, self._latest = True, None

    def _look(self) -> SavedState | None:
        """The checkpoint, or the one before it where it is missing or damaged."""
        try:
            found = load(self.path)
            self._sound = True
        except (FileNotFoundError, NotADirectoryError):
            try:  # a kill between two renames leaves only the previous one
                found = load(previous(self.path))
            except (FileNotFoundError, NotADirectoryError):
                return None
        except CheckpointError as error:
            try:
                found = load(previous(self.path))
            except (CheckpointError, OSError):
                raise error from None
            warn_caller(f"{error}; the one before it is used", CheckpointWarning)
        header, arrays = found
        identity, state = header.get("identity"), header.get("state")
        if not (isinstance(identity, dict) and isinstance(state, dict)):
            raise CheckpointError(f"{self.path} is no checkpoint: it has no state of a run")
        for part, now in self.identity.items():
            if identity.get(part) != now:
                raise OtherRunError(
                    f"the checkpoint {self.path} is of another run: its {part} is "
                    f"{identity.get(part)}, but now it is {now}",
                    "give another path, or resume=False",
                )
        return SavedState(state, arrays)

    def _look_away(self) -> None:
        """Start anew; but a file that is no checkpoint is somebody's own, and is not replaced."""
        try:
            load(self.path)
            self._sound = True
            return
        except (FileNotFoundError, NotADirectoryError):
            pass  # the first write says so, if it is the folder that is missing
        except CheckpointError as error:
            raise CheckpointError(f"{error}; remove it, or give another path") from error
        before = previous(self.path)
        try:
            load(before)
        except OSError:
            pass
        except CheckpointError as error:
            raise CheckpointError(
                f"{before} is no checkpoint, but the one before {self.path} is kept there",
                "move it, or give another path",
            ) from error


@contextmanager
def open_checkpointer(
    path: Path | None, every: float, resume: bool, identity: Callable[[], dict[str, str]]
) -> Iterator[Checkpointer | None]:
    """The checkpointer of the run that identity() describes; without a path nothing is asked, or
    kept.

    The path is released however the run ends: an interactive session keeps the last error, and with
    it all that the run held.
    """
    if path is None:
        yield None
        return
    parts = identity()
    try:
        lock = Lock(path)
    except BlockingIOError as error:
        raise CheckpointError(
            f"the checkpoint {path} is in use by {error}",
            "wait for it to end, or give another path",
        ) from None
    try:
        yield Checkpointer(path, float(every), bool(resume), parts)
    finally:
        lock.release()


def check_path(checkpoint: Any, every: Any, resume: Any) -> Path | None:
    """The absolute path of the checkpoint, or a sentence that says what is wrong."""
    check.real(every, "every", minimum=0.0, finite=False, noun="a number of seconds")
    check.flag(resume, "resume")
    if checkpoint is None:
        if resume:
            raise ValueError("resume=True needs the path of a checkpoint: give checkpoint=")
        return None
    check.instance(checkpoint, "checkpoint", (str, os.PathLike), "the path of a file")
    if not os.fspath(checkpoint):
        raise check.refusal(ValueError, "checkpoint", "the path of a file", checkpoint)
    try:
        named = b"\0" not in os.fsencode(checkpoint)
    except UnicodeEncodeError:  # half of a pair of surrogates
        named = False
    if not named:
        advice = "no file can have such a character in its name"
        raise check.refusal(ValueError, "checkpoint", "the path of a file", checkpoint, advice)
    # Absolute: the user's function may change the folder.  A link is kept, and its file renewed.
    return Path(os.path.realpath(checkpoint))
