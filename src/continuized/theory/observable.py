"""Functions phi(t, x, z) of the process with their gradients: any smooth one, and the paper's.

A gradient is the user's own, so it is compared with finite differences before it is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from continuized.problems.base import Array, Problem, check_problem
from continuized.process.methods import Method
from continuized.support import validation as check
from continuized.support.display import show_html, show_line
from continuized.theory.bounds.paper import log_A, log_B
from continuized.theory.checks import check_continuized, minimiser, minimum
from continuized.theory.moments.pair import parameter_rows

TESTED_STATES = 4  # where the gradient of phi is tested
GRADIENT_SLACK = 1e-5  # relative, between a gradient and central differences
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, repr=False)
class Observable:
    """A smooth function phi(t, x, z) with its gradient.

    Parameters
    ----------
    value : callable
        (t, x, z) -> phi, one number.
    gradient : callable
        (t, x, z) -> the derivatives in t, x and z: a number and two arrays.
    vectorized : bool
        Whether both take many states at once: t of shape (n,), x and z with n rows; value then
        gives n numbers, gradient n numbers and two arrays of n rows.

    TypeError where they cannot be called.

    >>> import continuized as cz
    >>> phi = Observable(lambda t, x, z: float(z @ z), lambda t, x, z: (0.0, 0.0 * x, 2.0 * z))
    >>> p = cz.problems.Quadratic([1.0, 0.1])
    >>> method, state = cz.Continuized(1.0, 0.1), (1.0, [1.0, 0.0], [1.0, 0.0])
    >>> round(float(cz.theory.generator(phi, method, p, state)), 6)  # |z - gamma' g|^2 - |z|^2
    3.675445
    """

    value: Callable[[Any, Any, Any], Any]
    gradient: Callable[[Any, Any, Any], Any]
    vectorized: bool = False

    def __post_init__(self) -> None:
        what = "a function of t, x and z"
        for name in ("value", "gradient"):
            check.function(getattr(self, name), name, what)
        object.__setattr__(self, "vectorized", check.flag(self.vectorized, "vectorized"))

    def values(self, t: Array, x: Array, z: Array) -> Array:
        """Return phi at many states."""
        if self.vectorized:
            given = self.value(t, x, z)
        else:
            given = [self.value(*state) for state in zip(t.tolist(), x, z, strict=True)]
        return _numbers(given, "value", (len(t),))

    def gradients(self, t: Array, x: Array, z: Array) -> tuple[Array, Array, Array]:
        """Return the derivatives in t, x and z at many states."""
        if self.vectorized:
            parts = _three(self.gradient(t, x, z))
        else:
            each = [_three(self.gradient(*s)) for s in zip(t.tolist(), x, z, strict=True)]
            parts = [[row[i] for row in each] for i in range(3)]
        shapes = ((len(t),), x.shape, z.shape)
        in_t, in_x, in_z = (
            _numbers(part, "gradient", shape) for part, shape in zip(parts, shapes, strict=True)
        )
        return in_t, in_x, in_z

    __repr__ = show_line
    _repr_html_ = show_html


def lyapunov_function(method: Method, problem: Problem) -> Observable:
    """Return the paper's phi = A_t (f(x) - f*) + B_t |z - x*|^2 as an Observable.

    method: Continuized; problem: with x* and f* known.  ValueError otherwise.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> phi = lyapunov_function(cz.Continuized(p.L, p.mu), p)
    >>> r = cz.minimize(p, [0.0, 0.0, 0.0], maxiter=9, rng=0, record="path")
    >>> bool(np.isclose(phi.value(0.0, r.path.x[0], r.path.z[0]), cz.theory.lyapunov(r, p).phi[0]))
    True
    """
    method = check_continuized(method, "phi")
    star, least = minimiser(check_problem(problem)).ravel(), minimum(problem)

    def rows(v: Array) -> Array:
        return v.reshape(-1, star.size)

    def weights(t: Any) -> tuple[Array, Array]:
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
        return np.exp(log_A(method, times)), np.exp(log_B(method, times))

    def value(t: Any, x: Array, z: Array) -> Any:
        A, B = weights(t)
        found = A * (problem.values(rows(x)) - least) + B * ((rows(z) - star) ** 2).sum(axis=1)
        return found if np.ndim(t) else float(found[0])

    def gradient(t: Any, x: Array, z: Array) -> tuple[Any, Array, Array]:
        A, B = weights(t)
        eta, eta_prime = parameter_rows(method, np.atleast_1d(t))[:, :2].T
        w = rows(z) - star
        in_t = method.tau * eta * A * (problem.values(rows(x)) - least) + eta_prime * B * (
            w * w
        ).sum(axis=1)
        in_x, in_z = A[:, None] * problem.grads(rows(x)), 2.0 * B[:, None] * w
        return (
            (in_t if np.ndim(t) else float(in_t[0])),
            in_x.reshape(x.shape),
            in_z.reshape(z.shape),
        )

    return Observable(value, gradient, vectorized=True)


def check_gradient_of(phi: Observable, t: Array, x: Array, z: Array) -> None:
    """Refuse a phi whose gradient contradicts central differences, at a few of these states."""
    rng = np.random.default_rng(0)
    later = np.flatnonzero(t > 0.0)
    for i in sorted({int(k) for k in later[:: max(len(later) // TESTED_STATES, 1)]}):
        one = slice(i, i + 1)
        point = [t[one], x[one], z[one]]
        slopes = phi.gradients(*point)
        for which, name in enumerate(("t", "x", "z")):
            direction = rng.standard_normal(point[which].shape) if which else np.ones(1)
            direction /= np.linalg.norm(direction)
            here = float(np.max(np.abs(point[which])))
            step = np.cbrt(EPS) * (here if which == 0 else max(here, 1e-3))
            ends, rounding = [], 0.0
            for sign in (1.0, -1.0):
                moved = list(point)
                moved[which] = point[which] + sign * step * direction
                ends.append(float(phi.values(*moved)[0]))
                # phi is rounded, and so are the points where it is asked.
                slope = float(np.linalg.norm(phi.gradients(*moved)[which]))
                rounding += 64.0 * EPS * (abs(ends[-1]) + here * slope) / step
            measured = (ends[0] - ends[1]) / (2.0 * step)
            given = float(np.sum(slopes[which] * direction))
            size = max(abs(measured), abs(given))
            if not abs(measured - given) <= GRADIENT_SLACK * size + rounding:
                raise ValueError(
                    f"the gradient of phi contradicts finite differences at t = {t[i]:.6g}: along "
                    f"{name} it gives {given:.6g}, differences give {measured:.6g}, off by "
                    f"{abs(measured - given):.3g}; mend gradient"
                )


def _three(given: Any) -> list[Any]:
    parts = list(given) if isinstance(given, tuple | list) else []
    if len(parts) != 3:
        raise TypeError(
            f"gradient must return three derivatives, in t, x and z, got {check.short_repr(given)}"
        )
    return parts


def _numbers(given: Any, name: str, shape: tuple[int, ...]) -> Array:
    """Return what the user's function gave as an array of this shape."""
    found = check.array(given, f"what {name} gives", dtype=np.float64)
    if found.shape != shape:
        try:
            return found.reshape(shape)
        except ValueError as error:
            raise ValueError(
                f"{name} must give an array of shape {shape} here, got {found.shape}"
            ) from error
    return found
