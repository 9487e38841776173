"""Exponents against L/mu: what is proved, what is certified, and what is exact on quadratics.

Run `python examples/rates.py [FOLDER]`; makes FOLDER/rates.png.  Needs the extra `certify`.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

INK, BLUE = "#111111", "#1f78b4"
ratios, some = np.geomspace(1.05, 1e5, 60), np.geomspace(10.0, 1e5, 9)
METHODS = {"paper": cz.Continuized, "sharp": cz.SharpContinuized}


def exact(kind):
    """The rate of the worst quadratic, over sqrt(mu/L)."""
    rates = [cz.theory.quadratic_rate(kind(r, 1.0), r, 1.0) for r in ratios.tolist()]
    return np.array(rates) * np.sqrt(ratios)


def certified(kind):
    """The largest rate that `cz.theory.certify` proves for the class, over sqrt(mu/L)."""
    rates = [float(cz.theory.certify(kind(r, 1.0), r, 1.0).rate) for r in some.tolist()]
    return np.array(rates) * np.sqrt(some)


found = {name: exact(kind) for name, kind in METHODS.items()}
proofs = {name: certified(kind) for name, kind in METHODS.items()}
A, B = ratios >= 7.04, ratios >= 6.5
with plot.settings():
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    axes.plot(ratios, found["paper"], color=INK, lw=1.4, label="paper's parameters, exact")
    axes.plot(some, proofs["paper"], "o", color=INK, ms=4.5, mfc="white",
              label="paper's parameters, certified")  # fmt: skip
    axes.plot(ratios[A], np.full(A.sum(), 4 / 3), color=INK, lw=1.0, ls=(0, (4, 2)),
              label="paper's parameters, Theorem A: 4/3")  # fmt: skip
    axes.plot(ratios, np.ones(len(ratios)), color=INK, lw=1.0, ls=(0, (1, 2)),
              label="paper's parameters, Theorem 3: 1")  # fmt: skip
    axes.plot(ratios, found["sharp"], color=BLUE, lw=1.4, label="SharpContinuized, exact")
    axes.plot(some, proofs["sharp"], "s", color=BLUE, ms=4.5, mfc="white",
              label="SharpContinuized, certified")  # fmt: skip
    axes.plot(ratios[B], np.full(B.sum(), np.sqrt(2.0)), color=BLUE, lw=1.0, ls=(0, (4, 2)),
              label=r"SharpContinuized, Theorem B: $\sqrt{2}$")  # fmt: skip
    axes.set(xscale="log", xlim=(1.0, ratios[-1]), ylim=(0.9, 2.05))
    axes.set(xlabel=r"$L/\mu$", ylabel=r"exponent over $\sqrt{\mu/L}$")
    axes.legend(frameon=False, fontsize=8.5, loc="upper left")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "rates.png", dpi=200)
