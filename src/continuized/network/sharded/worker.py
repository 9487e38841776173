"""The worker of a shard as a process of this machine.

    python -m continuized.network.sharded.worker

It answers the requests on its standard input, one after the other, and ends with it at once, even
in the middle of its work.
"""

from __future__ import annotations

import queue
import sys

from continuized.network.workers.processes import (
    follow_orders,
    open_reports,
    read_first_order,
    report,
)
from continuized.network.workers.records import Record


def main() -> None:
    """Answer requests until there are no more."""
    reports, orders = open_reports(), sys.stdin.buffer
    if read_first_order(orders) is None:
        return
    requests: queue.SimpleQueue[Record] = queue.SimpleQueue()
    follow_orders(orders, requests.put)
    from continuized.network.sharded.shard import Shard

    shard = Shard()
    while True:
        report(reports, *shard.answer(requests.get()))


if __name__ == "__main__":
    main()
