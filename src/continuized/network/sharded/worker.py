"""The worker of a shard as a process of this machine.

    python -m continuized.network.sharded.worker

It answers the requests on its standard input, one after the other, and ends with it at once, even
in the middle of its work: it does not outlive whoever started it.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from typing import BinaryIO

from continuized.network.runtime import wire_format
from continuized.network.runtime.transports.worker import open_reports, write_record


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process ends it
    reports, orders = open_reports(), sys.stdin.buffer
    first = wire_format.read(orders)
    if first is None:
        return
    sys.path[:] = first[0]["path"]  # questions may stand wherever the caller can import from
    requests: queue.SimpleQueue[wire_format.Record] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(orders, requests), daemon=True).start()
    from continuized.network.sharded.shard import Shard

    shard = Shard()
    while True:
        write_record(reports, *shard.answer(requests.get()))


def _read_requests(orders: BinaryIO, requests: queue.SimpleQueue[wire_format.Record]) -> None:
    while (record := wire_format.read(orders)) is not None:
        requests.put(record)
    os._exit(0)  # whoever started this process has ended it, or is gone


if __name__ == "__main__":
    main()
