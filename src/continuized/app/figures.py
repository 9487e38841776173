"""The experiments of the paper's figures 1 and 2, as data.

Figure 1: gradient descent, Nesterov acceleration and one run of the continuized
acceleration, from x_0 = z_0 = 0, on a convex and on a strongly convex function.
Figure 2: the same from the optimum, with Gaussian noise of covariance 1e-4 Id on the
gradients, which shows the effect of the noise alone.

A discrete method stands at its iteration k; the continuized one at the time t = T_k of its
k-th gradient.  That is where its theorem speaks, and on average T_k = k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from continuized.app.commands import to_csv
from continuized.plot.curves import make_curve
from continuized.plot.figures import Figure, Panel
from continuized.problems import Quadratic, paper_convex, paper_strongly_convex
from continuized.process.methods import Continuized, GradientDescent, Nesterov
from continuized.process.noise import Gaussian
from continuized.solver.minimize import minimize

NOISE = Gaussian(1e-4)
DELTA = 0.1  # the probability with which a whole run may leave its curve


# A name, a formula, the function, and how many steps show its picture well, in each figure.
Function = tuple[str, str, Callable[[], Quadratic], tuple[int, int]]
FUNCTIONS: tuple[Function, ...] = (
    ("convex", "½ Σ (x_i − 1/i)² / i², i = 1, …, 100", paper_convex, (1000, 1000)),
    (
        "strongly convex",
        "(µ/2)(x₁ − 1)² + (3µ/2)(x₂ − 1)² + (L/2)(x₃ − 1)², µ = 0.01, L = 1",
        paper_strongly_convex,
        (150, 300),
    ),
)


def figures(seed: int, steps: int | None = None) -> tuple[Figure, Figure]:
    """Both figures.  The seed gives the event times and the noise, the same for all panels."""
    return (
        Figure(
            1,
            "Gradient descent, Nesterov acceleration and its continuized version",
            "f(x_k) − f(x*) on a convex function (left) and on a strongly convex one (right), "
            "from x_0 = z_0 = 0; the continuized acceleration is a single run, drawn at the "
            "times t = T_k of its gradients. Dashed: the theorems' bounds. Dotted: what such a run "
            "stays below for ever with probability 0.9.",
            "Theorems 1 and 2 bound every f(x_k) - f*. Theorem 3 bounds the mean of "
            "f(x_t) - f* over the random clock, at time t. A single run stays below the dotted "
            "curve (path_bound) at all times, with probability at least 0.9.",
            tuple(_panel(function, seed, steps, noisy=False) for function in FUNCTIONS),
        ),
        Figure(
            2,
            "The effect of additive noise",
            "As in figure 1, but started at the optimum, x_0 = z_0 = x*, with Gaussian noise of "
            "covariance 10⁻⁴ Id on the gradients; single runs with the same noise. Dashed: "
            "the bound of Theorem 6 on the continuized acceleration.",
            "Theorem 6 bounds the mean of f(x_t) - f* over the random clock and the noise, at "
            "time t: at any one time, a single run is above ten times the bound with probability "
            "at most 0.1 (Markov's inequality). The paper has no bound with noise for the other "
            "two methods, and no bound of whole noisy runs is known here.",
            tuple(_panel(function, seed, steps, noisy=True) for function in FUNCTIONS),
        ),
    )


def _panel(function: Function, seed: int, steps: int | None, noisy: bool) -> Panel:
    name, formula, problem, usual = function
    p, curves = problem(), []
    x0, noise = (p.x_star, NOISE) if noisy else (np.zeros(p.dim), None)
    maxiter = usual[noisy] if steps is None else steps
    for method in (GradientDescent(p.L), Nesterov(p.L, p.mu), Continuized(p.L, p.mu)):
        r = minimize(p, x0, method=method, noise=noise, rng=seed, maxiter=maxiter)
        curves.append(make_curve(r, p, bounds=True, delta=DELTA))
    return Panel(name, formula, tuple(curves))


def rows(
    figure: Figure, panel: Panel, ks: tuple[int, ...] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the data of a figure's panel at the steps `ks`, or at all of them.

    The bounds are None where there is no theorem or it says nothing.
    """
    for curve in panel.curves:
        whole = np.full(len(curve.k), math.nan) if curve.path_bound is None else curve.path_bound
        columns = (curve.k, curve.t, curve.excess, curve.bound, whole)
        for k, t, excess, b, w in zip(*(column.tolist() for column in columns), strict=True):
            if ks is None or k in ks:
                yield {
                    "figure": figure.number,
                    "panel": panel.name,
                    "method": curve.method,
                    "theorem": curve.theorem,
                    "k": k,
                    "t": t,
                    "excess": excess,
                    "bound": b if math.isfinite(b) else None,
                    "path_bound": w if math.isfinite(w) else None,
                }


def csv_text(figure: Figure) -> str:
    """All the data of a figure, one row per method and step, numbers to the last bit."""
    header = ("panel", "method", "k", "t", "excess", "bound", "path_bound", "theorem")
    shown = (row for panel in figure.panels for row in rows(figure, panel))
    return to_csv(header, ([row[name] for name in header] for row in shown))
