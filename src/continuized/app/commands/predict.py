"""`continuized predict`: apply a fitted model to a data file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import BadInput, options, refuse, to_json
from continuized.support import files

if TYPE_CHECKING:
    from continuized.app.model_file import Model
    from continuized.problems.base import Array

SHOWN = 5  # names of columns in a sentence


@click.command("predict")
@click.argument("model", type=options.PATH)
@click.argument("data", type=options.PATH)
@click.option("--out", type=options.FILE,
              help="Write the predictions here, in place of printing them.")  # fmt: skip
@click.option("--proba", is_flag=True, help="Probabilities of the second label (logistic).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: how good they are.")
def command(model: Path, data: Path, out: Path | None, proba: bool, as_json: bool) -> None:
    """Predict the rows of DATA by MODEL, a file that `continuized solve --out` wrote.

    One prediction a line, or with --json the accuracy (logistic) or mean squared error (ridge)
    against the labels in DATA.  Where both have names for their columns, the names are matched.
    """
    from continuized.app import model_file as models

    with refuse(models.ModelError):
        fitted = models.load(model)
    if proba and fitted.labels is None:
        raise BadInput("--proba needs a logistic model, got a ridge one")
    X, y = _read_rows(data, fitted)
    predicted = fitted.predict(X)
    shown = fitted.predict_probabilities(X) if proba else predicted
    lines = "".join(f"{value!r}\n" for value in shown.tolist())
    if out is not None:
        files.write(out, lines)
    if as_json:
        click.echo(to_json(_judge(fitted, predicted, y)))
    elif out is None:
        click.echo(lines, nl=False)


def _read_rows(data: Path, fitted: Model) -> tuple[Any, Array]:
    from continuized import problems

    try:  # the last columns may be empty in a sparse file
        table = problems.read(data, n_features=len(fitted.w) or None)
    except problems.DataError:  # perhaps only another number of columns
        table = options.read_data(data)
    X, y = table
    if None not in (fitted.names, table.names) and fitted.names != table.names:
        return X[:, _match_names(data, table.names, fitted.names)], y
    if X.shape[1] != len(fitted.w):
        raise BadInput(f"{data} has {X.shape[1]} columns, but the model has {len(fitted.w)}")
    return X, y


def _match_names(data: Path, given: Any, asked: Any) -> list[int]:
    """Find the columns of the data in the order of the model's; BadInput where they differ."""
    place = {name: column for column, name in enumerate(given)}
    missing = [name for name in asked if name not in place]
    extra = list(place.keys() - set(asked))
    wrong = [f"has no column {_quote_names(missing)}"] if missing else []
    if extra:
        wrong.append(f"has {_quote_names(sorted(extra, key=given.index))}, which the model has not")
    if not wrong and len(given) + len(asked) > 2 * len(place):
        wrong.append("or the model has two columns of one name, which cannot be told apart")
    if wrong:
        raise BadInput(f"{data} {', and '.join(wrong)}")
    return [place[name] for name in asked]


def _quote_names(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(repr(name) for name in names[:SHOWN]) + more


def _judge(fitted: Model, predicted: Array, y: Array) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {"n": len(y), "loss": fitted.loss}
    if fitted.labels is None:
        found["mean_squared_error"] = float(np.mean((predicted - y) ** 2))
    else:
        strange = np.setdiff1d(y, fitted.labels)
        if strange.size:
            raise BadInput(
                f"the data have the label {strange[0]:g}, but the model knows only "
                f"{fitted.labels[0]:g} and {fitted.labels[1]:g}; leave out --json to predict only"
            )
        found["accuracy"] = float(np.mean(predicted == y))
    return found
