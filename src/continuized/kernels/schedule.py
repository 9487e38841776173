"""The coefficients (a, b, gamma, gamma') of a block of events at once."""

from __future__ import annotations

import numpy as np

from continuized import kernels as _  # noqa: F401  (registers the formulas)
from continuized.clock import Events
from continuized.jit import jit
from continuized.methods import (
    METHODS,
    RULES,
    Method,
    continuized_rule,
    gradient_descent_rule,
    nesterov_rule,
)
from continuized.problems.base import Array


@jit
def fill(rule, k, t0, t, dt, carry, L, mu, start, out):
    """Row i of out: the coefficients of event k + 1 + i.  Returns the carry at the end."""
    for i in range(t.size):
        k += 1
        if rule == 0:
            a, b, c, d, carry = gradient_descent_rule(k, t0, t[i], dt[i], carry, L, mu, start)
        elif rule == 1:
            a, b, c, d, carry = nesterov_rule(k, t0, t[i], dt[i], carry, L, mu, start)
        else:
            a, b, c, d, carry = continuized_rule(k, t0, t[i], dt[i], carry, L, mu, start)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = a, b, c, d
        t0 = t[i]
    return carry


def rule_number(method: Method) -> int | None:
    """The method's place among the compiled rules; None if its coefficients are its own."""
    for owner in METHODS.values():
        own = isinstance(method, owner) and all(
            getattr(type(method), name) is getattr(owner, name)
            for name in ("rule", "coefficients", "flow")
        )
        if own:
            return RULES.index(owner.rule)
    return None


def coefficients(method: Method, events: Events, carry: float) -> tuple[Array, float]:
    """The coefficients of a block of events, one row each, and the carry after it."""
    out = np.empty((events.size, 4))
    rule = rule_number(method)
    if rule is not None:
        k0, t0, t, dt = events.k0, events.t0, events.t, events.dt
        return out, fill(rule, k0, t0, t, dt, carry, *method.constants, out)
    t0 = events.t0
    for i, event in enumerate(events.each()):
        *out[i], carry = method.coefficients(event.k, t0, event.t, event.dt, carry)
        t0 = event.t
    return out, carry
