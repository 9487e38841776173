"""The certified rate over the plane of eta and gamma': the paper's point, and Theorem B's.

Run `python examples/certified_rate.py [FOLDER] [POINTS]`; makes FOLDER/certified_rate.png from
POINTS values of eta and twice as many of gamma', each certificate proved (21 by default: minutes).
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

L, mu = 1.0, 0.01
q = np.sqrt(mu / L)
points = int(sys.argv[2]) if len(sys.argv) > 2 else 21
# In eta and the product of eta and gamma', along which the rate changes slowly.
etas, products = np.meshgrid(np.linspace(0.6, 2.0, points), np.linspace(0.17, 1.37, 2 * points - 1))
steps = products / etas


def certified(eta, step):
    """The best certified rate over q, with eta eta' = mu/L; NaN where there is no certificate."""
    four = [round(float(v), 9) for v in (eta * q, q / eta, 1.0 / L, step / np.sqrt(mu * L))]
    try:
        return float(cz.theory.certify(four, L, mu).rate) / q
    except cz.theory.NoCertificateError:
        return np.nan


rates = np.vectorize(certified, otypes=[float])(etas, steps)
marks = {"the paper": (1.0, 1.0), "Theorem B": (np.sqrt(2.0), np.sqrt(0.5) + 2.0 * q / 3.0)}
reached = {name: certified(*at) for name, at in marks.items()}

with plot.settings():
    figure, axes = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
    levels = np.arange(0.0, 1.51, 0.1)
    filled = axes.contourf(etas, steps, rates, levels, cmap="Greys", alpha=0.75)
    lines = axes.contour(etas, steps, rates, [1.0], colors="#111111", linewidths=0.8)
    axes.clabel(lines, fmt="%g", fontsize=8)
    for (name, at), marker in zip(marks.items(), "os", strict=True):
        axes.plot(*at, marker, color="#d95f02", mec="white", ms=8)
        label, box = f"{name}: {reached[name]:.3f}", {"fc": "white", "ec": "none", "pad": 1}
        axes.annotate(label, at, (9, 7), textcoords="offset points", color="#a04000", bbox=box)
    axes.text(1.97, 1.47, "no certificate of this form", ha="right", va="top", color="#555555")
    bar = figure.colorbar(filled, ax=axes)
    bar.set_label(r"certified rate $/\,\sqrt{\mu/L}$")
    axes.set(xlabel=r"$\eta\,/\sqrt{\mu/L}$,  with $\eta\,\eta' = \mu/L$")
    axes.set(xlim=(0.6, 2.0), ylim=(0.3, 1.5))
    axes.set(ylabel=r"$\gamma'\sqrt{\mu L}$", title=r"$L/\mu = 100$, $\gamma = 1/L$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "certified_rate.png", dpi=200)
