"""Gossip on a grid: nodes that only talk to their neighbours agree on their mean.

Run `python examples/gossip_grid.py [FOLDER]`; makes FOLDER/gossip_grid.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from continuized import network
from continuized.plot import style as plot

INK, BLUE = "#111111", "#1f78b4"
SIDE, END = 30, 160_000.0
TIMES = (10_000.0, 40_000.0, 80_000.0)
graph = network.Graph.of(f"grid:{SIDE}x{SIDE}")
values = np.zeros((SIDE, SIDE))
values[:, : SIDE // 2] = 1.0  # on the left 1, on the right 0: they should agree on 1/2
limits = {"tol": 1e-8, "until": END, "snapshots": TIMES, "rng": 0}
found = {
    name: network.simulate(graph, values.ravel(), method=name, **limits)
    for name in ("plain", "accelerated")
}

with plot.settings():
    figure = plt.figure(figsize=(8.4, 2.75), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(5, 3))
    maps = left.subplots(2, 1 + len(TIMES))
    for row, (name, outcome) in zip(maps, found.items(), strict=True):
        for axes, t in zip(row, (0.0, *TIMES), strict=True):
            x = outcome.snapshots[t].reshape(SIDE, SIDE) if t else values
            image = axes.imshow(x, cmap="cividis", vmin=0.0, vmax=1.0)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_title(f"{t / 1000:.0f}" if t else "start", fontsize=9)
        row[0].set_ylabel(name)
    left.suptitle("the nodes at time $t$, in thousands (about as many exchanges)", fontsize=10)
    left.colorbar(image, ax=maps, shrink=0.8, label="the value at a node")
    axes = right.subplots()
    for (name, outcome), color, line in zip(found.items(), (BLUE, INK), ("--", "-"), strict=True):
        thousands, error = outcome.trace.messages / 1000, outcome.trace.error
        axes.semilogy(thousands, error, color=color, lw=1.4, ls=line, label=name)
    axes.legend(frameon=False)
    axes.set(xlim=(0, END / 1000), xlabel="thousand exchanges between neighbours")
    axes.set_title("squared error, relative to the start", fontsize=10)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "gossip_grid.png", dpi=200)
