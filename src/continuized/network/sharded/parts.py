"""What parts of a sharded problem are given to workers, and whether they go together."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.network.sharded.pool import ShardSource, WorkerPool
from continuized.network.sharded.shard import MOST_LABELS, REGRESSIONS, find_text, find_words
from continuized.network.workers.ray_options import Ray
from continuized.problems.base import Array
from continuized.problems.regression.linear import Linear
from continuized.problems.sources import TextLabel, renumber
from continuized.support import validation as check
from continuized.support.validation import short_repr

SHOWN = 5  # labels in a sentence


class RegressionPlan(NamedTuple):
    """What kind of regression is made; labels or words: those of all classes, in order."""

    loss: str
    l2: float
    intercept: bool
    delta: float | None
    labels: tuple[float, ...] | None
    words: tuple[str, ...] | None
    classes: int


class Survey(NamedTuple):
    """What the shards have together."""

    rows: int
    rows_of_each: list[int]
    columns: int
    sparse: bool
    weight: float | None
    names: tuple[str, ...] | None
    label: str | None
    words: tuple[str, ...] | None
    text: TextLabel | None  # the first label that is, of a file
    values: Array  # the labels, in order, or the places of the words; more than MOST_LABELS: some
    counts: Array
    mean: float
    notes: tuple[str, ...]


def survey(pool: WorkerPool) -> Survey:
    """Put together what the shards have; ValueError where they do not go together."""
    facts = [answer for answer, _ in pool.facts]
    names = [source.name for source in pool.sources]
    first = facts[0]
    for name, each in zip(names, facts, strict=True):
        if each["sparse"] != first["sparse"]:
            one, two = ("sparse", "dense") if each["sparse"] else ("dense", "sparse")
            raise ValueError(f"{name} is {one}, but {names[0]} is {two}: shards must be alike")
        if each["columns"] != first["columns"] and not (each["grows"] and first["grows"]):
            raise ValueError(
                f"{name} has {each['columns']} columns, but {names[0]} has {first['columns']}: all "
                "shards must have the same"
            )
        for what in ("names", "label"):
            if each[what] != first[what]:
                raise ValueError(
                    f"{name} has other names of columns than {names[0]}: "
                    f"{short_repr(each[what])}, not {short_repr(first[what])}; write the columns "
                    "of all in one order"
                )
    text = find_text([each["text"] for each in facts])
    words = find_words([each["words"] for each in facts], text)
    rows = [each["rows"] for each in facts]
    weights = [each["weight"] for each in facts]
    weight = None
    if any(each is not None for each in weights):
        weight = sum(n if each is None else each for n, each in zip(rows, weights, strict=True))
    values, counts = _join_labels(pool, words)
    return Survey(
        sum(rows), rows, max(each["columns"] for each in facts), first["sparse"], weight,
        None if first["names"] is None else tuple(first["names"]), first["label"], words, text,
        values, counts, sum(each["total"] for each in facts) / sum(rows),
        tuple(dict.fromkeys(note for each in facts for note in each["notes"])),
    )  # fmt: skip


def _join_labels(pool: WorkerPool, words: tuple[str, ...] | None) -> tuple[Array, Array]:
    """Return the labels of all shards in order, and how many rows have each."""
    each = [(found["values"], found["counts"]) for _, found in pool.facts]
    if words is not None:
        own = [answer["words"] for answer, _ in pool.facts]
        each = [
            (renumber(words, names, values), counts)
            for names, (values, counts) in zip(own, each, strict=True)
        ]
    values, place = np.unique(np.concatenate([v for v, _ in each]), return_inverse=True)
    counts = np.bincount(place, np.concatenate([c for _, c in each])).astype(np.intp)
    return values, counts


def choose_plan(
    found: Survey, loss: str, l2: float, intercept: bool, delta: float
) -> RegressionPlan:
    """Number the classes of all shards; ValueError where the labels are not those of the loss."""
    if loss not in ("logistic", "softmax"):
        if found.words is not None:
            shown = ", ".join(found.words[:SHOWN])
            raise ValueError(f'the labels are text ({shown}), but loss="{loss}" needs numbers')
        if loss == "poisson" and found.values[0] < 0.0:
            raise ValueError(f"the labels must be counts >= 0, but one is {found.values[0]}")
        return RegressionPlan(
            loss, l2, intercept, delta if loss == "huber" else None, None, None, 1
        )
    if len(found.values) > MOST_LABELS:
        raise ValueError(
            f"there are more than {MOST_LABELS} different labels, which are no classes; use "
            'loss="ridge" for numbers'
        )
    labels = tuple(found.values.tolist())
    classes: tuple[Any, ...] = labels if found.words is None else found.words
    count = len(classes)
    if count < 2 or (loss == "logistic" and count > 2):
        shown = ", ".join(map(str, classes[:SHOWN])) + (", ..." if count > SHOWN else "")
        wanted = "two labels" if loss == "logistic" else "two labels or more"
        raise ValueError(
            f'loss="{loss}" needs {wanted} in all shards together, got {count} ({shown})'
        )
    by_words = found.words is not None
    return RegressionPlan(
        loss, l2, intercept, None, None if by_words else labels, found.words, count
    )


def check_parts(parts: Any) -> list[Linear]:
    """Return a list of regressions that go together, or say what is wrong."""
    if isinstance(parts, Linear | str | os.PathLike) or not hasattr(parts, "__iter__"):
        raise check.refusal(TypeError, "parts", "a list of regressions", parts)
    listed = list(parts)
    if not listed:
        raise ValueError("parts must be a list of at least one regression, got an empty one")
    for number, part in enumerate(listed):
        if type(part) not in REGRESSIONS.values():
            kinds = ", ".join(kind.__name__ for kind in REGRESSIONS.values())
            raise TypeError(
                f"parts[{number}] must be one of the regressions ({kinds}), got "
                f"{short_repr(part)}; give paths and Ray datasets to Sharded.read"
            )
    first = listed[0]
    for number, part in enumerate(listed):
        for what, one, two in (
            ("kind", type(part).__name__, type(first).__name__),
            ("number of columns", part.column_count, first.column_count),
            ("l2", part.l2, first.l2),
            ("intercept", part.intercept, first.intercept),
            ("delta", getattr(part, "delta", None), getattr(first, "delta", None)),
        ):
            if one != two:
                raise ValueError(
                    f"all parts must have the same {what}, but that of parts[{number}] is {one}, "
                    f"and that of parts[0] is {two}"
                )
    return listed


def name_kind(p: Linear) -> str:
    """Name the loss of a regression."""
    return next(name for name, kind in REGRESSIONS.items() if type(p) is kind)


def pack_part(number: int, p: Linear) -> ShardSource:
    """Give a worker the rows of a regression."""
    arrays = {"y": p.y}
    if p.weights is not None:
        arrays["weights"] = p.weights
    if p.is_sparse:
        arrays |= {"data": p.X.data, "indices": p.X.indices, "indptr": p.X.indptr}
    else:
        arrays["X"] = p.X
    return ShardSource(f"parts[{number}]", {"columns": p.column_count}, arrays)


def check_sources(paths: Any) -> list[Any]:
    """Return a list of paths and datasets, or say what is wrong."""
    if isinstance(paths, str | os.PathLike) or not hasattr(paths, "__iter__"):
        raise check.refusal(TypeError, "paths", "a list of paths or of Ray datasets", paths)
    listed = list(paths)
    if not listed:
        raise ValueError("paths must be a list of at least one path, got an empty one")
    for number, each in enumerate(listed):
        if not (isinstance(each, str | os.PathLike) or hasattr(each, "iter_batches")):
            raise check.refusal(TypeError, f"paths[{number}]", "a path or a Ray dataset", each)
    return listed


def order_source(
    number: int, source: Any, transport: str | Ray, how: dict[str, Any]
) -> ShardSource:
    """Order a worker to read a path or a dataset."""
    if hasattr(source, "iter_batches"):
        if not isinstance(transport, Ray):
            raise ValueError('Ray datasets go with transport="ray"')
        return ShardSource(f"paths[{number}]", {"how": how}, {}, source)
    return order_files(
        f"the shard {os.fspath(source)}", [(os.fspath(source), 0, 1)], transport, how
    )


def order_files(
    name: str, pieces: Sequence[tuple[str, int, int]], transport: str | Ray, how: dict[str, Any]
) -> ShardSource:
    """Order a worker to read files, or parts of them: (path, part, of how many)."""
    if transport == "local":
        for path, *_ in pieces:
            if not os.path.exists(path):
                raise FileNotFoundError(f"there is no file {path}: check the path")
        pieces = [(os.path.abspath(path), part, parts) for path, part, parts in pieces]
    try:
        json.dumps(how)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the options of a reader must be numbers, texts and lists of them: {error}"
        ) from error
    return ShardSource(name, {"files": [list(piece) for piece in pieces], "how": how}, {})
