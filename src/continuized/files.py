"""Writing files: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write(path: Path, content: str | bytes) -> Path:
    """Write a file through a temporary one beside it: readers see the old or the new, whole."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return path


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
