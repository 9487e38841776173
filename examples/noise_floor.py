"""Noise on the gradients: a floor that does not fall, and the L that suits the horizon.

Run `python examples/noise_floor.py [FOLDER]`; makes FOLDER/noise_floor.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

INK, GREY = "#111111", "#8a8a8a"
LOOKS = {30.0: ("#e08a1e", "^"), 200.0: ("#1f78b4", "s"), 500.0: ("#7b3294", "D")}
i = np.arange(1.0, 26.0)
p = cz.problems.Quadratic(1.0 / i**2, 1.0 / i, mu=0.0)  # as in the paper's figure 1, left
x0, sigma2 = np.zeros(p.dim), 1e-3
times = np.union1d(np.geomspace(1.0, 800.0, 180), list(LOOKS))


def expected(L, sigma2):
    """E f(x_t) - f* of the process that takes L for its constant, exactly."""
    return cz.theory.moments(p, cz.Continuized(L), x0, times, sigma2=sigma2).fun - p.f_star


with plot.settings():
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    axes.plot(times, expected(p.L, 0.0), color=GREY, lw=1.0, label="no noise")
    own = expected(p.L, sigma2)
    axes.plot(times, own, color=INK, lw=1.4, label=f"noise, the function's own $L = {p.L:.0f}$")
    found = {}
    for horizon, (color, marker) in LOOKS.items():
        L = cz.theory.noise_tuned_L(p, x0, sigma2, horizon)
        found[horizon] = curve = expected(L, sigma2)
        label = f"noise, $L = {L:.3g}$, the best bound at $t = {horizon:g}$"
        at = np.flatnonzero(times == horizon)
        axes.plot(times, curve, color=color, lw=1.4, marker=marker, mfc="white", ms=6,
                  markevery=at, label=label)  # fmt: skip
    axes.legend(frameon=False, fontsize=8.5, loc="lower left")
    axes.set(xscale="log", yscale="log", xlim=(1.0, times[-1]), ylim=(1e-8, 1.0))
    axes.set(xlabel="time $t$", ylabel=r"$\mathbf{E}\, f(x_t) - f(x_\star)$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "noise_floor.png", dpi=200)
