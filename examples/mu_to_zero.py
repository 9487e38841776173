"""One algorithm for all mu >= 0: what becomes of the process when it is told a smaller mu.

Run `python examples/mu_to_zero.py [FOLDER]`; makes FOLDER/mu_to_zero.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

INK = "#111111"
LOOKS = {1e-2: "#fdb863", 1e-3: "#e66101", 1e-4: "#b2abd2", 1e-5: "#5e3c99"}
PANELS = {r"the paper's parameters for $\mu > 0$  (start = $\infty$)": np.inf, "start = $0$": 0.0}
p = cz.problems.Quadratic(np.geomspace(1e-2, 1.0, 15), np.ones(15))  # its mu is 0.01
times, x0 = np.linspace(0.5, 100.0, 100), np.zeros(p.dim)


def expected(mu, start):
    """E f(x_t) - f*, exactly."""
    method = cz.Continuized(p.L, mu, start=start)
    return cz.theory.moments(p, method, x0, times).fun - p.f_star


with plot.settings():
    figure, both = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True, layout="constrained")
    found, convex = {}, expected(0.0, 0.0)
    for axes, (title, start) in zip(both, PANELS.items(), strict=True):
        for mu, color in LOOKS.items():
            found[mu, start] = expected(mu, start)
            label = rf"$\mu = 10^{{{np.log10(mu):.0f}}}$"
            axes.plot(times, found[mu, start], color=color, lw=1.4, label=label)
        axes.plot(times, convex, "--", color=INK, lw=1.2, label=r"$\mu = 0$")
        axes.set(title=title, yscale="log", xlim=(0.0, times[-1]), xlabel="time $t$")
    both[0].set_ylabel(r"$\mathbf{E}\, f(x_t) - f(x_\star)$")
    both[1].legend(frameon=False)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "mu_to_zero.png", dpi=200)
