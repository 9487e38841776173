"""Ports of this machine that nobody else takes meanwhile."""

from __future__ import annotations

import os
import socket

FIRST, LAST, ROOM = 20_000, 30_000, 8  # below those that systems give out by themselves


def find_port() -> int:
    """Find the first of `ROOM` free ports in a row; other processes look elsewhere."""
    places = (LAST - FIRST) // ROOM
    for n in range(places):
        first = FIRST + ROOM * ((os.getpid() + n) % places)
        try:
            for port in range(first, first + ROOM):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise RuntimeError("no ports are free")
