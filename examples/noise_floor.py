"""Noise on the gradients: a floor that does not fall, and the L that suits the horizon.

Run `python examples/noise_floor.py [FOLDER]`; makes FOLDER/noise_floor.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized import plot

INK, GREY = "#111111", "#8a8a8a"
LOOKS = {30.0: ("#e08a1e", "^"), 300.0: ("#1f78b4", "s"), 3000.0: ("#7b3294", "D")}
p = cz.problems.paper_convex()
x0, sigma2 = np.zeros(p.dim), cz.noise.Gaussian(1e-5).sigma2(p.dim)
times = np.geomspace(1.0, 5000.0, 60)


def expected(L, sigma2):
    """E f(x_t) - f* of the process that takes L for its constant, exactly."""
    return cz.theory.moments(p, cz.Continuized(L), x0, times, sigma2=sigma2).fun - p.f_star


with plot.settings():
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    axes.plot(times, expected(p.L, 0.0), color=GREY, lw=1.0, label="no noise")
    axes.plot(times, expected(p.L, sigma2), color=INK, lw=1.4, label="noise, the function's own $L$")
    for horizon, (color, marker) in LOOKS.items():
        L = cz.theory.noise_tuned_L(p, x0, sigma2, horizon)
        curve = expected(L, sigma2)
        at = np.interp(np.log(horizon), np.log(times), np.log(curve))
        axes.plot(times, curve, color=color, lw=1.4, label=f"noise, $L$ for $t = {horizon:g}$: {L:.3g}")
        axes.plot(horizon, np.exp(at), marker, color=color, ms=6, mfc="white")
    axes.legend(frameon=False, fontsize=8.5)
    axes.set(xscale="log", yscale="log", xlim=(times[0], times[-1]), xlabel="time $t$", ylabel=r"$\mathbf{E}\, f(x_t) - f(x_\star)$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "noise_floor.png", dpi=200)
