"""The bound for DADAO.

E mean_i |x_i - x*|^2 <= C e^{-rt} with r = s/8 = sqrt(mu/L) / (8 sqrt 2) and, from the start 0,

    C = (4/mu) (F(0) - F*) + 7/(8 mu L) mean_i |grad f_i(x*)|^2 + (3 mu/(16 L)) |x*|^2.

f_i is mu-strongly convex and L-smooth; nu = mu/2 and s = sqrt(nu/L) <= 1/sqrt(2), as in
`network.optimisation.dadao`, where the method is written out.  h_i(x) = f_i(x) - nu/2 |x|^2 is
nu-strongly convex and L-smooth.  Every node takes gradients at rate 1; Lambda is made of the rates
at which the edges ring, 1/chi_1 and 2 chi_2 are its lambda_2 and its largest b^T Lambda^+ b,
b = e_i - e_j, and 2 chi_1 chi_2 = 1.

**The limit.**  x = x~ = x*, y = y~ = y*, z = z~ = z* with y*_i = grad h_i(x*) and
z*_i = -grad f_i(x*): there y + z + nu x = 0, no event moves anything (y + z is the same at all
nodes), and the sum of z*_i is 0, as are those of z and z~ at all times.  From here on all six
letters are the distances from it, G_i = grad h_i(x_i) - grad h_i(x*), so that g = G - y~, and
w = y + z.  Sums over the nodes are not written; |v|_+^2 = v^T Lambda^+ v.

**The function.**  With D(x) = h(x) - h(x*) - <grad h(x*), x - x*>,

    V = 8L D(x) + 2 L nu |x~|^2 + |y~|^2 + |y|^2 / 2 + (2L/nu) |w|^2 + |z~|_+^2 / (4 chi_1).

Its drift, that is the mean of dV/dt, is made of these terms, in the order of V:

- flow: s L <G, x~ - x>.  Gradient: by smoothness at most -2 <G, g> + |g|^2 / 4.
- flow: (L nu s/2) <x~, x - x~>.  Gradient: -s L <x~, G - y~> + |g|^2 / 8, for
  2 L nu / (2 sqrt(L nu)) = s L.
- flow: -(1/s) <y~, w + nu x~>, where nu/s = s L.  Gradient: (2 + s/2) <y~, g> + (1 + s/4)^2 |g|^2.
- flow: (s/4) <y, y~ - y>, at most (s/8) (|y~|^2 - |y|^2).
- flow: (1/s) <w, y~ + z~ - w>, for L/nu = 1/s^2.  Exchange, which takes b b^T w / 2 off z and so
  off w: -(1/s^2) w^T Lambda w.
- flow: (s/(16 chi_1)) <z - z~, z~>_+.  Exchange: -(1/s) <w, z~>, for Lambda Lambda^+ z~ = z~, and
  (1/(4 chi_1)) (2 chi_1/s)^2 2 chi_2 w^T Lambda w = (1/s^2) w^T Lambda w at most.

What has <x~, G>, <x~, y~>, <w, y~>, <w, z~> or w^T Lambda w cancels.  By G = g + y~,
-2 <G, g> + (2 + s/2) <y~, g> = -2 |g|^2 + (s/2) <y~, g>, and all of |g|^2 has the factor
-2 + 1/4 + 1/8 + (1 + s/4)^2 < 0.  What is left is at most

    -s L <G, x> + (L nu s/2) <x~, x - x~> + (s/2) <y~, G - y~> + (s/8) (|y~|^2 - |y|^2)
    - |w|^2 / s + (s/(16 chi_1)) <z - z~, z~>_+.

- <G, x> = D(x) + D'(x), D' the same with x and x* exchanged, and D' >= nu/2 |x|^2 and
  >= |G|^2 / (2L); so the first term is at most -s L D(x) - (s L nu/4) |x|^2 - (s/4) |G|^2.
- The second is at most (L nu s/4) (|x|^2 - |x~|^2).
- The third is at most (s/4) |G|^2 - (s/4) |y~|^2.
- The last is at most (s/(32 chi_1)) (|z|_+^2 - |z~|_+^2), and |z|_+^2 / chi_1 <= |z|^2
  <= 2 |y|^2 + 2 |w|^2.

Together:

    -s L D(x) - (s L nu/4) |x~|^2 - (s/8) |y~|^2 - (s/16) |y|^2 - (1/s - s/16) |w|^2
    - (s/(32 chi_1)) |z~|_+^2  <=  -(s/8) V,

for 1/s - s/16 >= 1/(4s) = (s/8) (2L/nu).  So e^{rt} V is a supermartingale.

**The constant.**  D(x) >= nu/2 |x|^2, hence 4 L nu |x|^2 <= V.  At the start, where every distance
is minus the limit, |z~|_+^2 <= chi_1 |z*|^2, and as the grad f_i(x*) sum to 0,

    D(0) = n (F(0) - F* - nu/2 |x*|^2)    |y*|^2 = |z*|^2 + n nu^2 |x*|^2    |w|^2 = n nu^2 |x*|^2:

V_0 / (4 L nu n) is C.  Lower bounds of mu and mu_g and upper bounds of L and R will do.  At the
k-th event, of all kinds together, E[e^{r T_k} mean_i |x_i - x*|^2] <= C, by optional stopping.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.optimisation.dadao.method import DADAO
from continuized.network.optimisation.objective import Objective
from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.theory.bounds.dual import checked_pair
from continuized.theory.bounds.paper import log_of
from continuized.theory.checks import checked_counts


def log_bound(
    method: DADAO,
    pair: Any,
    x0: ArrayLike,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    """The logarithm of the bound on E mean_i |x_i - x*|^2, at times t or at the k-th event."""
    graph, objective = checked_pair(pair, "DADAO")
    check_start(x0)
    if sigma2 > 0.0:
        raise ValueError("no theorem here covers noise for DADAO; use sigma2=0")
    first = log_of(constant(objective))
    if t is not None:
        return first - method.rate(graph, objective) * check.times(t, "t")
    assert k is not None
    return np.full(checked_counts(k).shape, first)[()]


def constant(objective: Objective) -> float:
    """C."""
    from continuized.network.optimisation.dual.function import slopes_at_minimiser

    L, mu, x_star = objective.L, objective.mu, objective.x_star
    excess = max(objective.fun(np.zeros_like(x_star)) - objective.f_star, 0.0)
    slopes = slopes_at_minimiser(objective)
    apart = float(np.vdot(slopes, slopes)) / objective.nodes
    return (
        4.0 * excess / mu
        + 0.875 * apart / mu / L
        + 0.1875 * mu / L * float(np.vdot(x_star, x_star))
    )


def check_start(x0: ArrayLike) -> None:
    """Raise ValueError unless x0 is 0: all six vectors of a node start there."""
    if np.any(check.array(x0, "x0") != 0.0):
        raise check.refusal(ValueError, "x0", "0, where DADAO starts", x0)
