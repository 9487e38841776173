"""Pictures of runs, paths, ensembles and networks: each function draws on axes and returns them.

    import continuized as cz
    ax = cz.plot.convergence(runs, problem)
    ax.figure.savefig("runs.png")

Names are loaded when first used, and matplotlib when a picture is drawn (`pip install
"continuized[plot]"`).  With `ax=`, a picture is drawn there; otherwise on a new figure, in the
style of the paper.  No window is opened, and pyplot's figures and settings stay as they are.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuized.plot.curves import convergence as convergence
    from continuized.plot.curves import ensemble as ensemble
    from continuized.plot.curves import lyapunov as lyapunov
    from continuized.plot.curves import rates as rates
    from continuized.plot.networks import network as network
    from continuized.plot.paths import animate as animate
    from continuized.plot.paths import path as path

_NAMES = {
    "curves": "convergence ensemble lyapunov rates",
    "networks": "network",
    "paths": "animate path",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"continuized.plot.{_HOME[name]}"), name)
    raise AttributeError(f"module 'continuized.plot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
