"""f + psi: what an event does where psi is known by its proximal step.

With g = grad f(x), gamma' and eta at the event's own time,

    z+ = argmin over u of gamma' (<g, u> + psi(u)) + |u - z|^2 / 2 = prox_{gamma' psi}(z - gamma' g)
    x+ = x + eta (z+ - z)

and the flow is unchanged.  Where x_0 = z_0 is in the domain of psi and eta <= 1 at the start
(`Continuized.for_composite`), x is always a mean of points z, hence in the domain, and the paper's
bounds hold for F = f + psi, word for word: docs/proofs/composite.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.process.methods import Continuized, composite_jump
from continuized.process.prox import (
    Prox,
    Separable,
    check_prox,
    length,
    mapping_norm,
    nearest_in_domain,
    proximal_step,
)
from continuized.support.blas import inner
from continuized.support.checkpoints.state import probe
from continuized.support.validation import short_repr

START_SLACK = 1e-6  # relative: how far a start may be outside, where a prox tells no value


class Composite:
    """psi, and what the steppers and the theorems need of it; x has one shape throughout.

    criterion_name: of what tol is compared with, in words.
    """

    criterion_name = "norm of the gradient mapping"

    def __init__(self, prox: Any, shape: tuple[int, ...]) -> None:
        checked = check_prox(prox, shape)
        assert checked is not None
        self.prox: Prox = checked
        self._is_used = False

    def skip_first_look(self) -> None:
        """Take all steps as they are: the first of this run was looked at before."""
        self._is_used = True

    @property
    def _prox_in_words(self) -> str:
        return short_repr(getattr(self.prox, "function", self.prox))

    @property
    def given(self) -> dict[str, Any]:
        """What the user gave, for the result."""
        return {"prox": self.prox}

    def move(self, z: Array, g: Array, gamma_prime: float) -> Array:
        """Return z after an event; ValueError where the prox gives another shape, or at the first
        event a point outside its own domain."""
        with np.errstate(over="ignore"):  # what is too large is infinite, which ends a run
            z_plus = proximal_step(self.prox, z - gamma_prime * g, gamma_prime)
        if not self._is_used:
            self._is_used = True
            if np.all(np.isfinite(z_plus)) and math.isinf(self.prox.value(z_plus)):
                raise ValueError(
                    f"prox must return points where its own value is finite, but "
                    f"{self._prox_in_words} returned {short_repr(z_plus)}"
                )
        return z_plus

    def move_rows(self, z: Array, g: Array, gamma_prime: Array) -> Array:
        """Return z after an event of each row: gamma_prime has one number to a row."""
        if isinstance(self.prox, Separable):
            steps = gamma_prime.reshape(-1, *[1] * (z.ndim - 1))
            return self.prox(z - steps * g, steps)  # type: ignore[arg-type]
        moved = [self.move(*row) for row in zip(z, g, gamma_prime.tolist(), strict=True)]
        return np.array(moved).reshape(z.shape)

    def jump(
        self, x: Array, z: Array, g: Array, gamma: float, gamma_prime: float
    ) -> tuple[Array, Array]:
        """Return x and z after an event; x in the domain, whatever rounding did to it."""
        with np.errstate(over="ignore", invalid="ignore"):
            x, z = composite_jump(x, z, g, gamma, gamma_prime, self.move)
            return self.bring_back(x), z

    def bring_back(self, x: Array) -> Array:
        """Return x, or the nearest point of the domain where rounding has left it."""
        if not isinstance(self.prox, Separable) and math.isfinite(self.prox.value(x)):
            return x
        return nearest_in_domain(self.prox, x)

    def value(self, x: Array) -> float:
        """Return psi(x), infinite outside its domain."""
        return float(self.prox.value(x))

    def values(self, points: Array) -> Array:
        """Return psi at each of points[0], points[1], ..."""
        if isinstance(self.prox, Separable):
            return self.prox.values(points)
        return np.array([self.value(x) for x in points], dtype=np.float64)

    def distances(self, u: Array, points: Array) -> Array:
        """Return |u - z|^2 of each z of points[0], points[1], ...: twice the divergence of u from
        z in the geometry."""
        differences = (points - u).reshape(len(points), -1)
        return np.asarray(np.einsum("ij,ij->i", differences, differences))

    def check_start(self, x0: Array, name: str = "x0") -> None:
        """Raise ValueError where x0, of this name, is not in the domain of psi."""
        nearest = nearest_in_domain(self.prox, x0)
        with np.errstate(over="ignore"):
            away = length(nearest - x0)
        is_outside = math.isinf(self.value(x0))
        if not getattr(self.prox, "value_is_known", True):
            is_outside = away > START_SLACK * max(1.0, length(x0))
        if is_outside:
            raise ValueError(
                f"{name} is outside the domain of {self._prox_in_words} by {away:.3g}; give a "
                f"point inside, the nearest point is {short_repr(nearest)}"
            )

    def squares(self, g: Array, y: Array, dg: Array, dy: Array) -> tuple[float, ...]:
        """Return |g|^2, |y|^2, |dg|^2, <dg, dy> and |dy|^2, by which constants are judged."""
        pairs = ((g, g), (y, y), (dg, dg), (dg, dy), (dy, dy))
        return tuple(inner(u.ravel(), v.ravel()) for u, v in pairs)

    def criterion(self, x: Array, g: Array, gamma: float) -> float:
        """Return what tol is compared with at x: |x - prox_{gamma psi}(x - gamma g)| / gamma."""
        return mapping_norm(self.prox, x, g, gamma)

    def last_step(self, x: Array, g: Array, gamma: float) -> Array | None:
        """Return where a proximal step from x leads.  F there is no larger for gamma <= 1/L, and
        zeros are exact, which they are not in the means that x is.  None where no such step helps.
        """
        return proximal_step(self.prox, x - gamma * g, gamma)

    def gap(self, x: Array, g: Array) -> float | None:
        """Return a bound of F - F* at x, where one is known."""
        return None

    def begin(self, method: Any, x0: Array) -> Continuized:
        """Return the method as it is run on f + psi from x0.

        Raises ValueError where it is no Continuized, or may not begin: by its start, or by x0.
        """
        if not isinstance(method, Continuized):
            raise ValueError(
                f"prox= goes with cz.Continuized(L, mu) only, got {short_repr(method)}"
            )
        self.check_start(x0)
        return method.for_composite()

    def entry_constants(self, x: Array) -> Array | None:
        """Return (l1, l2, low, high) of each entry of x, a row each, for compiled loops; None where
        psi is no sum over entries that they know."""
        if not isinstance(self.prox, Separable):
            return None
        rows = [np.broadcast_to(constant, x.shape).ravel() for constant in self.prox.constants]
        with np.errstate(over="ignore"):
            return np.array(rows, dtype=x.dtype)

    def plain_prox(self) -> Any:
        """Return the prox of a run in the plain geometry with the same minimisers: psi itself."""
        return self.prox

    def fingerprint(self, x0: Array) -> Any:
        """What a checkpoint knows it by: what a step does at a point."""
        return proximal_step(self.prox, probe(x0), 1.0)
