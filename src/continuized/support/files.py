"""Writing files: whole or not at all.

Memory is asked for before it is taken, too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write(path: Path, content: str | bytes) -> Path:
    """Write a file through a temporary one beside it: readers see the old or the new, whole."""
    data = content.encode() if isinstance(content, str) else content
    _through(path.with_name(f".{path.name}.{secrets.token_hex(4)}.part"), data, path)
    return path


def renew(path: Path, content: bytes | memoryview, previous: Path | None = None) -> None:
    """Write a file that is written again and again; the old one is kept as `previous`.

    Wherever this is cut short, by a kill or a power failure, `path` or `previous` is whole: the
    new file is on the disk before the old one gives up its name.  The temporary file always has
    the same name, so that kills leave one of them at most, and the next call takes it away.
    """
    if path.is_dir():  # a rename would move a folder too
        raise IsADirectoryError(f"{path} is a folder")
    _through(path.with_name(f"{path.name}.part"), content, path, previous)
    if os.name == "posix":  # the names are on the disk when the folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _through(
    temporary: Path, data: bytes | memoryview, path: Path, previous: Path | None = None
) -> None:
    try:
        with open(temporary, "wb") as file:
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


def writable_folder(path: Path) -> Path:
    """The folder, made if need be; OSError, with the folder's name, if it cannot be written to."""
    path.mkdir(parents=True, exist_ok=True)
    probe = path / f".{secrets.token_hex(4)}.part"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


SHARE = 0.8  # of the machine's memory that a result may take


def check_memory(need: float, what: str, instead: str) -> None:
    """Refuse what would take `need` bytes, if that is more than there is."""
    have = SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > have:
        raise MemoryError(
            f"{what} would take {need / 1e9:.1f} GB, more than {have / 1e9:.1f} GB here; "
            f"ask for {instead}"
        )
