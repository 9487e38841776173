"""Writing files: whole or not at all, by one run at a time; and reading what is a file.

Memory is asked for before it is taken, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from continuized.support.signals import note_signal

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

PART = re.compile(r"\.[0-9a-f]{8}\.part")


def write(path: Path, content: str | bytes | memoryview, previous: Path | None = None) -> Path:
    """Write a file through a temporary one beside it: readers see the old or the new, whole.

    The old one is kept as `previous`, if that is given.  Wherever this is cut short, by a kill or a
    power failure, `path` or `previous` is whole: the new file is on the disk before the old one
    gives up its name.  The temporary file is new, and no link is followed.
    """
    if path.is_dir():  # a rename would move a folder too
        raise IsADirectoryError(f"{path} is a folder")
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if previous is not None:
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, previous)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        # About the file that was asked for, not the hidden one.
        if isinstance(error, OSError) and error.errno is not None:
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise
    if os.name == "posix":  # the names are on the disk when the folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return path


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of `write` that kills have left; for one who holds its lock."""
    prefix = f".{path.name}"
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(prefix) and PART.fullmatch(name, len(prefix)):
                with contextlib.suppress(OSError):
                    os.unlink(path.with_name(name))


def read(path: Path, most: float) -> bytes:
    """Read the bytes of a regular file; ValueError for anything else, and for more than `most`
    bytes.

    A pipe would be waited for, and a device read without end.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
            raise ValueError(f"{path} is {kind}, not a file")
        if status.st_size > most:
            size, room = status.st_size / 1e9, most / 1e9
            raise ValueError(f"{path} has {size:.1f} GB, more than the {room:.1f} GB that fit here")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(status.st_size)  # not `most`: as much would be allocated at once
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the end of a short block that would be left in pieces by it.

    An archive that is closed in the middle of a member, for one, has an error of its own to raise,
    in place of KeyboardInterrupt.  Where the handler is not Python's, nothing is done.
    """
    handler, noted = signal.getsignal(signal.SIGINT), list[int]()
    try:
        with note_signal(signal.SIGINT, callable) as noted:
            yield
    finally:
        if noted and callable(handler):
            handler(noted[0], None)


class Lock:
    """A lock on a path, held by one run at a time; the system takes it away from a killed one.

    BlockingIOError, with the number of the process that holds it, where it is taken.  On file
    systems and systems without locks, there is none; nor where its name is taken by something
    else, which stays as it is.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.with_name(f".{path.name}.lock")
        self._descriptor = -1
        if fcntl is None:
            return
        while self._descriptor < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            try:
                descriptor = os.open(self._file, flags, 0o600)
            except OSError:  # the folder may not be there: the first write says so
                return
            try:
                if not _is_lock(descriptor):
                    return
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Where its last holder has just removed the file, this one has no name.
                if _is_at(descriptor, self._file):
                    self._descriptor = descriptor
            except BlockingIOError:
                holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
                raise BlockingIOError(f"process {holder or 'unknown'}") from None
            except OSError:  # no locks on this file system
                return
            finally:
                if self._descriptor < 0:
                    os.close(descriptor)
        with contextlib.suppress(OSError):  # where the disk is full, the lock has no number
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        held = self._descriptor, self._file, os.getpid()
        self._finalizer = weakref.finalize(self, _release, *held)

    def release(self) -> None:
        """Let others have it."""
        if self._descriptor >= 0:
            self._finalizer()


def _is_lock(descriptor: int) -> bool:
    """Whether the file is new or one of ours, which holds a number, and has no other name."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        return False
    return re.fullmatch(rb"(\d+\n)?", os.pread(descriptor, 64, 0)) is not None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def _release(descriptor: int, path: Path, holder: int) -> None:
    if os.getpid() == holder:  # a child that was forked meanwhile ends without it
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)  # while the lock is held: nobody else's is removed
    os.close(descriptor)


def writable_folder(path: Path) -> Path:
    """Return the folder, made if need be; OSError, with the folder's name, if it cannot be written
    to."""
    path.mkdir(parents=True, exist_ok=True)
    probe = path / f".{secrets.token_hex(4)}.part"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


SHARE = 0.8  # of the machine's memory that a result may take


def memory() -> float:
    """Return how many bytes a result may take."""
    return SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(need: float, what: str, instead: str) -> None:
    """Refuse what would take `need` bytes, if that is more than there is."""
    have = memory()
    if need > have:
        raise MemoryError(
            f"{what} would take {need / 1e9:.1f} GB, more than {have / 1e9:.1f} GB here; "
            f"ask for {instead}"
        )
