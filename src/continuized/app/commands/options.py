"""Options that several commands share: faults, graphs, data files and the regressions on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import BadInput, combine_options, refuse, within
from continuized.network.workers.ray_options import TRANSPORTS
from continuized.support import files

if TYPE_CHECKING:
    from continuized.network import Graph
    from continuized.problems.base import Array
    from continuized.problems.sources import Data

LOSSES = ("logistic", "softmax", "ridge", "poisson", "huber")

# Families that a number of nodes names, and what else gives their size.
BY_NODES = {"path": "N", "cycle": "N", "grid": "RxC", "complete": "N", "star": "N"}
MOST_NODES = 2**31 - 1  # that can be numbered
MOST_NAMED = 10  # nodes in a sentence
SKEWED = 0.5  # what --skew alone means
SECONDS = 60.0  # that real nodes run at most, where nothing is said
KILLED_BY = 1 / 8  # of the time that the theorem allows a method: its share in which nodes die

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
seed = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                    help="The seed of all random numbers.")  # fmt: skip
transport = click.option("--transport", type=click.Choice(["simulate", *TRANSPORTS]),
                         default="simulate", show_default=True,
                         help="Simulated, or real nodes: processes, or Ray.")  # fmt: skip
seconds = click.option("--seconds", type=click.FloatRange(min=0.0, min_open=True), help="The "
                       f"longest that real nodes run.  [default: {SECONDS:g}]")  # fmt: skip
address = click.option("--address", help="Of a running Ray cluster, such as 10.0.0.5:6379, for "
                       "--transport ray.  [default: one of this machine, for the run]")  # fmt: skip
log_file = click.option("--log", "log_file", type=FILE,
                        help="Add what happens to this file, as lines of JSON; of a simulated "
                        "`decentralized` the summaries, without the exchanges.")  # fmt: skip


def check_transport(transport: str, seconds: float | None, address: str | None) -> None:
    """Refuse options that are for another transport."""
    if seconds is not None and transport == "simulate":
        raise BadInput(
            "--seconds is for real nodes: leave it out, or give --transport local or ray"
        )
    if address is not None and transport != "ray":
        raise BadInput("--address is for Ray: give --transport ray too")


def fault_options(*spellings: str) -> Callable[[Any], Any]:
    """Make the options of faults; `spellings` are more names of --message-loss.

    What leaves nothing is refused: no message that comes, a clock that stands still or goes back.
    """
    part = within(minimum=0.0, below=1.0)
    return combine_options(
        click.option("--message-loss", *spellings, "message_loss", type=float, default=0.0,
                     callback=part,
                     help="The part of messages that are lost, of the four that make an exchange."),
        click.option("--duplication", type=float, default=0.0, callback=part,
                     help="The part that come twice."),
        click.option("--delay", type=float, default=0.0, callback=within(minimum=0.0),
                     help="The mean delay of a message, in units of the time in which one tick of "
                     "all edges together is expected."),
        click.option("--skew", type=float, is_flag=False, flag_value=SKEWED, default=0.0,
                     callback=part, help=f"Clocks run at 1 - SKEW to 1 + SKEW; alone: {SKEWED}."),
        click.option("--kill", type=click.IntRange(min=0), default=0, help="How many nodes die."),
    )  # fmt: skip


def choose_dying(graph: Graph, kill: int, seed: int) -> list[int]:
    """Choose so many nodes, without which the rest are connected."""
    import numpy as np

    from continuized.network.faults import choose_victims

    with refuse(ValueError, before="--kill: "):
        return choose_victims(graph, kill, np.random.default_rng(seed))


def list_names(graph: Graph, nodes: Iterable[int]) -> list[Any]:
    """List what nodes are called; their numbers, where they have no names."""
    names = [graph.label_of(node) for node in nodes]
    return [name if isinstance(name, int | str) else str(name) for name in names]


def join_names(names: Sequence[Any]) -> str:
    """Write names in a row, the first few of many."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(str, names[:MOST_NAMED])) + more


def space_deaths(nodes: list[int], last: float) -> list[tuple[float, int]]:
    """Let nodes die at even intervals, the last one at `last`."""
    return [(last * (k + 1) / len(nodes), node) for k, node in enumerate(nodes)]


def graph_options(default: str) -> Callable[[Any], Any]:
    """Make --graph and --nodes, the parameters `spec` and `nodes` of a command."""
    families = ", ".join(BY_NODES)
    return combine_options(
        click.option("--graph", "spec", help="A spec such as path:100, regular:3x500 or "
                     f"geometric:200:0.15, or a file of edges.  [default: {default}]"),
        click.option("--nodes", type=click.IntRange(min=2, max=MOST_NODES),
                     help=f"How many, for a --graph named without: {families}; alone, of a grid."),
    )  # fmt: skip


def make_graph(spec: str | None, nodes: int | None, default: str) -> Graph:
    """Make the graph that the two options name; BadInput where they name none."""
    from continuized.network import Graph

    name = spec if spec is not None else default if nodes is None else "grid"
    if name in BY_NODES:
        if nodes is None:
            raise BadInput(
                f"--graph {name} needs a size: give --nodes N, or --graph {name}:{BY_NODES[name]}"
            )
        name = _grid(nodes) if name == "grid" else f"{name}:{nodes}"
    try:
        with refuse(ValueError, TypeError):
            graph = Graph.of(name)
    except (MemoryError, OverflowError) as error:
        raise BadInput(f"--graph {name} does not fit into memory; take a smaller one") from error
    if nodes is not None and graph.nodes != nodes:
        raise BadInput(f"--graph {name} has {graph.nodes} nodes: leave out --nodes {nodes}")
    return graph


def _grid(nodes: int) -> str:
    """The grid nearest to a square, where its sides differ by a factor of at most 2."""
    from continuized.network.graphs.families import find_sides

    rows, columns = find_sides(nodes)
    if not _is_grid(nodes):
        fewer = next(n for n in range(nodes, 1, -1) if _is_grid(n))
        more = next(n for n in itertools.count(nodes) if _is_grid(n))
        near = " or ".join("{} ({}x{})".format(n, *find_sides(n)) for n in (fewer, more))
        raise BadInput(
            f"--nodes {nodes} makes no grid near a square: give {near}, or, if it is to be so "
            f"long, --graph grid:{rows}x{columns}; --graph cycle takes any number"
        )
    return f"grid:{rows}x{columns}"


def _is_grid(nodes: int) -> bool:
    from continuized.network.graphs.families import find_sides

    rows, columns = find_sides(nodes)
    return columns <= 2 * rows


def prepare_folder(out: Path | None) -> None:
    """Make sure, before the work, that pictures can be drawn and written to the folder."""
    if out is not None:
        from continuized.plot import style

        style.require_matplotlib()
        files.writable_folder(out)


# What to do about a data file, by what its error is about.
ADVICE = {
    "missing": "give --missing mean (the mean of its column) or --missing drop (leave out its row)",
    "missing label": "give --missing drop to leave out such rows",
    "text": "turn it into numbers (categories: get_dummies of pandas), leave the column out with "
    "--drop, or, if it is the label, give --label",
    "label": "give --label NAME",
    "zero": "give --zero-based if they are counted from 0",
}


def read_data(data: Path, advice: dict[str, str] | None = None, **how: Any) -> Data:
    """Read the rows and labels of a file, as `problems.read` does; BadInput where it cannot be.

    advice: what to do about an error, by its kind, where that is other than for `solve`.
    """
    from continuized import problems

    with advise(str(data), advice):
        return problems.read(data, **how)


@contextmanager
def advise(name: str, advice: dict[str, str] | None = None) -> Iterator[None]:
    """Turn what is wrong with data into BadInput, with what to do about it on the command line."""
    from continuized import problems

    try:
        yield
    except problems.DataError as error:
        known = ADVICE | {"suffix": error.advice} | (advice or {})
        remedy = known.get(error.kind, "")
        raise BadInput(f"{error.fact}; {remedy}" if remedy else error.fact) from error
    except MemoryError as error:
        raise BadInput(f"{name} does not fit into memory; keep fewer rows or columns") from error


def find_two_labels(y: Array, name: str, advice: str = "") -> tuple[float, float]:
    """Find the smaller and the larger label; BadInput where there are not two."""
    import numpy as np

    labels = np.unique(y)
    if len(labels) != 2:
        few = ", ".join(f"{label:g}" for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        given = f"got {len(labels)} ({few})"
        raise BadInput(f"{name}: logistic regression needs two labels, {given}{advice}")
    return float(labels[0]), float(labels[1])
