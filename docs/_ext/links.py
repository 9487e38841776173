"""Links to the pages of other libraries, for the names of theirs that signatures here have.

Where a build may not ask other hosts for anything, their lists of names are made here, with the few
that are used; with DOCS_LINKS=1 a build fetches the whole lists in their place.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

SITES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "scipy": "https://docs.scipy.org/doc/scipy",
    "sklearn": "https://scikit-learn.org/stable",
}
# The page of each name, below its site; $ stands for the name.
PAGES = {
    "python": {
        "library/functions.html": "bool float int",
        "library/stdtypes.html": "dict list str tuple",
        "library/typing.html": "typing.Any",
        "library/collections.abc.html": "collections.abc.Callable collections.abc.Iterable "
        "collections.abc.Mapping collections.abc.Sequence",
        "library/fractions.html": "fractions.Fraction",
        "library/os.html": "os.PathLike",
        "library/pathlib.html": "pathlib.Path",
    },
    "numpy": {
        "reference/generated/$.html": "numpy.ndarray",
        "reference/random/generator.html": "numpy.random.Generator",
        "reference/random/bit_generators/generated/$.html": "numpy.random.SeedSequence",
        "reference/typing.html": "numpy.typing.ArrayLike",
    },
    "scipy": {"reference/generated/$.html": "scipy.optimize.OptimizeResult"},
    "sklearn": {
        "modules/generated/$.html": "sklearn.linear_model.ElasticNet "
        "sklearn.linear_model.HuberRegressor sklearn.linear_model.Lasso "
        "sklearn.linear_model.LogisticRegression sklearn.linear_model.PoissonRegressor "
        "sklearn.linear_model.Ridge"
    },
}


def make_inventory(library: str) -> bytes:
    """Return the list of names of a library as Sphinx reads it."""
    head = (
        f"# Sphinx inventory version 2\n# Project: {library}\n# Version:\n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    rows = [
        f"{name} py:class 1 {page.replace('$', name)}#$ -\n"
        for page, names in PAGES[library].items()
        for name in names.split()
    ]
    return head.encode() + zlib.compress("".join(rows).encode())


def _map(app: Any, config: Any) -> None:
    if "DOCS_LINKS" in os.environ:
        config.intersphinx_mapping = {name: (site, None) for name, site in SITES.items()}
        return
    folder = tempfile.TemporaryDirectory()
    app.connect("build-finished", lambda _app, _error: folder.cleanup())
    for name, site in SITES.items():
        path = Path(folder.name) / f"{name}.inv"
        path.write_bytes(make_inventory(name))
        config.intersphinx_mapping[name] = (site, str(path))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, before intersphinx reads its mapping."""
    app.connect("config-inited", _map, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
