"""Every public name says what it is, names its parameters, and shows how it is used.

The public names are those that the API reference shows: what a page of docs/api names, and of a
module the names in its `__all__`, or else the public ones defined in it.  That the examples are
true is checked by the doctests.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import re
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import continuized as cz

API = Path(__file__).parents[2] / "docs" / "api"
SHOWN = re.compile(r"^\.\. auto\w+:: (continuized\.\S+)$", re.MULTILINE)


def found(dotted: str) -> Any:
    """The object of a dotted name: a module, or an attribute of one."""
    module, _, name = dotted.rpartition(".")
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError as error:
        if error.name != dotted:
            raise
    return getattr(importlib.import_module(module), name)


def names_of(module: types.ModuleType) -> list[str]:
    """What is public in a module."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = module.__name__
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == own
    ]


def adapted_library(dotted: str) -> str:
    """The library that a name of the adapters is for; of other names, none."""
    adapter = re.match(r"continuized\.adapters\.(jax|optax|torch)\b", dotted)
    return adapter[1] if adapter else ""


def public() -> dict[str, Any]:
    """Functions and classes by name, each once; the name alone if its library is absent."""
    shown = [name for page in sorted(API.glob("*.md")) for name in SHOWN.findall(page.read_text())]
    listed: dict[str, Any] = {}
    for dotted in ["continuized", *shown]:
        library = adapted_library(dotted)
        if library and importlib.util.find_spec(library) is None:
            listed[dotted] = object()
            continue
        value = found(dotted)
        if isinstance(value, types.ModuleType):
            listed |= {f"{dotted}.{name}": getattr(value, name) for name in names_of(value)}
        else:
            listed[dotted] = value
    kept: dict[int, tuple[str, Any]] = {}
    for name, value in listed.items():
        if not isinstance(value, types.ModuleType):
            kept.setdefault(id(value), (name, value))
    return dict(kept.values())


PUBLIC = public()
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
every_name = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.needs(adapted_library(name)))
        if adapted_library(name)
        else name
        for name in PUBLIC
    ],
)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class of ours has from classes of ours."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != cz.__name__:
            continue
        for name, value in vars(base).items():
            kinds = (types.FunctionType, property, functools.cached_property, classmethod)
            if not name.startswith("_") and isinstance(value, kinds):
                yield name, getattr(cls, name) if isinstance(value, classmethod) else value


def parameters(value: Any) -> list[str]:
    """The names by which a function, or a class that is made by calling it, takes its arguments."""
    if inspect.isclass(value):
        made = {"__init__", "__new__"} & vars(value).keys()
        if not made or issubclass(value, Enum) or getattr(value, "_is_protocol", False):
            return []
    given = inspect.signature(value).parameters.values()
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in given if p.kind not in rest and not p.name.startswith("_")]


def says(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


@pytest.mark.needs("jax", "optax", "torch")
def test_the_walk_finds_the_packages() -> None:
    for name in cz.__all__:
        value = getattr(cz, name)
        assert isinstance(value, types.ModuleType) or any(value is v for v in PUBLIC.values())
    packages = ("process.clock", "theory", "network", "problems", "adapters.jax", "adapters.torch")
    for package in packages:
        assert any(name.startswith(f"continuized.{package}.") for name in PUBLIC), package


@pytest.mark.parametrize(
    "adapter",
    [
        "scipy",
        "sklearn",
        *(pytest.param(name, marks=pytest.mark.needs(name)) for name in ("torch", "jax", "optax")),
    ],
)
def test_dir_of_an_adapter_shows_what_is_public(adapter: str) -> None:
    """Not what it imports, such as a problem whose name is nearly that of an estimator."""
    module = importlib.import_module(f"continuized.adapters.{adapter}")
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("name", ["clock", "marks", "mirror", "noise", "prox"])
def test_dir_of_a_part_of_the_process_shows_what_is_public(name: str) -> None:
    module = importlib.import_module(f"continuized.process.{name}")
    assert dir(module) == sorted(module.__all__)


@every_name
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    text = PUBLIC[name].__doc__ or ""  # its own, not that of a base
    assert text.strip()
    assert re.search(r"^\s*>>> ", text, re.MULTILINE), "no example"


@every_name
def test_a_docstring_names_every_parameter(name: str) -> None:
    value = PUBLIC[name]
    text = (value.__doc__ or "").partition(">>>")[0]
    module = importlib.import_module(value.__module__)
    if hasattr(module, "FORMULAS") and inspect.isfunction(value):
        text += module.__doc__ or ""  # the scalars t, L, mu, start of a page of formulas
    missing = [each for each in parameters(value) if not says(text, each)]
    assert missing == []


@pytest.mark.parametrize("name", CLASSES)
def test_public_methods_and_properties_have_docstrings(name: str) -> None:
    missing = [each for each, value in members(CLASSES[name]) if not inspect.getdoc(value)]
    # An override may leave it to the method that it overrides.
    assert [each for each in missing if not inspect.getdoc(getattr(CLASSES[name], each))] == []
