"""Checkpoints: every part of the state is put back; planted mistakes that forget one are seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.interrupted import NOISE, RIDGE, Stop, resumed_until_done, same
from tests.invariants.registry import problem

import continuized as cz
from continuized.solver import driver
from continuized.solver import marked_loop as marked_driver
from continuized.support.checkpoints import checkpointer as checkpoints


def contents(path: Path) -> tuple[Any, ...]:
    """What a checkpoint holds, in a form that compares by bits."""
    header, arrays = checkpoints.load(path)
    return repr(header), {name: (a.shape, a.dtype, a.tobytes()) for name, a in arrays.items()}


def forget(monkeypatch: pytest.MonkeyPatch, kind: Any, part: str) -> None:
    real = kind.restore

    def restore(self: Any, state: Any) -> None:
        fresh = self.state()
        for new, old in zip(fresh, state, strict=True):
            if part in old:
                value = new[part]
                old[part] = value.joined() if isinstance(value, checkpoints.Rows) else value
        real(self, state)

    monkeypatch.setattr(kind, "restore", restore)


NESTEROV = {"method": cz.Nesterov(1.5), "clock": cz.clock.Poisson(1), "noise": NOISE}
FULL_PARTS = ("k", "t", "carry", "calls", "nfev", "stream", "noise", "work", "watch",
              "row_k", "row_t", "row_dt", "row_fun", "row_x", "row_z")  # fmt: skip
MARKED_PARTS = ("k", "t", "cost", "tested", "next_test", "stream", "events", "scalars", "pairs",
                "image_pairs", "row_k", "row_t", "row_fun", "row_passes")  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "part"),
    [(driver.Run, p) for p in ("", *FULL_PARTS)]
    + [(marked_driver.Run, p) for p in ("", *MARKED_PARTS)],
)
def test_each_part_of_the_state_is_put_back(
    kind: Any, part: str, path: Path, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run resumed and interrupted at once leaves the checkpoint as it was."""
    full = kind is driver.Run
    p = problem("user") if full else RIDGE
    how = NESTEROV | {"record": "path"} if full else {"method": cz.CoordinateDescent()}
    how |= {"rng": 1, "tol": 1e-12, "maxiter": 1_000_000, "checkpoint": path}
    interrupt(6)
    with pytest.raises(Stop):
        cz.minimize(p, np.zeros(p.dim), **how)
    before = contents(path)
    plain, arrays = checkpoints.load(path)[0]["state"], checkpoints.load(path)[1]
    # compiled_calls has a test below; the carry of marked methods' processes is always 0.
    parts = set(FULL_PARTS if full else MARKED_PARTS)
    assert {*plain, *arrays} - {"compiled_calls" if full else "carry"} == parts
    if part:
        forget(monkeypatch, kind, part)
    interrupt(1)
    with pytest.raises(Stop):
        cz.minimize(p, np.zeros(p.dim), **how, resume=True)
    assert (contents(path) == before) == (not part)


@pytest.mark.filterwarnings("ignore::continuized.ConstantsWarning")
@pytest.mark.parametrize("part", ["carry", "noise", "stream", "work", "watch", "compiled_calls"])
def test_a_forgotten_part_changes_the_result(
    part: str, path: Path, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = problem("quadratic")
    how: dict[str, Any] = NESTEROV | {"rng": 1, "maxiter": 60}
    if part == "watch":  # it knows how large gradients were, and so what is divergence
        how |= {"method": cz.Continuized(0.5), "maxiter": 3000}
    whole = cz.minimize(p, np.ones(3), **how)
    assert same(whole, resumed_until_done(interrupt, path, 5, p, np.ones(3), **how))
    path.unlink()
    checkpoints.previous(path).unlink()
    forget(monkeypatch, driver.Run, part)
    assert not same(whole, resumed_until_done(interrupt, path, 5, p, np.ones(3), **how))
