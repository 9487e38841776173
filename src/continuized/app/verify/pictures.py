"""Two pictures for the report: the mean against its bound, and phi and the scaling limit."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized import theory
from continuized.app.report import Picture
from continuized.app.verify.paper import small_convex
from continuized.plot import style
from continuized.plot.figures import make_two_panels
from continuized.problems import Quadratic, paper_convex, paper_strongly_convex
from continuized.problems.base import Array
from continuized.process.methods import Continuized
from continuized.solver.ensemble import ensemble
from continuized.solver.minimize import minimize

RUNS, LEVEL = 20_000, 1e-3
PATHS, EVENTS = 40, 150
SCALES = np.geomspace(1e2, 1e5, 4)
ROOM = (0.085, 0.38, 0.74)  # the first panel's left end, and a panel's width and height
INK, BLUE, ORANGE = (
    style.STYLES[name].color for name in ("continuized", "nesterov", "gradient-descent")
)


def pictures(seed: int) -> list[Picture]:
    """Draw, with matplotlib, the means with their bounds, and phi with the scaling limit."""
    with style.settings():
        return [_means(seed), _limits(seed)]


def _means(seed: int) -> Picture:
    drawing, (left, right) = make_two_panels(("convex", "strongly convex"), *ROOM)
    _draw_mean(left, paper_convex(), np.linspace(0.5, 30.0, 60), seed)
    _draw_mean(right, paper_strongly_convex(), np.linspace(0.5, 60.0, 60), seed)
    return Picture(
        style.to_bytes(drawing, "svg"),
        "E f(x_t) - f* on the paper's functions: exact, sampled, and bounded",
        f"The mean of f(x_t) - f*: exact (line), its bound of Theorem 3 (dashed), the mean of "
        f"{RUNS:,} runs with its interval of level {1 - LEVEL:g} (circles), and their median "
        "(dotted). As t grows the law is so skewed that the exact mean is carried by runs too "
        "rare to be sampled: the circles fall below the line, and no check compares them there.",
    )


def _draw_mean(axes: Any, p: Quadratic, times: Array, seed: int) -> None:
    method, x0 = Continuized(p.L, p.mu), np.zeros(p.dim)
    exact = theory.moments(p, method, x0, times).fun
    e = ensemble(p, method, x0, runs=RUNS, times=times, rng=seed)
    (low, high), mean, some = e.interval(LEVEL), e.mean(), slice(1, None, 6)
    bars = np.maximum([mean - low, high - mean], 0.0)[:, some]
    axes.plot(times, theory.bound(method, p, x0, t=times), "--", color=BLUE, lw=0.9, label="bound")
    axes.plot(times, exact, color=INK, lw=1.1, label="exact mean")
    look = {"fmt": "o", "ms": 3.4, "mfc": "white", "color": ORANGE, "lw": 0.9}
    axes.errorbar(times[some], mean[some], bars, label="mean of runs", **look)
    axes.plot(times, e.quantile(0.5), ":", color=INK, lw=0.9, label="median run")
    axes.set(xlabel="time $t$", ylabel=r"$f(x_t) - f(x_{\star})$")
    axes.legend(frameon=False, fontsize=8)


def _limits(seed: int) -> Picture:
    titles = ("the Lyapunov function", "the scaling limit")
    drawing, (left, right) = make_two_panels(titles, *ROOM)
    _phi_panel(left, seed)
    _scaling_panel(right)
    return Picture(
        style.to_bytes(drawing, "svg"),
        "phi_t along paths, and the distance of the process to its scaling limit",
        f"Left: phi_t / phi_0 along {PATHS} paths on the strongly convex function, and their mean "
        "(black): a supermartingale, which falls in the mean, not on every path. Right: the exact "
        "root mean square distance of the process to the differential equation of appendix D, "
        "against L; the lines have the slope -1/4 of the clock's own fluctuations.",
    )


def _phi_panel(axes: Any, seed: int) -> None:
    p = paper_strongly_convex()
    times, curves = np.linspace(0.0, 80.0, 161), []
    for i in range(PATHS):
        r = minimize(p, np.zeros(p.dim), rng=seed + i, maxiter=EVENTS, record="path")
        if r.trace.t[-1] >= times[-1]:
            phi = theory.lyapunov(r, p)
            curves.append(phi.at(times) / phi.phi[0])
    for curve in curves:
        axes.plot(times, curve, color=BLUE, lw=0.5, alpha=0.5)
    axes.plot(times, np.mean(curves, axis=0), color=INK, lw=1.3)
    axes.set(xlabel="time $t$", ylabel=r"$\varphi_t / \varphi_0$")


def _scaling_panel(axes: Any) -> None:
    cases = (
        ("convex", small_convex(), "o", INK),
        ("strongly convex", paper_strongly_convex(), "s", ORANGE),
    )
    for name, p, marker, color in cases:
        found = theory.expected_scaling_distance(p, np.zeros(p.dim), 4.0, SCALES)
        axes.plot(SCALES, found.distance, marker, ms=4, mfc="white", color=color, label=name)
        through = found.distance[-1] * (SCALES / SCALES[-1]) ** -0.25
        axes.plot(SCALES, through, color=color, lw=0.8)
    axes.set(xscale="log", xlabel="$L$", ylabel="distance to the ODE")
    axes.legend(frameon=False, fontsize=8)
