"""A file of data: its name in errors, its bytes, and its whole lines in blocks."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from continuized.support.validation import AdvisedError, brief

BLOCK = 2**20  # bytes that are read at once


class DataError(AdvisedError):
    """A file is not what it should be; the message names the file and, for text, the line.

    >>> import pathlib, tempfile
    >>> from continuized.problems import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "rows.csv"
    ...     _ = file.write_text("y,a\\n1,two\\n")
    ...     try:
    ...         read(file)
    ...     except DataError as error:
    ...         print(str(error).partition("rows.csv")[2])
    , line 2: 'two' in column 'a' is not a finite decimal number
    """


class Source:
    """A path, checked; OSError only comes from opening and reading it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.path = os.fsdecode(path)
        except TypeError:
            raise TypeError(f"path must be a str or a Path, got {brief(path)}") from None
        # Names that would break the line, or could not be printed, are shown by their repr.
        self.name = self.path if self.path.isprintable() else repr(self.path)
        if "\0" in self.path:
            raise self.error("a path with a NUL character is no file's")
        self.gz = self.path.lower().endswith(".gz")

    @property
    def suffix(self) -> str:
        """In lower case, without .gz: ".csv" of "a.CSV.gz"."""
        path = self.path[: -len(".gz")] if self.gz else self.path
        return os.path.splitext(path)[1].lower()

    def error(self, what: str, line: int | None = None, advice: str = "") -> DataError:
        """The error to raise."""
        where = self.name if line is None else f"{self.name}, line {line}"
        return DataError(f"{where}: {what}", advice)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file's bytes, those of a .gz unpacked as they are read."""
        if os.path.isdir(self.path):
            raise self.error("a folder, not a file")
        with open(self.path, "rb", buffering=0) as raw:
            if not self.gz:
                yield raw
                return
            import gzip

            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked  # type: ignore[misc]

    def read_into(self, file: BinaryIO, room: memoryview) -> int:
        """Fill the room, or its beginning, with the bytes that come next; how many these are."""
        if not self.gz:
            return file.readinto(room)  # type: ignore[attr-defined, no-any-return]
        from gzip import BadGzipFile

        try:
            return file.readinto(room)  # type: ignore[attr-defined, no-any-return]
        except (EOFError, BadGzipFile, zlib.error) as error:
            reason = "cut short" if isinstance(error, EOFError) else str(error)
            raise self.error(f"damaged, or no gzip file: {reason}") from error


class Block(NamedTuple):
    """Whole lines: text[:stop], the last byte a newline; `line` lines stand before them."""

    text: bytearray
    stop: int
    line: int

    @property
    def address(self) -> int:
        """Where the text stands in memory, as long as the block is kept."""
        return int(np.frombuffer(self.text, np.uint8).ctypes.data)

    def line_of(self, place: int) -> int:
        """The number of the line in which text[place] stands."""
        return self.line + self.text.count(b"\n", 0, place) + 1


def blocks(source: Source, file: BinaryIO, max_line: int) -> Iterator[Block]:
    """The file in blocks, all in the same memory: a block is gone when the next is asked for."""
    text, kept, line = bytearray(BLOCK), 0, 0
    while True:
        if kept == len(text) - 1:  # one byte is spared for the newline of the last line
            text = text + bytearray(len(text))
        with memoryview(text) as view:
            end = kept + source.read_into(file, view[kept:-1])
        if end == kept:
            break
        stop = text.rfind(b"\n", kept, end) + 1
        if stop:
            yield Block(text, stop, line)
            line += text.count(b"\n", 0, stop)
            text[: end - stop] = text[stop:end]
        kept = end - stop
        if kept > max_line:
            raise source.error(too_long(max_line), line + 1)
    if kept:
        text[kept] = ord("\n")
        yield Block(text, kept + 1, line)


def too_long(max_line: int) -> str:
    """What is wrong with a line."""
    return f"more than max_line = {max_line} characters in one line"


class Growing:
    """A vector that grows; what is behind the part in use is not set."""

    def __init__(self, dtype: Any) -> None:
        self.array = np.empty(0, dtype)

    def room(self, size: int) -> Any:
        """The vector, with at least so many entries."""
        if size > self.array.size:
            # No other array shares the memory: a kernel has returned before the next call.
            self.array.resize(max(size, self.array.size * 3 // 2), refcheck=False)
        return self.array

    def cut(self, size: int) -> Any:
        """The vector with so many entries, and no memory beyond them."""
        self.array.resize(size, refcheck=False)
        return self.array
