"""The numbers that asv follows: a dozen, each of the work of `python -m benchmarks`."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gossip, tracked

FOLDER = Path(tracked.__file__).parent


def numbers() -> Iterator[tuple[str, Any, Callable[..., Any], tuple[Any, ...]]]:
    """(name, object, method, parameters) of each, found as asv finds them."""
    for name, kind in vars(tracked).items():
        if inspect.isclass(kind) and kind.__module__ == tracked.__name__:
            for method in vars(kind):
                if method.startswith(("time_", "track_")):
                    for given in itertools.product(*getattr(kind, "params", ())):
                        thing = kind()
                        yield f"{name}.{method}", thing, getattr(thing, method), given


def test_a_dozen_numbers_are_tracked() -> None:
    found = [(name, given) for name, _, _, given in numbers()]
    assert len(found) == len(set(found)) == 13  # and the import
    for name, given in found:
        kind = getattr(tracked, name.partition(".")[0])
        assert len(getattr(kind, "param_names", ())) == len(given)
    compile(tracked.timeraw_import(), "import", "exec")


def test_the_configuration_of_asv_is_of_this_repository() -> None:
    given = json.loads((FOLDER / "asv.conf.json").read_text(encoding="utf-8"))
    assert given["project"] == "continuized"
    assert (FOLDER / given["repo"] / "pyproject.toml").exists()
    # asv imports the folder as a package by its name, from the folder above.
    assert (FOLDER / given["benchmark_dir"]).resolve().name == "benchmarks"


@pytest.mark.slow
def test_the_number_of_exchanges_is_that_of_the_suite() -> None:
    contest, _ = gossip.counted("cycle:50")
    assert tracked.Exchanges().track_exchanges("cycle:50") == contest.entries[0].amount


@pytest.mark.slow
@pytest.mark.parametrize(
    ("thing", "work", "given"),
    [
        pytest.param(thing, work, given, id=f"{name}{given}")
        for name, thing, work, given in numbers()
        if name.startswith(("Step", "Logistic"))
    ],
)
def test_a_number_can_be_taken(
    thing: Any, work: Callable[..., Any], given: tuple[Any, ...]
) -> None:
    thing.setup(*given)
    work(*given)
