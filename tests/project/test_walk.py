"""How many modules a reader passes who follows one event from the call to the step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import continuized as cz

MINIMIZE = 20
SIMULATE_WITH_FAULTS = 22


def walk(call: Callable[[], Any]) -> list[str]:
    """The modules of ours that a call enters in Python, in order: fronts of packages and `support`
    left out.  It is made once before, for what is imported and compiled once."""
    call()
    entered: dict[str, None] = {}

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            entered[frame.f_globals.get("__name__", "")] = None

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    ours = [name for name in entered if name.startswith("continuized.")]
    modules = [name for name in ours if not hasattr(sys.modules[name], "__path__")]
    return [name for name in modules if not name.startswith("continuized.support.")]


def test_the_walk_of_one_event_of_minimize() -> None:
    p = cz.problems.paper_strongly_convex()
    passed = walk(lambda: cz.minimize(p, [0.0, 0.0, 0.0], maxiter=1, rng=0))
    assert "continuized.solver.loop" in passed
    assert len(passed) <= MINIMIZE, "\n".join(passed)


def test_the_walk_of_one_event_of_a_simulated_network_with_faults() -> None:
    faults, values = cz.network.Faults(delay=0.1), [1.0, 0.0, 0.0, 0.0, 0.0]
    passed = walk(lambda: cz.network.simulate("path:5", values, events=1, rng=0, faults=faults))
    assert len(passed) <= SIMULATE_WITH_FAULTS, "\n".join(passed)
