"""Coordinate descent: a step on one coordinate at every tick, with and without acceleration.

Run `python examples/coordinate_descent.py [FOLDER]`; makes FOLDER/coordinate_descent.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

LOOKS = {
    "gradient descent": ("gradient-descent", "#e08a1e", "^"),
    "Nesterov": ("nesterov", "#1f78b4", "s"),
    "coordinate descent": (cz.CoordinateDescent(accelerated=False), "#7b3294", "D"),
    "accelerated coordinate descent": (cz.CoordinateDescent(), "#111111", "o"),
}
PASSES, rows, columns = 200, 400, 100
rng = np.random.default_rng(0)
shared = rng.standard_normal((rows, 1))  # makes the columns alike
X = (rng.standard_normal((rows, columns)) + shared) / np.arange(1.0, columns + 1.0)
y = X @ np.ones(columns) + rng.standard_normal(rows)
p = cz.problems.LeastSquares(X, y, l2=1e-5)
x0 = np.zeros(columns)
best = np.linalg.solve(X.T @ X / rows + p.l2 * np.eye(columns), X.T @ y / rows)
f_star, found = p.fun(best), {}

with plot.settings():
    figure, axes = plt.subplots(figsize=(6.0, 3.8), layout="constrained")
    for name, (method, color, marker) in LOOKS.items():
        steps = PASSES if isinstance(method, str) else PASSES * columns
        trace = cz.minimize(p, x0, method=method, maxiter=steps, rng=0).trace
        found[name] = excess = trace.fun - f_star
        axes.plot(trace.passes, excess, color=color, lw=1.2, marker=marker, mfc="white", ms=4.5,
                  markevery=(15, 40), label=name)  # fmt: skip
    axes.legend(frameon=False)
    axes.set(yscale="log", xlim=(0, PASSES), ylim=(1e-14, 100.0))
    axes.set_xlabel(f"passes over the data (gradients, or {columns} coordinate steps)")
    axes.set_ylabel(r"$f(x) - f(x_\star)$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "coordinate_descent.png", dpi=200)
