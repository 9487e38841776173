"""Logistic regression on the breast cancer data of scikit-learn, with and without a metric.

Run `python examples/logistic_regression.py [FOLDER]`; makes FOLDER/logistic_regression.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
from sklearn.datasets import load_breast_cancer

import continuized as cz
from continuized import plot

INK, BLUE, ORANGE, PURPLE, GREY = "#111111", "#1f78b4", "#e08a1e", "#7b3294", "#8a8a8a"
STEPS = 300
measured, malignant = load_breast_cancer(return_X_y=True)
X = (measured - measured.mean(axis=0)) / measured.std(axis=0)
p = cz.problems.LogisticRegression(np.c_[X, np.ones(len(X))], 2.0 * malignant - 1.0, l2=1e-3)
x0 = np.zeros(p.dim)
f_star = cz.minimize(p, x0, metric="gram", tol=1e-14, seed=0).fun  # within 1e-14: the duality gap

asked = []  # f wherever L-BFGS asks for it, with its gradient
scipy.optimize.minimize(
    lambda x: (asked.append(p.fun(x)) or asked[-1], p.grad(x)), x0, jac=True, method="L-BFGS-B",
    options={"maxiter": STEPS, "ftol": 0.0, "gtol": 1e-9},
)  # fmt: skip

with plot.settings():
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for name, color in (("gradient-descent", ORANGE), ("nesterov", BLUE)):
        trace = cz.minimize(p, x0, method=name, maxiter=STEPS).trace
        axes.plot(trace.k, trace.fun - f_star, color=color, label=name)
    e = cz.ensemble(p, cz.Continuized(p.L, p.mu), x0, runs=40, steps=STEPS, seed=0)
    low, middle, high = e.quantile([0.1, 0.5, 0.9]) - f_star
    k = np.arange(STEPS + 1)
    axes.fill_between(k, low, high, color=INK, alpha=0.2, lw=0)
    axes.plot(k, middle, color=INK, label="continuized")
    axes.plot(np.minimum.accumulate(asked) - f_star, color=GREY, label="L-BFGS (SciPy)")
    trace = cz.minimize(p, x0, metric="gram", tol=1e-12, seed=0).trace
    axes.plot(trace.k, trace.fun - f_star, color=PURPLE, label="continuized, metric")
    axes.legend(frameon=False)
    axes.set(yscale="log", xlim=(0, STEPS), ylim=(1e-11, 1.0), xlabel="gradients", ylabel=r"$f(x_k) - f(x_\star)$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "logistic_regression.png", dpi=200)
