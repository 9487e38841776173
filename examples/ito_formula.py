"""Ito's formula along one path: the Lyapunov function is a falling drift and a martingale.

Run `python examples/ito_formula.py [FOLDER]`; makes FOLDER/ito_formula.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

p = cz.problems.paper_strongly_convex()
method, x0 = cz.Continuized(p.L, p.mu), np.zeros(3)
phi = cz.theory.lyapunov_function(method, p)
paths = [
    cz.minimize(p, x0, method=method, maxiter=40, rng=seed, record="path", tol=0.0)
    for seed in range(30)
]
parts = [cz.theory.decompose(phi, r, p) for r in paths]

with plot.settings():
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for other in parts[1:]:
        axes.plot(other.t, other.martingale, color="#c8c8c8", lw=0.6)
    axes.plot([], [], color="#c8c8c8", label="$M_t$ of 29 other paths")
    one = parts[0]
    axes.plot(
        one.t, one.phi, "o-", color="#111111", ms=2.5, lw=0.8, label=r"$\varphi_t$, at events"
    )
    axes.plot(one.t, one.phi[0] + one.drift, color="#1f78b4", lw=1.6,
              label=r"$\varphi_0 + \int I_s\,\mathrm{d}s$: it can only fall")  # fmt: skip
    axes.plot(one.t, one.martingale, "s-", color="#e08a1e", ms=2.5, lw=1.2,
              label="the martingale $M_t$: of mean 0")  # fmt: skip
    axes.axhline(0.0, color="#8a8a8a", lw=0.5)
    axes.legend(framealpha=1.0, edgecolor="none", fontsize=8.5, loc="upper right")
    axes.set(xlabel="time $t$", xlim=(0.0, 16.0), ylim=(-0.7, 1.5))
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "ito_formula.png", dpi=200)
