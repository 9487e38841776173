"""The coefficients of blocks of events, as compiled code makes them."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.process import compiled
from continuized.process.coefficients import exponential_rule
from continuized.support import jit

METHODS = {
    "convex": cz.Continuized(2.0),
    "exponential": cz.Continuized(2.0, 0.1),
    "hyperbolic": cz.Continuized(2.0, 0.1, start=1.0),
    "sharp": cz.SharpContinuized(2.0, 0.1),
    "nesterov": cz.Nesterov(2.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_coefficients_of_blocks_are_those_of_the_method(name: str) -> None:
    """Of runs side by side, and of more events than fill vector registers.  Of a sum of terms that
    cancel, the last bits are the library's own."""
    method, n = METHODS[name], 131
    dt = np.random.default_rng(0).standard_exponential((2, n))
    dt[0, 5] = 0.0
    t0 = np.array([0.0, 3.5])
    t = t0[:, np.newaxis] + dt.cumsum(axis=1)
    rows = compiled.rows_of_coefficients(method, 0, t0, np.zeros(2), t, dt)
    for r in range(2):
        last, carry = float(t0[r]), 0.0
        for i, (time, gap) in enumerate(zip(t[r].tolist(), dt[r].tolist(), strict=True)):
            expected = method.coefficients(i + 1, last, time, gap, carry)
            np.testing.assert_allclose(rows[r, i], expected, rtol=2e-15)
            last, carry = time, expected[-1]


@pytest.mark.skipif(
    not jit.HAS_NUMBA or platform.machine() not in ("x86_64", "AMD64"), reason="x86's names"
)
def test_coefficients_are_made_in_vector_registers(monkeypatch: Any) -> None:
    """A call of a library, or a test whether a denominator is 0, would keep them out of these."""
    plain = compiled.jit
    monkeypatch.setattr(
        compiled, "jit", lambda *given, **how: plain(*given, **how | {"cached": False})
    )
    made = compiled.compile_fill.__wrapped__(exponential_rule)  # what comes from disk has none
    (assembly,) = made.inspect_asm().values()
    assert re.search(r"\tv?psllq\t", assembly)  # the exponents of expm1
    assert len(re.findall(r"\tv?(mul|fmadd\d+)pd\t", assembly)) >= 10  # its polynomial
