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

The file is an uncompressed npz with a JSON header among its arrays; its last 64 bytes, the comment
of the zip archive, are the SHA-256 of all the bytes before.  Nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuized.support import files
from continuized.support import validation as check
from continuized.support.checkpoints.state import Checkpointed, GrowingRows, SavedState, capture
from continuized.support.progress import warn_caller

EVERY = 30.0  # seconds
FORMAT = 10
HEADER = "header"
DIGEST = 64  # characters of a SHA-256

Array = NDArray[Any]


class CheckpointError(check.AdvisedError):
    """A checkpoint that is damaged, or is of another run.  A ValueError.

    >>> import pathlib, tempfile
    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 4.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "run"
    ...     _ = cz.minimize(p, [1.0, 1.0], maxiter=5, rng=0, checkpoint=file)
    ...     try:
    ...         _ = cz.minimize(p, [2.0, 2.0], maxiter=9, rng=0, checkpoint=file, resume=True)
    ...     except cz.CheckpointError as error:
    ...         print("of another run" in str(error))
    True
    """


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
        self._file_is_good = False  # the file at `path`, which then may replace the previous
        files.remove_leftovers(path)
        self._found = self._look() if resume else None
        if not resume:
            self._check_replaceable()
        self._latest: SavedState | None = None  # not written yet
        self._last_written = -math.inf
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
            self._write_or_warn()

    def save_if_due(self, run: Checkpointed) -> None:
        """Between two blocks: remember the state, and write it if it is time to."""
        if self.is_due:
            self.save(run)
        else:
            self._latest = capture(run)

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() - self._last_written >= self.every

    def save(self, run: Checkpointed) -> None:
        """Write the state of now."""
        self._latest = capture(run)
        self._write_or_warn()

    def _write_or_warn(self) -> None:
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
        self._last_written = time.monotonic()
        plain, given = self._latest
        arrays = {name: a.join() if isinstance(a, GrowingRows) else a for name, a in given.items()}
        header = {"identity": self.identity, "state": plain}
        save(self.path, header, arrays, keep=self._file_is_good)
        self._file_is_good, self._latest = True, None

    def _look(self) -> SavedState | None:
        """The checkpoint, or the one before it where it is missing or damaged."""
        try:
            found = load(self.path)
            self._file_is_good = True
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

    def _check_replaceable(self) -> None:
        """Start anew; but a file that is no checkpoint is somebody's own, and is not replaced."""
        try:
            load(self.path)
            self._file_is_good = True
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


class CheckpointOptions(NamedTuple):
    """What a user asks of checkpoints, checked; identity() describes the run."""

    path: Path | None
    every: float
    resume: bool
    identity: Callable[[], dict[str, str]]


def check_checkpoint(
    checkpoint: Any, every: Any, resume: Any, identity: Callable[[], dict[str, str]]
) -> CheckpointOptions:
    """Return the options, or say what is wrong, as `check_path` does."""
    path = check_path(checkpoint, every, resume)
    return CheckpointOptions(path, check.as_float(every), bool(resume), identity)


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
        lock = files.Lock(path)
    except BlockingIOError as error:
        raise CheckpointError(
            f"the checkpoint {path} is in use by {error}",
            "wait for it to end, or give another path",
        ) from None
    try:
        yield Checkpointer(path, check.as_float(every), bool(resume), parts)
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


def save(path: Path, header: dict[str, Any], arrays: dict[str, Array], keep: bool = True) -> None:
    """Write a checkpoint; the old one, unless `keep` is False, is kept as `previous(path)`."""
    text = json.dumps({"format": FORMAT, **header}).encode()
    members = {HEADER: np.frombuffer(text, np.uint8), **arrays}
    for name, array in members.items():
        if array.dtype.hasobject:  # NumPy would pickle it
            raise TypeError(f"a checkpoint holds numbers, but {name} has dtype {array.dtype}")
    buffer = io.BytesIO()
    with files.uninterrupted(), zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = bytes(DIGEST)
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    # Where the disk is full or Ctrl-C comes, the error's traceback would keep the view alive, and
    # Python cannot close a buffer that is still seen.
    with buffer.getbuffer() as content:
        content[-DIGEST:] = hashlib.sha256(content[:-DIGEST]).hexdigest().encode()
        files.write(path, content, previous(path) if keep else None)


def previous(path: Path) -> Path:
    """Where the checkpoint before this one is kept."""
    return path.with_name(f"{path.name}.previous")


def load(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays; CheckpointError if the file is not as it was written."""
    try:
        data = files.read(path, files.memory() / 2)  # the arrays are copied out of it
    except ValueError as error:
        raise CheckpointError(f"{error}: no checkpoint") from error
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise CheckpointError(f"{path} is damaged, or is no checkpoint: its checksum does not fit")
    # The checksum keeps off accidents, not forgers: whatever is wrong inside is said in a sentence.
    try:
        arrays = _arrays(data)
        header = json.loads(arrays.pop(HEADER).tobytes())
        version = header.pop("format")
        if not isinstance(header, dict):
            raise TypeError("a header is a table")
    except Exception as error:
        raise CheckpointError(f"{path} is no checkpoint: it has no header of one") from error
    if version != FORMAT:
        raise CheckpointError(
            f"{path} is a checkpoint of format {version}, but this version reads format {FORMAT}: "
            "go on with the version that wrote it, or start anew at another path"
        )
    return header, arrays


def _arrays(data: bytes) -> dict[str, Array]:
    """The arrays of an npz that was written without compression, by name.

    None is larger than its bytes in the file: a header may claim any shape, and a compressed
    member be of any size.
    """
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(data):
                raise ValueError("members of a checkpoint are not compressed")
            with archive.open(member) as stream:  # its bytes are read as far as they go, no farther
                array = np.lib.format.read_array(stream, allow_pickle=False)
            arrays[member.filename.removesuffix(".npy")] = array
    return arrays
