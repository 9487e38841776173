"""An installed continuized works with the core libraries alone.

    python -I tools/check_installed.py VERSION

Run it by the Python of an environment that holds the package and none of its extras
(tools/check_package.py does).  Prints a line for each thing that is wrong; exit code 1 if
anything is.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import continuized as cz

OPTIONAL = ("jax", "matplotlib", "networkx", "optax", "ray", "sklearn", "torch")
# The adapters that need an extra, by how the name of the module begins.
EXTRA = {"jax": "jax", "optax": "jax", "sklearn": "sklearn", "torch": "torch"}
ADAPTERS = "continuized.adapters."


def extra_of(module: str) -> str | None:
    """The extra that a module needs, or None."""
    name = module.removeprefix(ADAPTERS).lstrip("_").partition("_")[0]
    return EXTRA.get(name) if module.startswith(ADAPTERS) else None


def in_modules() -> Iterator[str]:
    """What is wrong with imports: of every module, and of every public name."""
    for module in pkgutil.walk_packages(cz.__path__, "continuized."):
        extra = extra_of(module.name)
        if extra is not None:
            # What begins with an underscore is imported by an adapter, which has said it before.
            if not module.name.removeprefix(ADAPTERS).startswith("_"):
                yield from in_refusal(lambda name=module.name: importlib.import_module(name), extra)
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError as error:
            yield f"import {module.name}: {error}"
            continue
        yield from in_names(loaded)
    yield from in_names(cz)


def in_names(module: object) -> Iterator[str]:
    """The names in a module's __all__ that it does not have."""
    for name in getattr(module, "__all__", ()):
        if not hasattr(module, name):
            yield f"{module}: no {name}"


def in_refusal(call: Callable[[], object], extra: str) -> Iterator[str]:
    """What is wrong with how something says that it needs an extra."""
    try:
        call()
    except ImportError as error:
        sentence = str(error)
        if "\n" in sentence or f'pip install "continuized[{extra}]"' not in sentence:
            yield f"not one line that says to install {extra}: {sentence}"
    else:
        yield f"something that needs {extra} did not ask for it"


def in_command(arguments: list[str], code: int, said: str) -> Iterator[str]:
    """What is wrong with a command: its exit code, or what it says."""
    command = [str(Path(sys.executable).parent / "continuized"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    text = done.stdout + done.stderr
    if done.returncode != code or said not in text or "Traceback" in text:
        yield f"continuized {' '.join(arguments)}: exit code {done.returncode}, {text!r}"


def in_a_run() -> Iterator[str]:
    """What is wrong with a first run."""
    scale = np.linspace(0.01, 1.0, 50)
    r = cz.minimize(lambda x: 0.5 * np.sum(scale * x**2), np.ones(50), jac=lambda x: scale * x)
    if not r.success or np.linalg.norm(scale * r.x) > 1e-6:
        yield f"minimize: {r.message}"
    p = cz.problems.paper_strongly_convex()  # the compiled loops
    if not cz.minimize(p, np.zeros(3), tol=1e-8, rng=0).success:
        yield "minimize: the paper's example is not solved"


def violations(version: str) -> Iterator[str]:
    """A sentence for each thing that is wrong."""
    present = [name for name in OPTIONAL if find_spec(name) is not None]
    if present:
        yield f"the environment is to hold no optional library, but has {', '.join(present)}"
    if cz.__version__ != version:
        yield f"the version is {cz.__version__}, not {version}"
    yield from in_modules()
    from continuized.plot import style as plot

    yield from in_refusal(plot.require_matplotlib, "plot")
    yield from in_refusal(lambda: cz.network.run("path:3", np.ones(3), transport="ray"), "ray")
    yield from in_command(["--version"], 0, version)
    yield from in_command(["--help"], 0, "Commands:")
    yield from in_command(["reproduce"], 2, 'pip install "continuized[plot]"')
    yield from in_a_run()


def main() -> int:
    """Check the installation of the Python that runs this."""
    if len(sys.argv) != 2:
        print("usage: python tools/check_installed.py VERSION", file=sys.stderr)
        return 2
    found = list(violations(sys.argv[1]))
    print("\n".join(found) if found else f"continuized {sys.argv[1]} works with its core alone")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
