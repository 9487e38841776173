"""Checkpoints: every part of the state is put back; planted mistakes that forget one are seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.solver.loop import Loop
from continuized.solver.recording import Recorder
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.state import GrowingRows, capture
from tests.helpers.interrupted_runs import NOISE, RIDGE, Stop, resumed_until_done, same
from tests.invariants.registry import problem


def contents(path: Path) -> tuple[Any, ...]:
    """What a checkpoint holds, in a form that compares by bits."""
    header, arrays = checkpoints.load(path)
    return repr(header), {name: (a.shape, a.dtype, a.tobytes()) for name, a in arrays.items()}


def parts_of(plain: Any, name: str = "") -> dict[str, Any]:
    """What a state keeps, by name: numbers, arrays, and generators as a whole."""
    if isinstance(plain, dict) and not {"array", "bit_generator"} & set(plain):
        found: dict[str, Any] = {}
        for key, its in plain.items():
            found |= parts_of(its, f"{name}.{key}".lstrip("."))
        return found
    return {name: plain}


def forget(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Plant a mistake: a run that is resumed has this part of its state as at the start."""
    real = Loop.restore

    def restore(self: Any, plain: Any, arrays: Any) -> None:
        fresh = capture(self)
        *way, last = part.split(".")
        old, new = plain, fresh.plain
        for key in way:
            old, new = old[key], new[key]
        old[last] = new[last]
        if part in arrays:
            value = fresh.arrays[part]
            arrays[part] = value.join() if isinstance(value, GrowingRows) else value
        real(self, plain, arrays)

    monkeypatch.setattr(Loop, "restore", restore)


NESTEROV = {"method": cz.Nesterov(1.5), "clock": cz.clock.Poisson(1), "noise": NOISE}
STREAM = ("stream.k", "stream.t", "stream.generators")
FULL_PARTS = {
    *(f"stepper.{name}" for name in ("k", "t", "carry", "fun", "nfev", "rng", "work", "watch")),
    *("stepper.oracle.calls", "stepper.oracle.eps", *STREAM),
    *(f"recorder.columns.{name}" for name in ("k", "t", "dt", "fun", "x", "z")),
}
MARKED_PARTS = {
    *(f"stepper.{name}" for name in ("k", "t", "carry", "cost", "tested", "next_test", "rows_made",
                                     "recorded", "last_fun", "events", "scalars", "pairs",
                                     "image_pairs")),
    *(f"recorder.columns.{name}" for name in ("k", "t", "fun", "passes")),
    *STREAM,
}  # fmt: skip
# The rounding of answers and the carry of marked methods'
# processes are the same at any time, and a stream that forgets one of its parts refuses to go on.
UNSEEN = {"stepper.oracle.eps", *STREAM}


@pytest.mark.parametrize(
    ("full", "part"),
    [(True, p) for p in ("", *sorted(FULL_PARTS - UNSEEN))]
    + [(False, p) for p in ("", *sorted(MARKED_PARTS - UNSEEN - {"stepper.carry"}))],
)
def test_each_part_of_the_state_is_put_back(
    full: bool, part: str, path: Path, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run resumed and interrupted at once leaves the checkpoint as it was."""
    p = problem("user") if full else RIDGE
    how = NESTEROV | {"record": "path"} if full else {"method": cz.CoordinateDescent()}
    how |= {"rng": 1, "tol": 1e-12, "maxiter": 1_000_000, "checkpoint": path}
    interrupt(6)
    with pytest.raises(Stop):
        cz.minimize(p, np.zeros(p.dim), **how)
    before = contents(path)
    assert set(parts_of(checkpoints.load(path)[0]["state"])) == (
        FULL_PARTS if full else MARKED_PARTS
    )
    if part:
        forget(monkeypatch, part)
    interrupt(1)
    with pytest.raises(Stop):
        cz.minimize(p, np.zeros(p.dim), **how, resume=True)
    assert (contents(path) == before) == (not part)


@pytest.mark.filterwarnings("ignore::continuized.ConstantsWarning")
@pytest.mark.parametrize(
    "part",
    [
        "stepper.carry",
        "stepper.rng",
        "stream",
        "stepper.work",
        "stepper.watch",
        "stepper.oracle.calls",
    ],
)
def test_a_forgotten_part_changes_the_result(
    part: str, path: Path, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = problem("quadratic")
    how: dict[str, Any] = NESTEROV | {"rng": 1, "maxiter": 60}
    if part == "stepper.watch":  # it knows how large gradients were, and so what is divergence
        how |= {"method": cz.Continuized(0.5), "maxiter": 3000}
    whole = cz.minimize(p, np.ones(3), **how)
    assert same(whole, resumed_until_done(interrupt, path, 5, p, np.ones(3), **how))
    path.unlink()
    checkpoints.previous(path).unlink()
    forget(monkeypatch, part)
    assert not same(whole, resumed_until_done(interrupt, path, 5, p, np.ones(3), **how))


@pytest.mark.parametrize("rows", [np.array(["a", "b"]), np.array(1.0), np.array([1j])])
def test_rows_that_are_no_numbers_are_not_put_back(rows: Any) -> None:
    recorder = Recorder(("k",))
    recorder.add((np.arange(2),))
    plain, arrays = capture(recorder)
    (name,) = arrays
    with pytest.raises(ValueError, match="rows are arrays of real numbers"):
        Recorder(("k",)).restore(plain, {name: rows})
