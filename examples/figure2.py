"""The paper's figure 2: what noise on the gradients does to each method, from the optimum.

Run `python examples/figure2.py [FOLDER]`; makes FOLDER/figure2.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

PANELS = (
    ("convex", cz.problems.paper_convex(), 1000, "log"),
    ("strongly convex", cz.problems.paper_strongly_convex(), 300, "linear"),
)
LOOKS = {
    "gradient descent": ("#e08a1e", "^"),
    "Nesterov": ("#1f78b4", "s"),
    "continuized": ("#111111", "o"),
}
NOISE = cz.noise.Gaussian(1e-4)
found = {}

with plot.settings():
    figure, both = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    for axes, (title, p, steps, scale) in zip(both, PANELS, strict=True):
        methods = (cz.GradientDescent(p.L), cz.Nesterov(p.L, p.mu), cz.Continuized(p.L, p.mu))
        for method, (name, (color, marker)) in zip(methods, LOOKS.items(), strict=True):
            r = cz.minimize(p, p.x_star, method=method, noise=NOISE, maxiter=steps, rng=0)
            excess = r.trace.fun[1:] - p.f_star
            found[title, method.name] = excess
            k = r.trace.k[1:]
            some = np.searchsorted(k, np.geomspace(2, steps, 9) if scale == "log" else k[20::40])
            axes.plot(r.trace.t[1:], excess, color=color, lw=0.9, marker=marker, mfc="white",
                      ms=3.8, markevery=some, label=f"{name}, one run")  # fmt: skip
        bound = cz.theory.bound(method, p, p.x_star, t=k, sigma2=NOISE.sigma2(p.dim))
        axes.plot(k, bound, "--", color="#111111", lw=0.9, label="continuized, bound of Theorem 6")
        axes.set(xscale=scale, yscale="log", title=title, xlim=(scale == "log", steps))
        axes.set_xlabel("gradient steps $k$  (continuized: time $t$)")
    both[0].set_ylabel(r"$f(x_k) - f(x_\star)$")
    both[0].legend(frameon=False, fontsize=8, loc="upper left")
    both[0].set_ylim(top=20.0)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "figure2.png", dpi=200)
