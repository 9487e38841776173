"""The coefficients of blocks of events, as compiled code makes them."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.process import compiled
from continuized.process.clock import Events
from continuized.process.coefficients import CARRY, COEFFICIENTS, exponential_rule
from continuized.process.compiled import KEPT
from continuized.support import jit
from tests.invariants.registry import same_bits

METHODS: dict[str, Any] = {
    "convex": cz.Continuized(2.0),
    "exponential": cz.Continuized(2.0, 0.1),
    "hyperbolic": cz.Continuized(2.0, 0.1, start=1.0),
    "sharp": cz.SharpContinuized(2.0, 0.1),
    "nesterov": cz.Nesterov(2.0),
}


def numbered_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> tuple[float, float, float, float, float]:
    """A rule that looks at all it is given."""
    return 1.0 / (k + 1.0), dt / (t + 1.0), 1.0 / L, (t - t0) / L, carry + k


class Numbered(cz.GradientDescent):
    """A method of one's own, whose rule is compiled."""

    @property
    def rule(self) -> Any:
        return numbered_rule


METHODS["numbered"] = Numbered(2.0)


class OwnConvex(cz.Continuized):
    """A method whose coefficients Python gives."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Any:
        return super().coefficients(k, t0, t, dt, carry)


def draw_events(k0: int, t0: float, n: int) -> Events:
    dt = np.random.default_rng(k0).standard_exponential(n)
    dt[5] = 0.0
    return Events(k0, t0, t0 + dt.cumsum(), dt)


@pytest.mark.parametrize("name", METHODS)
def test_coefficients_of_blocks_are_those_of_the_method(name: str) -> None:
    """Of more events than fill vector registers.  Of a sum of terms that cancel, the last bits are
    the library's own."""
    method = METHODS[name]
    for k0, t0, carry in ((0, 0.0, 0.0), (7, 3.5, 12.25)):
        events = draw_events(k0, t0, 131)
        rows = compiled.coefficients(method, events, carry)
        last = t0
        for event, row in zip(events.each(), rows, strict=True):
            expected = method.coefficients(event.k, last, event.t, event.dt, carry)
            np.testing.assert_allclose(row, expected, rtol=2e-15)
            last, carry = event.t, expected[-1]


@pytest.mark.skipif(not jit.HAS_NUMBA, reason="blocks are for compiled code")
@pytest.mark.parametrize("name", [*METHODS, "python"])
def test_compiled_code_makes_the_same_coefficients_some_at_a_time(name: str) -> None:
    """Wherever it goes on in a block, and whoever makes them."""
    method = METHODS.get(name, OwnConvex(2.0))

    @jit.jit_uncounted
    def copy(block: Any, i: Any, stop: Any, out: Any) -> Any:
        kept = jit.scratch(KEPT, np.float64)
        while i < stop:
            n, rows = compiled.make_coefficients(block, 0, i, stop, kept)
            for j in range(n):
                for c in range(COEFFICIENTS):
                    out[i + j, c] = rows[j, c]
            block.carry[0] = rows[n - 1, CARRY]
            i += n

    n = 2 * compiled.EVENTS_AT_ONCE + 77
    events = draw_events(7, 3.5, n)
    events.t.flags.writeable = False  # as those of a recorded clock
    expected = compiled.coefficients(method, events, 12.25)
    for first in (0, 1, 100, compiled.EVENTS_AT_ONCE, n - 1):
        block = compiled.make_block(method, events, 12.25)
        if first:
            block.carry[0] = expected[first - 1, CARRY]
        out = expected.copy()
        out[first:] = np.nan
        copy(block, first, n, out)
        assert same_bits(out, expected)
    out = np.full((n, COEFFICIENTS), np.nan)
    copy(compiled.make_block(method, events, 12.25), 0, 3, out)
    assert same_bits(out[:3], expected[:3])
    assert np.isnan(out[3:]).all()


class WithInteger(cz.Continuized):
    """A method whose constants are no floats, and which carries nothing."""

    @property
    def constants(self) -> Any:
        return int(self.L), np.float32(self.mu), 0


@pytest.mark.parametrize("kind", [WithInteger, OwnConvex])
def test_constants_and_carries_need_be_no_floats(kind: Any) -> None:
    """Those of methods of one's own, for which Python or compiled code makes the coefficients."""

    class Own(kind):
        def init(self, x0: Any) -> Any:
            return super().init(x0)._replace(carry=1 if kind is WithInteger else None)

    p, x0 = cz.problems.Quadratic([2.0, 0.5]), np.ones(2)
    how: Any = {"maxiter": 30, "rng": 0}
    r = cz.minimize(p, x0, method=Own(2.0), **how)
    expected = cz.minimize(p, x0, method=cz.Continuized(2.0), **how)
    np.testing.assert_allclose(r.x, expected.x, rtol=1e-12)
    e = cz.ensemble(p, WithInteger(2.0), x0, runs=1, times=[3.0], rng=0)
    same = cz.ensemble(p, cz.Continuized(2.0), x0, runs=1, times=[3.0], rng=0)
    np.testing.assert_allclose(e.fun, same.fun, rtol=1e-12)


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
