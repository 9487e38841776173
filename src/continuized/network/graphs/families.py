"""Graphs by name: `path:100`, `grid:30x30`, `erdos:1000:0.01`, ...  No loop over the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from continuized.network.graphs import random_graphs
from continuized.network.graphs.random_graphs import Made, check_nodes
from continuized.problems.base import Array
from continuized.process import random_streams as seeds
from continuized.support.memory import check_memory
from continuized.support.validation import brief, is_whole

GRAMMAR = (
    "path:N, cycle:N, grid:RxC, complete:N, star:N, regular:DxN, erdos:N:P, geometric:N:R or "
    "smallworld:N:K:P; the last four also with :SEED"
)
MOST_DIGITS = 18  # what 64 bits hold
MOST_DIGITS_OF_SEED = 1000  # Python itself reads no more than 4300


class Kind(NamedTuple):
    """A family: how its numbers are written, and what makes it (from them, or with a generator)."""

    form: str
    make: Callable[..., Made]
    random: bool = False


def parse(spec: str, seed: seeds.Seed = None) -> tuple[Made, str]:
    """The graph that a spec names, and its full name.

    A random family takes its seed from the spec, else from `seed`, else it is 0: a spec names
    one graph, always the same.

    >>> made, name = parse("erdos:10:0.5")
    >>> name, made.nodes
    ('erdos:10:0.5:0', 10)
    """
    kind, *fields = spec.strip().split(":")
    if kind not in KINDS:
        raise ValueError(f"unknown graph {brief(spec)}: give a file that exists, or {GRAMMAR}")
    form, make, random = KINDS[kind]
    wanted = form.replace("x", ":").split(":")
    try:
        first = fields[0].split("x") if "x" in form else fields[:1]
        sizes = [_positive(field) for field in first] if fields else []
        given = [*sizes, *map(_number, fields[1 : form.count(":") + 1])]
        rest = [_seed(field) for field in fields[form.count(":") + 1 :]]
    except ValueError as error:
        raise ValueError(f"graph {brief(spec)}: {error}; write {kind}:{form}") from None
    if len(given) != len(wanted) or len(rest) > random:
        more = " or with :SEED behind" if random else ""
        raise ValueError(f"graph {brief(spec)} is not of the form {kind}:{form}{more}")
    if not random:
        if seed is not None:
            raise ValueError(f"{spec} is not random: leave out seed=")
        return make(*given), spec
    if rest and seed is not None:
        raise ValueError(f"{spec} has a seed already: leave out seed=, or the last number")
    chosen = rest[0] if rest else 0 if seed is None else seed
    rng = np.random.default_rng(seeds.child(seeds.seed_sequence(chosen)))
    known = is_whole(chosen)
    return make(rng, *given), f"{kind}:{':'.join(fields[: len(fields) - len(rest)])}" + (
        f":{chosen}" if known else ""
    )


def is_spec(text: str) -> bool:
    """Whether a text begins like a spec (a file may have any other name)."""
    return text.strip().partition(":")[0] in KINDS


def _positive(text: str) -> int:
    _check_digits(text, "integer > 0", MOST_DIGITS)
    if int(text) == 0:
        raise ValueError(f"{brief(text)} is no integer > 0")
    return int(text)


def _seed(text: str) -> int:
    _check_digits(text, "seed, an integer >= 0", MOST_DIGITS_OF_SEED)
    return int(text)


def _check_digits(text: str, what: str, most: int) -> None:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{brief(text)} is no {what}")
    if len(text) > most:
        raise ValueError(f"{brief(text)} has {len(text)} digits, more than {most}")


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{brief(text)} is no number")
    return value


def path(n: int) -> Made:
    """A line of nodes."""
    check_nodes(n)
    i = np.arange(n)
    return Made(n, np.column_stack([i[:-1], i[1:]]), np.column_stack([i, 0 * i]).astype(float))


def cycle(n: int) -> Made:
    """A ring."""
    if n < 3:
        raise ValueError(f"a cycle needs at least 3 nodes, got {n}; use path:{n}")
    check_nodes(n)
    i = np.arange(n)
    return Made(n, np.column_stack([i, (i + 1) % n]), random_graphs.on_circle(n))


def grid(rows: int, columns: int) -> Made:
    """Rows x columns, each node joined to those beside it."""
    check_nodes(rows * columns)
    at = np.arange(rows * columns).reshape(rows, columns)
    across = np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()])
    down = np.column_stack([at[:-1].ravel(), at[1:].ravel()])
    y, x = np.divmod(at.ravel(), columns)
    return Made(rows * columns, np.vstack([across, down]), np.column_stack([x, -y]).astype(float))


def complete(n: int) -> Made:
    """Every pair."""
    check_memory(16.0 * n * n, f"all edges among {n} nodes", "fewer nodes, or a sparse graph")
    i, j = np.triu_indices(n, 1)
    return Made(n, np.column_stack([i, j]), random_graphs.on_circle(n))


def star(n: int) -> Made:
    """Node 0 joined to all others."""
    check_nodes(n)
    edges = np.column_stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)])
    around: Array = random_graphs.on_circle(max(n - 1, 1))
    return Made(n, edges, np.vstack([np.zeros((1, 2)), around[: n - 1]]))


KINDS: dict[str, Kind] = {
    "path": Kind("N", path),
    "cycle": Kind("N", cycle),
    "grid": Kind("RxC", grid),
    "complete": Kind("N", complete),
    "star": Kind("N", star),
    "regular": Kind("DxN", random_graphs.regular, random=True),
    "erdos": Kind("N:P", random_graphs.erdos, random=True),
    "geometric": Kind("N:R", random_graphs.geometric, random=True),
    "smallworld": Kind("N:K:P", random_graphs.small_world, random=True),
}


def advice(name: str) -> str:
    """What to change in a random spec that came out in several components."""
    more: dict[str, Any] = {
        "regular": "a degree of at least 3",
        "erdos": "a larger P",
        "geometric": "a larger R",
        "smallworld": "a smaller P",
    }
    kind = name.partition(":")[0]
    return f"take {more[kind]}, or another seed" if kind in more else "add edges that join them"
