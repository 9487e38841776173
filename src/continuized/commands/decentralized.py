"""`continuized decentralized`: fit a regression to data split over the nodes of a network."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from continuized.commands import BadInput, show, to_json
from continuized.network.optimisation import METHODS

if TYPE_CHECKING:
    from continuized.network import Decentralized, Graph, Objective, Racer
    from continuized.report import Table

ROWS_A_NODE, COLUMNS = 40, 10  # of the data made up where none are given
SLOW_TOL = 1e-4  # to which methods race with a slow node


@click.command("decentralized")
@click.option("--data", type=click.Path(path_type=Path),
              help="LIBSVM, CSV, npy or npz.  [default: made up, with the seed]")  # fmt: skip
@click.option("--loss", type=click.Choice(["ridge", "logistic"]), default="ridge",
              show_default=True)  # fmt: skip
@click.option("--l2", type=float, help="Of l2/2 |w|^2 beside the mean loss.  [default: 1/rows]")
@click.option("--graph", "spec", help="Such as grid:5x5, cycle:20, or a file of edges.")
@click.option("--nodes", type=click.IntRange(min=2),
              help="A cycle of so many nodes, where no graph is given.")  # fmt: skip
@click.option("--method", type=click.Choice([*METHODS, "all"]), default="dual", show_default=True)
@click.option("--tol", type=float, default=1e-8, show_default=True,
              help="Of the nodes' mean squared distance to the solution, relative.")  # fmt: skip
@click.option("--events", type=click.IntRange(min=1), help="The most events of a run.")
@click.option("--slow", type=float, default=10.0, show_default=True,
              help="How many times slower one node is, in the race against rounds.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Write the figure and the report here.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    data: Path | None, loss: str, l2: float | None, spec: str | None, nodes: int | None,
    method: str, tol: float, events: int | None, slow: float, seed: int, out: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Fit ridge or logistic regression to rows that are dealt out to the nodes of a network.

    Shows every node's distance to what one machine with all the data finds, and then how long
    the dual method takes when one node is slow, against methods that go in rounds and wait for
    it.  The exit code is 0 if every method that has a theorem reached tol, 1 if not.
    """
    from continuized import files
    from continuized import plot as pictures

    if out is not None:  # better now than after the work
        pictures.require()
        files.writable_folder(out)
    if not 1.0 <= slow < math.inf:
        raise BadInput(f"--slow must be a finite number >= 1, got {slow:g}")
    graph = _graph(spec, nodes)
    objective = _objective(data, loss, l2, graph.nodes, seed)
    runs = _runs(graph, objective, method, tol, events, seed)
    racers = _racers(graph, objective, slow, events, seed)
    report = _report(graph, objective, runs, racers, slow)
    written = [] if out is None else _write(out, report, runs, racers, slow)
    if as_json:
        click.echo(to_json(report))
    else:
        _print(report, written)
    return 0 if all(r.reached for r in runs if not math.isnan(r.rate_theory)) else 1


def _graph(spec: str | None, nodes: int | None) -> Graph:
    from continuized.network import Graph

    try:
        if spec is None:
            spec = "grid:5x5" if nodes is None else f"cycle:{nodes}"
            return Graph.of("path:2" if nodes == 2 else spec)
        graph = Graph.of(spec)
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error
    if nodes is not None and graph.nodes != nodes:
        raise BadInput(f"--graph {spec} has {graph.nodes} nodes, but --nodes is {nodes}; give one")
    return graph


def _objective(data: Path | None, loss: str, l2: float | None, nodes: int, seed: int) -> Objective:
    from continuized.commands import regressions
    from continuized.network import split

    X, y = _made_up(loss, ROWS_A_NODE * nodes, seed) if data is None else regressions.read(data)
    problem, _ = regressions.regression(X, y, loss, l2, str(data))
    try:
        return split(problem, nodes, seed)
    except (ValueError, MemoryError) as error:
        raise BadInput(str(error)) from error


def _made_up(loss: str, rows: int, seed: int) -> tuple[Any, Any]:
    """Gaussian rows whose columns differ in size, and targets from a planted w, with noise."""
    import numpy as np

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, COLUMNS)) * np.linspace(0.3, 1.0, COLUMNS)
    y = X @ rng.standard_normal(COLUMNS) + 0.3 * rng.standard_normal(rows)
    return X, (y if loss == "ridge" else np.sign(y))


def _runs(
    graph: Graph, objective: Objective, method: str, tol: float, events: int | None, seed: int
) -> list[Decentralized]:
    from continuized.network import minimize

    names = METHODS if method == "all" else (method,)
    try:
        return [
            minimize(graph, objective, name, tol=tol, events=events, seed=seed, progress=True)
            for name in names
        ]
    except ValueError as error:
        raise BadInput(str(error)) from error
    except ArithmeticError as error:
        raise BadInput(f"{error}; give a larger --l2") from error


def _racers(
    graph: Graph, objective: Objective, slow: float, events: int | None, seed: int
) -> list[Racer]:
    import numpy as np

    from continuized.network import race

    work = np.ones(graph.nodes)
    work[graph.nodes // 2] = slow
    most = {} if events is None else {"events": events}
    try:
        return race(graph, objective, work, tol=SLOW_TOL, seed=seed, **most)
    except ValueError as error:
        raise BadInput(f"--slow {slow:g}: {error}") from error


def _report(
    graph: Graph, objective: Objective, runs: list[Decentralized], racers: list[Racer], slow: float
) -> dict[str, Any]:
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


def _write(
    out: Path, report: dict[str, Any], runs: list[Decentralized], racers: list[Racer], slow: float
) -> list[str]:
    from continuized import files
    from continuized.plot_decentralized import render_decentralized

    made = render_decentralized(runs, racers, slow)
    content: dict[str, str | bytes] = {f"decentralized.{kind}": its for kind, its in made.items()}
    content["decentralized.json"] = to_json(report, indent=2) + "\n"
    return [str(files.write(out / name, its)) for name, its in content.items()]


def _print(report: dict[str, Any], written: list[str]) -> None:
    click.echo(
        f"{report['rows']:,} rows, {report['columns']:,} columns on {report['nodes']} nodes and "
        f"{report['edges']} edges ({report['graph']}); l2 = {report['l2']:.6g}, L/mu of the "
        f"nodes' functions {report['L'] / report['mu']:.4g}\n"
        f"centralised objective {report['objective']:.10g}\n\n"
        "Error: the nodes' mean squared distance to the centralised solution, relative."
    )
    show(_results(report))
    click.echo(
        f"Time to error {report['slow_tol']:.0e} with one node {report['slow']:g} times slower; "
        "messages take none.\nThe dual methods have no rounds; the others wait for the slow node."
    )
    show(_race(report))
    if written:
        click.echo("Written: " + ", ".join(written))


def _results(report: dict[str, Any]) -> Table:
    from continuized.report import Table

    def rate(value: float) -> str:
        return "" if math.isnan(value) else f"{value:.3g}"

    rows = tuple(
        (
            r["method"],
            "yes" if r["reached"] else "no",
            f"{r['messages']:,}",
            f"{r['gradients']:,}",
            f"{r['error']:.2g}",
            f"{r['excess']:.2g}",
            rate(r["rate_measured"]),
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
    from continuized.report import Table

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
