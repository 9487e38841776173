"""The paper's figure 2: what noise on the gradients does to each method, from the optimum.

Run `python examples/figure2.py [FOLDER]`; makes FOLDER/figure2.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

import continuized as cz
from continuized import plot

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
            r = cz.minimize(p, p.x_star, method=method, noise=NOISE, maxiter=steps, seed=0)
            excess = r.trace.fun[1:] - p.f_star
            found[title, method.name] = excess
            some = (0.04 * (1 + list(LOOKS).index(name)), 0.15)
            axes.plot(r.trace.t[1:], excess, color=color, lw=1.1, marker=marker, mfc="white",
                      ms=3.8, markevery=some, label=f"{name}, one run")  # fmt: skip
        t, sigma2 = r.trace.k[1:], NOISE.sigma2(p.dim)
        bound = cz.theory.bound(methods[-1], p, p.x_star, t=t, sigma2=sigma2)
        axes.plot(t, bound, "--", color="#111111", lw=0.9, label="continuized, bound of Theorem 6")
        axes.set(xscale=scale, yscale="log", title=title, xlim=(scale == "log", steps))
        axes.set_xlabel("gradient steps $k$  (continuized: time $t$)")
    both[0].set_ylabel(r"$f(x_k) - f(x_\star)$")
    both[1].legend(frameon=False, fontsize=8, loc="lower right")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "figure2.png", dpi=200)
