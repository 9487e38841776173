"""`continuized gossip`: averaging over a network, plain and accelerated, beside the theory."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from continuized.app.commands import BadInput
from continuized.app.commands.options import (
    KILLED_BY,
    check_faults,
    choose_dying,
    fault_options,
    graph_options,
    make_graph,
    space_deaths,
)

if TYPE_CHECKING:
    from continuized.app.commands.gossip_report import Faulty, MethodRun, Setting
    from continuized.network import Faults, Gossip, Graph, Outcome
    from continuized.problems.base import Array

DEFAULT = "grid:30x30"
SECONDS = 60.0


@click.command("gossip")
@graph_options(DEFAULT)
@click.option("--method", type=click.Choice(["plain", "accelerated", "both"]), default="both",
              show_default=True)  # fmt: skip
@click.option("--transport", type=click.Choice(["simulate", "local", "ray"]), default="simulate",
              show_default=True, help="Simulated, or real nodes: processes, or Ray.")  # fmt: skip
@fault_options("--loss")
@click.option("--tol", type=float, default=1e-8, show_default=True,
              help="Of the squared error, relative to the start.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0.0, min_open=True),
              help=f"The longest that real nodes run.  [default: {SECONDS:g}]")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="A folder for figures (PNG, SVG) and data (CSV, JSON).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    spec: str | None, nodes: int | None, method: str, transport: str, message_loss: float,
    duplication: float, delay: float, skew: float, kill: int, tol: float, seconds: float | None,
    seed: int, out: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Average over a network by exchanges between neighbours.

    All mass starts on node 0.  Nodes know their own clock and their neighbours, no more.  Shown
    are the messages (exchanges over an edge) until the squared error fell by tol, and the rate at
    which it fell beside that of the theory without faults: the exact one of its mean up to 1000
    nodes, the theorem's lower bound beyond.  The exit code is 0 if tol was reached, 1 if not.
    """
    from continuized.app.commands import gossip_report as output
    from continuized.support import files

    if out is not None:
        from continuized.plot import figures as plot

        plot.require_matplotlib()
        files.writable_folder(out)  # better now than after the work
    if seconds is not None and transport == "simulate":
        raise BadInput(
            "--seconds is for real nodes: leave it out, or give --transport local or ray"
        )
    check_faults(message_loss, duplication, delay, skew)
    faults: Faulty = {
        "loss": message_loss, "duplication": duplication, "delay": delay, "skew": skew,
    }  # fmt: skip
    graph = make_graph(spec, nodes, DEFAULT)
    setting = output.Setting(graph, _start(graph), transport, tol, seed, faults)
    try:
        runs = _runs(setting, method, kill, seconds or SECONDS, out is not None)
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error
    written = [] if out is None else output.write(out, setting, runs)
    if as_json:
        click.echo(output.json_text(setting, runs))
    else:
        output.show_runs(setting, runs)
        if written:
            click.echo(f"Written to {out}: {', '.join(path.name for path in written)}")
    return 0 if all(run.outcome.reached for run in runs) else 1


def _runs(setting: Setting, method: str, kill: int, seconds: float, views: bool) -> list[MethodRun]:
    from continuized.app.commands.gossip_report import VIEWS, MethodRun
    from continuized.network import Gossip
    from continuized.network.runtime.run import KILL_EVERY
    from continuized.plot.network import MOST_DRAWN

    graph = setting.graph
    names = ("plain", "accelerated") if method == "both" else (method,)
    gossips = [Gossip(accelerated=name == "accelerated") for name in names]
    dead = choose_dying(graph, kill, setting.seed)
    outcomes = []
    with _tell_warnings(graph):
        bounds = [gossip.rate(graph) for gossip in gossips]
        quickest = _time(max(bounds), setting.tol)
        times = [f * quickest for f in VIEWS] if views and graph.nodes <= MOST_DRAWN else []
        for gossip, bound in zip(gossips, bounds, strict=True):
            if setting.transport == "simulate":
                deaths = space_deaths(dead, KILLED_BY * _time(bound, setting.tol))
                outcomes.append(_simulate(setting, gossip, deaths, times))
            else:
                deaths = space_deaths(dead, KILL_EVERY * kill)
                outcomes.append(_real(setting, gossip, deaths, seconds, times))
        exact = _exact_rates(graph, gossips)
    return [MethodRun(*run) for run in zip(gossips, outcomes, exact, bounds, strict=True)]


def _time(rate: float, tol: float) -> float:
    """When e^{-rate t} falls to tol."""
    return math.log(1.0 / max(tol, sys.float_info.min)) / rate


def _exact_rates(graph: Graph, gossips: list[Gossip]) -> list[float | None]:
    """Those of the second moments, where they take seconds and not minutes."""
    from continuized import theory
    from continuized.app.commands.gossip_report import EXACT_UP_TO
    from continuized.support.progress import bar

    if graph.nodes > EXACT_UP_TO:
        return [None] * len(gossips)
    found: list[float | None] = []
    with bar("exact rates in theory", len(gossips), sys.stderr.isatty(), "rate") as show:
        for gossip in gossips:
            try:
                found.append(theory.gossip_rate(graph, gossip, tol=1e-2))
            except ArithmeticError as error:  # the runs are done, and shall not be lost
                warnings.warn(str(error), stacklevel=2)
                found.append(None)
            show(len(found))
    return found


def _start(graph: Graph) -> Array:
    """All mass on node 0."""
    import numpy as np

    values = np.zeros(graph.nodes)
    values[0] = 1.0
    return values


def _simulate(
    setting: Setting, gossip: Gossip, deaths: list[tuple[float, int]], times: list[float]
) -> Outcome:
    from continuized import network

    faults: Faults | None = None
    if deaths or any(setting.faults.values()):
        faults = network.Faults(**setting.faults, deaths=tuple(deaths))
        _tell_delay(setting.graph, gossip, faults)
    return network.simulate(
        setting.graph, setting.values, gossip, tol=setting.tol, rng=setting.seed,
        faults=faults, snapshots=times, progress=sys.stderr.isatty(),
    )  # fmt: skip


def _real(
    setting: Setting, gossip: Gossip, deaths: list[tuple[float, int]], seconds: float,
    times: list[float],
) -> Outcome:  # fmt: skip
    from continuized import network
    from continuized.network.simulation.replay import states_at

    graph, values = setting.graph, setting.values
    outcome = network.run(
        graph, values, setting.transport, method=gossip, tol=setting.tol, seconds=seconds,
        rng=setting.seed, kill=deaths, log=bool(times), progress=sys.stderr.isatty(),
        **setting.faults,
    )  # fmt: skip
    if outcome.log is not None:
        found = states_at(graph, values, gossip, outcome.log, times)
        outcome.snapshots = dict(zip(times, found, strict=True))
    return outcome


def _tell_delay(graph: Graph, gossip: Gossip, faults: Faults) -> None:
    """Warn of delays that acceleration does not bear."""
    from continuized.network import delay_limit, too_stale

    if not gossip.accelerated or not faults.delay:
        return
    verdict = too_stale(graph, gossip, 2.0 * faults.delay)
    if verdict != "fine":
        warnings.warn(
            f"a delay of {faults.delay:g} is {verdict} the limit {delay_limit(graph, gossip):.3g} "
            "of accelerated gossip on this graph; use --method plain, or a shorter delay",
            stacklevel=2,
        )


@contextmanager
def _tell_warnings(graph: Graph) -> Iterator[None]:
    """Warnings meant for the user as sentences on standard error, each once."""
    from continuized.network import NoGainWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    sentences = []
    for warning in caught:
        if isinstance(warning.message, NoGainWarning):
            name = graph.name or "this graph"
            sentences.append(f"acceleration gains nothing on {name}; --method plain does as well")
        else:
            # What to do is said of the library's function; the command chooses the speed itself.
            sentences.append(str(warning.message).partition("; give a lower speed=")[0])
    for sentence in dict.fromkeys(sentences):
        click.echo(f"continuized: {sentence}", err=True)
