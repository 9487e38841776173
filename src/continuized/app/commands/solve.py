"""`continuized solve`: fit a regression to a data file."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from continuized.app.commands import BadInput, Interrupted, options, show, to_json, within
from continuized.app.report import Table
from continuized.support import files

if TYPE_CHECKING:
    from continuized.app.fitting import Scaling, Target
    from continuized.problems.sources import Data
    from continuized.solver.result import Result

RENEW = "give another --checkpoint, or remove it"
PENALTIES = ("l2", "l1", "elasticnet")
METHODS = ("auto", "continuized", "dual", "coordinate", "nesterov", "gradient-descent")
CERTIFIED = ("auto", "continuized", "dual")  # that end at a duality gap, where one is known
MARKED = ("dual", "coordinate")
# The formats of files for which options mean something, and what they are called.
TAKES = {"--label": ("csv", "npy"), "--drop": ("csv",), "--zero-based": ("svmlight",)}
KINDS = {
    "csv": "a CSV file", "npy": "an npy file", "npz": "an npz file, whose y is the label",
    "svmlight": "a LIBSVM file", "folder": "a folder, whose y.npy is the label",
}  # fmt: skip
HALF = 0.5  # the --l1-ratio of elasticnet
SHOWN = 6  # classes in the summary
MANY_STEPS = 10_000  # after which a run is told that it may be shorter
VERY_DIFFERENT = 10.0  # times as large
ROUNDING = 16.0  # epsilons of the objective, by which sums over the rows may be wrong


class FitOptions(NamedTuple):
    """What was asked for, by the names of the options."""

    label: str | None
    loss: str | None
    intercept: bool | None
    standardize: bool
    penalty: str
    alpha: float | None
    l2: float | None
    l1_ratio: float | None
    delta: float | None
    missing: str | None
    drop: tuple[str, ...]
    zero_based: bool
    method: str
    tol: float | None
    maxiter: int | None
    seed: int
    checkpoint: Path | None
    every: float
    shards: int | None
    ray: str | None


class Fit(NamedTuple):
    """A problem made of a file, and what was chosen on the way."""

    data: Data
    problem: Any
    target: Target
    scaling: Scaling | None
    means: Any
    l1: float
    penalty: str  # a sentence for people
    rows_read: int
    delta: float | None


@click.command("solve")
@click.argument("data", type=options.PATH, nargs=-1)
@click.option("--label", metavar="NAME|N",
              help="The column to predict, by name or number (from 1 on, or -1 for the last).  "
              "[default: the one called target, label, y or class, else the last]")  # fmt: skip
@click.option("--loss", type=click.Choice(options.LOSSES),
              help="[default: logistic for two labels, softmax for words and up to 20 whole "
              "numbers, ridge for other numbers]")  # fmt: skip
@click.option("--intercept/--no-intercept", default=None,
              help="A constant, not penalised.  [default: on for CSV, off for others]")  # fmt: skip
@click.option("--standardize", is_flag=True,
              help="Divide the columns by their standard deviations, and centre dense ones where "
              "there is an intercept; the model knows.")  # fmt: skip
@click.option("--penalty", type=click.Choice(PENALTIES), default="l2", show_default=True)
@click.option("--alpha", type=float, callback=within(minimum=0.0),
              help="The strength of the penalty: alpha times |w|^2/2 (l2), |w|_1 (l1) or both "
              "(elasticnet) is added to the mean loss.  [default: 1/rows]")  # fmt: skip
@click.option("--l2", type=float, callback=within(minimum=0.0),
              help="The same as --penalty l2 --alpha L2.")  # fmt: skip
@click.option("--l1-ratio", type=float, callback=within(minimum=0.0, maximum=1.0),
              help=f"The share of |w|_1 in elasticnet.  [default: {HALF}]")  # fmt: skip
@click.option("--delta", type=float, callback=within(above=0.0),
              help="Where huber turns into a straight line, in the label's unit.  [default: 1.35 "
              "times the labels' spread]")  # fmt: skip
@click.option("--missing", type=click.Choice(["mean", "drop"]),
              help="Empty cells: the mean of their column, or their rows are dropped.  [default: "
              "refuse them]")  # fmt: skip
@click.option(
    "--drop", multiple=True, metavar="NAME|N", help="Leave out a column; may be repeated."
)
@click.option("--zero-based", is_flag=True, help="The indices of a LIBSVM file count from 0.")
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True)
@click.option("--tol", type=float, callback=within(minimum=0.0, finite=False),
              help="End at this duality gap (auto, continuized, dual; l2 > 0, no intercept), or "
              "gradient norm.  [default: 1e-6 times the loss at the start, or the root of its "
              "double for a norm]")  # fmt: skip
@click.option("--maxiter", type=click.IntRange(min=0), help="The most events.")
@options.seed
@click.option("--checkpoint", type=options.FILE,
              help="Keep the state of the run here, and go on from it if it is there.")  # fmt: skip
@click.option("--every", type=click.FloatRange(min=0.0), default=30.0, show_default=True,
              help="Seconds between two checkpoints.")  # fmt: skip
@click.option("--shards", type=click.IntRange(min=1),
              help="Read DATA in so many processes, each of which keeps its own rows.  [default: "
              "one for each DATA, if there are several]")  # fmt: skip
@click.option("--ray", metavar="ADDRESS", is_flag=False, flag_value="",
              help="These processes are actors of the Ray cluster at ADDRESS; alone, of one that "
              "is started on this machine.")  # fmt: skip
@click.option("--out", type=options.FILE, help="Write the model (npz).")
@click.option("--plot", type=options.FILE, is_flag=False, flag_value=Path("solve.png"),
              help="Draw the objective (PNG, SVG, PDF); alone: solve.png.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    data: tuple[Path, ...], out: Path | None, plot: Path | None, as_json: bool, **given: Any
) -> int:
    """Fit a regression to the rows of DATA, and print a summary.

    DATA is a CSV file with a header (separated by , ; or tabs), a LIBSVM/SVMlight, npy or npz file,
    or a folder with X.npy and y.npy, which may be larger than memory; .gz is read too.  Several
    have their rows together, and each is read by a process of its own.  Labels may be numbers,
    words or true and false; with more than two classes, logistic regression is softmax.  The exit
    code is 0 if tol was reached, or the gap is down to rounding, 1 if not.
    """
    asked = FitOptions(**given)
    _check_data(data, plot, asked.ray)
    _check_options(asked)
    _check_formats(data, asked)
    if plot is not None:
        _check_plot(plot)
    for path in (out, plot):
        if path is not None:  # better now than after the work
            files.writable_folder(path.parent)
    name = data[0] if len(data) == 1 else Path(f"{data[0].name} and {len(data) - 1} more")
    if len(data) == 1 and asked.shards is None and asked.ray is None:
        return _fit(_prepare(name, asked), name, asked, out, plot, as_json)
    fit = _prepare_shards(data, str(name), asked)
    with fit.problem:
        return _fit(fit, name, asked, out, plot, as_json)


def _fit(
    fit: Fit, name: Path, asked: FitOptions, out: Path | None, plot: Path | None, as_json: bool
) -> int:
    """Run, write what is asked for, and print the summary."""
    started = time.perf_counter()
    r, tol = _minimize(fit, name, asked)
    seconds = time.perf_counter() - started
    fitted = _make_model(fit, r, asked)
    if out is not None:
        from continuized.app import model_file

        model_file.save(out, fitted)
    if plot is not None:
        from continuized.plot import figures

        title, format = f"{fit.target.loss} regression, {name.name}", plot.suffix[1:].lower()
        files.write(plot, figures.render_objective(r.trace, title, format))
    report = _report(fit, fitted, asked.method, r, seconds)
    is_done = r.success or _is_rounding(report)
    if as_json:
        click.echo(to_json(report))
    else:
        _print_summary(name, fit, asked, report, tol)
        _print_end(fit, asked, report, r, is_done, [out, plot])
    return 0 if is_done else 1


def _is_rounding(report: dict[str, Any]) -> bool:
    """Tell whether the objective is the least that its rounding lets one tell."""
    gap, objective = report["gap"], report["objective"]
    return gap is not None and gap <= ROUNDING * sys.float_info.epsilon * abs(objective)


def _check_data(data: tuple[Path, ...], plot: Path | None, ray: str | None) -> None:
    """Refuse to go on without DATA; it may stand behind an option that took it for its value."""
    for option, value in (("--plot", plot), ("--ray", ray)):
        if value and Path(value).exists() and (option == "--ray" or not data):
            raise BadInput(
                f"{option} took {value} for its own value: write DATA before {option}, or give "
                f"{option}=VALUE"
            )
    if not data:
        raise BadInput("DATA is missing: give the file or files to fit")


def _check_options(asked: FitOptions) -> None:
    """Refuse options that do not go together, before anything is read."""
    penalty, method, loss = asked.penalty, asked.method, asked.loss
    if asked.l2 is not None and (asked.alpha is not None or penalty != "l2"):
        raise BadInput("--l2 is the strength of --penalty l2: give --alpha instead")
    if asked.l1_ratio is not None and penalty != "elasticnet":
        raise BadInput("--l1-ratio goes with --penalty elasticnet")
    if penalty != "l2" and method not in ("auto", "continuized"):
        raise BadInput(f"--penalty {penalty} goes with --method auto or continuized")
    if asked.delta is not None and loss != "huber":
        raise BadInput("--delta goes with --loss huber")
    if method in MARKED and loss in ("softmax", "poisson", "huber"):
        raise BadInput(f"--method {method} is for --loss logistic and ridge, got {loss}")
    if method == "dual" and 0.0 in (asked.alpha, asked.l2):
        raise BadInput("--method dual needs --l2 > 0: without it there is no dual of this form")


def _check_formats(data: tuple[Path, ...], asked: FitOptions) -> None:
    """Refuse options that mean nothing for files of this kind."""
    from continuized.problems.files import find_format

    given = {"--label": asked.label, "--drop": asked.drop, "--zero-based": asked.zero_based}
    for path in data:
        format = "folder" if path.is_dir() else find_format(str(path))
        for option in [option for option, value in given.items() if value]:
            if format not in TAKES[option]:
                kinds = " and ".join(KINDS[kind] for kind in TAKES[option])
                raise BadInput(f"{option} goes with {kinds}, but {path} is {KINDS[format]}")


def _check_plot(plot: Path) -> None:
    from continuized.plot import style

    style.require_matplotlib()
    if plot.suffix[1:].lower() not in style.FORMATS:
        endings = ", ".join(f".{format}" for format in style.FORMATS)
        raise BadInput(f"--plot must be a file that ends in one of {endings}, got {plot}")


def _prepare(path: Path, asked: FitOptions) -> Fit:
    """Read the file, and make the problem that the options ask for."""
    data = options.read_data(
        path, label=asked.label, drop=asked.drop, zero_based=asked.zero_based,
        missing="refuse" if asked.missing is None else "keep",
    )  # fmt: skip

    from continuized.app import fitting

    for note in data.notes:
        click.echo(f"{path}: {note}", err=True)
    name, rows_read = str(path), len(data.y)
    if asked.missing == "mean":
        _refuse_missing_labels(data, name)
    X, y, means = fitting.handle_missing(data, asked.missing, name)
    target = fitting.choose_target(y, data, asked.loss, name)
    fitting.check_size(X.shape[1], _count_outputs(target), name, X)
    on = data.names is not None if asked.intercept is None else asked.intercept
    if on and asked.method in MARKED:
        raise BadInput(f"--method {asked.method} knows no intercept: add --no-intercept")
    _check_target(asked.method, target)
    scaling = None
    if asked.standardize:
        X = fitting.make_writable(X, name, "--standardize")
        scaling = fitting.standardize(X, on)
    delta = asked.delta
    if target.loss == "huber" and delta is None:
        delta = fitting.choose_delta(y, name)
    strength, ratio, words = _choose_penalty(len(y), asked)
    problem = fitting.make_problem(X, target, (1.0 - ratio) * strength, on, delta)
    return Fit(data, problem, target, scaling, means, ratio * strength, words, rows_read, delta)


def _prepare_shards(paths: tuple[Path, ...], name: str, asked: FitOptions) -> Fit:
    """Let processes read the files, and make the problem that the options ask for."""
    if asked.standardize or asked.missing is not None:
        what = "--standardize" if asked.standardize else "--missing"
        raise BadInput(f"{what} needs all rows in one process: give one DATA, without --shards")
    if asked.method in MARKED:
        raise BadInput(
            f"--method {asked.method} needs all rows in one process: give one DATA, without "
            "--shards, or --method auto"
        )
    if asked.loss == "huber" and asked.delta is None:
        raise BadInput("--loss huber of several shards needs --delta")

    from continuized.app import fitting, sharded
    from continuized.network.sharded.pool import close_on_error

    how = {"label": asked.label, "drop": list(asked.drop), "zero_based": asked.zero_based}
    pool, found = sharded.open_shards(paths, asked.shards, asked.ray, how)
    with close_on_error(pool):
        for note in found.notes:
            click.echo(note, err=True)
        target = sharded.choose_target(found, asked.loss, name)
        fitting.check_size(found.columns, _count_outputs(target), name)
        _check_target(asked.method, target)
        on = found.names is not None if asked.intercept is None else asked.intercept
        strength, ratio, words = _choose_penalty(found.rows, asked)
        l2 = (1.0 - ratio) * strength
        problem = sharded.make_problem(pool, found, target, l2, on, asked.delta)
    return Fit(sharded.as_data(found), problem, target, None, None, ratio * strength, words,
               found.rows, asked.delta)  # fmt: skip


def _count_outputs(target: Target) -> int:
    return len(target.classes or ()) if target.loss == "softmax" else 1


def _check_target(method: str, target: Target) -> None:
    """Refuse a loss that the method does not take."""
    if method in MARKED and target.loss not in ("logistic", "ridge"):
        raise BadInput(f"--method {method} is for --loss logistic and ridge, got {target.loss}")
    if method in ("nesterov", "gradient-descent") and target.loss == "poisson":
        raise BadInput(f"--method {method} needs a bound of the curvature, which poisson has not")


def _choose_penalty(rows: int, asked: FitOptions) -> tuple[float, float, str]:
    """Return the strength of the penalty, the share of |w|_1 in it, and a sentence."""
    strength, why = (asked.l2 if asked.alpha is None else asked.alpha), ""
    if strength is None:
        strength, why = 1.0 / rows, " (1/rows)"
    penalty, given = asked.penalty, HALF if asked.l1_ratio is None else asked.l1_ratio
    ratio = {"l2": 0.0, "l1": 1.0}.get(penalty, given)
    words = f"{penalty}, alpha = {strength:.6g}{why}"
    if penalty == "elasticnet":
        words += f", l1-ratio = {ratio:g}"
    return strength, ratio, words


def _refuse_missing_labels(data: Data, name: str) -> None:
    import numpy as np

    empty = np.flatnonzero(np.isnan(data.y))
    if empty.size:
        raise BadInput(
            f"{name}: the label is empty in row {empty[0] + 1}, and has no mean; give --missing "
            "drop, or remove such rows"
        )


def _minimize(fit: Fit, name: Path, asked: FitOptions) -> tuple[Result, float]:
    """Run; return what came of it, and the tol."""
    import numpy as np

    import continuized as cz
    from continuized.app import fitting
    from continuized.support.checkpoints.checkpointer import OtherRunError

    objects: dict[str, Any] = {"dual": cz.DualCoordinate(), "coordinate": cz.CoordinateDescent()}
    problem, more = fit.problem, dict[str, Any]()
    if fit.l1 > 0.0:
        is_penalised = np.arange(problem.variables) < problem.column_count
        weights = np.repeat(np.where(is_penalised, fit.l1, 0.0), problem.classes)
        more["prox"] = cz.prox.L1(weights)
    elif asked.method == "continuized":
        more["metric"] = "auto"
    checkpoint = asked.checkpoint
    if checkpoint is not None:
        more.update(checkpoint=checkpoint, every=asked.every, resume=True)
    before, start = _inode(checkpoint), fitting.choose_start(problem, fit.target)
    is_gap = asked.method in CERTIFIED and problem.l2 > 0.0 and not (fit.l1 or problem.intercept)
    chosen = fitting.choose_tol(problem, start, is_gap, str(name))
    tol = chosen if asked.tol is None else asked.tol
    try:
        return cz.minimize(
            problem, start, method=objects.get(asked.method, asked.method), tol=tol,
            maxiter=asked.maxiter, rng=asked.seed, progress=True, **more,
        ), tol  # fmt: skip
    except KeyboardInterrupt:
        if _inode(checkpoint) in (None, before):  # none was written
            raise
        kept = f"the run so far is in {checkpoint}"
        raise Interrupted(f"interrupted; {kept}: the same command goes on from it") from None
    except OtherRunError as error:
        other = "with another DATA, another --seed or other options of the fit"
        raise BadInput(f"the checkpoint {checkpoint} is of a run {other}; {RENEW}") from error
    except cz.CheckpointError as error:
        raise BadInput(f"{error.fact}; {RENEW}") from error
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error


def _inode(path: Path | None) -> int | None:
    """Which file has this name now: a checkpoint that is written takes the name of another."""
    return path.stat().st_ino if path is not None and path.exists() else None


def _make_model(fit: Fit, r: Result, asked: FitOptions) -> Any:
    from continuized.app.model_file import Model

    problem, data = fit.problem, fit.data
    w = r.x.reshape(problem.variables, -1) if fit.target.loss == "softmax" else r.x
    scaling = (None, None) if fit.scaling is None else fit.scaling
    return Model(
        w, fit.target.loss, fit.target.classes, data.names, data.label, problem.intercept,
        fit.penalty, asked.missing, asked.zero_based, fit.means, *scaling,
    )  # fmt: skip


def _report(fit: Fit, fitted: Any, method: str, r: Result, seconds: float) -> dict[str, Any]:
    from continuized.app import fitting, sharded
    from continuized.problems.regression.gap import bound_gap

    n, d = fit.problem.row_count, fit.problem.column_count
    chosen = "continuized" if r.get("passes") is None else "dual"
    gap = r.get("gap")
    if gap is None and math.isfinite(r.fun):
        gap = bound_gap(fit.problem, r.x, fit.l1)
    if gap is not None:  # no penalty is below 0, and no loss below its least
        gap = min(gap, max(float(r.fun) - fit.problem.least_loss, 0.0))
    if fit.problem.is_here:
        # X is scaled in place by now: predict with w as it was fitted.
        scored = fitted._replace(centre=None, scale=None)
        quality, value = fitting.judge(fit.target, scored.predict(fit.problem.X))
    else:
        quality, value = sharded.judge(fit.problem, fit.target, fitted.w)
    return {
        "method": method if method != "auto" else chosen,
        "loss": fit.target.loss,
        "n": int(n),
        "d": int(d),
        "classes": None if fit.target.classes is None else list(fit.target.classes),
        "intercept": fit.problem.intercept,
        "l1": fit.l1,
        "l2": fit.problem.l2,
        "objective": float(r.fun),
        "gap": gap,
        "steps": int(r.nit),
        "seconds": round(seconds, 4),
        "status": r.status.name.lower(),
        quality: value,
        "constants": {k: _plain(v) for k, v in (r.get("constants") or {}).items()},
    }


def _plain(value: Any) -> Any:
    import numpy as np

    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= 16 else f"{value.size} numbers"
    return value.item() if isinstance(value, np.generic) else value


def _print_summary(
    path: Path, fit: Fit, asked: FitOptions, report: dict[str, Any], tol: float
) -> None:
    """Print the table of what was done, what was chosen and why."""
    from continuized.problems.csv_files import TARGETS

    data, target = fit.data, fit.target
    lost = fit.rows_read - report["n"]
    rows = {
        "rows": f"{report['n']:,}" + (f" ({lost:,} with empty cells dropped)" if lost else ""),
        "columns": f"{report['d']:,}",
    }
    if data.label is not None:
        named = data.label.casefold() in TARGETS
        why = "by its name" if named else "the last column"
        if asked.label is not None:
            why = "as asked"
        rows["label"] = f"{data.label} ({why})"
    if target.classes is not None:
        rows["classes"] = _describe_classes(target)
    rows["loss"] = f"{target.loss} ({target.why})"
    if fit.delta is not None:
        spread = "" if asked.delta is not None else " (1.35 times the spread of the labels)"
        rows["delta"] = f"{fit.delta:.6g}{spread}"
    rows["penalty"] = fit.penalty
    on = "yes, not penalised" if report["intercept"] else "no"
    by_default = "" if asked.intercept is not None else f" (the default for {_kind(data)})"
    rows["intercept"] = on + by_default
    if asked.standardize:
        centred = fit.scaling is not None and fit.scaling.centre is not None
        rows["scaling"] = "columns centred and scaled" if centred else "columns scaled, not centred"
    if asked.missing == "mean":
        rows["missing"] = "empty cells hold the means of their columns"
    rows["objective"] = f"{report['objective']:.10g}"
    rows["gap"] = "unknown" if report["gap"] is None else f"at most {report['gap']:.3g}"
    by_default = "" if asked.tol is not None else " (relative to the loss at the start)"
    rows["tol"] = f"{tol:.3g}{by_default}"
    rows["steps"] = f"{report['steps']:,}"
    rows["seconds"] = f"{report['seconds']:.2f}, with loading or compiling code"
    for name, title in (("accuracy", "accuracy"), ("R2", "R²"), ("D2", "D²")):
        if name in report:
            rows[title] = f"{report[name]:.4f} on these rows"
    show(Table(("", path.name), tuple(rows.items())))


def _print_end(
    fit: Fit, asked: FitOptions, report: dict[str, Any], r: Result, is_done: bool,
    written: list[Path | None],
) -> None:  # fmt: skip
    """Say why the run ended, what may help if it is not done, and which files were written."""
    click.echo(r.message)
    if is_done and not r.success:
        click.echo("The gap is down to rounding: this is the minimum all the same.")
    is_long = report["steps"] >= MANY_STEPS or (report["status"] == "maxiter" and not is_done)
    if is_long and not asked.standardize and _differ_in_size(fit):
        click.echo("Columns of very different sizes take long: --standardize may help.")
    names = [str(one) for one in written if one is not None]
    if names:
        done = "Written" if is_done else "Written, though the fit did not converge"
        click.echo(f"{done}: {', '.join(names)}")


def _differ_in_size(fit: Fit) -> bool:
    """Tell whether some columns, or the intercept's, have much larger entries than others."""
    import numpy as np

    p = fit.problem
    sizes = np.sqrt(p.square_sums[: p.column_count] / p.row_count)
    sizes = np.append(sizes[sizes > 0.0], [1.0] if p.intercept else [])
    return bool(sizes.size) and float(sizes.max()) > VERY_DIFFERENT * float(sizes.min())


def _kind(data: Data) -> str:
    return "CSV" if data.names is not None else "files that are not CSV"


def _describe_classes(target: Target) -> str:
    from continuized.app.commands.predict import name_class

    assert target.classes is not None
    pairs = zip(target.classes, target.counts, strict=True)
    each = [f"{name_class(label)} ({count:,})" for label, count in pairs]
    more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
    return f"{len(each)}: " + ", ".join(each[:SHOWN]) + more
