"""Gossip on a grid: nodes that only talk to their neighbours agree on their mean.

Run `python examples/gossip_grid.py [FOLDER]`; makes FOLDER/gossip_grid.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from continuized import network, plot

INK, BLUE = "#111111", "#1f78b4"
SIDE, END = 30, 160_000.0
TIMES = [5_000.0, 20_000.0, 40_000.0]
graph = network.Graph.of(f"grid:{SIDE}x{SIDE}")
values = np.zeros((SIDE, SIDE))
values[:, : SIDE // 2] = 1.0  # on the left 1, on the right 0: they should agree on 1/2
found = {
    name: network.simulate(graph, values.ravel(), name, tol=1e-8, until=END, snapshots=TIMES, seed=0)
    for name in ("plain", "accelerated")
}

with plot.settings():
    figure = plt.figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(5, 3))
    maps = left.subplots(2, 1 + len(TIMES))
    for row, (name, outcome) in zip(maps, found.items(), strict=True):
        for axes, t in zip(row, [0.0, *TIMES], strict=True):
            x = outcome.snapshots[t].reshape(SIDE, SIDE) if t else values
            image = axes.imshow(x, cmap="PuOr", vmin=0.0, vmax=1.0)
            axes.set(xticks=[], yticks=[], title=f"$t = {t:,.0f}$")
        row[0].set_ylabel(name)
    left.colorbar(image, ax=maps, shrink=0.6, label="$x$ of a node")
    axes = right.subplots()
    for (name, outcome), color in zip(found.items(), (BLUE, INK), strict=True):
        axes.semilogy(outcome.trace.messages, outcome.trace.error, color=color, label=name)
    axes.legend(frameon=False)
    axes.set(xlabel="exchanges between neighbours", ylabel="squared error, relative to the start")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "gossip_grid.png", dpi=200)
