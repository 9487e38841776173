"""Graphs by name: `path:100`, `grid:30x30`, `erdos:1000:0.01`, ...

First the families that their sizes determine, then the random ones, then how a name is read.  No
family is made by a loop over the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from continuized.network.graphs.files import Edges
from continuized.problems.base import Array
from continuized.process.random_streams import Seed, child, seed_sequence
from continuized.support.files import check_memory
from continuized.support.validation import is_whole, short_repr

GRAMMAR = (
    "path:N, cycle:N, grid:RxC, complete:N, star:N, regular:DxN, erdos:N:P, geometric:N:R or "
    "smallworld:N:K:P; the last four also with :SEED"
)
MOST_DIGITS = 18  # what 64 bits hold
MOST_DIGITS_OF_SEED = 1000  # Python itself reads no more than 4300
MOST_NODES = 10**7  # a graph of so many takes some 20 s to check, and minutes for its constants
MOST_ROUNDS = 1000  # of repairs, each of which mends most of what is left


def check_nodes(n: int, degree: float = 2.0) -> None:
    """Refuse more nodes, of about this degree, than fit into memory or into a run's time."""
    check_memory(n * (16.0 + 24.0 * degree), f"a graph of {n} nodes", "fewer")
    if n > MOST_NODES:
        raise ValueError(
            f"a graph of {n} nodes takes too long, for its constants alone; give at most "
            f"{MOST_NODES}, numbered from 0 without gaps"
        )


def place_on_circle(n: int) -> Array:
    """Place n points around the unit circle."""
    turn = 2.0 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(turn), np.sin(turn)])


def make_path(n: int) -> Edges:
    """Join nodes in a line."""
    check_nodes(n)
    i = np.arange(n)
    return Edges(n, np.column_stack([i[:-1], i[1:]]), np.column_stack([i, 0 * i]).astype(float))


def make_cycle(n: int) -> Edges:
    """Join nodes in a ring."""
    if n < 3:
        raise ValueError(f"a cycle needs at least 3 nodes, got {n}; use path:{n}")
    check_nodes(n)
    i = np.arange(n)
    return Edges(n, np.column_stack([i, (i + 1) % n]), place_on_circle(n))


def make_grid(rows: int, columns: int) -> Edges:
    """Join each node of a grid to those beside it."""
    check_nodes(rows * columns)
    at = np.arange(rows * columns).reshape(rows, columns)
    across = np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()])
    down = np.column_stack([at[:-1].ravel(), at[1:].ravel()])
    y, x = np.divmod(at.ravel(), columns)
    return Edges(rows * columns, np.vstack([across, down]), np.column_stack([x, -y]).astype(float))


def make_complete(n: int) -> Edges:
    """Join every pair."""
    check_memory(16.0 * n * n, f"all edges among {n} nodes", "fewer nodes, or a sparse graph")
    i, j = np.triu_indices(n, 1)
    return Edges(n, np.column_stack([i, j]), place_on_circle(n))


def make_star(n: int) -> Edges:
    """Join node 0 to all others."""
    check_nodes(n)
    edges = np.column_stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)])
    return Edges(n, edges, np.vstack([np.zeros((1, 2)), place_on_circle(n - 1)]))


def draw_erdos(rng: np.random.Generator, n: int, p: float) -> Edges:
    """Join each pair with probability p, independently (Erdős and Rényi).

    The pairs are numbered, and the gaps between those that are edges are geometric.
    """
    if not 0.0 < p <= 1.0:
        raise ValueError(f"erdos:N:P needs a probability 0 < P <= 1, got {p:g}")
    check_nodes(n, 0.0)
    pairs = n * (n - 1) // 2
    check_memory(40.0 * p * pairs, f"about {p * pairs:.3g} edges", "a smaller P")
    found = [np.zeros(0, dtype=np.int64)]
    last = -1
    while last < pairs:
        # Gaps beyond all pairs are cut, so that their sum cannot overflow.
        size = int(1.1 * p * (pairs - last)) + 10
        gaps = np.minimum(rng.geometric(p, size), pairs + 1)
        found.append(last + np.cumsum(gaps))
        last = int(found[-1][-1])
    number = np.concatenate(found)
    return Edges(n, _pairs(number[number < pairs]))


def _pairs(number: Array) -> Array:
    """Find pairs j < i by their numbers in the order (1, 0), (2, 0), (2, 1), (3, 0), ..."""
    i = ((1.0 + np.sqrt(8.0 * number + 1.0)) / 2.0).astype(np.int64)
    i -= i * (i - 1) // 2 > number  # the root may be rounded up or down
    i += i * (i + 1) // 2 <= number
    return np.column_stack([number - i * (i - 1) // 2, i])


def draw_geometric(rng: np.random.Generator, n: int, r: float) -> Edges:
    """Draw uniform points of the unit square; join those at a distance of at most r."""
    from scipy.spatial import cKDTree

    if not r > 0.0:
        raise ValueError(f"geometric:N:R needs a radius R > 0, got {r:g}")
    check_nodes(n, 0.0)
    expected = 0.5 * n * n * min(math.pi * r * r, 1.0)
    check_memory(40.0 * expected, f"about {expected:.3g} edges", "a smaller R")
    points = rng.random((n, 2))
    pairs = cKDTree(points).query_pairs(r, output_type="ndarray").astype(np.int64)
    return Edges(n, pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], points)


def draw_small_world(rng: np.random.Generator, n: int, k: float, p: float) -> Edges:
    """Join each node of a ring to its k nearest; rewire each edge with probability p.

    To rewire is to move the far end to a uniform node (Watts and Strogatz).  One that would make
    a loop or a double edge is drawn again.
    """
    if k != int(k) or int(k) % 2 or not 2 <= k < n:
        raise ValueError(f"smallworld:N:K:P needs an even K, 2 <= K < N, got K = {k:g}")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"smallworld:N:K:P needs a probability 0 <= P <= 1, got {p:g}")
    check_nodes(n, k)
    i = np.tile(np.arange(n), int(k) // 2)
    j = (i + np.repeat(np.arange(1, int(k) // 2 + 1), n)) % n
    moving = np.flatnonzero(rng.random(i.size) < p)
    for _ in range(MOST_ROUNDS):
        if not moving.size:
            return Edges(n, np.column_stack([i, j]), place_on_circle(n))
        j[moving] = rng.integers(0, n, moving.size)
        wrong = np.zeros(i.size, dtype=bool)
        wrong[moving] = _find_bad(n, i, j, moving)[moving]
        moving = np.flatnonzero(wrong)
    raise ValueError(f"smallworld:{n}:{k:g}:{p:g} has no room to rewire: take a smaller K")


def draw_regular(rng: np.random.Generator, d: int, n: int) -> Edges:
    """Give every node degree d, by pairing the ends of edges at random.

    Pairs that make a loop or a double edge are paired anew, together with as many others drawn
    at random, until none is left; the law is close to uniform for d much smaller than n.
    """
    if d >= n or d * n % 2:
        raise ValueError(f"regular:DxN needs D < N and D N even, got D = {d}, N = {n}")
    check_nodes(n, d)
    if 2 * d > n:  # so dense that repairs would hardly end: what is missing is sparse instead
        pairs, missing = np.column_stack(np.triu_indices(n, 1)), draw_regular(rng, n - 1 - d, n)
        return Edges(n, pairs[~np.isin(_keys(n, *pairs.T), _keys(n, *missing.edges.T))])
    ends = rng.permutation(np.repeat(np.arange(n), d)).reshape(-1, 2)
    for _ in range(MOST_ROUNDS):
        bad = np.flatnonzero(_find_bad(n, *ends.T))
        if not bad.size:
            return Edges(n, np.sort(ends, axis=1))
        others = rng.integers(0, len(ends), bad.size + 2)
        chosen = np.unique(np.concatenate([bad, others]))
        ends[chosen] = rng.permutation(ends[chosen].ravel()).reshape(-1, 2)
    raise ValueError(f"regular:{d}x{n} could not be drawn; take another seed")


def _keys(n: int, i: Array, j: Array) -> Array:
    """Give an edge one number, whichever end comes first."""
    keys: Array = np.minimum(i, j) * n + np.maximum(i, j)
    return keys


def _find_bad(n: int, i: Array, j: Array, later: Array | None = None) -> Array:
    """Mark the edges that are loops or repeat another; of equal ones, all but the first.

    Those in `later` count as coming after all others.
    """
    order = np.arange(i.size)
    if later is not None:
        order[later] += i.size
    keys = _keys(n, i, j)
    ranked = np.lexsort((order, keys))
    bad = i == j
    bad[ranked[1:]] |= keys[ranked[1:]] == keys[ranked[:-1]]
    return np.asarray(bad)


class Family(NamedTuple):
    """How the numbers of a family are written, and what makes a member of it from them.

    What makes a member of a random family also takes a generator, first.  connects: what to take
    where a random member came out in several components; empty for families that are not random.
    """

    form: str
    make: Callable[..., Edges]
    connects: str = ""


FAMILIES: dict[str, Family] = {
    "path": Family("N", make_path),
    "cycle": Family("N", make_cycle),
    "grid": Family("RxC", make_grid),
    "complete": Family("N", make_complete),
    "star": Family("N", make_star),
    "regular": Family("DxN", draw_regular, "a degree of at least 3"),
    "erdos": Family("N:P", draw_erdos, "a larger P"),
    "geometric": Family("N:R", draw_geometric, "a larger R"),
    "smallworld": Family("N:K:P", draw_small_world, "a smaller P"),
}


def parse(spec: str, rng: Seed = None) -> tuple[Edges, str]:
    """Make the graph that a spec names; return it with its full name.

    A random family takes its seed from the spec, else from `rng`, else it is 0: a spec names
    one graph, always the same.

    >>> made, name = parse("erdos:10:0.5")
    >>> name, made.nodes
    ('erdos:10:0.5:0', 10)
    """
    spec = spec.strip()
    kind, *fields = spec.split(":")
    if kind not in FAMILIES:
        raise ValueError(f"unknown graph {short_repr(spec)}: give a file that exists, or {GRAMMAR}")
    form, make, connects = FAMILIES[kind]
    wanted = form.replace("x", ":").split(":")
    try:
        first = fields[0].split("x") if fields and "x" in form else fields[:1]
        sizes = [_read_digits(field, "integer > 0", 1, MOST_DIGITS) for field in first]
        given = [*sizes, *map(_read_number, fields[1 : form.count(":") + 1])]
        rest = [
            _read_digits(field, "seed, an integer >= 0", 0, MOST_DIGITS_OF_SEED)
            for field in fields[form.count(":") + 1 :]
        ]
    except ValueError as error:
        raise ValueError(f"graph {short_repr(spec)}: {error}; write {kind}:{form}") from None
    if len(given) != len(wanted) or len(rest) > bool(connects):
        more = " or with :SEED behind" if connects else ""
        raise ValueError(f"graph {short_repr(spec)} is not of the form {kind}:{form}{more}")
    if not connects:
        if rng is not None:
            raise ValueError(f"{short_repr(spec)} is not random: leave out rng=")
        return make(*given), spec
    if rest and rng is not None:
        raise ValueError(
            f"{short_repr(spec)} has a seed already: leave out rng=, or the last number"
        )
    chosen = rest[0] if rest else 0 if rng is None else rng
    made = make(np.random.default_rng(child(seed_sequence(chosen))), *given)
    seed = [str(chosen)] if is_whole(chosen) else []
    return made, ":".join([kind, *fields[: form.count(":") + 1], *seed])


def give_size(spec: str, nodes: int) -> str:
    """Complete a spec that leaves its size out; other texts are returned as they are.

    A grid is made as square as the number of nodes allows.

    >>> [give_size(spec, 12) for spec in ("cycle", "grid", "regular:3", "erdos:0.5", "star:5")]
    ['cycle:12', 'grid:3x4', 'regular:3x12', 'erdos:12:0.5', 'star:5']
    """
    kind, *fields = spec.strip().split(":")
    if kind not in FAMILIES or len(fields) != FAMILIES[kind].form.count(":") + (kind == "regular"):
        return spec
    if kind == "grid":
        return "{}:{}x{}".format(kind, *find_sides(nodes))
    if kind == "regular":
        return spec if "x" in fields[0] else f"{kind}:{fields[0]}x{nodes}"
    return ":".join([kind, str(nodes), *fields])


def find_sides(nodes: int) -> tuple[int, int]:
    """Find the rows and columns of a grid, as near to a square as the number of nodes allows."""
    rows = next(r for r in range(math.isqrt(nodes), 0, -1) if nodes % r == 0)
    return rows, nodes // rows


def is_spec(text: str) -> bool:
    """Tell whether a text begins like a spec (a file may have any other name)."""
    return text.strip().partition(":")[0] in FAMILIES


def _read_digits(text: str, what: str, least: int, most_digits: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{short_repr(text)} is no {what}")
    if len(text) > most_digits:
        raise ValueError(f"{short_repr(text)} has {len(text)} digits, more than {most_digits}")
    if int(text) < least:
        raise ValueError(f"{short_repr(text)} is no {what}")
    return int(text)


def _read_number(text: str) -> float:
    try:
        value = float(text if text == text.strip() else "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{short_repr(text)} is no number")
    return value


def advise(name: str) -> str:
    """Say what to change in a spec whose graph came out in several components."""
    family = FAMILIES.get(name.partition(":")[0])
    if family is None or not family.connects:
        return "add edges that join them"
    return f"take {family.connects}, or another seed"
