"""What `continuized gossip` prints and writes: a table, JSON, pictures and their data."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import click

from continuized.app.commands import TOO_SHORT, show, to_json
from continuized.plot.network import MOST_DRAWN

if TYPE_CHECKING:
    from continuized.network import Gossip, Graph, Outcome
    from continuized.plot.network import View
    from continuized.problems.base import Array

EXACT_UP_TO = 1000  # nodes: the rate of the second moments
# Of the time that the theorem allows the quickest method; it takes half of that, mostly.
VIEWS = (1 / 32, 1 / 16, 1 / 8, 1 / 4)


class Faulty(TypedDict):
    """What goes wrong on purpose; see `network.Faults`."""

    loss: float
    duplication: float
    delay: float
    skew: float


class Setting(NamedTuple):
    """What was asked for."""

    graph: Graph
    values: Array
    transport: str
    tol: float
    seed: int
    faults: Faulty


class MethodRun(NamedTuple):
    """A method's run, its exact rate in theory (None where it was not sought or found), and the
    theorem's."""

    method: Gossip
    outcome: Outcome
    rate_exact: float | None
    rate_bound: float


def result(setting: Setting, run: MethodRun) -> dict[str, Any]:
    """The numbers of a run, by the names that --json prints.

    messages are exchanges over an edge, each counted once, here and in error.csv.
    bound is the theorem's, on the mean of the error at the time of the end; none for a run with
    faults or of real nodes, which no theorem covers.
    """
    outcome = run.outcome
    covered = _is_covered(setting, run)
    return {
        "method": outcome.method,
        "messages": int(outcome.messages),
        "reached": bool(outcome.reached),
        "error": float(outcome.error),
        "bound": float(_bound(setting, run, outcome.t)) if covered else None,
        "rate_measured": float(outcome.rate_measured),
        "rate_theory": float(run.rate_bound if run.rate_exact is None else run.rate_exact),
        "events_per_s": float(outcome.events_per_s),
        "deaths": len(outcome.deaths),
        "fell_back": bool(outcome.fell_back),
        "ledger_error": float(outcome.ledger_error),
        "mean_drift": float(outcome.mean_drift),
    }


def json_text(setting: Setting, runs: Sequence[MethodRun]) -> str:
    """One object."""
    return to_json(
        {
            "graph": setting.graph.name,
            "nodes": setting.graph.nodes,
            "edges": len(setting.graph.edges),
            "tol": setting.tol,
            "transport": setting.transport,
            "seed": setting.seed,
            "faults": {name: value for name, value in setting.faults.items() if value},
            "results": [result(setting, run) for run in runs],
        },
        indent=2,
    )


def show_runs(setting: Setting, runs: Sequence[MethodRun]) -> None:
    """A table with a column for each method, and what it comes to in a sentence."""
    from continuized.app import report

    rows = [_row(name, runs, text) for name, text in _lines(setting, runs)]
    header = ("", *(run.outcome.method for run in runs))
    numeric = tuple(range(1, len(header)))
    click.echo(_caption(setting, runs) + "\n")
    show(report.Table(header, tuple(rows), numeric=numeric))
    click.echo(click.wrap_text(" ".join(_sentences(setting, runs))) + "\n")


def _caption(setting: Setting, runs: Sequence[MethodRun]) -> str:
    g = setting.graph
    made = "simulated" if setting.transport == "simulate" else f"real nodes, {setting.transport}"
    faults = "".join(f", {name} {value:g}" for name, value in setting.faults.items() if value)
    died = max(len(run.outcome.deaths) for run in runs)
    faults += f", {died} died" if died else ""
    return f"{g.name or 'graph'}: {g.nodes:,} nodes, {len(g.edges):,} edges; {made}{faults}"


def _row(name: str, runs: Sequence[MethodRun], text: Any) -> tuple[str, ...]:
    return (name, *(text(run) for run in runs))


def _lines(setting: Setting, runs: Sequence[MethodRun]) -> list[tuple[str, Any]]:
    """The name of each row of the table, and its cell for a run."""
    lines = [
        ("messages (exchanges)", lambda run: f"{run.outcome.messages:,}"),
        ("squared error, relative", lambda run: f"{run.outcome.error:.1e}"),
        ("rate, measured", lambda run: _rate(run.outcome.rate_measured, TOO_SHORT)),
        ("rate, exact, no faults", lambda run: _rate(run.rate_exact)),
        ("rate, theorem, no faults", lambda run: f"{run.rate_bound:.3e}"),
        ("exchanges a second", lambda run: f"{run.outcome.events_per_s:,.0f}"),
        ("ledger error", lambda run: f"{run.outcome.ledger_error:.0e}"),
    ]
    if any(run.outcome.deaths for run in runs):
        lines.append(("deaths", lambda run: str(len(run.outcome.deaths))))
        lines.append(("drift of the mean", lambda run: f"{run.outcome.mean_drift:.2e}"))
    if any(run.outcome.staleness for run in runs):
        lines.append(("age of answers, mean", lambda run: _age(run.outcome)))
    return lines


def _rate(value: float | None, otherwise: str = "-") -> str:
    return otherwise if value is None or math.isnan(value) else f"{value:.3e}"


def _age(outcome: Outcome) -> str:
    return "-" if outcome.staleness is None else f"{outcome.staleness.mean:.3g}"


def _sentences(setting: Setting, runs: Sequence[MethodRun]) -> list[str]:
    missed = [run.outcome.method for run in runs if not run.outcome.reached]
    said = [f"The {name} run did not reach {setting.tol:g}." for name in missed]
    if any(run.outcome.fell_back for run in runs):
        return [*said, "Answers were too old for acceleration: that run went on as plain gossip."]
    if len(runs) == 2:
        plain, accelerated = runs
        factor = plain.outcome.messages / max(accelerated.outcome.messages, 1)
        if not missed:
            said.append(f"Acceleration took {factor:.1f} times fewer messages;")
        elif missed == ["plain"]:
            said.append(f"Acceleration took at least {factor:.1f} times fewer messages;")
        else:
            return said
        ratio = accelerated.rate_bound / plain.rate_bound
        said.append(f"by the theorems' rates it would be {ratio:.1f}.")
    return said


def write(out: Path, setting: Setting, runs: Sequence[MethodRun]) -> list[Path]:
    """Pictures and data, all made before any is written."""
    from continuized.plot import network as plot_network
    from continuized.support import files

    contents: dict[str, str | bytes] = {}
    title = _caption(setting, runs)
    curves = [_curve(setting, run) for run in runs]
    for kind, picture in plot_network.render_errors(curves, title).items():
        contents[f"error.{kind}"] = picture
    contents["error.csv"] = _errors_csv(runs)
    if setting.graph.nodes <= MOST_DRAWN:
        views = [_views(setting, run) for run in runs]
        for kind, picture in plot_network.render_network(setting.graph, views, title).items():
            contents[f"network.{kind}"] = picture
        contents["network.csv"] = _views_csv(views)
    contents["result.json"] = json_text(setting, runs) + "\n"
    return [files.write(out / name, content) for name, content in contents.items()]


def _curve(setting: Setting, run: MethodRun) -> Any:
    from continuized.plot.network import ErrorCurve

    trace, name = run.outcome.trace, run.outcome.method
    # Without faults there is a message for each unit of t.
    bound = _bound(setting, run, trace.messages)
    bounded = name if _is_covered(setting, run) else f"{name}, no faults"
    return ErrorCurve(name, trace.messages, trace.error, bound, bounded)


def _is_covered(setting: Setting, run: MethodRun) -> bool:
    """Whether the run is one of those that the theorem is about."""
    faulty = any(setting.faults.values()) or bool(run.outcome.deaths)
    return setting.transport == "simulate" and not faulty


def _bound(setting: Setting, run: MethodRun, t: Any) -> Any:
    """The theorem's bound on the mean of the relative error at times t."""
    from continuized import theory

    scale = float(((setting.values - setting.values.mean()) ** 2).sum())
    return theory.bound(run.method, setting.graph, setting.values, t=t) / scale


def _views(setting: Setting, run: MethodRun) -> list[View]:
    from continuized.plot.network import View

    outcome, mean = run.outcome, float(setting.values.mean())
    kept = {t: x for t, x in outcome.snapshots.items() if t < outcome.t}
    if len(kept) < len(VIEWS):
        kept[outcome.t] = outcome.x  # it ended before the last of them
    return [View(outcome.method, f"t = {t:,.0f}", x / mean) for t, x in sorted(kept.items())]


def _errors_csv(runs: Sequence[MethodRun]) -> str:
    rows = [
        (run.outcome.method, *row)
        for run in runs
        for row in zip(*(column.tolist() for column in run.outcome.trace), strict=True)
    ]
    return _csv(("method", "t", "messages", "error"), rows)


def _views_csv(views: Sequence[Sequence[View]]) -> str:
    shown = [view for row in views for view in row]
    header = ("node", *(f"{view.method} {view.when}" for view in shown))
    columns = [view.values.tolist() for view in shown]
    return _csv(header, [(i, *row) for i, row in enumerate(zip(*columns, strict=True))])


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
