"""The process on the simplex, in two geometries: x_t and z_t stay inside, and x is never projected.

Run `python examples/simplex.py [FOLDER]`; makes FOLDER/simplex.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])  # of the triangle in the plane
LOOKS = ((1, "z", "#d55e00", "s"), (0, "x", "#0b5fa5", "o"))
JUMP = {"lw": 1.1, "ls": (0, (3, 2))}
H = np.array([[1.0, 0.7, 0.1], [0.7, 1.2, 0.2], [0.1, 0.2, 0.8]])
c = np.array([0.25, 0.75, 0.62])
p = cz.Problem(lambda x: 0.5 * x @ H @ x - c @ x, lambda x: H @ x - c)
largest = {"prox": float(np.linalg.eigvalsh(H)[-1]), "mirror": float(np.abs(H).max())}
x0 = np.array([0.72, 0.06, 0.22])
PANELS = (
    ("prox", cz.prox.Simplex(), "plain geometry: $z$ is projected"),
    ("mirror", cz.mirror.Entropy(), "entropy: $z$ is multiplied"),
)
best = cz.minimize(p, x0, L=largest["prox"], prox=cz.prox.Simplex(), tol=1e-6, rng=0).x
paths = {}

with plot.settings():
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.4), layout="constrained")
    weights = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 300)] * 2), axis=-1)
    weights = np.concatenate([weights, 1.0 - weights.sum(axis=-1, keepdims=True)], axis=-1)
    inside = weights[..., 2] >= 0.0
    height = 0.5 * np.einsum("...i,ij,...j", weights, H, weights) - weights @ c
    height = np.where(inside, np.sqrt(np.maximum(height - p.fun(best), 0.0)), np.nan)
    ground = weights @ CORNERS
    for ax, (name, given, title) in zip(axes, PANELS, strict=True):
        r = cz.minimize(p, x0, L=largest[name], **{name: given}, rng=4, maxiter=7, record="path")
        sides = [np.array([r.at(t, side=s) for t in r.trace.t]) for s in ("left", "right")]
        paths[name] = np.stack(sides)  # (before or after, event, x or z, entry)
        before, after = (part @ CORNERS for part in paths[name])
        ax.contour(ground[..., 0], ground[..., 1], height, 9, colors="#d0d0d0", linewidths=0.7)
        ax.plot(*CORNERS[[0, 1, 2, 0]].T, color="#555555", lw=1.0)
        for i, label, color, marker in LOOKS:
            arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 3, **JUMP}
            for k in r.trace.k[1:]:
                ax.plot(*np.array([after[k - 1, i], before[k, i]]).T, color=color, lw=2.4)
                ax.annotate("", after[k, i], before[k, i], arrowprops=arrow)
            ax.plot(*after[:, i].T, marker, ms=5.0, color=color, label=f"${label}_k$")
        ax.plot(*(best @ CORNERS), "*", ms=11, color="#111111", label=r"$x_\star$", zorder=5)
        ax.plot([], [], color="#888888", lw=2.4, label="flow")
        ax.plot([], [], color="#888888", **JUMP, label="jump")
        ax.set_title(title, fontsize=11, y=0.93)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.04, 0.98), aspect="equal")
        ax.axis("off")
    axes[0].legend(loc="upper left", fontsize=10, frameon=False)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "simplex.png", dpi=200)
