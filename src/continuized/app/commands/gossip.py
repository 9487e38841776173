"""`continuized gossip`: averaging over a network, plain and accelerated, beside the theory."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from continuized.app.commands import options, refuse, show, to_csv, to_json
from continuized.app.report import Table
from continuized.support import files

if TYPE_CHECKING:
    from continuized.network import Faults, Gossip, Graph, Outcome
    from continuized.plot.networks import View
    from continuized.problems.base import Array

DEFAULT_GRAPH = "grid:30x30"
EXACT_UP_TO = 1000  # nodes: the rate of the second moments
VIEWS = 3  # of each run after its start, at times that are chosen when it is over
# When values are kept for them, of the time that the theorem allows the quickest method.
KEPT = tuple(2.0 ** (k / 8) for k in range(-64, 25))
AGREED = 0.05  # of the scale of colours: a deviation that cannot be seen
NO_GAIN = 1.05  # times fewer exchanges: less is nothing


class Setting(NamedTuple):
    """What was asked for.

    faults: what goes wrong on purpose, by the names of `network.Faults`.  method: by its option.
    """

    graph: Graph
    values: Array
    transport: str
    tol: float
    seed: int
    faults: dict[str, Any]
    seconds: float = options.SECONDS
    kill: int = 0
    method: str = "both"
    address: str | None = None
    log_file: Path | None = None


class MethodRun(NamedTuple):
    """A method's run, its exact rate in theory (None where it was not sought or found), and the
    theorem's."""

    method: Gossip
    outcome: Outcome
    rate_exact: float | None
    rate_bound: float


@click.command("gossip")
@options.graph_options(DEFAULT_GRAPH)
@click.option("--method", type=click.Choice(["plain", "accelerated", "both"]), default="both",
              show_default=True)  # fmt: skip
@options.transport
@options.fault_options("--loss")
@click.option("--tol", type=float, default=1e-8, show_default=True,
              help="End at this squared error, relative to the start.")  # fmt: skip
@options.seconds
@options.address
@options.log_file
@options.seed
@click.option("--out", type=options.FOLDER,
              help="A folder for figures (PNG, SVG) and data (CSV, JSON).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    spec: str | None, nodes: int | None, method: str, transport: str, message_loss: float,
    duplication: float, delay: float, skew: float, kill: int, tol: float, seconds: float | None,
    address: str | None, log_file: Path | None, seed: int, out: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Average over a network by exchanges between neighbours.

    All mass starts on the first node.  Nodes know their own clock and their neighbours, no more.
    Shown are the messages (exchanges over an edge) until the squared error fell by tol, and the
    rate at which it fell beside that of the theory without faults: the exact one of its mean up to
    1000 nodes, the theorem's lower bound beyond.  The exit code is 0 if tol was reached, 1 if not.
    """
    import numpy as np

    options.prepare_folder(out)
    options.check_transport(transport, seconds, address)
    faults = {"loss": message_loss, "duplication": duplication, "delay": delay, "skew": skew}
    graph = options.make_graph(spec, nodes, DEFAULT_GRAPH)
    start = np.zeros(graph.nodes)
    start[0] = 1.0
    setting = Setting(graph, start, transport, tol, seed, faults,
                      seconds or options.SECONDS, kill, method, address, log_file)  # fmt: skip
    with refuse(ValueError, TypeError):
        runs = _make_runs(setting, out is not None)
    written = [] if out is None else _write(out, setting, runs)
    if as_json:
        click.echo(_json(setting, runs))
    else:
        _show_runs(setting, runs)
        if written:
            click.echo(f"Written to {out}: {', '.join(path.name for path in written)}")
    return 0 if all(run.outcome.reached for run in runs) else 1


def _make_runs(setting: Setting, views: bool) -> list[MethodRun]:
    from continuized.network import Gossip
    from continuized.plot.networks import MOST_DRAWN

    graph = setting.graph
    names = ("plain", "accelerated") if setting.method == "both" else (setting.method,)
    gossips = [Gossip(accelerated=name == "accelerated") for name in names]
    dead = options.choose_dying(graph, setting.kill, setting.seed)
    with _tell_warnings(graph) as caught:
        bounds = [gossip.rate(graph) for gossip in gossips]
        quickest = _time(max(bounds), setting.tol)
        times = [f * quickest for f in KEPT] if views and graph.nodes <= MOST_DRAWN else []
        outcomes = [_run(setting, gossip, quickest, dead, times) for gossip in gossips]
        if setting.log_file is not None and setting.transport == "simulate":
            from continuized.network.logs.event_log import log_simulation

            texts = dict.fromkeys(str(warning.message) for warning in caught)
            for outcome in outcomes:
                log_simulation(setting.log_file, outcome, texts)
        exact = _exact_rates(graph, gossips)
    return [MethodRun(*run) for run in zip(gossips, outcomes, exact, bounds, strict=True)]


def _time(rate: float, tol: float) -> float:
    """Find when e^{-rate t} falls to tol."""
    return math.log(1.0 / max(tol, sys.float_info.min)) / rate


def _exact_rates(graph: Graph, gossips: list[Gossip]) -> list[float | None]:
    """Find the rates of the second moments, where they take seconds and not minutes."""
    from continuized import theory
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


def _run(
    setting: Setting, gossip: Gossip, quickest: float, dead: list[int], times: list[float]
) -> Outcome:
    """Run a method; `dead` are to die in time, and values are kept at `times`.

    quickest: when the quicker method has arrived, by its theorem: nodes die at the same times in
    the runs of both, or these could not be compared.
    """
    from continuized import network
    from continuized.network.logs.replay import states_at
    from continuized.network.runtime.run import KILL_EVERY

    graph, values, tol = setting.graph, setting.values, setting.tol
    if setting.transport == "simulate":
        deaths = options.space_deaths(dead, options.KILLED_BY * quickest)
        faults: Faults | None = None
        if deaths or any(setting.faults.values()):
            faults = network.Faults(**setting.faults, deaths=tuple(deaths))
        return network.simulate(
            graph, values, method=gossip, tol=tol, rng=setting.seed, faults=faults, snapshots=times,
            log=setting.log_file is not None, progress=sys.stderr.isatty(),
        )  # fmt: skip
    outcome = network.run(
        graph, values, transport=setting.transport, method=gossip, tol=tol, seconds=setting.seconds,
        rng=setting.seed, kill=options.space_deaths(dead, KILL_EVERY * len(dead)),
        log=bool(times), log_file=setting.log_file, address=setting.address,
        progress=sys.stderr.isatty(), **setting.faults,
    )  # fmt: skip
    if outcome.log is not None:
        times = [t for t in times if t < outcome.t]
        found = states_at(graph, values, gossip, outcome.log, times)
        outcome.snapshots = dict(zip(times, found, strict=True))
    return outcome


@contextmanager
def _tell_warnings(graph: Graph) -> Iterator[list[warnings.WarningMessage]]:
    """Warnings meant for the user as sentences on standard error, each once; yield them so far."""
    from continuized.network import NoGainWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield caught
    sentences = []
    for warning in caught:
        if isinstance(warning.message, NoGainWarning):
            name = graph.name or "this graph"
            sentences.append(f"acceleration gains nothing on {name}; --method plain does as well")
        else:
            # What to do is said of the library's function; the command chooses the speed itself.
            sentence = str(warning.message).partition("; give a lower speed=")[0]
            sentences.append(sentence.replace('method="plain"', "--method plain"))
    for sentence in dict.fromkeys(sentences):
        click.echo(f"continuized: {sentence}", err=True)


def _json(setting: Setting, runs: Sequence[MethodRun]) -> str:
    """Make the one object that --json prints.

    messages are exchanges over an edge, each counted once, here and in error.csv.
    bound is the theorem's, on the mean of the error at the time of the end; none for a run with
    faults or of real nodes, which no theorem covers.
    """
    results = []
    for run in runs:
        outcome, covered = run.outcome, _is_covered(setting, run)
        result = {
            "method": outcome.method,
            "messages": int(outcome.messages),
            "reached": bool(outcome.reached),
            "error": float(outcome.error),
            "bound": float(_bound(setting, run, outcome.t)) if covered else None,
            "rate_measured": float(outcome.rate_measured),
            "rate_theory": float(run.rate_bound if run.rate_exact is None else run.rate_exact),
            "events_per_s": float(outcome.events_per_s),
            "deaths": len(outcome.deaths),
            "died": options.list_names(setting.graph, (node for _, node, _ in outcome.deaths)),
            "fell_back": bool(outcome.fell_back),
            "ledger_error": float(outcome.ledger_error),
            "mean_drift": float(outcome.mean_drift),
        }
        results.append(result)
    asked = {**setting.faults, "kill": setting.kill}
    found = {
        "graph": setting.graph.name,
        "nodes": setting.graph.nodes,
        "edges": len(setting.graph.edges),
        "start": options.list_names(setting.graph, [0])[0],
        "method": setting.method,
        "tol": setting.tol,
        "transport": setting.transport,
        "seconds": None if setting.transport == "simulate" else setting.seconds,
        "seed": setting.seed,
        "faults": {name: value for name, value in asked.items() if value},
        "results": results,
    }
    return to_json(found, indent=2)


def _show_runs(setting: Setting, runs: Sequence[MethodRun]) -> None:
    """A table with a column for each method, and what it comes to in a sentence."""
    rows = tuple((name, *map(text, runs)) for name, text in _lines(setting, runs))
    header = ("", *(run.outcome.method for run in runs))
    click.echo(_caption(setting, runs))
    show(Table(header, rows, numeric=tuple(range(1, len(header)))), gap=False)
    for sentence in _sentences(setting, runs):
        click.echo(click.wrap_text(sentence))


def _caption(setting: Setting, runs: Sequence[MethodRun]) -> str:
    g = setting.graph
    made = "simulated" if setting.transport == "simulate" else f"real nodes, {setting.transport}"
    faults = "".join(f", {name} {value:g}" for name, value in setting.faults.items() if value)
    died = max(len(run.outcome.deaths) for run in runs)
    faults += f", {died} died" if died else ""
    return f"{g.name or 'graph'}: {g.nodes:,} nodes, {len(g.edges):,} edges; {made}{faults}"


def _lines(setting: Setting, runs: Sequence[MethodRun]) -> list[tuple[str, Any]]:
    """The name of each row of the table, and its cell for a run."""
    ideal = "" if all(_is_covered(setting, run) for run in runs) else ", without faults"
    lines = [
        ("exchanges between neighbours", lambda run: f"{run.outcome.messages:,}"),
        ("squared error, relative to the start", lambda run: f"{run.outcome.error:.1e}"),
        ("rate, measured", lambda run: _rate(run.outcome.rate_measured, "too short to measure")),
        (f"rate, exact{ideal}", lambda run: _rate(run.rate_exact)),
        (f"rate, at least, by the theorem{ideal}", lambda run: f"{run.rate_bound:.3e}"),
        ("exchanges a second", lambda run: f"{run.outcome.events_per_s:,.0f}"),
        ("lost of what is averaged, relative", lambda run: f"{run.outcome.ledger_error:.0e}"),
    ]
    if any(run.outcome.deaths for run in runs):
        lines.append(("deaths", lambda run: str(len(run.outcome.deaths))))
        lines.append(("drift of the mean by deaths", lambda run: f"{run.outcome.mean_drift:.2e}"))
    if any(run.outcome.staleness and run.outcome.staleness.mean for run in runs):
        lines.append(("mean age of an answer, in units of t", lambda run: _age(run.outcome)))
    return lines


def _rate(value: float | None, otherwise: str = "-") -> str:
    return otherwise if value is None or math.isnan(value) else f"{value:.3e}"


def _age(outcome: Outcome) -> str:
    return "-" if outcome.staleness is None else f"{outcome.staleness.mean:.3g}"


def _sentences(setting: Setting, runs: Sequence[MethodRun]) -> list[str]:
    missed = [run.outcome.method for run in runs if not run.outcome.reached]
    said = [f"The {name} run did not reach {setting.tol:g}." for name in missed]
    for outcome in (run.outcome for run in runs if setting.graph.labels is not None):
        names = options.list_names(setting.graph, (node for _, node, _ in outcome.deaths))
        if names:
            said.append(f"In the {outcome.method} run died: {options.join_names(names)}.")
    if any(run.outcome.fell_back for run in runs):
        return [*said, "Answers were too old for acceleration: that run went on as plain gossip."]
    if len(runs) == 2 and "accelerated" not in missed:
        plain, accelerated = runs
        said.append(_compare(setting, plain, accelerated, "at least " if missed else ""))
    return said


def _compare(setting: Setting, plain: MethodRun, accelerated: MethodRun, at_least: str) -> str:
    """Say what acceleration gained, and where that is nothing, why."""
    factor = plain.outcome.messages / max(accelerated.outcome.messages, 1)
    ratio = accelerated.rate_bound / plain.rate_bound
    if factor >= NO_GAIN:
        return (
            f"Acceleration needed {at_least}{factor:.1f} times fewer exchanges; the theorems' "
            f"rates differ by a factor of {ratio:.1f}."
        )
    if ratio < NO_GAIN:
        why = "the graph is so well connected that the theorem's rate is no larger than that of"
        return f"Acceleration gained nothing: {why} plain gossip (a factor of {ratio:.2f})."
    why = "the runs are too short to show it"
    if any(setting.faults.values()):
        why = "these faults slow it down more than plain gossip"
    elif accelerated.outcome.deaths:
        why = f"deaths leave a smaller network, and {why}"
    elif setting.transport != "simulate":
        why = f"messages take their time, or {why}"
    return (
        f"Acceleration gained nothing here: {why}; without faults, and in the long run, the "
        f"theorems' rates differ by a factor of {ratio:.1f}."
    )


def _write(out: Path, setting: Setting, runs: Sequence[MethodRun]) -> list[Path]:
    """Pictures and data, all made before any is written."""
    from continuized.plot import networks as plot_network

    contents: dict[str, str | bytes] = {}
    title = _caption(setting, runs)
    outcomes = [run.outcome for run in runs]
    bounds = []
    for run in runs:
        name = run.outcome.method + ("" if _is_covered(setting, run) else ", no faults")
        # Without faults there is a message for each unit of t.
        bounds.append((name, _bound(setting, run, run.outcome.trace.messages)))
    for kind, picture in plot_network.render_errors(outcomes, bounds, title).items():
        contents[f"error.{kind}"] = picture
    rows = [(run.outcome.method, *row) for run in runs for row in run.outcome.trace]
    contents["error.csv"] = to_csv(("method", "t", "messages", "error"), rows)
    if setting.graph.nodes <= plot_network.MOST_DRAWN:
        mean, times = float(setting.values.mean()), _choose_times(setting, outcomes)
        views = [_make_views(outcome, times, mean) for outcome in outcomes]
        limits = plot_network.find_scale(setting.values / mean)
        pictures = plot_network.render_network(setting.graph, views, title, limits, "$x_i$ / mean")
        contents.update({f"network.{kind}": picture for kind, picture in pictures.items()})
        shown = [view for row in views for view in row]
        header = ("node", *(f"{view.method} {view.when}" for view in shown))
        names = options.list_names(setting.graph, range(setting.graph.nodes))
        columns = names, *(view.values.tolist() for view in shown)
        contents["network.csv"] = to_csv(header, zip(*columns, strict=True))
    contents["result.json"] = _json(setting, runs) + "\n"
    return [files.write(out / name, content) for name, content in contents.items()]


def _is_covered(setting: Setting, run: MethodRun) -> bool:
    """Whether the run is one of those that the theorem is about."""
    faulty = any(setting.faults.values()) or bool(run.outcome.deaths)
    return setting.transport == "simulate" and not faulty


def _bound(setting: Setting, run: MethodRun, t: Any) -> Any:
    """The theorem's bound on the mean of the relative error at times t."""
    from continuized import theory

    scale = float(((setting.values - setting.values.mean()) ** 2).sum())
    return theory.bound(run.method, setting.graph, setting.values, t=t) / scale


def _choose_times(setting: Setting, outcomes: Sequence[Outcome]) -> list[float]:
    """Choose times: the start, and when the quicker run has come parts of the way, the last to
    where all nodes have the same colour."""
    import numpy as np

    from continuized.plot.networks import find_dead, find_scale

    low, high = find_scale(setting.values)

    def spread(outcome: Outcome, t: float, x: Array) -> float:
        """Find how far living nodes are apart, on the scale of colours."""
        return float(np.std(np.delete(x, find_dead(outcome, t)))) / (0.5 * (high - low))

    def first_below(outcome: Outcome, target: float) -> float:
        for t, x in _list_states(outcome).items():
            if spread(outcome, t, x) <= target:
                return t
        return outcome.t

    start = max(spread(outcomes[0], -1.0, setting.values), 2.0 * AGREED)
    ends = [(first_below(outcome, AGREED), outcome.error) for outcome in outcomes]
    quicker = outcomes[ends.index(min(ends))]
    parts = [j / VIEWS for j in range(1, VIEWS + 1)]
    found = [first_below(quicker, start ** (1.0 - part) * AGREED**part) for part in parts]
    return sorted({0.0, *found})


def _list_states(outcome: Outcome) -> dict[float, Array]:
    """List {t: x}, in order: the start, the snapshots, and the end."""
    assert outcome.x0 is not None
    kept = {t: x for t, x in sorted(outcome.snapshots.items()) if t < outcome.t}
    return {0.0: outcome.x0, **kept, outcome.t: outcome.x}


def _make_views(outcome: Outcome, times: Sequence[float], mean: float) -> list[View]:
    """What is shown of a run: its values at these times, or where it ended before, at its end."""
    from continuized.plot.networks import View, find_dead

    states = _list_states(outcome)
    shown = sorted({t if t in states else outcome.t for t in times})
    return [
        View(outcome.method, _describe(t), states[t] / mean, find_dead(outcome, t)) for t in shown
    ]


def _describe(t: float) -> str:
    if t == 0.0:
        return "start"
    return f"t = {t:,.0f}" if t >= 10.0 else f"t = {t:.2g}"
