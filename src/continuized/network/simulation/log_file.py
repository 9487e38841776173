"""The lines that a simulation adds to a log of events, once it is over."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import numpy as np

from continuized.network.result import LOG_APPLY
from continuized.network.runtime.event_log import EventLog


def log_simulation(path: str | os.PathLike[str], result: Any, texts: Iterable[str] = ()) -> None:
    """Add the lines of a simulation that is over, in the order of t; the rows of its trace stand
    for the summaries.

    texts: of warnings.
    """
    graph, trace = result.graph, result.trace
    with closing(EventLog(path, graph)) as events:
        events.add(
            "start", method=result.method, transport="simulate", graph=graph.name,
            nodes=graph.nodes, edges=len(graph.edges), tol=result.tol, resume=False,
        )  # fmt: skip
        for text in texts:
            events.add("warning", text=text)
        lines: list[tuple[float, str, dict[str, Any]]] = []
        if result.log is not None:
            done = result.log.kind == LOG_APPLY
            columns = (np.asarray(column)[done].tolist() for column in result.log[1:])
            for node, peer, seq, t in zip(*columns, strict=True):
                fields = {"t": t, "node": peer, "peer": node, "seq": seq}  # the other one began it
                lines.append((t, "exchange", fields))
        for t, node, *why in result.deaths:
            reason = why[0] if why else "killed"
            lines.append((t, "death", {"t": t, "node": node, "reason": reason}))
        lines += [(t, "join", {"t": t, "node": node}) for t, node in result.joins]
        for row in zip(trace.t, trace.messages, trace.error, strict=True):
            fields = {"t": float(row[0]), "messages": int(row[1]), "error": float(row[2])}
            lines.append((fields["t"], "summary", fields))
        for _, event, fields in sorted(lines, key=lambda line: line[0]):
            events.add(event, **fields)
        events.add(
            "end", reached=bool(result.reached), message=result.message, t=float(result.t),
            messages=int(result.messages), error=float(result.error),
            ledger_error=float(result.ledger_error),
        )  # fmt: skip
