"""The file of what happens in a run: what it says of a simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized import network
from continuized.network import Faults, Outcome
from continuized.network.logs.entries import LOG_APPLY, LOG_PAY
from continuized.network.logs.event_log import log_simulation

FAULTS = {
    "none": None,
    "late and lost": Faults(skew=0.5, delay=0.5, loss=0.2, duplication=0.1),
    "deaths": Faults(skew=0.5, delay=0.5, deaths=((6.0, 1), (9.0, 4)), joins=((12.0, 1),)),
}


def simulate(faults: Faults | None) -> Outcome:
    return network.simulate(
        "cycle:6", np.arange(6.0), rng=0, faults=faults, log=True, tol=0.0, until=40.0
    )


def list_exchanges(r: Outcome, path: Path) -> list[dict[str, Any]]:
    log_simulation(path, r)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["event"] == "exchange"]


@pytest.mark.parametrize("name", FAULTS)
def test_every_exchange_has_the_own_time_of_the_node_that_began_it(
    name: str, tmp_path: Path
) -> None:
    r = simulate(FAULTS[name])
    assert r.log is not None
    paid = {
        (node, peer, seq): time
        for kind, node, peer, seq, time in zip(*r.log, strict=True)
        if kind == LOG_PAY
    }
    found = list_exchanges(r, tmp_path / "log.jsonl")
    assert len(found) == r.messages == np.count_nonzero(r.log.kind == LOG_APPLY)
    assert all(line["t"] == paid[line["node"], line["peer"], line["seq"]] for line in found)


def test_without_delay_both_ends_of_an_exchange_name_one_moment(tmp_path: Path) -> None:
    faults = Faults(skew=0.5)
    r, speeds = simulate(faults), faults.speeds(6)
    assert r.log is not None
    moments = {
        (peer, node, seq): time / speeds[node]
        for kind, node, peer, seq, time in zip(*r.log, strict=True)
        if kind == LOG_APPLY
    }
    for line in list_exchanges(r, tmp_path / "log.jsonl"):
        name = line["node"], line["peer"], line["seq"]
        assert line["t"] / speeds[line["node"]] == pytest.approx(moments[name], rel=1e-12)
