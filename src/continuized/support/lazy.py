"""Packages whose public names are loaded when first used, so that importing them is instant."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def load_lazily(
    package: str, homes: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make the `__getattr__`, the `__dir__` and the `__all__` of a package.

    homes: the public names, with spaces between, by the module of the package that has them.
    modules: public modules by their names, where these are not where they stand.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    modules = modules or {}
    public = sorted([*home_of, *modules])

    def load(name: str) -> Any:
        if name in home_of:
            found = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
        elif name in modules:
            found = importlib.import_module(f"{package}.{modules[name]}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, found)  # which is not asked for again then
        return found

    return load, public.copy, public
