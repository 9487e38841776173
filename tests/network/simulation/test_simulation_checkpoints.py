"""Checkpoints of the simulator: interrupted and resumed is never interrupted, bit by bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized import network
from continuized.network import Faults, Graph, Outcome
from continuized.network.simulation.stepper import GossipStepper
from continuized.support.checkpoints.checkpointer import CheckpointError, CheckpointWarning

GRAPH = Graph.of("cycle:40")
VALUES = np.random.default_rng(0).normal(size=(40, 2))
FAULTS = Faults(
    delay=0.2, loss=0.05, duplication=0.05, skew=0.1, deaths=((9e3, 4),), joins=((3e4, 4),)
)
# The node 0 is alone for some blocks of events; the odd nodes come between neighbours.
ALONE_AT_FIRST = Faults(
    joins=tuple((4e4 + 1e3 * k, i) for k, i in enumerate([*range(2, 40, 2), *range(1, 40, 2)]))
)
ENGINES = {"atomic": None, "messages": FAULTS, "alone at first": ALONE_AT_FIRST}
HOW: dict[str, Any] = {
    "method": "plain", "rng": 9, "tol": 0.0, "until": 1.5e5, "log": True, "record": 50,
    "snapshots": [10.0, 1.7e4, 5e4],
}  # fmt: skip


class Stop(Exception):
    """Interrupts a run."""


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """interrupt(n): fail after the n-th advance from now, its events done already."""
    left = 0

    def at(n: int) -> None:
        nonlocal left
        left = n

    def interrupted(real: Any) -> Any:
        def advance(self: Any, *how: Any) -> Any:
            nonlocal left
            left -= 1
            done = real(self, *how)
            if left == 0:
                raise Stop
            return done

        return advance

    monkeypatch.setattr(GossipStepper, "advance", interrupted(GossipStepper.advance))
    return at


def bits(r: Outcome) -> list[Any]:
    arrays = [r.x, r.z, *r.trace.columns.values(), *r.snapshots.values(), *(r.log or ())]
    kept = [r.t, r.messages, r.error, r.reached, r.staleness, list(r.snapshots), r.ledger_error]
    return [*kept, *(a.tobytes() for a in arrays)]


@pytest.mark.parametrize("name", ENGINES)
def test_resumed_is_never_interrupted(name: str, tmp_path: Path, interrupt: Any) -> None:
    how = {**HOW, "faults": ENGINES[name], "checkpoint": tmp_path / "run.npz"}
    whole = network.simulate(GRAPH, VALUES, **{**how, "checkpoint": None})
    attempts = 0
    for attempt in range(20):
        interrupt(4)  # a snapshot may take two of them
        try:
            r = network.simulate(GRAPH, VALUES, **how, every=(0.0, 1e9)[attempt % 2], resume=True)
        except Stop:
            attempts += 1
            continue
        break
    assert attempts >= 3
    assert bits(r) == bits(whole)


@pytest.mark.parametrize("name", ENGINES)
def test_a_run_that_ended_goes_on(name: str, tmp_path: Path) -> None:
    how = {**HOW, "faults": ENGINES[name], "checkpoint": tmp_path / "run.npz"}
    network.simulate(GRAPH, VALUES, **{**how, "until": 2.5e4})
    r = network.simulate(GRAPH, VALUES, **how, resume=True)
    assert bits(r) == bits(network.simulate(GRAPH, VALUES, **{**how, "checkpoint": None}))
    with pytest.raises(CheckpointError, match="already"):
        network.simulate(GRAPH, VALUES, **{**how, "until": 10.0}, resume=True)


@pytest.mark.parametrize(
    "change",
    [
        {"rng": 8}, {"method": "accelerated"}, {"faults": Faults()}, {"record": 60},
        {"snapshots": []}, {"log": False},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_another_run_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    how = {**HOW, "checkpoint": tmp_path / "run.npz", "until": 100.0, "faults": FAULTS}
    network.simulate(GRAPH, VALUES, **how)
    with pytest.raises(CheckpointError, match="another run"):
        network.simulate(GRAPH, VALUES, **{**how, **change}, resume=True)
    with pytest.raises(CheckpointError, match="values"):
        network.simulate(GRAPH, VALUES + 1.0, **how, resume=True)


@pytest.mark.slow
def test_killed_again_and_again(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "helpers" / "killed_simulations.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_warning_of_a_damaged_one_names_the_caller_s_line(tmp_path: Path) -> None:
    how: dict[str, Any] = {"rng": 0, "checkpoint": tmp_path / "run.npz"}
    network.simulate("cycle:5", np.arange(5.0), **how)
    network.simulate("cycle:5", np.arange(5.0), **how)  # for there to be one before it
    (tmp_path / "run.npz").write_bytes(b"damaged")
    with pytest.warns(CheckpointWarning, match="the one before it is used") as warned:
        network.simulate("cycle:5", np.arange(5.0), resume=True, **how)
    assert [w.filename for w in warned] == [__file__]
