"""How many modules a reader passes who follows one event from the call to the step.

They are counted in a process without Numba: in compiled loops nothing tells who calls whom.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

MINIMIZE = 21
SIMULATE_WITH_FAULTS = 26
WALK = """
import sys
import warnings

import continuized as cz

warnings.simplefilter("ignore")  # it tells that loops run in plain Python


def minimize():
    cz.minimize(cz.problems.paper_strongly_convex(), [0.0, 0.0, 0.0], maxiter=1, rng=0)


def simulate():
    faults, values = cz.network.Faults(delay=0.1), [1.0, 0.0, 0.0, 0.0, 0.0]
    cz.network.simulate("path:5", values, events=1, rng=0, faults=faults)


call, entered = globals()[sys.argv[1]], {}
call()  # once before, for what is imported, and made, once
sys.setprofile(
    lambda frame, event, _: event == "call"
    and entered.setdefault(frame.f_globals.get("__name__", ""))
)
call()
sys.setprofile(None)
for name in entered:
    if name.startswith("continuized.") and not hasattr(sys.modules[name], "__path__"):
        print(name)
"""


@pytest.mark.parametrize(
    ("call", "most", "passed"),
    [
        ("minimize", MINIMIZE, ("solver.loop", "process.flow")),
        ("simulate", SIMULATE_WITH_FAULTS, ("solver.loop", "network.protocol.timeouts")),
    ],
)
def test_the_walk_of_one_event(call: str, most: int, passed: tuple[str, ...]) -> None:
    """Fronts of packages and `support` are left out."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    line = [sys.executable, "-c", WALK, call]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
    entered = [name.removeprefix("continuized.") for name in done.stdout.split()]
    modules = [name for name in entered if not name.startswith("support.")]
    assert set(passed) <= set(modules)
    assert len(modules) <= most, "\n".join(modules)
