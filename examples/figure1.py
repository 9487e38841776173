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
    ("convex", cz.problems.paper_convex(), 1000, "log"),
    ("strongly convex", cz.problems.paper_strongly_convex(), 150, "linear"),
)
LOOKS = {
    "gradient descent": ("#e08a1e", "^", (0, (4, 4))),
    "Nesterov": ("#1f78b4", "s", (0, (4, 4))),
    "continuized, one run": ("#111111", "o", (4, (4, 4))),
}
found = {}

with plot.settings():
    figure, both = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    for axes, (title, p, steps, scale) in zip(both, PANELS, strict=True):
        methods = (cz.GradientDescent(p.L), cz.Nesterov(p.L, p.mu), cz.Continuized(p.L, p.mu))
        x0 = np.zeros(p.dim)
        for method, (name, (color, marker, dashes)) in zip(methods, LOOKS.items(), strict=True):
            trace = cz.minimize(p, x0, method=method, maxiter=steps, rng=0).trace
            # The continuized bound holds at a time t, the others after k gradients.
            where = {"t" if method.name == "continuized" else "k": trace.k[1:]}
            bound = cz.theory.bound(method, p, x0, **where)
            t, excess = trace.t[1:], trace.fun[1:] - p.f_star
            found[title, method.name] = excess
            axes.plot(trace.k[1:], bound, color=color, lw=0.9, ls=dashes)
            some = (0.04 * (1 + list(LOOKS).index(name)), 0.15)
            axes.plot(t, excess, color=color, lw=1.1, marker=marker, mfc="white", ms=3.8,
                      markevery=some, label=name)  # fmt: skip
        axes.plot([], [], "--", color="#777777", lw=0.9, label="bounds (Theorems 1, 2 and 3)")
        axes.set(xscale=scale, yscale="log", title=title, xlim=(scale == "log", steps))
        axes.set_xlabel("gradient steps $k$  (continuized: time $t$)")
    both[0].set_ylabel(r"$f(x_k) - f(x_\star)$")
    both[0].legend(frameon=False, fontsize=8, loc="lower left")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "figure1.png", dpi=200)
