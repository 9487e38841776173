"""The duality gap of half a sum of squares with a separable psi, compiled."""

from __future__ import annotations

import math

from continuized.support.jit import compile_formulas, jit


def find_best_scale(f, product, most):
    """Return the c in [0, most] at which c product - c^2 f is largest, f >= 0."""
    return min(max(product / (2.0 * f), 0.0), most) if f > 0.0 else most


def find_conjugate(s, l1, low, high):
    """Return the largest s x - l1 |x| over low <= x <= high where it is finite: it is at the point
    nearest to 0, or at a finite end."""
    middle = min(max(0.0, low), high)
    largest = s * middle - l1 * abs(middle)
    if low > -math.inf:
        largest = max(largest, s * low - l1 * abs(low))
    if high < math.inf:
        largest = max(largest, s * high - l1 * abs(high))
    return largest


compile_formulas(find_best_scale, find_conjugate, error_model="numpy")


@jit
def find_gap(f, g, x, l1, low, high):
    """Return a bound on F(x) - F*, F = f + psi, psi(x) = sum l1_i |x_i| for low <= x <= high.

    f is half a sum of squares |R|^2 / 2 of R = Y - A x, and g its gradient.  Every c R is a point
    of the dual, of the value c <R, Y> - c^2 |R|^2 / 2 - psi*(-c g), <R, Y> = 2 f - <x, g>.  psi* is
    0 or infinite along unbounded coordinates: c is as large as they allow.
    """
    psi, product, most, bounded = 0.0, 2.0 * f, 1.0, False
    for i in range(x.size):
        push, is_inside = abs(g[i]), low[i] <= x[i] <= high[i]
        psi += l1[i] * abs(x[i]) if is_inside else math.inf
        product -= x[i] * g[i]
        # Downwards x is pushed by g > 0, upwards by g < 0.
        is_free = math.isinf(low[i] if g[i] > 0.0 else high[i])
        if is_free and push * most > l1[i]:
            most = l1[i] / push
        bounded = bounded or low[i] > -math.inf or high[i] < math.inf
    best = find_best_scale(f, product, most)
    dual = best * product - best * best * f
    if bounded:
        other = most * product - most * most * f
        for i in range(x.size):
            dual -= find_conjugate(-best * g[i], l1[i], low[i], high[i])
            other -= find_conjugate(-most * g[i], l1[i], low[i], high[i])
        dual = max(dual, other)
    return f + psi - dual
