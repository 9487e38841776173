"""From several data files to a regression whose rows are in several processes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from continuized.app.commands import BadInput, refuse
from continuized.app.commands.options import advise
from continuized.app.fitting import Labels, Target, choose_loss, name_share, sum_lost
from continuized.problems.sources import Data

if TYPE_CHECKING:
    from continuized.network.sharded.parts import Survey
    from continuized.network.sharded.pool import WorkerPool
    from continuized.network.sharded.problem import Sharded
    from continuized.problems.base import Array


def open_shards(
    paths: Sequence[Path], count: int | None, ray: str | None, how: dict[str, Any]
) -> tuple[WorkerPool, Survey]:
    """Start the processes, let them read the files, and see what they have together."""
    from continuized.network.sharded.parts import order_files, survey
    from continuized.network.sharded.pool import WorkerPool, close_on_error
    from continuized.network.workers.ray_options import Ray

    transport = "local" if ray is None else Ray(ray or None)
    with advise("a file"), refuse(ValueError, TypeError, RuntimeError):
        parts = [
            order_files(_name(pieces), pieces, transport, how)
            for pieces in share_out([str(path) for path in paths], count)
        ]
        pool = WorkerPool(parts, transport)
        with close_on_error(pool):
            return pool, survey(pool)


def share_out(paths: Sequence[str], count: int | None) -> list[list[tuple[str, int, int]]]:
    """Share files out to so many shards: (path, part, of how many parts) for each piece.

    One file is cut into as many parts; of several, each shard has some, one after the other.

    >>> share_out(["a"], 2)
    [[('a', 0, 2)], [('a', 1, 2)]]
    >>> share_out(["a", "b", "c"], 2)
    [[('a', 0, 1)], [('b', 0, 1), ('c', 0, 1)]]
    """
    count = len(paths) if count is None else count
    if len(paths) == 1:
        return [[(paths[0], part, count)] for part in range(count)]
    if count > len(paths):
        raise BadInput(
            f"--shards {count} is more than the {len(paths)} files: give at most so many, or one "
            "file, which is cut into parts"
        )
    cuts = [len(paths) * part // count for part in range(count + 1)]
    return [[(path, 0, 1) for path in paths[a:b]] for a, b in itertools.pairwise(cuts)]


def _name(pieces: Sequence[tuple[str, int, int]]) -> str:
    path, part, parts = pieces[0]
    if parts > 1:
        return f"part {part + 1} of {path}"
    return path if len(pieces) == 1 else f"{path} and {len(pieces) - 1} more"


def choose_target(found: Survey, loss: str | None, name: str) -> Target:
    """Choose the loss by the labels of all shards, as `fitting.choose_target` does."""
    labels = Labels(found.values, found.counts, found.label, found.words, found.text)
    loss, why, classes = choose_loss(labels, found.rows, loss, name)
    counts = () if classes is None else tuple(found.counts.tolist())
    return Target(None, loss, why, classes, found.mean, counts)


def make_problem(
    pool: WorkerPool, found: Survey, target: Target, l2: float, intercept: bool, delta: float | None
) -> Sharded:
    """Let the processes make their regressions."""
    from continuized.network.sharded.parts import choose_plan
    from continuized.network.sharded.problem import Sharded

    with refuse(ValueError, TypeError, RuntimeError):
        plan = choose_plan(found, target.loss, l2, intercept, delta or 1.0)
        return Sharded.from_pool(pool, found, plan)


def as_data(found: Survey) -> Data:
    """Return what a model keeps of the files: the names of the columns and of the label."""
    data = Data(None, None)
    data.names, data.label = found.names, found.label
    return data


def judge(problem: Sharded, target: Target, w: Array) -> tuple[str, float]:
    """Find the accuracy, or the share of squares or deviance that is explained, over all shards."""
    n = problem.row_count
    if target.classes is not None:
        return "accuracy", float(problem.sum_over_rows(count_right, w) / n)
    with np.errstate(all="ignore"):  # what overflows is no number in the report
        lost, total = problem.sum_over_rows(sum_explained, w, target.middle)
        return name_share(target.loss), float(1.0 - lost / total)


# Questions to the shards


def count_right(p: Any, index: Any, w: Array) -> Array:
    """Count the rows whose class is predicted."""
    scores = p.predictions(w, index)
    if p.classes > 1:
        right = scores.argmax(axis=1) == p.labels[index]
    else:
        right = (scores > 0.0) == (p.y[index] > 0.0)
    return np.array(np.count_nonzero(right))


def sum_explained(p: Any, index: Any, w: Array, mean: float) -> tuple[Array, ...]:
    """Return what predictions miss, and what the mean of all labels does."""
    from continuized.problems.losses import POISSON

    loss = "poisson" if p.loss == POISSON else "ridge"
    with np.errstate(all="ignore"):
        scores = p.predictions(w, index)
        predicted = np.exp(scores) if loss == "poisson" else scores
        y = p.y[index]
        return np.array(sum_lost(loss, y, predicted)), np.array(sum_lost(loss, y, mean))
