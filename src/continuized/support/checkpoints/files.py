"""The file of a checkpoint: whole or not at all, and sure to be as it was written.

It is an uncompressed npz with a JSON header among its arrays; its last 64 bytes, the comment of
the zip archive, are the SHA-256 of all the bytes before.  Nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.support import files
from continuized.support.validation import AdvisedError

FORMAT = 2
HEADER = "header"
DIGEST = 64  # characters of a SHA-256

Array = NDArray[Any]


class CheckpointError(AdvisedError):
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
