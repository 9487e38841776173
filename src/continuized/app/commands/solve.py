"""`continuized solve`: fit a regression to a data file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import BadInput, Interrupted, options, to_json, within
from continuized.support import files

if TYPE_CHECKING:
    from continuized.solver.result import Result

RENEW = "give another --checkpoint, or remove it"
METHODS = ("auto", "continuized", "dual", "coordinate", "nesterov", "gradient-descent")


@click.command("solve")
@click.argument("data", type=options.PATH)
@click.option("--loss", type=click.Choice(["logistic", "ridge"]), default="logistic",
              show_default=True)  # fmt: skip
@click.option("--l2", type=float,
              help="It adds l2/2 |w|^2 to the mean loss.  [default: 1/n]")  # fmt: skip
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True)
@click.option("--tol", type=float, default=1e-6, show_default=True,
              callback=within(minimum=0.0, finite=False),
              help="End at this duality gap (auto, dual; l2 > 0), or gradient norm.")  # fmt: skip
@click.option("--maxiter", type=click.IntRange(min=0), help="The most events.")
@options.seed
@click.option("--checkpoint", type=options.FILE,
              help="Keep the state of the run here, and go on from it if it is there.")  # fmt: skip
@click.option("--every", type=click.FloatRange(min=0.0), default=30.0, show_default=True,
              help="Seconds between two checkpoints.")  # fmt: skip
@click.option("--out", type=options.FILE, help="Write the model (npz).")
@click.option("--plot", type=options.FILE, is_flag=False, flag_value=Path("solve.png"),
              help="Draw the objective (PNG, SVG, PDF).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    data: Path, loss: str, l2: float | None, method: str, tol: float, maxiter: int | None,
    seed: int, checkpoint: Path | None, every: float, out: Path | None, plot: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Fit l2-regularised logistic or ridge regression to the rows of DATA.

    DATA is a LIBSVM/SVMlight, CSV (with a header), npy or npz file; .gz is read too.  Any two
    numbers will do for the labels of logistic regression.  The exit code is 0 if tol was reached,
    1 if not.
    """
    from continuized.app import model_file as model
    from continuized.plot import figures as pictures

    if plot is not None:
        pictures.require_matplotlib()
        if plot.suffix[1:].lower() not in pictures.FORMATS:
            endings = ", ".join(f".{format}" for format in pictures.FORMATS)
            raise BadInput(f"--plot must be a file that ends in one of {endings}, got {plot}")
    for path in (out, plot):
        if path is not None:  # better now than after the work
            files.writable_folder(path.parent)
    table = options.read_data(data)
    problem, labels = options.make_problem(*table, loss, l2, str(data))
    started = time.perf_counter()
    r = _minimize(problem, method, tol, maxiter, seed, checkpoint, every)
    seconds = time.perf_counter() - started
    if out is not None:
        model.save(out, model.Model(r.x, loss, problem.l2, labels, table.names))
    if plot is not None:
        title, format = f"{loss} regression, {data.name}", plot.suffix[1:].lower()
        files.write(plot, pictures.render_objective(r.trace, title, format))
    report = _report(problem, method, r, seconds)
    click.echo(to_json(report) if as_json else _sentences(report, r, out, plot))
    return 0 if r.success else 1


def _minimize(
    problem: Any, method: str, tol: float, maxiter: int | None, seed: int,
    checkpoint: Path | None, every: float,
) -> Result:  # fmt: skip
    import numpy as np

    import continuized as cz
    from continuized.support.checkpoints.checkpointer import OtherRunError

    if method == "dual" and problem.l2 == 0.0:
        raise BadInput("--method dual needs --l2 > 0: without it there is no dual of this form")
    objects: dict[str, Any] = {"dual": cz.DualCoordinate(), "coordinate": cz.CoordinateDescent()}
    more: dict[str, Any] = {"metric": "auto"} if method == "continuized" else {}
    if checkpoint is not None:
        more.update(checkpoint=checkpoint, every=every, resume=True)
    before = _inode(checkpoint)
    try:
        return cz.minimize(
            problem, np.zeros(problem.dim), method=objects.get(method, method), tol=tol,
            maxiter=maxiter, rng=seed, progress=True, **more,
        )  # fmt: skip
    except KeyboardInterrupt:
        if _inode(checkpoint) in (None, before):  # none was written
            raise
        kept = f"the run so far is in {checkpoint}"
        raise Interrupted(f"interrupted; {kept}: the same command goes on from it") from None
    except OtherRunError as error:
        other = "with another DATA, --loss, --l2, --method or --seed"
        raise BadInput(f"the checkpoint {checkpoint} is of a run {other}; {RENEW}") from error
    except cz.CheckpointError as error:
        raise BadInput(f"{error.fact}; {RENEW}") from error
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error


def _inode(path: Path | None) -> int | None:
    """Which file has this name now: a checkpoint that is written takes the name of another."""
    return path.stat().st_ino if path is not None and path.exists() else None


def _report(problem: Any, method: str, r: Result, seconds: float) -> dict[str, Any]:
    n, d = problem.X.shape
    chosen, gap = "continuized" if r.get("passes") is None else "dual", r.get("gap")
    if gap is None and problem.l2 > 0.0:  # a method that tests the gradient norm
        gap = float((r.jac**2).sum()) / (2.0 * problem.l2)
    return {
        "method": method if method != "auto" else chosen,
        "n": int(n),
        "d": int(d),
        "l2": problem.l2,
        "objective": float(r.fun),
        "gap": gap,
        "steps": int(r.nit),
        "seconds": round(seconds, 4),
        "status": r.status.name.lower(),
        "constants": {k: _plain(v) for k, v in (r.get("constants") or {}).items()},
    }


def _plain(value: Any) -> Any:
    import numpy as np

    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= 16 else f"{value.size} numbers"
    return value.item() if isinstance(value, np.generic) else value


def _sentences(report: dict[str, Any], r: Result, out: Path | None, plot: Path | None) -> str:
    gap = "" if report["gap"] is None else f", duality gap {report['gap']:.3g}"
    lines = [
        f"{report['n']:,} rows, {report['d']:,} columns, l2 = {report['l2']:.6g}",
        f"objective {report['objective']:.10g}{gap}",
        f"{report['steps']:,} steps in {report['seconds']:.2f} s; {r.message}",
    ]
    written = [str(path) for path in (out, plot) if path is not None]
    if written:
        lines.append("Written: " + ", ".join(written))
    return "\n".join(lines)
