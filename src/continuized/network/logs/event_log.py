"""What happens in a run as lines of JSON in a file, as it happens: for people, and for programs.

Every line is an object with `time` (UTC, of writing), `event`, and what belongs to it; nodes have
the names that they have in the graph.

    start       method, transport, graph, nodes, edges, processes, speed, tol, resume
    exchange    t (the own time of the node that began it), node, peer, seq
    death       t, node, reason
    join        t, node
    warning     text
    checkpoint  path
    summary     each second: seconds, t, messages, error, living, and counts
    end         reached, message, and what the summary has

Of a simulation, the lines are written when it is over (`log_simulation`).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.logs.entries import LOG_APPLY, LOG_PAY, Log
from continuized.support.progress import warn_caller

SUMMARY_EVERY = 1.0  # seconds


class EventLog:
    """Appends lines to a file; without a path, nothing.

    OSError where the file cannot be opened.  If it cannot be written to later, as on a full disk,
    there is a warning, and the run goes on without its log.
    """

    def __init__(self, path: str | os.PathLike[str] | None, graph: Graph) -> None:
        self.is_open = path is not None
        self._path, self._graph = path, graph
        self._file: Any = None
        if path is not None:
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def add(self, event: str, **fields: Any) -> None:
        """Add a line, with the numbers under `node` and `peer` as names."""
        self._write([self._make_line(_now(), event, fields)])

    def add_exchanges(self, exchanges: Iterable[tuple[int, int, int, float]]) -> None:
        """Add a line for each exchange: the nodes that began and answered it, number, own time."""
        now = _now()
        self._write(
            self._make_line(now, "exchange", {"t": t, "node": node, "peer": peer, "seq": seq})
            for node, peer, seq, t in exchanges
        )

    def flush(self) -> None:
        """Let readers see what there is."""
        self._write((), flush=True)

    def close(self) -> None:
        """Close the file.  May be called more than once."""
        if self._file is not None:
            self.flush()
            file, self._file = self._file, None
            with contextlib.suppress(OSError):  # said already
                file.close()

    def _make_line(self, now: str, event: str, fields: dict[str, Any]) -> str:
        for name in fields.keys() & {"node", "peer"}:
            fields[name] = self._graph.label_of(fields[name])
        fields = {name: None if _is_odd(value) else value for name, value in fields.items()}
        line = json.dumps({"time": now, "event": event, **fields}, default=str, allow_nan=False)
        return f"{line}\n"

    def _write(self, lines: Iterable[str], flush: bool = False) -> None:
        if not self.is_open:
            return
        try:
            self._file.writelines(lines)
            if flush:
                self._file.flush()
        except OSError as error:
            self.is_open = False
            warn_caller(
                f"the log {self._path} cannot be written ({error.strerror or error}): the run goes "
                "on without it",
                RuntimeWarning,
            )


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
            for node, peer, seq, t in _list_exchanges(result.log):
                fields = {"t": t, "node": node, "peer": peer, "seq": seq}
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


def _list_exchanges(log: Log) -> list[tuple[int, int, int, float]]:
    """List the exchanges that were carried out: who began and answered it, number, own time.

    An exchange is carried out when its transfer is applied.  The time of that entry is the other
    node's: that of the node which began it stands where it paid.
    """
    columns = (np.asarray(column).tolist() for column in log)
    entries = list(zip(*columns, strict=True))
    applied = {(i, j, seq) for kind, j, i, seq, _ in entries if kind == LOG_APPLY}
    return [
        (i, j, seq, t)
        for kind, i, j, seq, t in entries
        if kind == LOG_PAY and (i, j, seq) in applied
    ]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_odd(value: Any) -> bool:
    """Whether a value is a float that JSON does not know."""
    return isinstance(value, float) and not math.isfinite(value)
