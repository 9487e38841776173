"""Pictures of runs, paths, ensembles and networks: each function draws on axes and returns them.

    import continuized as cz
    ax = cz.plot.convergence(runs, problem)
    ax.figure.savefig("runs.png")

Names are loaded when first used, and matplotlib when a picture is drawn (`pip install
"continuized[plot]"`).  With `ax=`, a picture is drawn there; otherwise on a new figure, in the
style of the paper.  No window is opened, and pyplot's figures and settings stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuized.support.lazy import load_lazily

if TYPE_CHECKING:
    from continuized.plot.curves import convergence as convergence
    from continuized.plot.curves import ensemble as ensemble
    from continuized.plot.curves import lyapunov as lyapunov
    from continuized.plot.curves import rates as rates
    from continuized.plot.networks import network as network
    from continuized.plot.paths import animate as animate
    from continuized.plot.paths import path as path

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = load_lazily(
        __name__,
        {
            "curves": "convergence ensemble lyapunov rates",
            "networks": "network",
            "paths": "animate path",
        },
    )
