"""`continuized predict`: apply a fitted model to a data file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import BadInput, options, refuse, to_csv, to_json
from continuized.support import files

if TYPE_CHECKING:
    from continuized.app.model_file import Model
    from continuized.problems.base import Array
    from continuized.problems.sources import Data

# What to do about a data file, where that is other than for `solve`.
ADVICE = {
    "missing": "give --missing mean: the means of the rows that the model was fitted to",
    "text": "turn it into numbers, as where the model was fitted",
    "label": "rename one",
    "columns": "add it, or fit a model without it",
    "zero": "the model was fitted so: add 1 to the indices, or fit it anew with --zero-based",
}


@click.command("predict")
@click.argument("model", type=options.PATH)
@click.argument("data", type=options.PATH)
@click.option("--out", type=options.FILE,
              help="Write the predictions here, one a row, in place of printing them.")  # fmt: skip
@click.option("--proba", is_flag=True,
              help="Probabilities, a column for each class, with a header.")  # fmt: skip
@click.option("--missing", type=click.Choice(["mean"]),
              help="Empty cells: the mean of their column where the model was fitted.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: how good they are.")
def command(
    model: Path, data: Path, out: Path | None, proba: bool, missing: str | None, as_json: bool
) -> None:
    """Predict the rows of DATA by MODEL, a file that `continuized solve --out` wrote.

    One prediction a row: a number, or a class by its name.  DATA needs no labels; with --json, the
    predictions are compared with them.  The columns of a CSV file are found by their names, in any
    order, and those that the model does not use are left out.
    """
    from continuized.app import model_file as models

    with refuse(models.ModelError):
        fitted = models.load(model)
    if proba and fitted.classes is None:
        raise BadInput(f"--proba needs a model of classes, got a {fitted.loss} one")
    if proba and as_json and out is None:
        raise BadInput("--proba with --json goes with --out, a file for the probabilities")
    if out is not None:  # better now than after the work
        files.writable_folder(out.parent)
    table, X = _read_rows(data, fitted, missing)
    if as_json:
        _check_labels(data, table)
    predicted = fitted.predict(X)
    if out is not None or not as_json:
        text = _write(fitted, predicted, X, proba)
        if out is None:
            click.echo(text, nl=False)
        else:
            files.write(out, text)
            if not as_json:
                click.echo(f"Written: {out}")
    if as_json:
        click.echo(to_json(_judge(fitted, predicted, table)))


def name_class(value: Any) -> str:
    """Write the name of a class: text as it is, a number without .0 if it is whole."""
    from continuized.problems.csv_files import name_number

    return value if isinstance(value, str) else name_number(float(value))


def _write(fitted: Model, predicted: Array, X: Any, proba: bool) -> str:
    """Write a row for each prediction."""
    if fitted.classes is None:
        return "".join(f"{value!r}\n" for value in predicted.tolist())
    names = [name_class(value) for value in fitted.classes]
    if proba:
        return to_csv(names, fitted.predict_probabilities(X).tolist())
    rows = [to_csv([name], []) for name in names]  # with quotes where they are needed
    return "".join(rows[place] for place in predicted.tolist())


def _read_rows(path: Path, fitted: Model, missing: str | None) -> tuple[Data, Any]:
    """Read the file; return what is in it, and its rows without holes."""
    from continuized import problems
    from continuized.app import fitting

    fill = missing is not None or fitted.missing == "mean"
    if fill and fitted.means is None:
        raise BadInput("--missing mean: the model knows no means of its columns; fit it anew")
    how: dict[str, Any] = {
        "labelled": False, "label": fitted.label, "columns": fitted.names,
        "missing": "keep" if fill else "refuse", "zero_based": fitted.zero_based,
    }  # fmt: skip
    try:  # the last columns may be empty in a sparse file
        table = problems.read(path, n_features=fitted.columns or None, **how)
    except problems.DataError:  # perhaps only another number of columns
        table = options.read_data(path, ADVICE, **how)
    for note in table.notes:
        click.echo(f"{path}: {note}", err=True)
    if table.X.shape[1] != fitted.columns:
        raise BadInput(f"{path} has {table.X.shape[1]} columns, but the model has {fitted.columns}")
    is_sparse = hasattr(table.X, "indptr")
    if is_sparse and missing is not None:
        raise BadInput(fitting.SPARSE.format(name=path))
    if fill and not is_sparse:
        assert fitted.means is not None
        return table, fitting.fill_holes(table.X, fitted.means, str(path))
    return table, table.X


def _check_labels(path: Path, table: Data) -> None:
    """Refuse to compare with labels that are not there."""
    import numpy as np

    empty = np.ones(1, bool) if table.y is None else np.isnan(table.y)
    if empty.all():
        raise BadInput(f"--json compares with labels, but {path} has none; leave it out")
    if empty.any():
        raise BadInput(
            f"--json compares with labels, but that of row {int(np.argmax(empty)) + 1} of {path} "
            "is empty; fill it in, remove the row, or leave out --json"
        )


def _judge(fitted: Model, predicted: Array, table: Data) -> dict[str, Any]:
    import numpy as np

    from continuized.app import fitting

    found: dict[str, Any] = {"n": len(predicted), "loss": fitted.loss}
    if fitted.classes is None:
        if table.text is not None:
            raise BadInput(
                f"{table.text.where}: the label is {table.text.name!r}, which is no number, but a "
                f"{fitted.loss} model predicts numbers; mend it, or leave out --json"
            )
        target = fitting.Target(table.y, fitted.loss, "")
        found["mean_squared_error"] = float(np.mean((predicted - table.y) ** 2))
    else:
        target = fitting.Target(_number_classes(fitted, table), fitted.loss, "", fitted.classes)
    name, value = fitting.judge(target, predicted)
    return {**found, name: value}


def _number_classes(fitted: Model, table: Data) -> Array:
    """Find the places of the labels among the model's classes; BadInput for others."""
    import numpy as np

    from continuized.app.fitting import are_truths
    from continuized.problems.sources import renumber

    assert fitted.classes is not None
    names = [name_class(value) for value in fitted.classes]
    values, codes = np.unique(table.y, return_inverse=True)
    given = [name_class(v if table.classes is None else table.classes[int(v)]) for v in values]
    if are_truths(names) and are_truths(given):  # pandas writes True, R writes TRUE
        names, given = ([name.casefold() for name in each] for each in (names, given))
    strange = [name for name in given if name not in names]
    if strange:
        raise BadInput(
            f"the data have the label {strange[0]}, but the model knows only "
            f"{', '.join(names[:-1])} and {names[-1]}; leave out --json to predict only"
        )
    return renumber(names, given, codes)
