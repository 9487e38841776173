"""The paper's figure 2: what noise on the gradients does to each method, from the optimum.

Run `python examples/figure2.py [FOLDER]`; makes FOLDER/figure2.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

import continuized as cz
from continuized.plot import style as plot

PANELS = (
    ("convex", cz.problems.paper_convex(), 1000),
    ("strongly convex", cz.problems.paper_strongly_convex(), 300),
)
METHODS = ("gradient-descent", "nesterov", "continuized")
found = {}

with plot.settings():
    figure, both = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    for axes, (title, p, steps) in zip(both, PANELS, strict=True):
        how = {"noise": cz.noise.Gaussian(1e-4), "maxiter": steps, "rng": 0}
        runs = [cz.minimize(p, p.x_star, method=name, **how) for name in METHODS]
        cz.plot.convergence(runs, p, ax=axes)
        axes.set(title=title, xlim=(axes.get_xlim()[0], steps))
        for r in runs:
            found[title, r.method.name] = r.trace.fun[1:] - p.f_star
    both[0].set_ylim(top=100.0)
    both[0].legend(frameon=False, fontsize=8, loc="upper left")
    both[1].get_legend().remove()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "figure2.png", dpi=200)
