"""`continuized decentralized`: fit a regression to data split over the nodes of a network."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import options, refuse, show, to_json, within
from continuized.app.report import Table
from continuized.network.optimisation import METHODS
from continuized.support import files

if TYPE_CHECKING:
    from continuized.network import Decentralized, Graph, Objective, Racer
    from continuized.network.optimisation.objective import NodeRegression
    from continuized.problems.base import Array

DEFAULT_GRAPH = "grid:5x5"
ROWS_A_NODE, COLUMNS = 40, 10  # of the data made up where none are given
NO_THEOREM = ("a2cid2", "plain-sgd")
HARD = 1e5  # L/mu from which on runs are long
SLOW_TOL = 1e-4  # to which methods race with a slow node
KILLED_AFTER = 20.0  # units of t, for each node to be killed: real nodes take no theorem's time


@click.command("decentralized")
@click.option("--data", type=options.PATH,
              help="LIBSVM, CSV, npy or npz.  [default: made up, with the seed]")  # fmt: skip
@click.option("--loss", type=click.Choice(["ridge", "logistic"]), default="ridge",
              show_default=True)  # fmt: skip
@click.option("--l2", type=float,
              help="It adds l2/2 |w|^2 to the mean loss.  [default: 1/rows]")  # fmt: skip
@options.graph_options(DEFAULT_GRAPH)
@click.option("--method", type=click.Choice([*METHODS, "all"]), default="dual", show_default=True)
@options.transport
@options.seconds
@click.option("--tol", type=float, default=1e-8, show_default=True,
              help="End at this mean squared distance to x*, relative to |x*|^2.")  # fmt: skip
@click.option("--events", type=click.IntRange(min=1), help="The most events of a run.")
@click.option("--slow", type=float, default=10.0, show_default=True, callback=within(minimum=1.0),
              help="How many times slower one node is, in the race against rounds.")  # fmt: skip
@options.fault_options()
@options.address
@options.log_file
@options.seed
@click.option("--out", type=options.FOLDER, help="Write the figure and the report here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    data: Path | None, loss: str, l2: float | None, spec: str | None, nodes: int | None,
    method: str, transport: str, seconds: float | None, tol: float, events: int | None,
    slow: float, message_loss: float, duplication: float, delay: float, skew: float, kill: int,
    address: str | None, log_file: Path | None, seed: int, out: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Fit ridge or logistic regression to rows that are dealt out to the nodes of a network.

    Shows every node's distance to what one machine with all the data finds, and then how long
    the dual method takes when one node is slow, against methods that go in rounds and wait for
    it.  Faults, and --transport, are those of the first part; the second is simulated.  The exit
    code is 0 if every method that has a theorem reached tol, 1 if not.
    """
    import numpy as np

    from continuized.network import race, split
    from continuized.network.logs.event_log import log_simulation

    simulated = transport == "simulate"
    options.check_transport(transport, seconds, address)
    options.prepare_folder(out)
    given = {"message loss": message_loss, "duplication": duplication, "delay": delay,
             "skew": skew, "kill": float(kill)}  # fmt: skip
    given = {name: value for name, value in given.items() if value}
    graph = options.make_graph(spec, nodes, DEFAULT_GRAPH)
    rows = ROWS_A_NODE * graph.nodes
    X, y = _make_data(loss, rows, seed) if data is None else options.read_data(data)
    problem = _make_problem(X, y, loss, l2, str(data))
    with refuse(ValueError, MemoryError):
        objective = split(problem, graph.nodes, seed)
    limit = None if simulated else options.SECONDS if seconds is None else seconds
    how = {"tol": tol, "events": events, "rng": seed, "transport": transport, "seconds": limit,
           "address": address, "log_file": None if simulated else log_file}  # fmt: skip
    runs = _make_runs(graph, objective, method, given, how)
    if log_file is not None and simulated:
        for run in runs:
            log_simulation(log_file, run)
    work = np.ones(graph.nodes)
    work[graph.nodes // 2] = slow
    with refuse(ValueError, before=f"--slow {slow:g}: "):
        racers = race(graph, objective, work, tol=SLOW_TOL, rng=seed, progress=True)
    asked = {"data": None if data is None else str(data), "loss": loss, "method": method,
             "events": events, "seed": seed, "transport": transport,
             "seconds": limit}  # fmt: skip
    report = _make_report(graph, objective, runs, racers, slow, given, asked)
    written = [] if out is None else _write(out, report, runs, racers, slow)
    if as_json:
        click.echo(to_json(report))
    else:
        _print_report(report, written)
    return 0 if all(r.reached for r in runs if r.method not in NO_THEOREM) else 1


def _make_data(loss: str, rows: int, seed: int) -> tuple[Any, Any]:
    """Draw Gaussian rows whose columns differ in size, and targets from a planted w, with noise."""
    import numpy as np

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, COLUMNS)) * np.linspace(0.3, 1.0, COLUMNS)
    y = X @ rng.standard_normal(COLUMNS) + 0.3 * rng.standard_normal(rows)
    return X, (y if loss == "ridge" else np.sign(y))


def _make_problem(X: Any, y: Array, loss: str, l2: float | None, name: str) -> NodeRegression:
    """Make ridge or logistic regression; `name` is that of the data, for errors."""
    import numpy as np

    from continuized import problems

    penalty = 1.0 / len(y) if l2 is None else l2
    with refuse(ValueError):
        if loss == "ridge":
            return problems.LeastSquares(X, y, l2=penalty)
        _, larger = options.find_two_labels(y, name, "; use --loss ridge for numbers")
        return problems.LogisticRegression(X, np.where(y == larger, 1.0, -1.0), l2=penalty)


def _make_runs(
    graph: Graph, objective: Objective, method: str, given: dict[str, float], how: dict[str, Any]
) -> list[Decentralized]:
    """Run the methods, each with the faults in its own unit of time; how: for `minimize`."""
    from continuized.network import Faults, minimize
    from continuized.network.optimisation.minimize import as_method, expected_time

    dead, runs = options.choose_dying(graph, int(given.get("kill", 0)), how["rng"]), []
    with refuse(ValueError), refuse(ArithmeticError, after="; give a larger --l2"):
        for name in METHODS if method == "all" else (method,):
            chosen, faults = as_method(name), None
            if given:
                last = options.KILLED_BY * expected_time(chosen, graph, objective, how["tol"])
                if how["transport"] != "simulate":
                    last = min(last, KILLED_AFTER * len(dead))
                faults = Faults(
                    delay=given.get("delay", 0.0) / chosen.edge_rate(graph),
                    loss=given.get("message loss", 0.0),
                    duplication=given.get("duplication", 0.0),
                    skew=given.get("skew", 0.0),
                    deaths=tuple(options.space_deaths(dead, last)),
                )
            run = minimize(graph, objective, method=name, progress=True, faults=faults, **how)
            runs.append(run)
    return runs


def _make_report(
    graph: Graph, objective: Objective, runs: list[Decentralized], racers: list[Racer],
    slow: float, faults: dict[str, float], asked: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """All that is shown, as one object; `messages` are exchanges, each counted once.

    asked: further options, by their names.
    """
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
        **asked,
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
                "died": options.list_names(graph, (death[1] for death in r.deaths)),
                "ledger_error": r.ledger_error,
                "agreed_error": objective.error(r.agreed[None]),
            }
            for r in runs
        ],
        "slow": slow,
        "slow_node": options.list_names(graph, [graph.nodes // 2])[0],
        "slow_tol": SLOW_TOL,
        "race": [
            {"method": r.method, "time": r.time, "steps": r.steps, "reached": r.reached}
            for r in racers
        ],
    }


def _write(
    out: Path, report: dict[str, Any], runs: list[Decentralized], racers: list[Racer], slow: float
) -> list[str]:
    """The figure and the report, as files; returns their names."""
    from continuized.plot.networks import render_decentralized

    made = render_decentralized(runs, racers, slow, _in_words(report))
    content: dict[str, str | bytes] = {f"decentralized.{kind}": text for kind, text in made.items()}
    content["decentralized.json"] = to_json(report, indent=2) + "\n"
    return [str(files.write(out / name, text)) for name, text in content.items()]


def _print_report(report: dict[str, Any], written: list[str]) -> None:
    """Print the report for people: one table, and below it what its columns are."""
    click.echo(
        f"{report['rows']:,} rows, {report['columns']:,} columns on {report['nodes']} nodes and "
        f"{report['edges']} edges ({report['graph']}); l2 = {report['l2']:.6g}, L/mu of the "
        f"nodes' functions {report['L'] / report['mu']:.4g}\n"
        f"least objective, on one machine: {report['objective']:.10g}"
    )
    if report["transport"] != "simulate":
        click.echo(f"real nodes ({report['transport']}); the race is simulated")
    show(_make_table(report), gap=False)
    for note in _make_notes(report):
        click.echo(click.wrap_text(note, subsequent_indent="  "))
    if written:
        click.echo("Written: " + ", ".join(written))


def _in_words(report: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in report["faults"].items())


def _make_table(report: dict[str, Any]) -> Table:
    """A row for each method, narrower than a terminal: what its run came to, and its time in the
    race."""
    results = {r["method"]: r for r in report["results"]}
    race = {r["method"]: r for r in report["race"]}
    columns: dict[str, Any] = {
        "exchanges": lambda r: f"{r['messages']:,}",
        "local gradients": lambda r: f"{r['gradients']:,}",
        "error": lambda r: f"{r['error']:.1e}",
        "rate measured": lambda r: _show_rate(r["rate_measured"], "too short"),
        "rate, at least": lambda r: _show_rate(r["rate_theory"]),
    }
    if report["faults"] or report["transport"] != "simulate":
        del columns["rate, at least"]  # no theorem covers faults, or clocks of real nodes
    if "kill" in report["faults"]:
        columns["moved by deaths"] = lambda r: f"{r['agreed_error']:.1e}" if r["deaths"] else ""
    rows = []
    for name in dict.fromkeys([*results, *race]):
        cells = [text(results[name]) if name in results else "" for text in columns.values()]
        rows.append((name, *cells, _show_time(race.get(name))))
    header = ("method", *columns, "time, slow node")
    return Table(header, tuple(rows), numeric=tuple(range(1, len(header))))


def _group_dead(results: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Find who died, by their names where they have some, and in the runs of which methods."""
    found: dict[str, list[str]] = {}
    for r in results:
        names = [name for name in r["died"] if isinstance(name, str)]
        if names:
            found.setdefault(options.join_names(names), []).append(r["method"])
    return found


def _show_rate(value: float, otherwise: str = "") -> str:
    return otherwise if math.isnan(value) else f"{value:.3g}"


def _show_time(racer: dict[str, Any] | None) -> str:
    if racer is None:
        return ""
    return f"{racer['time']:,.0f}" if racer["reached"] else "not reached"


def _make_notes(report: dict[str, Any]) -> list[str]:
    """What the columns are, and what the faults did."""
    results = report["results"]
    notes = ["error: the nodes' mean squared distance to the solution of one machine, relative."]
    missed = [r["method"] for r in results if not r["reached"]]
    if missed:
        notes.append(f"Error {report['tol']:.0e} was not reached by: {', '.join(missed)}.")
    if report["L"] > HARD * report["mu"]:
        notes.append(
            f"L/mu of {report['L'] / report['mu']:.0e} takes long: bring the columns to one size, "
            "or give a larger --l2."
        )
    if report["faults"]:
        lost = max(r["ledger_error"] for r in results)
        notes.append(
            f"With {_in_words(report)}: no theorem covers that. What exchanges only move was kept "
            f"in sum to {lost:.0e}, relative."
        )
    if any(r["deaths"] for r in results):
        notes.append(
            "moved by deaths: the squared distance, relative, from that solution to where the "
            "others can agree, from which the error is measured after a death."
        )
    for names, methods in _group_dead(results).items():
        notes.append(f"Died in the runs of {', '.join(methods)}: {names}.")
    asked = int(report["faults"].get("kill", 0))
    late = [r["method"] for r in results if r["deaths"] < asked]
    if late:
        notes.append(f"Not all of the {asked} to be killed died in the runs of: {', '.join(late)}.")
    notes.append(
        f"time, slow node: to error {report['slow_tol']:.0e} with one node {report['slow']:g} "
        "times slower, a usual node's step being 1, without other faults; messages take no time. "
        "The dual methods have no rounds; synchronous-dual and all-reduce wait for the slow node."
    )
    return notes
