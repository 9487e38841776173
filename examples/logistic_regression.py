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

STEPS, INK = 300, "#111111"
LOOKS = {"gradient descent": ("gradient-descent", "#e08a1e"), "Nesterov": ("nesterov", "#1f78b4")}
measured, benign = load_breast_cancer(return_X_y=True)
X = (measured - measured.mean(axis=0)) / measured.std(axis=0)
p = cz.problems.LogisticRegression(np.c_[X, np.ones(len(X))], 2.0 * benign - 1.0, l2=1e-3)
x0, k, found = np.zeros(p.dim), np.arange(STEPS + 1), {}

metric = cz.minimize(p, x0, metric="gram", tol=1e-14, seed=0)
f_star = metric.fun  # within 1e-14: tol bounds the duality gap
asked = []  # f wherever L-BFGS asks for it, with its gradient


def value_and_gradient(x):
    """What L-BFGS asks for."""
    asked.append(p.fun(x))
    return asked[-1], p.grad(x)


options = {"ftol": 0.0, "gtol": 1e-9}
scipy.optimize.minimize(value_and_gradient, x0, jac=True, method="L-BFGS-B", options=options)

with plot.settings():
    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for label, (method, color) in LOOKS.items():
        found[label] = cz.minimize(p, x0, method=method, maxiter=STEPS).trace.fun - f_star
        axes.plot(k, found[label], color=color, lw=1.3, label=label)
    e = cz.ensemble(p, cz.Continuized(p.L, p.mu), x0, runs=20, steps=STEPS, seed=0)
    low, middle, high = e.quantile([0.1, 0.5, 0.9]) - f_star
    axes.fill_between(k, low, high, color=INK, alpha=0.2, lw=0)
    axes.plot(k, middle, color=INK, lw=1.3, label="continuized (median and 10-90 % of 20 runs)")
    trace = metric.trace
    axes.plot(
        trace.k, trace.fun - f_star, color="#7b3294", lw=1.3, label='continuized, metric="gram"'
    )
    best = np.minimum.accumulate(asked) - f_star
    axes.plot(best, color="#777777", lw=1.3, ls="--", label="L-BFGS of SciPy, the best so far")
    axes.legend(frameon=False, fontsize=8.5, loc="lower left")
    axes.set(xscale="log", yscale="log", xlim=(1, STEPS), ylim=(1e-11, 1.0))
    axes.set(xlabel="gradients (passes over the data)", ylabel=r"$f(x_k) - f(x_\star)$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "logistic_regression.png", dpi=200)
