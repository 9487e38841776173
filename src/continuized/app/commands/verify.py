"""`continuized verify`: every claim of the paper checked, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from continuized.app import report
from continuized.app.commands import options, show, to_json
from continuized.support import files

if TYPE_CHECKING:
    from continuized.app.verify.claims import Claim, Effort

TITLE = "Continuized Nesterov acceleration: the paper's claims, checked"


@click.command("verify")
@click.option("--quick", is_flag=True, help="A tenth of the runs and of the random states.")
@options.seed
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, no tables.")
@click.option("--out", type=options.PATH, help="Also write a report to this folder (index.html).")
def command(quick: bool, seed: int, as_json: bool, out: Path | None) -> int:
    """Check every theorem, and the exactness of this implementation.

    Exit code 1 if a claim fails.
    """
    from continuized.app.verify.claims import FULL, QUICK
    from continuized.app.verify.registry import run

    if out is not None:
        files.writable_folder(out)
    effort = (QUICK if quick else FULL)._replace(seed=seed)
    claims = run(effort, progress=not as_json)
    if out is not None:
        files.write(out / "index.html", _page(claims, effort))
    passed = all(c.measurement.passed for c in claims)
    if as_json:
        click.echo(_json(claims, seed, passed))
    else:
        show(_claims_table(claims))
        for c in claims:
            if c.raised:
                click.echo(f"{c.check.claim}: {c.raised}")
        click.echo(click.wrap_text(_budget(seed)) + "\n")
        left_out = _left_out(claims)
        if left_out:
            click.echo(f"{left_out}\n")
        if out is not None:
            click.echo(f"Written to {out / 'index.html'}")
        every = "All claims" if not left_out else f"The {len(claims)} other claims"
        click.echo(f"{every} hold." if passed else "Not all is well: see the table.")
    return 0 if passed else 1


def _left_out(claims: list[Claim]) -> str:
    """Say what was not checked, for want of Numba."""
    from continuized.app.verify.registry import CHECKS

    n = len(CHECKS) - len(claims)
    if n == 0:
        return ""
    return f"{n} checks by samples were not made, for without Numba they take too long: install it."


def _budget(seed: int) -> str:
    from continuized.app.verify.registry import ALPHA, CHECKS, SHARE

    n = sum(check.statistical for check in CHECKS)
    return (
        f"Seed {seed}. {len(CHECKS) - n} checks involve no chance. The other {n} (marked *) fail "
        f"a correct implementation with probability {SHARE:.1e} each, {ALPHA:.0e} together: for "
        "the law of T_k that is a theorem (Dvoretzky, Kiefer, Wolfowitz, Massart), for shares too "
        "(Chernoff), for means the normal limit with its first correction for skewness. A sample "
        "too skewed to be judged is drawn again, four times as large, which the same probability "
        "covers; one that cannot be judged then either counts as a failure."
    )


def _claims_table(claims: list[Claim]) -> report.Table:
    rows = tuple(
        (
            c.check.claim + (" *" if c.check.statistical else ""),
            c.check.where,
            c.check.statistic,
            f"{c.measurement.allowed:.3g}",
            f"{c.measurement.measured:.3g}",
            c.verdict,
        )
        for c in claims
    )
    marks = tuple((i, "pass" if c.measurement.passed else "fail") for i, c in enumerate(claims))
    header = ("claim", "in the paper", "statistic", "allowed", "measured", "verdict")
    return report.Table(header, rows, "The claims", numeric=(3, 4), marks=marks)


def _pictures(seed: int) -> tuple[str | report.Picture, ...]:
    from continuized.app.verify.pictures import pictures

    try:
        return tuple(pictures(seed))
    except ImportError as error:
        if error.name != "matplotlib":
            raise
        return (f"No pictures: {error}.",)


def _page(claims: list[Claim], effort: Effort) -> str:
    seed, runs, states = effort[:3]
    how = f"Seed: {seed}. Runs of a statistical check: {runs:,}. Random states: {states:,}."
    sections = {
        "Claims": (_claims_table(claims), f"{_budget(seed)} {_left_out(claims)}".rstrip()),
        "Pictures": _pictures(seed),
        "How this was made": (how, report.versions()),
    }
    return report.page(TITLE, sections)


def _json(claims: list[Claim], seed: int, passed: bool) -> str:
    from continuized import __version__
    from continuized.app.verify.registry import ALPHA

    rows = [
        {
            "claim": c.check.claim,
            "where": c.check.where,
            "statistic": c.check.statistic,
            "statistical": c.check.statistical,
            "allowed": c.measurement.allowed,
            "measured": c.measurement.measured,
            "verdict": c.verdict,
            "raised": c.raised,
            "seconds": round(c.seconds, 3),
        }
        for c in claims
    ]
    found = {"version": __version__, "seed": seed, "false_alarm_probability": ALPHA}
    left_out = _left_out(claims)
    return to_json({**found, "passed": passed, "left_out": left_out, "claims": rows}, indent=2)
