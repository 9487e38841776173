"""`python -m benchmarks`: this library and its peers side by side, in ratios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmarks import SUITES
from continuized.app.cli import OneSentence
from continuized.app.commands import BadInput, show, to_json

if TYPE_CHECKING:
    from benchmarks.runner import Bench
    from continuized.app.report import Part

TITLE = "Continuized Nesterov acceleration beside other libraries"
HOW = (
    "Times ours: what the others took, divided by what ours took in the same rounds; below 1, "
    "the other was quicker. Contestants work in turn, the rounds start with another each, and "
    "the minimum over the rounds counts."
)


@click.command("benchmarks", cls=OneSentence)
@click.option(
    "--suite",
    type=click.Choice([*SUITES, "all"]),
    default="all",
    show_default=True,
    help="What to time.",
)
@click.option("--quick", is_flag=True, help="Small sizes, few rounds: about 6 minutes for all.")
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A LIBSVM, CSV, npy or npz file with two labels, also to be fitted by the suite logistic.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, no tables.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables in Markdown.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Also write a report, tables, data and pictures of convergence to this folder.",
)
def command(
    suite: str, quick: bool, data: Path | None, as_json: bool, as_markdown: bool, out: Path | None
) -> None:
    """Time this library and its peers on this machine.

    A peer that is not installed, or fails, is named as such. For all of them:
    pip install ".[plot,sklearn,jax]" --group bench, with pip 25.1 or later.
    """
    from benchmarks import runner
    from continuized.app.commands import options
    from continuized.support import files

    if as_json and as_markdown:
        raise BadInput("--json and --markdown exclude each other: give one of them")
    names = SUITES if suite == "all" else (suite,)
    if data is not None:
        if "logistic" not in names:
            raise BadInput(f"--data is for the suite logistic, not for {suite}: leave it out")
        # Better now than after the work.
        options.find_two_labels(options.read_data(data)[1], str(data))
    if out is not None:
        files.writable_folder(out)
    bench = runner.run(names, quick, data, progress=not as_json)
    written = [] if out is None else _write(out, bench)
    if as_json:
        click.echo(_json(bench, written))
    elif as_markdown:
        click.echo(runner.markdown(bench), nl=False)
    else:
        _print(bench, written)


def _print(bench: Bench, written: list[Path]) -> None:
    from benchmarks import machine, runner

    for contests in bench.contests.values():
        for contest in contests:
            show(runner.table(contest))
            click.echo(click.wrap_text(contest.note) + "\n")
    click.echo(click.wrap_text(HOW) + "\n")
    click.echo(click.wrap_text(machine.sentences(bench.machine)) + "\n")
    click.echo(runner.summary(bench))
    if written:
        click.echo(f"Written to {written[0].parent}: {', '.join(path.name for path in written)}")


def _write(out: Path, bench: Bench) -> list[Path]:
    from benchmarks import runner
    from continuized.support import files

    pictures, why_not = _pictures(bench)
    contents: dict[str, str | bytes] = {
        "bench.md": runner.markdown(bench),
        "bench.json": _json(bench, []),
        "index.html": _page(bench, pictures, why_not),
    }
    for name, formats in pictures.items():
        contents |= {f"{name}.{format}": picture for format, picture in formats.items()}
    return [files.write(out / name, content) for name, content in contents.items()]


def _pictures(bench: Bench) -> tuple[dict[str, dict[str, bytes]], str]:
    """By suite and format; or why there are none."""
    from benchmarks import pictures

    try:
        return {name: pictures.render(p) for name, p in bench.panels.items() if p}, ""
    except ImportError as error:
        if error.name != "matplotlib":
            raise
        return {}, f"No pictures: {error}."


def _page(bench: Bench, pictures: dict[str, dict[str, bytes]], why_not: str) -> str:
    from benchmarks import machine, runner
    from continuized.app import report

    sections: dict[str, list[Part]] = {}
    for name, contests in bench.contests.items():
        parts = sections[name.capitalize()] = []
        for contest in contests:
            parts += [runner.table(contest), contest.note]
        if name in pictures:
            alt = f"Convergence, suite {name}: {'; '.join(p.title for p in bench.panels[name])}"
            parts.append(report.Picture(pictures[name]["svg"], alt, "Convergence."))
        parts += [panel.note for panel in bench.panels[name] if panel.note]
    words = (HOW, machine.sentences(bench.machine), runner.summary(bench), why_not)
    sections["How this was made"] = [w for w in words if w]
    return report.page(TITLE, sections)


def _json(bench: Bench, written: list[Path]) -> str:
    files = [str(path) for path in written]
    return to_json({**bench.as_dict(), "files": files}, indent=2)


if __name__ == "__main__":
    command(prog_name="python -m benchmarks")
