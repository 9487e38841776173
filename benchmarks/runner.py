"""Runs the suites, and puts what they give into tables."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.outcome import ABSENT, AT_LEAST, TIMED, Contest, Entry, Panel
from continuized.app.report import Table
from continuized.support.progress import bar


class Bench(NamedTuple):
    """What was measured, and where."""

    machine: dict[str, Any]
    contests: dict[str, list[Contest]]  # by suite
    panels: dict[str, list[Panel]]

    def losses(self) -> list[tuple[str, str]]:
        """(contest, who): every one that needed less than ours."""
        return [(c.title, who) for cs in self.contests.values() for c in cs for who in c.lost()]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        suites = {name: [c.as_dict() for c in cs] for name, cs in self.contests.items()}
        return {"machine": self.machine, "suites": suites}


def run(
    names: tuple[str, ...], quick: bool, file: Path | None = None, progress: bool = False
) -> Bench:
    """The suites of these names, one after the other.

    Parameters
    ----------
    names : of SUITES
    quick : bool
        Small sizes and few rounds.
    file : Path
        Data for the suite `logistic` besides its own.
    progress : bool
        Show what is being timed on standard error.
    """
    found = Bench(machine.describe(), {}, {})
    with bar("bench", len(names), progress, unit="suite") as show:
        for done, name in enumerate(names):
            suite = importlib.import_module(f"benchmarks.{name}")
            size = suite.QUICK if quick else suite.FULL
            if name == "logistic":
                size = size._replace(file=file)
            given = suite.run(size, lambda words, done=done: show(done, words))
            found.contests[name], found.panels[name] = given
        show(len(names), "")
    return found


def table(contest: Contest) -> Table:
    """A row for each contestant, with what has no number in words."""
    rows = tuple(
        (e.name, _ratio(contest, e), _amount(contest, e), _words(e)) for e in contest.entries
    )
    heading = "time" if contest.unit == "s" else contest.unit
    return Table(("", "times ours", heading, ""), rows, contest.title, numeric=(1, 2))


def markdown(bench: Bench) -> str:
    """One table of all ratios, with the machine and the versions, to be pasted into a page."""
    lines = ["| work | who | times ours | |", "|---|---|---:|---|"]
    contests = [c for found in bench.contests.values() for c in found]
    for c in contests:
        for place, e in enumerate(c.entries):
            cells = (c.title if place == 0 else "", e.name, _ratio(c, e), _words(e))
            lines.append("|" + "|".join(f" {cell} ".replace("  ", " ") for cell in cells) + "|")
    notes = "\n".join(f"- {note}" for note in dict.fromkeys(c.note for c in contests if c.note))
    parts = ["\n".join(lines), notes, machine.sentences(bench.machine), summary(bench)]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(bench: Bench) -> str:
    """How often a peer was ahead, and where."""
    total = sum(
        e.status in (TIMED, AT_LEAST) for cs in bench.contests.values() for c in cs
        for e in c.entries[1:]
    )  # fmt: skip
    losses = bench.losses()
    where = "".join(f"\n- {title}: {who}" for title, who in losses)
    return f"Less than ours in {len(losses)} of {total} comparisons{':' if losses else '.'}{where}"


def _ratio(contest: Contest, entry: Entry) -> str:
    ratio = contest.ratio(entry)
    if ratio is None:
        return ""
    return ("> " if entry.status == AT_LEAST else "") + number(ratio)


def number(value: float) -> str:
    """Three digits or so.

    >>> [number(v) for v in (0.0123, 1.234, 12.34, 1234.5)]
    ['0.012', '1.23', '12.3', '1,234']
    """
    if value < 0.1:
        return f"{value:.2g}"
    digits = 2 if value < 10.0 else 1 if value < 100.0 else 0
    return f"{value:,.{digits}f}"


def _amount(contest: Contest, entry: Entry) -> str:
    if entry.amount is None:
        return ""
    if contest.unit != "s":
        return f"{entry.amount:,.0f}"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if entry.amount >= scale:
            return f"{number(entry.amount / scale)} {unit}"
    return f"{number(entry.amount * 1e9)} ns"


def _words(entry: Entry) -> str:
    if entry.status == TIMED:
        return ""
    if entry.status in (ABSENT, AT_LEAST):
        return entry.words
    return f"{entry.status}: {entry.words}"
