"""`continuized reproduce`: the paper's figures, as pictures, data, a table and a report."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from continuized import __version__
from continuized.app import report
from continuized.app.commands import BadInput, options, show, to_json
from continuized.support import files

if TYPE_CHECKING:
    from continuized.plot.figures import Figure, Panel

KS = (1, 10, 30, 100, 300, 1000, 3000, 10_000)  # and the last one: the rows of the tables


@click.command("reproduce")
@click.option("--out", type=options.PATH, default="reproduce", show_default=True,
              help="The folder to write to; made if need be.")  # fmt: skip
@options.seed
@click.option("--steps", type=click.IntRange(1, 100_000), help="Gradient steps of every run.  "
              "[default: 1000 convex; strongly convex 150, noisy 300]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, no tables.")
def command(out: Path, seed: int, steps: int | None, as_json: bool) -> None:
    """Remake figures 1 and 2 of the paper.

    Gradient descent, Nesterov acceleration and one run of the continuized acceleration, on
    the paper's convex and strongly convex functions, without noise (figure 1) and with it
    (figure 2), beside the theorems' bounds.  Writes the figures (PNG, SVG), their data
    (CSV) and a report (index.html).
    """
    from continuized.app import figures as reproduce

    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file; give --out the name of a folder")
    options.prepare_folder(out)
    figures = reproduce.figures(seed, steps)
    written = _write(out, figures, seed)
    if as_json:
        click.echo(_json(figures, seed, written))
        return
    for figure in figures:
        for panel in figure.panels:
            show(_table(figure, panel))
        click.echo(click.wrap_text(figure.note) + "\n")
    click.echo(f"Written to {out}: {', '.join(path.name for path in written)}")


def _write(out: Path, figures: tuple[Figure, ...], seed: int) -> list[Path]:
    from continuized.app import figures as reproduce
    from continuized.plot import figures as plot

    contents: dict[str, str | bytes] = {}
    sections: dict[str, tuple[report.Part, ...]] = {}
    for figure in figures:
        stem, pictures = f"figure{figure.number}", plot.render(figure)
        contents.update({f"{stem}.{kind}": made for kind, made in pictures.items()})
        contents[f"{stem}.csv"] = reproduce.csv_text(figure)
        alt = f"{figure.title}: {', '.join(panel.name for panel in figure.panels)}"
        picture = report.Picture(pictures["svg"], alt, f"Figure {figure.number}. {figure.caption}")
        tables = tuple(_table(figure, panel) for panel in figure.panels)
        sections[f"Figure {figure.number}: {figure.title}"] = (picture, *tables, figure.note)
    sections["How this was made"] = _tell_how(figures, seed)
    contents["index.html"] = report.page(
        "Continuized Nesterov acceleration: the paper's figures", sections
    )
    # Everything is made before anything is written.
    return [files.write(out / name, content) for name, content in contents.items()]


def _tell_how(figures: tuple[Figure, ...], seed: int) -> tuple[report.Part, ...]:
    functions = tuple(f"{p.name.capitalize()}: f(x) = {p.formula}." for p in figures[0].panels)
    steps = "; ".join(
        f"figure {figure.number}, {panel.name}: {panel.curves[0].k[-1]}"
        for figure in figures
        for panel in figure.panels
    )
    numbers = (
        f"Seed: {seed}. Steps: {steps}. A seed and the versions below give the same "
        "numbers again; the CSV files beside this page hold all of them."
    )
    return *functions, numbers, report.versions()


def _choose_steps(panel: Panel) -> tuple[int, ...]:
    last = int(panel.curves[0].k[-1])
    return tuple(sorted({k for k in KS if k < last} | {last}))


def _table(figure: Figure, panel: Panel) -> report.Table:
    """f(x_k) - f* of each method beside its bound, a row for each k."""
    steps = _choose_steps(panel)
    columns = {"k": [str(k) for k in steps]}
    for curve in panel.curves:  # whose k-th row is that of step k
        if curve.method == "continuized":
            columns["T_k"] = [f"{curve.t[k]:.1f}" for k in steps]
        columns[curve.label] = [f"{curve.excess[k]:.2e}" for k in steps]
        if curve.theorem:
            bounds = [curve.bound[k] for k in steps]
            shown = [f"{b:.2e}" if math.isfinite(b) else "" for b in bounds]
            columns[f"bound, {curve.theorem}"] = shown
    cells = tuple(zip(*columns.values(), strict=True))
    title = f"Figure {figure.number}, {panel.name}: f(x_k) - f*"
    return report.Table(tuple(columns), cells, title, tuple(range(len(columns))))


def _json(figures: tuple[Figure, ...], seed: int, written: list[Path]) -> str:
    from continuized.app import figures as reproduce

    rows = [
        row
        for figure in figures
        for panel in figure.panels
        for row in reproduce.rows(figure, panel, _choose_steps(panel))
    ]
    names = [str(path) for path in written]
    return to_json({"version": __version__, "seed": seed, "rows": rows, "files": names}, indent=2)
