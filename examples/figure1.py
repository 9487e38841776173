"""The paper's figure 1: three methods on a convex and on a strongly convex function.

Run `python examples/figure1.py [FOLDER]`; makes FOLDER/figure1.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

PANELS = (
    ("convex", cz.problems.paper_convex(), 1000),
    ("strongly convex", cz.problems.paper_strongly_convex(), 150),
)
METHODS = ("gradient-descent", "nesterov", "continuized")
found = {}

with plot.settings():
    figure, both = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    for axes, (title, p, steps) in zip(both, PANELS, strict=True):
        x0 = np.zeros(p.dim)
        runs = [cz.minimize(p, x0, method=name, maxiter=steps, rng=0) for name in METHODS]
        cz.plot.convergence(runs, p, ax=axes)
        axes.set(title=title, xlim=(axes.get_xlim()[0], steps))
        for r in runs:
            found[title, r.method.name] = r.trace.fun[1:] - p.f_star
    both[1].get_legend().remove()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "figure1.png", dpi=200)
