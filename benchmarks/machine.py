"""What times depend on: the machine, how busy it is, and the versions."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import peers
from continuized import __version__
from continuized.support import threads

OURS = ("numpy", "scipy", "numba")


def describe() -> dict[str, Any]:
    """The processor, its cores open to this process, the load at this moment, and versions."""
    libraries = {"continuized": __version__, "Python": platform.python_version()}
    libraries |= {name: metadata.version(name) for name in OURS}
    libraries |= {name: peers.version(name) for name in peers.PEERS}
    return {
        "processor": processor(),
        "cores": threads.count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": load(),
        "versions": libraries,
    }


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name of the processor, as the system calls it."""
    try:
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def load() -> float | None:
    """How many processes wanted to run, on average over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def sentences(machine: dict[str, Any]) -> str:
    """The machine in words, with a warning where others were at work on it.

    >>> sentences({"processor": "P", "cores": 2, "system": "Linux", "load": 0.1,
    ...            "versions": {"numpy": "2.0"}})
    'P, 2 cores, Linux; numpy 2.0.'
    """
    listed = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    words = f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; {listed}."
    busy = machine["load"]
    if busy is not None and busy > 0.5:
        words += f" The machine was not idle when this began: load {busy:.1f}."
    return words
