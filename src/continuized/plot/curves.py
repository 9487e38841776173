"""Curves along a run: f above its minimum with its bounds, many runs at once, phi, and rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.plot.lines import Line, choose_markers, draw_lines, find_limits, mask
from continuized.plot.style import DASHES, GREY, INK, STYLES, choose_styles, open_axes
from continuized.problems.base import Array, Problem, check_problem
from continuized.problems.quadratic import Quadratic
from continuized.process.methods import METHODS, Continuized, SharpContinuized
from continuized.support import validation as check
from continuized.theory.bounds import THEOREMS, bound, log_bound
from continuized.theory.bounds.sharp import path_bound
from continuized.theory.checks import check_constants_hold, check_path
from continuized.theory.composite import as_composite_problem, with_minimiser

if TYPE_CHECKING:
    from continuized.solver.ensemble import Ensemble
    from continuized.solver.result import Result

# What the bound of a method is called; with noise, that of the continuized one is another.
THEOREM_NAMES = {
    "gradient-descent": "Theorem 1",
    "nesterov": "Theorem 2",
    "continuized": "Theorem 3",
    "sharp": "Theorem B",
}
WITH_NOISE, QUASAR_CONVEX = "Theorem 6", "quasar-convex"
WHOLE, WHOLE_DASHES = "whole run, 90 %", (0.8, 1.2)
TIMED = (Continuized, SharpContinuized)  # their theorems speak of times
STEPS = "gradient steps $k$  (continuized: time $t$)"
EXCESS = r"$f(x_k) - f(x_{\star})$"
ABOVE_LOWEST = "$f(x_k)$ above the lowest seen"
BANDS = ((0.05, 0.95, "#dddddd"), (0.25, 0.75, "#b5b5b5"))
BETWEEN = 6  # points between two events of a path of phi
MANY_EVENTS = 500  # the points between them are not seen any more
KAPPAS = (1e0, 1e6)
LARGEST_KAPPA = 1e16  # beyond, 1 - sqrt(mu/L) and the like are rounding


class Curve(NamedTuple):
    """f(x_k) - f* of one run, row by row, and the theorem's bound (NaN where there is none).

    t: where a row is drawn.  path_bound: where a whole run stays below a curve with a stated
    probability, that curve.  name: what is written beside it; by default the method's.
    """

    method: str
    theorem: str
    k: Array
    t: Array
    excess: Array
    bound: Array
    path_bound: Array | None = None
    name: str = ""

    @property
    def label(self) -> str:
        """What the curve is called in print."""
        return self.name or spell(self.method)


def spell(method: str) -> str:
    """Write the name of a method as it is called in print.

    >>> spell("nesterov"), spell("gradient-descent")
    ('Nesterov', 'gradient descent')
    """
    return {"nesterov": "Nesterov"}.get(method, method.replace("-", " "))


def convergence(
    results: Result | Ensemble | Sequence[Any] | Mapping[str, Any],
    problem: Problem | None = None,
    *,
    bounds: bool = True,
    scale: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw f(x_k) - f* of runs, with the theorems' bounds; of networks, their error.

    A discrete method is drawn at its iteration k, the continuized one at the time t = T_k of its
    k-th gradient: that is where its theorem speaks.  If one of the runs is of a marked method, all
    are drawn against passes over the data.  Of an ensemble, the mean is drawn.  Of runs on
    networks, the error is drawn against exchanges, on logarithmic axes, without bounds.

    Parameters
    ----------
    results : a result of `minimize`, an ensemble, a sequence of them, or a dict {name: result}
        The names are written in the legend; by default those of the methods.  All may also be what
        `network.simulate`, `network.run` or `network.minimize` gives.
    problem : Problem
        What was minimised.  Where it does not know its minimum, a run of at most 50,000 events
        finds it.  Without a problem, f is drawn above the lowest value seen, without bounds.
    bounds : bool
        Draw, dashed, the bound on each run that a theorem covers: those with known constants that
        hold, of Theorems 1, 2, 3, 6 and B.  The last three bound the mean; for one run there is
        `cz.theory.path_bound`.
    scale : "log", "linear" or None
        Of the horizontal axis; by default "log" where no method knows a mu > 0.
    ax : axes of matplotlib
        Where to draw; by default on a new figure, `ax.figure` of what is returned.

    Returns
    -------
    axes of matplotlib

    Raises
    ------
    TypeError, ValueError
        For what is no result, a run that was not recorded, and a minimum that is not found.
    ImportError
        Where matplotlib is missing.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> runs = [cz.minimize(p, [0, 0, 0], method=m, maxiter=50, rng=0)
    ...         for m in ("gradient-descent", "nesterov", "continuized")]
    >>> ax = cz.plot.convergence(runs, p)
    >>> [line.get_label() for line in ax.lines][:2]
    ['gradient descent', 'bound, Theorem 1']
    """
    named = _list_results(results)
    check.flag(bounds, "bounds")
    if scale is not None:
        check.one_of(scale, "scale", ("log", "linear"), other="None")
    if problem is not None:
        check_problem(problem)
    if _are_of_networks(named):
        if problem is not None:
            raise ValueError("the error of a run on a network needs no problem: drop problem=")
        from continuized.plot.networks import draw_convergence

        with open_axes(ax) as axes:
            draw_convergence(axes, named, scale or "log")
        return axes
    by_passes = any("passes" in run for _, run in named if not _is_ensemble(run))
    known = _knows_minimum(problem, bounds)
    lowest = 0.0 if known else min(_find_lowest(run) for _, run in named)
    base = problem if known else None
    curves = [make_curve(run, base, bounds, name, lowest, by_passes) for name, run in named]
    if scale is None:
        scale = "linear" if any(_knows_mu(run, problem) for _, run in named) else "log"
    with open_axes(ax) as axes:
        draw_curves(axes, curves, scale)
        axes.set_xlabel("passes over the data" if by_passes else STEPS)
        axes.set_ylabel(EXCESS if known else ABOVE_LOWEST)
    return axes


def draw_curves(axes: Any, curves: Sequence[Curve], scale: str, beside: bool = False) -> None:
    """Draw curves and their bounds on axes with logarithmic values."""
    last = max(2.0, *(float(curve.t[-1]) for curve in curves))
    first = 1.0 if scale == "log" else 0.0
    # At the start, bounds are infinite or large.
    parts = [v for c in curves for v in (c.excess[c.t >= first], c.bound[c.t >= 1.0])]
    axes.set(yscale="log", xscale=scale, xlim=(first, last), ylim=find_limits(parts))
    styles = choose_styles([curve.method for curve in curves])
    lines = []
    for order, (curve, style) in enumerate(zip(curves, styles, strict=True)):
        t = curve.t if scale == "linear" else mask(curve.t)
        marks = choose_markers(curve.t, scale, order)
        lines.append(Line(curve.label, t, mask(curve.excess), style, marks))
        if curve.theorem:
            dashes, words = DASHES[order % len(DASHES)], f"bound, {curve.theorem}"
            lines.append(Line(words, t, mask(curve.bound), style, dashes=dashes))
        if curve.path_bound is not None:
            whole = mask(curve.path_bound)
            lines.append(Line(WHOLE, t, whole, style, dashes=WHOLE_DASHES))
    draw_lines(axes, lines, beside)


def make_curve(
    run: Any, problem: Problem | None, bounds: bool, name: str = "", lowest: float = 0.0,
    by_passes: bool = False, delta: float | None = None,
) -> Curve:  # fmt: skip
    """Make the curve of a run, above `lowest` where the problem is not given.

    delta: the probability with which a whole run may leave its curve, if that is asked for.
    Raises ValueError where the minimum is neither known nor found.
    """
    if _is_ensemble(run):
        steps = np.arange(run.moments.mean.size)
        k, t, fun = steps, run.times if run.times is not None else steps, run.mean()
    else:
        k, fun = run.trace.k, np.asarray(run.trace.fun, np.float64)
        t = run.trace.passes if by_passes else run.trace.t
    method, t = run.method, np.asarray(t, np.float64)
    limits = np.full(len(fun), np.nan)
    title = getattr(method, "name", "runs")
    if problem is None:
        return Curve(title, "", k, t, fun - lowest, limits, None, name)
    F, x0 = _with_minimum(run, problem), np.asarray(run.x0)
    assert F.f_star is not None
    theorem, whole = _find_theorem(run, F) if bounds else "", None
    if theorem:
        times = run.times if _is_ensemble(run) else run.trace.t
        at = {"t": times} if isinstance(method, TIMED) else {"k": k}
        options = dict(_options_of(run))
        if options:
            options["x_star"] = F.x_star
        with np.errstate(over="ignore"):
            limits = bound(method, problem if options else F, x0, sigma2=_sigma2_of(run), **at,
                            z0=_arguments_of(run).get("z0"), **options)  # fmt: skip
        alone = not options and _sigma2_of(run) == 0.0 and _arguments_of(run).get("z0") is None
        if delta is not None and alone and isinstance(method, TIMED):
            whole = path_bound(method, F, x0, times, delta)
    return Curve(title, theorem, k, t, fun - F.f_star, limits, whole, name)


def ensemble(
    e: Ensemble, problem: Problem | None = None, *, bounds: bool = True, ax: Any = None
) -> Any:
    """Draw many runs at once: their median, where 50 and 90 % of them lie, and their mean.

    e: an ensemble with keep="all", for quantiles need every run; ValueError where only means were
    kept.  problem, bounds, ax, what is returned and the other errors: as for `convergence`; the
    bound, of Theorem 3 or 6, is one on the mean at fixed times.

    >>> import numpy as np
    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> times = np.linspace(0.0, 40.0, 81)
    >>> e = cz.ensemble(p, cz.Continuized(p.L, p.mu), [0, 0, 0], runs=200, times=times, rng=0)
    >>> ax = cz.plot.ensemble(e, p)
    >>> [line.get_label() for line in ax.lines]
    ['mean of 200 runs', 'bound, Theorem 3', 'median']
    """
    from continuized.solver.ensemble import Ensemble

    check.instance(e, "e", Ensemble, "an ensemble, what cz.ensemble gives")
    check.flag(bounds, "bounds")
    levels = e.quantile([0.5, *(q for low, high, _ in BANDS for q in (low, high))])
    if problem is not None:
        check_problem(problem)
    known = _knows_minimum(problem, bounds)
    lowest = 0.0 if known else _find_lowest(e)
    curve = make_curve(e, problem if known else None, bounds, f"mean of {e.runs} runs", lowest)
    base = float(np.nanmax(e.mean() - curve.excess))
    with open_axes(ax) as axes:
        draw_curves(axes, [curve], "linear" if _knows_mu(e, problem) else "log")
        for number, (low, high, grey) in enumerate(BANDS):
            ends = (mask(level - base) for level in levels[1 + 2 * number : 3 + 2 * number])
            words = f"{100 * (high - low):.0f} % of the runs"
            axes.fill_between(curve.t, *ends, color=grey, lw=0, label=words, zorder=0.5)
        median = mask(levels[0] - base)
        axes.plot(curve.t, median, color=INK, lw=1.0, ls=(0, (1.0, 1.6)), label="median")
        low, high = find_limits([curve.excess, levels[1] - base, levels[2] - base, curve.bound[1:]])
        axes.set_ylim(low, high)
        axes.set_xlabel("time $t$" if e.times is not None else "events $k$")
        words = EXCESS if known else ABOVE_LOWEST
        axes.set_ylabel(words if e.times is None else words.replace("x_k", "x_t"))
        axes.legend(frameon=False, fontsize="small")
    return axes


def lyapunov(r: Result, problem: Problem, *, ax: Any = None) -> Any:
    """Draw phi_t / phi_0 along a path: between events, and at them, where it jumps.

    phi_t = A_t (f(x_t) - f*) + B_t |z_t - x*|^2 falls in the mean, which proves Theorem 3: the
    mean lies below the dashed line, and a path may rise above it.

    r: a result of `minimize` with record="path", of the continuized method.  problem: what was
    minimised; where it does not know its minimiser, a run finds it.  ax, what is returned and the
    errors: as for `convergence` and `cz.theory.lyapunov`.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> r = cz.minimize(p, [0, 0, 0], maxiter=30, rng=0, record="path")
    >>> ax = cz.plot.lyapunov(r, p)
    >>> float(ax.lines[0].get_ydata()[0])
    1.0
    """
    from continuized.theory.lyapunov import lyapunov as find_phi

    check_path(r)
    check_problem(problem)
    if not _options_of(r):
        problem = with_minimiser(problem, np.asarray(r.x0))
    phi = find_phi(r, problem)
    events = np.asarray(phi.t)
    inner = np.linspace(0.0, 1.0, BETWEEN if len(events) <= MANY_EVENTS else 2)[1:-1]
    starts, ends = events[:-1], events[1:]
    between = starts[:, None] + (ends - starts)[:, None] * inner
    values = np.column_stack([
        phi.log_phi[:-1], phi.log_at(between.ravel()).reshape(between.shape),
        phi.log_at(ends, side="left"),
    ])  # fmt: skip
    times = np.column_stack([starts, between, ends])
    values = np.exp(values - phi.log_phi[0])
    gap = np.full((len(starts), 1), np.nan)
    pieces = [np.column_stack([part, gap]).ravel() for part in (times, values)]
    after = np.exp(phi.log_phi[1:] - phi.log_phi[0])
    jumps = [np.column_stack([ends, ends, gap]).ravel(),
             np.column_stack([values[:, -1], after, gap]).ravel()]  # fmt: skip
    style = STYLES["continuized"]
    with open_axes(ax) as axes:
        axes.plot(*pieces, color=style.color, lw=1.4, label=r"$\varphi_t\,/\,\varphi_0$")
        axes.plot(*jumps, color=style.color, lw=0.7, ls=":", label="jumps")
        axes.axhline(1.0, color=GREY, lw=0.9, ls=(0, DASHES[0]), label="the mean is below")
        axes.set(yscale="log", xlim=(0.0, float(events[-1])), xlabel="time $t$",
                 ylabel=r"$\varphi_t\,/\,\varphi_0$")  # fmt: skip
        axes.legend(frameon=False, fontsize="small")
    return axes


def rates(kappas: ArrayLike | None = None, *, ax: Any = None) -> Any:
    """Draw the proved rates of the methods against the condition number kappa = L / mu.

    A rate is r where the bound falls as e^{-rk}, or e^{-rt}, of `cz.theory.bound`; there is a gap
    where a theorem says nothing.

    kappas: numbers > 1, by default from 1 to a million; TypeError or ValueError for others.  ax,
    what is returned and the other errors: as for `convergence`.

    >>> import continuized as cz
    >>> ax = cz.plot.rates([10.0, 100.0])
    >>> sorted(line.get_label() for line in ax.lines)
    ['Nesterov', 'continuized', 'gradient descent', 'sharp']
    """
    if kappas is None:
        kappas = np.geomspace(*KAPPAS, 61)[1:]
    at = check.array(kappas, "kappas", dtype=np.float64, ndim=1, above=1.0)
    if not at.size:
        raise ValueError("kappas must be one number or more, got none")
    if float(at.max()) > LARGEST_KAPPA:
        raise ValueError(f"kappas must be at most {LARGEST_KAPPA:g}, got {float(at.max()):.6g}")
    at = np.sort(at)
    names = [name for name, kind in METHODS.items() if kind in THEOREMS]
    styles = choose_styles(names)
    with open_axes(ax) as axes:
        found = {name: np.array([_find_rate(name, kappa) for kappa in at]) for name in names}
        axes.set(xscale="log", yscale="log", xlabel=r"condition number $L\,/\,\mu$",
                 ylabel="proved rate, per gradient", ylim=find_limits(found.values()))  # fmt: skip
        axes.set_xlim(float(at[0]), max(float(at[-1]), 1.001 * float(at[0])))
        lines = []
        for order, (name, style) in enumerate(zip(names, styles, strict=True)):
            marks = choose_markers(at, "log", order, first=float(at[0]))
            lines.append(Line(spell(name), at, mask(found[name]), style, marks))
        draw_lines(axes, lines)
    return axes


def _find_rate(name: str, kappa: float) -> float:
    """Find how fast the bound of a method falls, between two times at which it is known well."""
    p = Quadratic([1.0, 1.0 / kappa])
    method = METHODS[name](p.L) if name == "gradient-descent" else METHODS[name](p.L, p.mu)
    steps = np.array([1, 2]) * int(np.ceil(kappa))
    at: dict[str, Any] = {"t" if isinstance(method, TIMED) else "k": steps}
    try:
        logs = log_bound(method, p, np.ones(2), **at)
    except ValueError:  # the theorem is not for every L / mu
        return np.nan
    return float(logs[0] - logs[1]) / float(steps[0])


def _is_ensemble(run: Any) -> bool:
    from continuized.solver.ensemble import Ensemble

    return isinstance(run, Ensemble)


def _list_results(results: Any) -> list[tuple[str, Any]]:
    """Return pairs (name, run); the name is "" where none was given."""
    from continuized.network.result import NetworkResult
    from continuized.solver.ensemble import Ensemble
    from continuized.solver.result import Result

    what = "results of cz.minimize, ensembles, or outcomes of networks"
    if isinstance(results, Result | Ensemble | NetworkResult):
        named = [("", results)]
    elif isinstance(results, Mapping):
        named = [(str(name), run) for name, run in results.items()]
    else:
        named = [("", run) for run in check.sequence(results, "results", what)]
    if not named:
        raise ValueError("results must be one or more, got none")
    for _, run in named:
        check.instance(run, "results", Result | Ensemble | NetworkResult, what)
        if isinstance(run, Result):
            _check_trace(run)
    return named


def _are_of_networks(named: Sequence[tuple[str, Any]]) -> bool:
    """Tell whether the runs are of networks; ValueError where only some are."""
    from continuized.network.result import NetworkResult

    kinds = {isinstance(run, NetworkResult) for _, run in named}
    if len(kinds) > 1:
        raise ValueError("runs on networks and others have no common axes: draw them apart")
    return kinds.pop()


def _check_trace(r: Any) -> None:
    """Raise ValueError for a run of which only the start and the end are known."""
    trace = r.get("trace")
    if trace is None or (len(trace) <= 2 < r.nit):
        raise ValueError("the run was not recorded; call minimize with record=True")


def _find_lowest(run: Any) -> float:
    """Find the least value of f that was seen in a run, or of the means of an ensemble."""
    if not _is_ensemble(run):
        return float(np.nanmin(run.trace.fun))
    return float(np.nanmin(run.mean() if run.fun is None else run.fun))


def _options_of(run: Any) -> dict[str, Any]:
    """Return the prox and the mirror of a run, where it had any."""
    given = _arguments_of(run)
    return {name: given.get(name) for name in ("prox", "mirror") if given.get(name) is not None}


def _arguments_of(run: Any) -> Any:
    """Return what a run was given beside its problem, by name."""
    return run.given if _is_ensemble(run) else run


def _sigma2_of(run: Any) -> float:
    noise = _arguments_of(run).get("noise")
    return 0.0 if noise is None else float(noise.sigma2(np.asarray(run.x0).size))


def _knows_mu(run: Any, problem: Problem | None) -> bool:
    mu = getattr(run.method, "mu", 0.0)
    return bool(mu > 0.0) or (problem is not None and bool(problem.mu))


def _knows_minimum(problem: Problem | None, bounds: bool) -> bool:
    """Tell whether f* is drawn at 0: it is known, or worth finding for the sake of bounds."""
    return problem is not None and (bounds or problem.f_star is not None)


def _with_minimum(run: Any, problem: Problem) -> Problem:
    """Return what was minimised, with its minimiser and its minimum."""
    x0, options = np.asarray(run.x0, np.float64), _options_of(run)
    if options:
        both = options.get("prox"), options.get("mirror")
        return as_composite_problem(problem, x0, *both, None)
    return with_minimiser(problem, x0)


def _find_theorem(run: Any, F: Problem) -> str:
    """Return the name of the theorem that covers a run; "" where none does."""
    method, sigma2 = run.method, _sigma2_of(run)
    if not any(kind in THEOREMS for kind in type(method).__mro__):
        return ""
    if not _is_ensemble(run) and "constants" in run:  # found on the way, or those of marks
        return ""
    if (sigma2 > 0.0 or _options_of(run)) and not isinstance(method, Continuized):
        return ""
    if _arguments_of(run).get("z0") is not None and isinstance(method, SharpContinuized):
        return ""
    if _is_ensemble(run) and isinstance(method, TIMED) and run.times is None:
        return ""  # at the k-th event, what is bounded has a weight
    try:
        check_constants_hold(method, F)
        if isinstance(method, SharpContinuized):  # whose theorem is not for every L / mu
            log_bound(method, F, np.asarray(run.x0), t=0.0)
    except ValueError:
        return ""
    if sigma2 > 0.0:
        return WITH_NOISE
    if not method.assumes_convexity:
        return QUASAR_CONVEX
    return str(THEOREM_NAMES.get(method.name, method.name))
