"""What `continuized decentralized` shows and writes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import TOO_SHORT, show, to_json

if TYPE_CHECKING:
    from continuized.app.report import Table
    from continuized.network import Decentralized, Graph, Objective, Racer

SLOW_TOL = 1e-4  # to which methods race with a slow node


def report_of(
    graph: Graph, objective: Objective, runs: list[Decentralized], racers: list[Racer],
    slow: float, faults: dict[str, float], seed: int,
) -> dict[str, Any]:  # fmt: skip
    """All that is shown, as one object; `messages` are exchanges, each counted once."""
    rows, columns = objective.X.shape
    return {
        "graph": graph.name,
        "nodes": graph.nodes,
        "edges": len(graph.edges),
        "rows": int(rows),
        "columns": int(columns),
        "l2": float(objective.l2[0]),
        "L": objective.L,
        "mu": objective.mu,
        "objective": objective.f_star,
        "tol": runs[0].tol,
        "seed": seed,
        "faults": faults,
        "results": [
            {
                "method": r.method,
                "reached": r.reached,
                "messages": r.messages,
                "gradients": r.gradients,
                "t": r.t,
                "error": r.error,
                "excess": float(r.trace.excess[-1]),
                "consensus": float(r.trace.consensus[-1]),
                "rate_measured": r.rate_measured,
                "rate_theory": r.rate_theory,
                "deaths": len(r.deaths),
                "ledger_error": r.ledger_error,
                "agreed_error": objective.error(r.agreed[None]),
            }
            for r in runs
        ],
        "slow": slow,
        "slow_tol": SLOW_TOL,
        "race": [
            {"method": r.method, "time": r.time, "steps": r.steps, "reached": r.reached}
            for r in racers
        ],
    }


def write(
    out: Path, report: dict[str, Any], runs: list[Decentralized], racers: list[Racer], slow: float
) -> list[str]:
    """The figure and the report, as files; returns their names."""
    from continuized.plot.decentralized import render_decentralized
    from continuized.support import files

    made = render_decentralized(runs, racers, slow, _in_words(report))
    content: dict[str, str | bytes] = {f"decentralized.{kind}": its for kind, its in made.items()}
    content["decentralized.json"] = to_json(report, indent=2) + "\n"
    return [str(files.write(out / name, its)) for name, its in content.items()]


def print_report(report: dict[str, Any], written: list[str]) -> None:
    """For people."""
    click.echo(
        f"{report['rows']:,} rows, {report['columns']:,} columns on {report['nodes']} nodes and "
        f"{report['edges']} edges ({report['graph']}); l2 = {report['l2']:.6g}, L/mu of the "
        f"nodes' functions {report['L'] / report['mu']:.4g}\n"
        f"centralised objective {report['objective']:.10g}\n\n"
        "Error: the nodes' mean squared distance to the centralised solution, relative."
    )
    show(_results(report))
    if report["faults"]:
        click.echo(_on_faults(report))
    click.echo(
        f"Time to error {report['slow_tol']:.0e} with one node {report['slow']:g} times slower and "
        "no other faults; messages take none.\n"
        "The dual methods have no rounds; the others wait for the slow node."
    )
    show(_race(report))
    if written:
        click.echo("Written: " + ", ".join(written))


def _in_words(report: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in report["faults"].items())


def _on_faults(report: dict[str, Any]) -> str:
    """What faults there were, and what they did."""
    lines = [f"With {_in_words(report)}; no theorem covers that."]
    if any(r["deaths"] for r in report["results"]):
        lines.append("After a death the error is the distance to where the others can agree.")
    for r in report["results"]:
        words = f"{r['method']}: ledger closed to {r['ledger_error']:.1g}"
        outlived = report["faults"].get("kill", 0.0) - r["deaths"]
        if outlived:
            words += f"; {outlived:g} to be killed outlived the run"
        if r["deaths"]:
            words += (
                f"; {r['deaths']} died, and where the others agree is {r['agreed_error']:.2g} from "
                "the centralised solution (squared, relative)"
            )
        lines.append(words)
    return "\n".join(lines) + "\n"


def _results(report: dict[str, Any]) -> Table:
    from continuized.app.report import Table

    def rate(value: float, otherwise: str = "") -> str:
        return otherwise if math.isnan(value) else f"{value:.3g}"

    rows = tuple(
        (
            r["method"],
            "yes" if r["reached"] else "no",
            f"{r['messages']:,}",
            f"{r['gradients']:,}",
            f"{r['error']:.2g}",
            f"{r['excess']:.2g}",
            rate(r["rate_measured"], TOO_SHORT),
            rate(r["rate_theory"]),
        )
        for r in report["results"]
    )
    header = (
        "method", f"error {report['tol']:.0e}", "exchanges", "local gradients", "error",
        "objective above", "rate measured", "rate of the theorem",
    )  # fmt: skip
    return Table(header, rows, numeric=tuple(range(2, 8)))


def _race(report: dict[str, Any]) -> Table:
    from continuized.app.report import Table

    arrived = [r["time"] for r in report["race"] if r["method"] == "dual" and r["reached"]]
    rows = tuple(
        (
            r["method"],
            f"{r['time']:,.0f}" if r["reached"] else "not reached",
            f"{r['steps']:,}",
            f"{r['time'] / arrived[0]:.2f}" if arrived and r["reached"] else "",
        )
        for r in report["race"]
    )
    header = ("method", "time", "rounds or exchanges", "over dual's")
    return Table(header, rows, numeric=(1, 2, 3))
