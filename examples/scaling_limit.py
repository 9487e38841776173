"""The scaling limit: as L grows, the jumping process becomes an ordinary differential equation.

Run `python examples/scaling_limit.py [FOLDER]`; makes FOLDER/scaling_limit.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import continuized as cz
from continuized.plot import style as plot

INK = "#111111"
LOOKS = {1e1: "#e08a1e", 1e3: "#1f78b4", 1e5: "#7b3294"}
END = 10.0
p = cz.problems.Quadratic([1.0], [0.0], mu=0.0)
x0 = [1.0]
s = np.linspace(0.0, END, 1000)

with plot.settings():
    figure, (paths, rate) = plt.subplots(
        1, 2, figsize=(8.4, 3.4), width_ratios=(5, 3), layout="constrained"
    )
    for L, color in LOOKS.items():
        # f is 1-smooth, hence L-smooth for every larger L, which only makes the steps smaller.
        end = END * np.sqrt(L)
        events = int(end + 10.0 * np.sqrt(end))  # by then the clock has passed the end
        r = cz.minimize(p, x0, method=cz.Continuized(L), maxiter=events, rng=1, record="path")
        x = [r.at(t)[0][0] for t in s * np.sqrt(L)]
        power = int(np.log10(L))
        label = "one run, $L = 10$" if power == 1 else f"one run, $L = 10^{power}$"
        paths.plot(s, x, color=color, lw=1.0, label=label)
    limit = cz.theory.scaling_limit(p, x0, s)[:, 0]
    equation = r"$\ddot x + (3/s)\,\dot x + \nabla f(x) = 0$"
    paths.plot(s, limit, "--", color=INK, lw=1.2, label=equation)
    paths.legend(frameon=False, fontsize=8.5)
    paths.set(xlim=(0.0, END), title=r"$f(x) = x^2 / 2$", ylabel=r"$x_{s \sqrt{L}}$")
    paths.set_xlabel(r"rescaled time $s = t / \sqrt{L}$")

    scales = np.geomspace(1e1, 1e5, 5)
    found = cz.theory.expected_scaling_distance(p, x0, 4.0, scales)
    line = found.distance[-1] * (scales / scales[-1]) ** -0.25
    rate.loglog(scales, line, color=INK, lw=0.8, label="slope $-1/4$")
    rate.loglog(scales, found.distance, "o", color=INK, mfc="white", label="exact")
    rate.legend(frameon=False, fontsize=8.5)
    rate.set(xlabel="$L$", ylim=(1e-2, 1.0), title="root mean square distance, $s \\leq 4$")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure.savefig(folder / "scaling_limit.png", dpi=200)
