"""The process in the plane: x_t and z_t drift together, and jump when a random clock rings.

Run `python examples/process_in_the_plane.py [FOLDER]`; makes FOLDER/process_in_the_plane.png.
"""

import sys
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized import plot

X, Z, INK, GREY = "#0b5fa5", "#d55e00", "#111111", "#8a8a8a"
H = np.array([[0.35, -0.25], [-0.25, 0.9]])
mu, largest = np.linalg.eigvalsh(H)
# Half the longest step that is allowed, or x would land in the valley at once.
p = cz.Problem(lambda x: 0.5 * x @ H @ x, lambda x: H @ x, L=2.0 * largest, mu=mu)
r = cz.minimize(p, [-3.0, 0.6], seed=3, maxiter=6, record="path")
jump = {"arrowstyle": "-|>", "lw": 1.1, "ls": (0, (3, 2)), "shrinkA": 0, "shrinkB": 3}

with plot.settings():
    figure, (plane, clock) = plt.subplots(
        2, 1, figsize=(7.2, 5.2), height_ratios=(12, 1), layout="constrained"
    )
    u = np.stack(np.meshgrid(np.linspace(-3.3, 0.95, 300), np.linspace(-1.5, 0.9, 200)), axis=-1)
    height = np.sqrt(np.einsum("...i,ij,...j", u, H, u))
    levels = np.arange(0.15, 3.0, 0.25)
    plane.contour(u[..., 0], u[..., 1], height, levels, colors="#d0d0d0", linewidths=0.7)
    for start, end in pairwise(r.trace.t):
        flow = [r.at(t) for t in np.linspace(start, end, 50, endpoint=False)]
        flow = np.array([*flow, r.at(end, side="left")])  # just before the jump
        plane.plot(*flow[0].T, color=GREY, lw=0.6, ls=":", zorder=1)
        for i, color in ((1, Z), (0, X)):
            plane.plot(*flow[:, i].T, color=color, lw=2.6, solid_capstyle="round")
            arrow = {**jump, "color": color}
            plane.annotate("", r.at(end)[i], flow[-1, i], arrowprops=arrow)
    for k, (x, z) in enumerate(zip(r.path.x, r.path.z, strict=True)):
        for name, at, offset, color, marker in (("z", z, (7, -9), Z, "s"), ("x", x, (0, 8), X, "o")):
            plane.plot(*at, marker, ms=5.5, color=color)
            text = f"${name}_{k}$" if k else {"x": "$x_0 = z_0$"}.get(name, "")
            plane.annotate(text, at, offset, textcoords="offset points", color=color)
    plane.plot(0, 0, "*", ms=9, color=INK)
    plane.annotate(r"$x_\star$", (0, 0), (6, 3), textcoords="offset points")
    plane.plot([], [], color=INK, lw=2.6, label="between rings: $x_t$ and $z_t$ drift together")
    at_a_ring = r"at a ring: both step along $-\nabla f(x_t)$"
    plane.plot([], [], color=INK, lw=1.1, ls=(0, (3, 2)), label=at_a_ring)
    plane.legend(loc="upper right", fontsize=10, framealpha=1.0, edgecolor="white")
    plane.set(aspect="equal")
    plane.axis("off")
    clock.vlines(r.trace.t[1:], 0.0, 1.0, color=INK, lw=1.4)
    names = [f"$T_{k}$" for k in r.trace.k[1:]]
    clock.set_xticks([0.0, *r.trace.t[1:]], ["$0$", *names])
    clock.set(xlim=(0.0, 1.03 * r.trace.t[-1]), yticks=[])
    clock.set_xlabel("time $t$, and the rings of a Poisson clock")
    clock.spines["left"].set_visible(False)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "process_in_the_plane.png", dpi=200)
