"""`continuized certify`: a proof that the process converges on every function of a class."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from continuized.app import report
from continuized.app.commands import combine_options, refuse, show, to_json, within

if TYPE_CHECKING:
    from continuized.theory import Certificate

PARAMETERS = {
    "eta": "sqrt(mu/L)",
    "eta_prime": "sqrt(mu/L)",
    "gamma": "1/L",
    "gamma_prime": "1/sqrt(mu L)",
}
above_zero = within(above=0.0)


def _parameter_options() -> list[Callable[[Any], Any]]:
    return [
        click.option(f"--{name.replace('_', '-')}", type=float, callback=above_zero,
                     help=f"By default the paper's, {value}.")
        for name, value in PARAMETERS.items()
    ]  # fmt: skip


@click.command("certify")
@click.option("--L", "L", type=float, required=True, callback=above_zero,
              help="The smoothness of the functions.")  # fmt: skip
@click.option("--mu", type=float, required=True, callback=above_zero,
              help="Their strong convexity.")  # fmt: skip
@combine_options(*_parameter_options())
@click.option("--rate", type=float, callback=above_zero,
              help="The rate to prove; by default the best one is looked for.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, no lemma.")
def command(
    L: float, mu: float, eta: float | None, eta_prime: float | None, gamma: float | None,
    gamma_prime: float | None, rate: float | None, as_json: bool,
) -> int:  # fmt: skip
    """Prove that f falls at a rate for every L-smooth, mu-strongly convex f.

    The four parameters are constant in time.  What is found is proved in exact rational
    arithmetic, and printed as a lemma in LaTeX.  Exit code 1 if there is no certificate of this
    form, which is no proof of divergence.
    """
    from continuized.process.methods import Continuized
    from continuized.theory import NoCertificateError, certify
    from continuized.theory.certificates import check_class, constant_parameters

    given = (eta, eta_prime, gamma, gamma_prime)
    with refuse(ValueError):
        check_class(L, mu)
        paper = constant_parameters(Continuized(L, mu))
    chosen = tuple(mine if own is None else own for own, mine in zip(given, paper, strict=True))
    try:
        found = certify(chosen, L, mu, rate)  # type: ignore[arg-type]
    except (NoCertificateError, ArithmeticError) as error:
        click.echo(to_json({"proved": False, "reason": str(error)}) if as_json else str(error))
        return 1
    if as_json:
        click.echo(to_json(_facts(found)))
    else:
        show(_table(found))
        click.echo(found.latex() if found.proved else "Found by the solver, and not proved.")
    return 0 if found.proved else 1


def _facts(found: Certificate) -> dict[str, object]:
    """Collect the numbers of a certificate; fractions as text too, which keeps them exact."""
    numbers = {**found.parameters._asdict(), "L": found.L, "mu": found.mu, "rate": found.rate}
    return {
        **{name: float(value) for name, value in numbers.items()},
        "P": {name: str(value) for name, value in zip(("xx", "xz", "zz"), found.P, strict=True)},
        "multipliers": {f"{i},{j}": str(value) for (i, j), value in found.multipliers.items()},
        "constant": None if found.constant is None else float(found.constant),
        "proved": found.proved,
    }


def _table(found: Certificate) -> report.Table:
    q = (float(found.mu) / float(found.L)) ** 0.5
    names = ("eta", "eta'", "gamma", "gamma'")
    rows = [
        *((name, f"{float(v):.9g}") for name, v in zip(names, found.parameters, strict=True)),
        ("rate", f"{float(found.rate):.9g}"),
        ("rate / sqrt(mu/L)", _round_down(float(found.rate) / q)),
        *((f"P_{k}", f"{float(v):.6g}") for k, v in zip(("xx", "xz", "zz"), found.P, strict=True)),
        ("c of V >= c (f - f*)", _round_down(float(found.constant or 0.0))),
        ("proved in exact arithmetic", "yes" if found.proved else "no"),
    ]
    caption = f"L = {float(found.L):.9g}, mu = {float(found.mu):.9g}"
    return report.Table(("", ""), tuple(rows), caption, numeric=(1,))


def _round_down(value: float) -> str:
    """Write a number to four places and not above it, as the lemma does: more is not proved."""
    floor = math.floor(value * 1e4) / 1e4
    return f"{floor:.4f}" if floor > 0.0 else f"{value:.4g}"
