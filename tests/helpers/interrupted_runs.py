"""Runs that are interrupted and resumed, and what they run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import continuized as cz
from continuized.marked.stepper import MarkedStepper
from continuized.solver.steppers.fixed import FixedStepper
from tests.invariants.registry import data, same_bits

NOISE = cz.noise.Gaussian(1e-3)
X, Y = data(30, 6)
RIDGE = cz.problems.LeastSquares(X, Y, l2=0.01)


class Stop(Exception):
    """Interrupts a run, as an error of the user's own would."""


def interruptions(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function (n, error): fail in the n-th block from now, its events drawn already."""
    left, error = 0, Stop

    def at(n: int, what: type[BaseException] = Stop) -> None:
        nonlocal left, error
        left, error = n, what

    def interrupted(real: Any) -> Any:
        def block(self: Any, events: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise error
            return real(self, events)

        return block

    for kind in (FixedStepper, MarkedStepper):
        monkeypatch.setattr(kind, "advance", interrupted(kind.advance))
    return at


def same(a: Any, b: Any) -> bool:
    """Whether two results are the same to the last bit, counters and all."""
    pairs = [(getattr(a.trace, c), getattr(b.trace, c)) for c in ("k", "t", "fun", "passes")]
    if a.path is not None:
        pairs += zip(a.path, b.path, strict=True)
    pairs += [(a[name], b[name]) for name in ("x", "fun", "jac", "nit", "nfev", "njev")]
    return all(same_bits(*pair) for pair in pairs) and (a.status is b.status)


def resumed_until_done(interrupt: Any, path: Path, blocks: int, p: Any, x0: Any, **how: Any) -> Any:
    """Interrupted again and again, at the block of this number of each attempt."""
    kinds = (Stop, KeyboardInterrupt)
    for attempt in range(100):
        interrupt(blocks, kinds[attempt % 2])
        try:
            r = cz.minimize(p, x0, **how, checkpoint=path, every=(0.0, 1e9)[attempt // 2 % 2],
                            resume=True)  # fmt: skip
        except kinds:
            continue
        interrupt(0)
        assert attempt > 0, "never interrupted"
        return r
    raise AssertionError("no end")
