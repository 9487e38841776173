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
from continuized.plot import style as plot

STEPS, RUNS, BFGS = 300, 20, "L-BFGS of SciPy, the best so far"
LOOKS = {"gradient descent": ("gradient-descent", "#e08a1e"), "Nesterov": ("nesterov", "#1f78b4")}
measured, benign = load_breast_cancer(return_X_y=True)
X = (measured - measured.mean(axis=0)) / measured.std(axis=0)
p = cz.problems.LogisticRegression(np.c_[X, np.ones(len(X))], 2.0 * benign - 1.0, l2=1e-3)
x0, asked, found = np.zeros(p.dim), [], {}
solved = cz.minimize(p, x0, metric="gram", tol=1e-14, rng=0)  # tol bounds the duality gap
f_star = solved.fun


def value_and_gradient(x):
    """What L-BFGS asks for."""
    asked.append(p.fun(x))
    return asked[-1], p.grad(x)


options = {"ftol": 0.0, "gtol": 1e-9}
scipy.optimize.minimize(value_and_gradient, x0, jac=True, method="L-BFGS-B", options=options)
found[BFGS] = np.minimum.accumulate(asked) - f_star
for label, (method, _) in LOOKS.items():
    found[label] = cz.minimize(p, x0, method=method, maxiter=STEPS).trace.fun - f_star
plain = cz.ensemble(p, cz.Continuized(p.L, p.mu), x0, runs=RUNS, steps=STEPS, rng=0).fun
metric = [cz.minimize(p, x0, metric="gram", maxiter=60, rng=s).trace.fun for s in range(RUNS)]
bands = {"continuized": (plain, "#111111"), 'continuized, metric="gram"': (metric, "#7b3294")}

with plot.settings():
    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for label, (_, color) in LOOKS.items():
        axes.plot(found[label], color=color, lw=1.3, label=label)
    for label, (values, color) in bands.items():
        low, found[label], high = np.quantile(values, [0.1, 0.5, 0.9], axis=0) - f_star
        axes.fill_between(range(len(low)), low, high, color=color, alpha=0.2, lw=0)
        axes.plot(found[label], color=color, lw=1.3, label=label)
    axes.plot(found[BFGS], color="#777777", lw=1.3, ls="--", label="L-BFGS, best so far")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    axes.set(xscale="log", yscale="log", xlim=(1, STEPS), ylim=(1e-11, 1.0))
    axes.set(xlabel="gradients (passes over the data)", ylabel=r"$f(x_k) - f(x_\star)$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "logistic_regression.png", dpi=200)
