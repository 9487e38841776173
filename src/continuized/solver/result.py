"""What a run gives back: its status, its trace, and its path."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array
from continuized.process.flow import mix
from continuized.process.methods import Method
from continuized.solver.array_api import namespace
from continuized.support import validation as check
from continuized.support.display import show_html, show_lines
from continuized.support.table import Table


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


class Trace(Table):
    """One row per event, row 0 the start: k, the time t = T_k, and fun = f(x_k).

    Where L is found on the way, or there is a metric, fun is f where the event asked for a
    gradient (x_k would cost a further evaluation); with prox, f + psi after the event, as
    estimated from there (`prox.value_after_step`), and where L is known f + psi at x_k itself.

    Without recording (`record=False`), only the start and the end.  `passes` counts passes over
    the data (events times their cost, over the size of the data); a marked method has one row a
    pass, a full gradient is a pass.

    It goes over its rows: `pandas.DataFrame(r.trace)` is a frame with these columns.

    >>> import continuized as cz
    >>> trace = cz.minimize(cz.problems.Quadratic([1.0]), [1.0], L=2.0, maxiter=3, rng=0).trace
    >>> trace.k.tolist(), trace.t.round(3).tolist(), trace.passes.tolist()
    ([0, 1, 2, 3], [0.0, 3.294, 4.057, 5.309], [0.0, 1.0, 2.0, 3.0])
    """

    names = ("k", "t", "fun", "passes")
    k: Array
    t: Array
    fun: Array
    passes: Array

    def __init__(self, k: Array, t: Array, fun: Array, passes: Array | None = None) -> None:
        super().__init__(k, t, fun, k.astype(np.float64) if passes is None else passes)


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


class Result(dict[str, Any]):
    """The outcome of `minimize`: a dict whose keys are its attributes too, named as SciPy names
    those of an OptimizeResult.

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
    prox, mirror
        Of a run with known constants, the prox and the geometry that it was given, if any.
    x0, z0, noise
        Where it started, and the start of z and the noise that it was given, if any.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> r = cz.minimize(p, [0.0, 0.0, 0.0], maxiter=50, rng=0, record="path")
    >>> r.success, r.nit, len(r.trace), bool(r.fun < 1e-2)
    (True, 50, 51, True)
    >>> x, z = r.at(10.0)
    """

    nfev: int
    status: Any
    message: str
    trace: Trace
    path: Path | None
    method: Method

    # Not a subclass of SciPy's: to import its optimisers takes longer than all else that a first
    # run does.  `adapters.scipy` has one.

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this result has no {name!r}, only {', '.join(self)}") from None

    __setattr__ = dict.__setitem__

    def __delattr__(self, name: str) -> None:
        if name not in self:
            self.__getattr__(name)  # which says what there is
        del self[name]

    def at(self, t: ArrayLike, side: str = "right") -> tuple[Array, Array]:
        """Return (x_t, z_t), exactly, for 0 <= t <= the last event.  Needs record="path".

        t is one time, or an array of them: x and z then have its axes in front of their own.  The
        path is right-continuous: at an event it has the value after the jump; side="left" gives the
        one before it.  Raises ValueError where there is no path, or t is not in it.
        """
        if self.path is None:
            raise ValueError('the path was not recorded; call minimize with record="path"')
        check.one_of(side, "side", ("right", "left"))
        if not (isinstance(t, list | tuple) or getattr(t, "ndim", 0) > 0):
            return self._state_at(self.path, t, side)
        given = check.array(t, "t")
        states = [self._state_at(self.path, s, side) for s in given.ravel().tolist()]
        xp = namespace(self.path.x) or np
        shape = (*given.shape, *self.path.x.shape[1:])
        x, z = ([state[n] for state in states] or [self.path.x[:0]] for n in (0, 1))
        return xp.reshape(xp.stack(x), shape), xp.reshape(xp.stack(z), shape)

    def _state_at(self, path: Path, t: Any, side: str) -> tuple[Array, Array]:
        times, last = path.t, float(path.t[-1])
        advice = "the last event is where the path ends"
        # As a float of Python: a NumPy float64 would make float32 states wider.
        t = check.real(t, "t", minimum=0.0, maximum=last, advice=advice)
        i = int(np.searchsorted(times, t, side=side)) - 1  # type: ignore[call-overload]
        i = max(i, 0)
        last = i + 1 < len(times) and times[i + 1] == t
        # Up to an event, the gap as it was drawn: t - T_i has lost digits.
        dt = float(path.dt[i + 1]) if last else t - float(times[i])
        a, b = self.method.flow(float(times[i]), float(t), dt)
        x, z = mix(path.x[i], path.z[i], a, b)
        return x, z

    def __dir__(self) -> list[str]:
        return [*self, "at"]

    def _facts(self) -> dict[str, Any]:
        first = [name for name in ("message", "success", "status", "fun", "x") if name in self]
        return {name: self[name] for name in (*first, *self) if self[name] is not None}

    __repr__ = show_lines
    _repr_html_ = show_html
