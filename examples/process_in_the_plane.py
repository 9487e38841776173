"""The process in the plane: x_t and z_t drift together, and jump when a random clock ticks.

Run `python examples/process_in_the_plane.py [FOLDER]`; makes FOLDER/process_in_the_plane.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

INK = "#111111"
LOOKS = ((1, "z", "#d55e00", "s", (7, -9)), (0, "x", "#0b5fa5", "o", (0, 8)))
POINTS = {"textcoords": "offset points"}
JUMP = {"lw": 1.1, "ls": (0, (3, 2))}
H = np.array([[0.35, -0.25], [-0.25, 0.9]])
mu, largest = np.linalg.eigvalsh(H)
# Half the longest step that the theorem allows, or x would land in the valley at once.
p = cz.Problem(lambda x: 0.5 * x @ H @ x, lambda x: H @ x, L=2.0 * largest, mu=mu)
r = cz.minimize(p, [-3.0, 0.6], rng=3, maxiter=6, record="path")
before = np.array([r.at(t, side="left") for t in r.trace.t])  # (event, x or z, coordinate)
after = np.array([r.at(t) for t in r.trace.t])

with plot.settings():
    figure, (plane, clock) = plt.subplots(
        2, 1, figsize=(7.2, 5.2), height_ratios=(12, 1), layout="constrained"
    )
    u = np.stack(np.meshgrid(np.linspace(-3.3, 0.95, 300), np.linspace(-1.5, 0.9, 200)), axis=-1)
    height, levels = np.sqrt(np.einsum("...i,ij,...j", u, H, u)), np.arange(0.15, 3.0, 0.25)
    plane.contour(u[..., 0], u[..., 1], height, levels, colors="#d0d0d0", linewidths=0.7)
    for pair in after[:-1]:  # x and z drift on the line between them
        plane.plot(*pair.T, color="#8a8a8a", lw=0.6, ls=":", zorder=1)
    for i, name, color, marker, offset in LOOKS:
        arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 3, **JUMP}
        for k in r.trace.k[1:]:
            drift = np.array([after[k - 1, i], before[k, i]])
            plane.plot(*drift.T, color=color, lw=2.6, solid_capstyle="round")
            plane.annotate("", after[k, i], before[k, i], arrowprops=arrow)
            plane.annotate(f"${name}_{k}$", after[k, i], offset, **POINTS, color=color)
        plane.plot(*after[:, i].T, marker, ms=5.5, color=color)
    plane.annotate("$x_0 = z_0$", after[0, 0], (-8, 8), **POINTS)
    plane.plot(0, 0, "*", ms=9, color=INK)
    plane.annotate(r"$x_\star$", (0, 0), (6, 3), **POINTS)
    plane.plot([], [], color=INK, lw=2.6, label="between rings: $x_t$ and $z_t$ drift together")
    at_a_ring = r"at a ring: both step along $-\nabla f(x_t)$"
    plane.plot([], [], color=INK, **JUMP, label=at_a_ring)
    plane.legend(loc="upper right", fontsize=10, framealpha=1.0, edgecolor="white")
    plane.axis("equal")
    plane.axis("off")
    clock.vlines(r.trace.t[1:], 0.0, 1.0, color=INK, lw=1.4)
    clock.set_xticks(r.trace.t, ["$0$", *(f"$T_{k}$" for k in r.trace.k[1:])])
    clock.set(xlim=(0.0, 1.03 * r.trace.t[-1]), yticks=[])
    clock.set_xlabel("time $t$, and the rings of a Poisson clock")
    clock.spines["left"].set_visible(False)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "process_in_the_plane.png", dpi=200)
