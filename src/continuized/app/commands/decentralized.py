"""`continuized decentralized`: fit a regression to data split over the nodes of a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import BadInput, real_option, to_json
from continuized.app.commands.options import (
    KILLED_BY,
    check_faults,
    choose_dying,
    fault_options,
    graph_options,
    make_graph,
    space_deaths,
)
from continuized.network.optimisation import METHODS

if TYPE_CHECKING:
    from continuized.network import Decentralized, Faults, Graph, Objective, Racer
    from continuized.network.optimisation.minimize import Method

DEFAULT = "grid:5x5"
ROWS_A_NODE, COLUMNS = 40, 10  # of the data made up where none are given
NO_THEOREM = ("a2cid2", "plain-sgd")


@click.command("decentralized")
@click.option("--data", type=click.Path(path_type=Path),
              help="LIBSVM, CSV, npy or npz.  [default: made up, with the seed]")  # fmt: skip
@click.option("--loss", type=click.Choice(["ridge", "logistic"]), default="ridge",
              show_default=True)  # fmt: skip
@click.option("--l2", type=float, help="Of l2/2 |w|^2 beside the mean loss.  [default: 1/rows]")
@graph_options(DEFAULT)
@click.option("--method", type=click.Choice([*METHODS, "all"]), default="dual", show_default=True)
@click.option("--tol", type=float, default=1e-8, show_default=True,
              help="Of the nodes' mean squared distance to the solution, relative.")  # fmt: skip
@click.option("--events", type=click.IntRange(min=1), help="The most events of a run.")
@click.option("--slow", type=float, default=10.0, show_default=True,
              help="How many times slower one node is, in the race against rounds.")  # fmt: skip
@fault_options()
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Write the figure and the report here.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    data: Path | None, loss: str, l2: float | None, spec: str | None, nodes: int | None,
    method: str, tol: float, events: int | None, slow: float, message_loss: float,
    duplication: float, delay: float, skew: float, kill: int, seed: int, out: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Fit ridge or logistic regression to rows that are dealt out to the nodes of a network.

    Shows every node's distance to what one machine with all the data finds, and then how long
    the dual method takes when one node is slow, against methods that go in rounds and wait for
    it.  Faults are those of the first part.  The exit code is 0 if every method that has a theorem
    reached tol, 1 if not.
    """
    from continuized.app.commands import decentralized_report as output
    from continuized.plot import figures as pictures
    from continuized.support import files

    if out is not None:  # better now than after the work
        pictures.require_matplotlib()
        files.writable_folder(out)
    real_option(slow, "--slow", minimum=1.0)
    check_faults(message_loss, duplication, delay, skew)
    given = {"message loss": message_loss, "duplication": duplication, "delay": delay,
             "skew": skew, "kill": float(kill)}  # fmt: skip
    given = {name: value for name, value in given.items() if value}
    graph = make_graph(spec, nodes, DEFAULT)
    objective = _objective(data, loss, l2, graph.nodes, seed)
    runs = _make_runs(graph, objective, method, tol, events, seed, given)
    racers = _racers(graph, objective, slow, seed)
    report = output.report_of(graph, objective, runs, racers, slow, given, seed)
    written = [] if out is None else output.write(out, report, runs, racers, slow)
    if as_json:
        click.echo(to_json(report))
    else:
        output.print_report(report, written)
    return 0 if all(r.reached for r in runs if r.method not in NO_THEOREM) else 1


def _objective(data: Path | None, loss: str, l2: float | None, nodes: int, seed: int) -> Objective:
    from continuized.app.commands import options
    from continuized.network import split

    X, y = _made_up(loss, ROWS_A_NODE * nodes, seed) if data is None else options.read_data(data)
    problem, _ = options.make_problem(X, y, loss, l2, str(data))
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


def _make_runs(
    graph: Graph, objective: Objective, method: str, tol: float, events: int | None, seed: int,
    given: dict[str, float],
) -> list[Decentralized]:  # fmt: skip
    from continuized.network import minimize
    from continuized.network.optimisation.minimize import as_method

    dead = choose_dying(graph, int(given.get("kill", 0)), seed)
    names = METHODS if method == "all" else (method,)
    try:
        return [
            minimize(
                graph,
                objective,
                name,
                tol=tol,
                events=events,
                rng=seed,
                progress=True,
                faults=_faults(as_method(name), graph, objective, given, dead, tol),
            )
            for name in names
        ]
    except ValueError as error:
        raise BadInput(str(error)) from error
    except ArithmeticError as error:
        raise BadInput(f"{error}; give a larger --l2") from error


def _faults(
    method: Method, graph: Graph, objective: Objective, given: dict[str, float], dead: list[int],
    tol: float,
) -> Faults | None:  # fmt: skip
    """In the method's own unit of time; without faults, None."""
    from continuized.network import Faults
    from continuized.network.optimisation.minimize import expected_time

    if not given:
        return None
    last = KILLED_BY * expected_time(method, graph, objective, tol)
    return Faults(
        delay=given.get("delay", 0.0) / method.edge_rate(graph),
        loss=given.get("message loss", 0.0),
        duplication=given.get("duplication", 0.0),
        skew=given.get("skew", 0.0),
        deaths=tuple(space_deaths(dead, last)),
    )


def _racers(graph: Graph, objective: Objective, slow: float, seed: int) -> list[Racer]:
    import numpy as np

    from continuized.app.commands.decentralized_report import SLOW_TOL
    from continuized.network import race

    work = np.ones(graph.nodes)
    work[graph.nodes // 2] = slow
    try:
        return race(graph, objective, work, tol=SLOW_TOL, rng=seed)
    except ValueError as error:
        raise BadInput(f"--slow {slow:g}: {error}") from error
