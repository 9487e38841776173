"""Ends the processes of a Ray that was started for a run, once the run's own process is gone.

    python ray_watch.py FOLDER

Linux ends the processes that a killed process has started, if they ask for it, as Ray's do; but not
those that these have started in their turn, Ray's agents and workers.  This process waits until its
standard input, a pipe that the run holds, comes to its end.  Then it kills the processes of Ray
that have FOLDER, which is this Ray's own, in their command line or among their open files, and
removes it.

It is run as a file, by a Python that has nothing else to import, so that it is there at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

QUIET_LOOKS = 3  # that find nobody, one after the other, before it is over
LOOK_EVERY = 0.1  # seconds
LONGEST_WAIT = 10.0  # seconds


def find_processes(folder: str, run: int) -> list[int]:
    """List the processes of Ray that use this folder, but not the run's own."""
    own = (run, os.getpid())
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if int(process.name) not in own and _is_of_ray(process, folder)
    ]


def _is_of_ray(process: Path, folder: str) -> bool:
    try:
        words = process.joinpath("cmdline").read_bytes().decode(errors="replace")
        if not (words.startswith("ray::") or "/ray/" in words):
            return False
        files = [str(link.readlink()) for link in process.joinpath("fd").glob("*")]
    except OSError:  # it has ended, or is another user's
        return False
    return folder in words or any(file.startswith(folder) for file in files)


def main() -> None:
    """Wait for the end of the run, then end what it left."""
    folder, run = sys.argv[1], os.getppid()
    sys.stdin.buffer.read()
    quiet, limit = 0, time.monotonic() + LONGEST_WAIT
    while quiet < QUIET_LOOKS and time.monotonic() < limit:
        found = find_processes(folder, run)
        for number in found:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        time.sleep(LOOK_EVERY)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
