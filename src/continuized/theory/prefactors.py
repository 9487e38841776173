"""The five prefactors of the paper's appendix B: what its proof makes of the generator of phi.

With phi = A_t (f(x) - f*) + B_t |z - x*|^2, Ito's formula (`ito`) and the inequalities of a convex
function bound the generator by five terms.  The paper chooses the parameters so that all vanish.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.process import parameters as scalars
from continuized.support import validation as check
from continuized.support.display import show_line


class Prefactors(NamedTuple):
    """The five prefactors of appendix B: I_t is at most their sum with what they stand before.

    gradient_x: A' - A eta, of <grad f(x), x - x*>.  z_squared: B' - B eta', of |z - x*|^2.
    gradient_z: A eta - 2 B gamma', of <grad f(x), z - x*>.  x_squared: B eta' - A' mu/2, of
    |x - x*|^2.  gradient_squared: B gamma'^2 - A gamma (1 - L gamma/2), of |grad f(x)|^2.

    >>> Prefactors(0.0, 0.0, 0.0, 0.0, -0.5).gradient_squared
    -0.5
    """

    gradient_x: Any
    z_squared: Any
    gradient_z: Any
    x_squared: Any
    gradient_squared: Any

    def __repr__(self) -> str:
        return show_line(self)


def prefactors(
    L: float, mu: float, *, A: ArrayLike, B: ArrayLike, dA: ArrayLike, dB: ArrayLike,
    eta: ArrayLike, eta_prime: ArrayLike, gamma: ArrayLike, gamma_prime: ArrayLike,
) -> Prefactors:  # fmt: skip
    """Compute the five prefactors of appendix B, for any parameters of the process and of phi.

    L, mu: of the function.  A, B, dA, dB: the weights of phi and their derivatives.  eta,
    eta_prime, gamma, gamma_prime: of the process.  Numbers, or arrays over time.  All five are zero
    for the paper's choice; where none is positive, and the three before squares only, phi is a
    supermartingale.  TypeError and ValueError for what are no numbers, L and mu as ever.

    >>> q = 0.1  # sqrt(mu/L), Theorem 3 with mu > 0 at t = 0
    >>> found = prefactors(1.0, 0.01, A=1.0, B=0.005, dA=q, dB=0.005 * q, eta=q, eta_prime=q,
    ...                    gamma=1.0, gamma_prime=10.0)
    >>> bool(np.allclose(found, 0.0, atol=1e-15))
    True
    """
    L, mu = scalars.check_constants(L, mu)
    given = {"A": A, "B": B, "dA": dA, "dB": dB, "eta": eta, "eta_prime": eta_prime,
             "gamma": gamma, "gamma_prime": gamma_prime}  # fmt: skip
    arrays = [check.array(value, name, dtype=np.float64) for name, value in given.items()]
    try:
        A, B, dA, dB, eta, eta_prime, gamma, gamma_prime = np.broadcast_arrays(*arrays)
    except ValueError as error:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(
            f"the parameters must be numbers, or arrays that go together, got shapes {shapes}"
        ) from error
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest
        return Prefactors(
            gradient_x=(dA - A * eta)[()],
            z_squared=(dB - B * eta_prime)[()],
            gradient_z=(A * eta - 2.0 * B * gamma_prime)[()],
            x_squared=(B * eta_prime - 0.5 * mu * dA)[()],
            gradient_squared=(B * gamma_prime**2 - A * gamma * (1.0 - 0.5 * L * gamma))[()],
        )
