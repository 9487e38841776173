"""The Lyapunov function: it falls in the mean, which is the proof, and not on every path.

    phi_t = A_t (f(x_t) - f*) + B_t |z_t - x*|^2

Run `python examples/lyapunov.py [FOLDER]`; makes FOLDER/lyapunov.png.
"""

import sys
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

INK, BLUE, ORANGE = "#111111", "#1f78b4", "#e08a1e"
END, PATHS = 40.0, 30
p = cz.problems.paper_strongly_convex()
method, x0 = cz.Continuized(p.L, p.mu), np.zeros(p.dim)

times = np.linspace(0.0, END, 401)
exact = cz.theory.moments(p, method, x0, times)  # the expectations, without sampling
A = np.exp(np.sqrt(p.mu / p.L) * times)
mean = A * (exact.fun - p.f_star + 0.5 * p.mu * exact.z2)  # Theorem 3: B = (mu / 2) A


def phi_of(seed):
    """(t, phi_t) along a path, with both sides of every jump."""
    r = cz.minimize(p, x0, method=method, rng=seed, maxiter=100, record="path")
    phi, t, values = cz.theory.lyapunov(r, p), [], []
    for start, end in pairwise(r.trace.t):
        between = np.linspace(start, end, 6)
        t += [*between, np.nan]
        values += [*phi.at(between[:-1]), phi.at(end, side="left"), np.nan]
    return np.array(t), np.array(values)


with plot.settings():
    figure, axes = plt.subplots(figsize=(6.0, 3.8), layout="constrained")
    (t, phi), *others = paths = [phi_of(seed) for seed in range(PATHS)]
    for t_i, phi_i in others:
        axes.plot(t_i, phi_i / mean[0], color=BLUE, lw=0.5, alpha=0.45)
    inside = ~np.isnan(t)
    axes.plot(t[inside], phi[inside] / mean[0], color=ORANGE, lw=0.8, ls=":")  # the jumps
    axes.plot(t, phi / mean[0], color=ORANGE, lw=1.8)
    axes.plot(times, mean / mean[0], color=INK, lw=1.8)
    looks = {"the exact mean": INK, "one path": ORANGE, f"{PATHS - 1} other paths": BLUE}
    for label, color in looks.items():
        axes.plot([], [], color=color, lw=0.7 if color == BLUE else 1.8, label=label)
    axes.legend(frameon=False, loc="upper right")
    axes.set(yscale="log", xlim=(0.0, END), ylim=(1e-4, 20.0))
    axes.set(xlabel="time $t$", ylabel=r"$\varphi_t \,/\, \varphi_0$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "lyapunov.png", dpi=200)
