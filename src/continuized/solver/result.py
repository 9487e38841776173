"""What a run gives back: its status, its trace, and its path."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult

from continuized.problems.base import Array
from continuized.process.flow import mix
from continuized.process.methods import Method
from continuized.support.validation import brief, is_real


class ConstantsWarning(UserWarning):
    """The gradients seen contradict the L or mu that was given.

    A run warns once and goes on; make it an error to stop there.

    >>> import warnings
    >>> import continuized as cz
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", cz.ConstantsWarning)
    ...     try:
    ...         _ = cz.minimize(cz.problems.Quadratic([1.0, 4.0]), [1.0, 1.0], L=1.0, rng=0)
    ...     except cz.ConstantsWarning as seen:
    ...         print(seen)
    L = 1 is too small: two gradients show that L is at least 4
    """


class Status(Enum):
    """Why a run ended.  The value is the sentence that the user reads.

    >>> Status.COMPLETED.value, Status.COMPLETED.success, Status.MAXITER.success
    ('All the steps asked for were taken.', True, False)
    """

    CONVERGED = "The gradient norm is at most tol."
    COMPLETED = "All the steps asked for were taken."
    MAXITER = "The limit of steps, maxiter, was reached before the gradient norm fell to tol."
    CLOCK_ENDED = "The recorded clock has no further events."
    CALLBACK = "The callback raised StopIteration."
    NOT_FINITE = (
        "A value of f, a gradient or an iterate was not finite; x is the last good point. "
        "A larger L, or a fun and jac without overflow, may help."
    )
    DIVERGED = (
        "The gradients grew ten billion times: the run diverges; x is the last point before "
        "that. L is probably too small, or mu too large."
    )

    @property
    def success(self) -> bool:
        """Whether the run did what was asked of it."""
        return self in (Status.CONVERGED, Status.COMPLETED)


class Trace:
    """One row per event, row 0 the start: k, the time t = T_k, and fun = f(x_k).

    Where L is found on the way, or there is a metric, fun is f where the event asked for a
    gradient (x_k would cost a further evaluation); with prox, f + h after the event, as
    estimated from there (`prox.value_after_step`).

    Without recording (`record=False`), only the start and the end.  `passes` counts passes over
    the data (events times their cost, over the size of the data); a marked method has one row a
    pass, a full gradient is a pass.

    >>> import continuized as cz
    >>> trace = cz.minimize(cz.problems.Quadratic([1.0]), [1.0], L=2.0, maxiter=3, rng=0).trace
    >>> trace.k.tolist(), trace.t.round(3).tolist(), trace.passes.tolist()
    ([0, 1, 2, 3], [0.0, 3.294, 4.057, 5.309], [0.0, 1.0, 2.0, 3.0])
    """

    def __init__(self, k: Array, t: Array, fun: Array, passes: Array | None = None) -> None:
        self.k, self.t, self.fun = k, t, fun
        self.passes = k.astype(np.float64) if passes is None else passes

    def __len__(self) -> int:
        return len(self.k)

    def __repr__(self) -> str:
        return f"Trace({len(self)} rows: k, t, fun, passes)"


class Path(NamedTuple):
    """The states (x_k, z_k) after each event, with the drawn gaps; row 0 is the start.

    t: the times T_k.  dt: the gaps before them, as drawn.  x, z: a state to a row.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> cz.minimize(p, [0.0, 0.0], maxiter=3, rng=0, record="path").path.x.shape
    (4, 2)
    """

    t: Array
    dt: Array
    x: Array
    z: Array

    def __repr__(self) -> str:
        return f"Path({len(self.t)} states)"


class Result(OptimizeResult):  # type: ignore[misc]
    """The outcome of `minimize`, a SciPy OptimizeResult, and a path where one was recorded.

    Attributes
    ----------
    x, fun, jac
        The last point, f there, and its gradient there.
    nit, nfev, njev : int
        Events, values of f and gradients asked for.
    success : bool
        `status.success`.
    status : Status
        Why the run ended.
    message : str
        The same in a sentence.
    trace : Trace
        One row per event.
    path : Path or None
        With record="path".
    method : Method
        With its constants.
    skipped : int
        Gradients left out for not being finite, with nonfinite="skip".
    constants : dict
        What a marked method, or a run that had to find L, used.
    passes : float
        Of a marked method: passes over the data.
    gap : float or None
        The duality gap, where it is known: at least fun - f*.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> r = cz.minimize(p, [0.0, 0.0, 0.0], maxiter=50, rng=0, record="path")
    >>> r.success, r.nit, len(r.trace), bool(r.fun < 1e-2)
    (True, 50, 51, True)
    >>> x, z = r.at(10.0)
    """

    trace: Trace
    path: Path | None
    method: Method

    def at(self, t: float, side: str = "right") -> tuple[Array, Array]:
        """(x_t, z_t), exactly, for 0 <= t <= the last event.  Needs record="path".

        The path is right-continuous: at an event it has the value after the jump;
        side="left" gives the one before it.  Raises ValueError where there is no path, or t is
        not in it.
        """
        if self.path is None:
            raise ValueError('the path was not recorded; call minimize with record="path"')
        if side not in ("right", "left"):
            raise ValueError(f'side must be "right" or "left", got {side!r}')
        if not is_real(t):
            raise TypeError(f"t must be one real number, got {brief(t)}")
        times, t = self.path.t, float(t)  # a NumPy float64 would make float32 states wider
        if not 0.0 <= t <= times[-1]:
            raise ValueError(f"t must be in [0, {times[-1]}], the time of the last event, got {t}")
        i = int(np.searchsorted(times, t, side=side)) - 1  # type: ignore[call-overload]
        i = max(i, 0)
        last = i + 1 < len(times) and times[i + 1] == t
        # Up to an event, the gap as it was drawn: t - T_i has lost digits.
        dt = float(self.path.dt[i + 1]) if last else t - float(times[i])
        a, b = self.method.flow(float(times[i]), float(t), dt)
        x, z = mix(self.path.x[i], self.path.z[i], a, b)
        return x, z

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "at"]  # SciPy's lists the keys only

    def __repr__(self) -> str:
        return str(OptimizeResult({k: v for k, v in self.items() if k != "path"}))


def reported_gap(gap: float | None, fun: float, problem: Any) -> float | None:
    """A duality gap; 0 where it is negative by no more than rounding errors.

    The gap is f less the dual objective, both means over n rows.  The terms of f are at least 0,
    and so are as large as f; those of the dual, a_i y_i - a_i^2 / 2 and the like, are in the mean
    at most 2 sqrt(f f(0)) in size, by Cauchy-Schwarz.  n rounding errors add up as sqrt(n).
    """
    if gap is None or not gap < 0.0:
        return gap
    size = fun + 2.0 * math.sqrt(fun * problem.fun(np.zeros(problem.dim)))
    rounding = 4.0 * math.sqrt(len(problem.y)) * math.ulp(1.0) * size
    return 0.0 if gap >= -rounding else gap
