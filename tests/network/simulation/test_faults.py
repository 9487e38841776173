"""Faults between nodes: nothing is lost but with a node, and a log repeats the run."""

from __future__ import annotations

import contextlib
import importlib
import math
import signal
import time
from typing import Any

import numpy as np
import pytest

from continuized import network
from continuized.network import Faults, Graph, Outcome
from continuized.network.logs.entries import LOG_ANSWER, LOG_APPLY, LOG_JOIN, LOG_PAY, Log
from continuized.network.simulation import engine as engines
from continuized.network.simulation import heap
from continuized.network.simulation.messages import MessageEngine
from continuized.network.simulation.node_models.gossip import make_nodes
from continuized.process.random_streams import seed_sequence

simulate = importlib.import_module("continuized.network.simulation.simulate")

GRID = Graph.of("grid:5x5")
VALUES = np.random.default_rng(3).normal(size=(25, 2))
METHODS = ("accelerated", "plain")

SETTINGS = {
    "none": Faults(),
    "delay": Faults(delay=0.3),
    "constant delay": Faults(delay=0.3, law="constant"),
    "loss and duplication": Faults(loss=0.1, duplication=0.05),
    "all links": Faults(delay=0.2, loss=0.1, duplication=0.05),
    "short timeout": Faults(delay=0.5, loss=0.1, duplication=0.2, timeout=0.7),
    "skew": Faults(skew=0.5),
    "deaths amid exchanges": Faults(
        delay=2.0,
        loss=0.2,
        deaths=tuple((30.0 + 3.0 * i, i) for i in range(0, 24, 2)),
        joins=tuple((50.0 + 3.0 * i, i) for i in range(0, 24, 2)),
    ),
    "everything": Faults(
        delay=0.2,
        loss=0.1,
        duplication=0.05,
        skew=np.linspace(0.5, -0.5, 25),
        deaths=((20.0, 7), (30.0, 12), (90.0, 7)),
        joins=((60.0, 7), (70.0, 12)),
    ),
}


def run(faults: Faults, method: str = "accelerated", **how: Any) -> Outcome:
    return network.simulate(GRID, VALUES, method=method, faults=faults, **{"rng": 11, **how})


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("method", METHODS)
def test_the_ledger_closes_and_consensus_is_reached(name: str, method: str) -> None:
    r = run(SETTINGS[name], method, tol=1e-10)
    assert r.reached
    assert r.ledger_error < 1e-12
    if not SETTINGS[name].deaths:
        assert r.mean_drift < 1e-12
        assert np.abs(r.x - VALUES.mean(axis=0)).max() < 1e-4


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("events", [1, 50, 700])
def test_the_ledger_closes_at_any_moment(name: str, events: int) -> None:
    for seed in range(3):  # a death between payment and transfer is not in every run
        r = run(SETTINGS[name], events=events, tol=0.0, rng=seed)
        assert r.messages == events
        assert r.ledger_error < 1e-12


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("method", METHODS)
def test_replay_is_the_run(name: str, method: str) -> None:
    faults = SETTINGS[name]
    r = run(faults, method, until=100.0, log=True, tol=0.0)
    times = faults.speeds(25) * r.t
    for t, i, _ in r.deaths:
        if not any(k == i and t < back for back, k in r.joins):
            times[i] = faults.speeds(25)[i] * t
    assert r.log is not None
    x, z = network.replay(GRID, VALUES, method, r.log, times)
    assert np.abs(x - r.x).max() < 1e-12
    assert np.abs(z - r.z).max() < 1e-12
    assert np.count_nonzero(r.log.kind == LOG_APPLY) == r.messages


def test_replay_without_faults() -> None:
    r = network.simulate(GRID, VALUES, rng=1, log=True, events=500, tol=0.0)
    assert r.log is not None
    x, z = network.replay(GRID, VALUES, "accelerated", r.log, r.t)
    assert np.abs(x - r.x).max() < 1e-12
    assert np.abs(z - r.z).max() < 1e-12


def test_replay_needs_only_the_order_of_causes() -> None:
    r = run(SETTINGS["all links"], until=50.0, log=True, tol=0.0)
    assert r.log is not None
    # Nodes' own entries in their order, and causes first, but the rest as late as possible: a
    # stable sort by node within the waves of what depends on what.
    depth = np.zeros(len(r.log.kind), int)
    last_of = np.zeros(25, int)
    by_name: dict[tuple[int, int, int], int] = {}
    for k, (kind, node, peer, seq, _) in enumerate(zip(*r.log, strict=True)):
        name = (node, peer, seq) if kind == LOG_PAY else (peer, node, seq)
        depth[k] = 1 + max(last_of[node], by_name.get(name, 0) if kind != LOG_ANSWER else 0)
        last_of[node] = by_name[name] = depth[k]
    order = np.lexsort([r.log.node[::-1], depth[::-1]])
    order = len(order) - 1 - order
    other = Log(*(column[order] for column in r.log))
    assert not np.array_equal(other.node, r.log.node)
    for mine, theirs in zip(
        network.replay(GRID, VALUES, "accelerated", r.log),
        network.replay(GRID, VALUES, "accelerated", other),
        strict=True,
    ):
        assert np.array_equal(mine, theirs)


WRONG_LOGS: dict[str, tuple[Any, str]] = {
    "a node too many": (lambda log: log._replace(node=log.node + 20), "none of a network"),
    "a kind too many": (lambda log: log._replace(kind=log.kind + 3), "none of a network"),
    "columns": (lambda log: log._replace(time=log.time[:-1]), "equal length"),
    "no answers": (lambda log: Log(*(c[log.kind != LOG_ANSWER] for c in log)), "no answer before"),
    "no payments": (lambda log: Log(*(c[log.kind != LOG_PAY] for c in log)), "never paid"),
    "twice": (lambda log: Log(*(np.concatenate([c, c]) for c in log)), "twice"),
    "backwards": (lambda log: log._replace(time=-log.time), "goes back"),
}


@pytest.mark.parametrize("name", WRONG_LOGS)
def test_replay_refuses_what_is_no_log(name: str) -> None:
    spoil, words = WRONG_LOGS[name]
    log = run(Faults(), events=50, log=True).log
    with pytest.raises(ValueError, match=words):
        network.replay(GRID, VALUES, "accelerated", spoil(log))


def test_messages_count_an_exchange_once_however_often_it_was_sent() -> None:
    r = run(Faults(loss=0.3, duplication=0.3, delay=0.1), tol=1e-6, log=True)
    applied = np.column_stack([r.log.peer, r.log.seq])[r.log.kind == LOG_APPLY]
    assert r.messages == len(applied) == len(np.unique(applied, axis=0)) == r.trace.messages[-1]


def test_skewed_clocks_keep_the_sum() -> None:
    rng = np.random.default_rng(5)
    r = run(Faults(skew=rng.uniform(-0.5, 0.5, 25)), tol=1e-12)
    assert r.reached
    assert np.abs((r.x + r.z).sum(axis=0) - 2.0 * VALUES.sum(axis=0)).max() < 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_a_death_costs_its_share(method: str) -> None:
    killed = (3, 17, 20)
    faults = Faults(delay=0.2, loss=0.1, deaths=tuple((15.0, i) for i in killed))
    before = run(faults, method, until=14.999999)
    after = run(faults, method, tol=1e-10)
    assert after.deaths == [(15.0, i, "killed") for i in killed]
    assert after.reached
    assert after.ledger_error < 1e-12
    living = np.setdiff1d(np.arange(25), killed)
    # The mean of the living is that of all, less what the dead had: at most their shares, each of
    # the size of its distance from the mean then and of one transfer in flight.
    mean, new = VALUES.mean(axis=0), (after.x + after.z)[living].mean(axis=0) / 2.0
    shares = np.abs((before.x + before.z) / 2.0 - mean)[list(killed)].sum(axis=0) / living.size
    flying = np.abs(before.x[:, None] - before.x[None]).max(axis=(0, 1)) * 2 * len(killed)
    assert np.all(np.abs(new - mean) <= shares + flying / living.size)
    assert np.abs(after.x[living] - new).max() < 1e-3
    quiet = run(Faults(deaths=faults.deaths), method, tol=1e-10)  # nothing in flight
    now = run(Faults(), method, until=15.0)
    held = ((now.x + now.z) / 2.0 - mean)[list(killed)].sum(axis=0)
    moved = (quiet.x + quiet.z)[living].mean(axis=0) / 2.0 - mean
    assert np.abs(moved + held / living.size).max() < 1e-12


def test_a_node_that_joins_takes_part() -> None:
    faults = Faults(delay=0.1, joins=((40.0, 0),))
    r = run(faults, tol=1e-10, log=True)
    assert r.joins == [(40.0, 0)]
    assert r.reached
    assert r.ledger_error < 1e-12
    assert r.log is not None
    first = int(np.flatnonzero(r.log.node == 0)[0])
    assert r.log.kind[first] == LOG_JOIN
    assert r.log.peer[first] in (1, 5)
    assert np.any((r.log.node == 0) & (r.log.kind == LOG_PAY))
    assert np.abs(r.x[0] - r.x[24]).max() < 1e-3
    # What it is given for a start is not used.
    other = VALUES.copy()
    other[0] = 1e6
    again = network.simulate(GRID, other, rng=11, faults=faults, tol=1e-10)
    assert again.x.tobytes() == r.x.tobytes()


def test_all_die() -> None:
    faults = Faults(delay=0.5, deaths=tuple((5.0 + i, i) for i in range(25)))
    r = run(faults, tol=1e-12)
    assert not r.reached
    assert len(r.deaths) == 25
    assert r.ledger_error < 1e-12


def test_one_that_is_left_agrees_with_nobody() -> None:
    faults = Faults(deaths=[(1.0, 0), (1.0, 1), (1.0, 2)])
    r = network.simulate("cycle:4", np.arange(4.0), faults=faults, rng=0)
    assert not r.reached
    assert r.message == "No two living nodes are neighbours any more, and none is to come."


FIRST_ALONE: dict[str, Faults] = {
    "one at the start": Faults(joins=((1.0, 2), (2.0, 1))),
    "nobody at the start": Faults(joins=((1.0, 0), (1.5, 2), (2.0, 1))),
    "one at the start, for long": Faults(joins=((3e4, 2), (4e4, 1)), delay=0.1),
}


@pytest.mark.parametrize("name", FIRST_ALONE)
@pytest.mark.parametrize("method", METHODS)
def test_one_alone_waits_for_those_to_come(name: str, method: str) -> None:
    faults = FIRST_ALONE[name]
    r = network.simulate("path:3", [0.0, 1.0, 5.0], method=method, rng=0, faults=faults)
    assert r.reached
    assert r.joins == list(faults.joins)
    assert r.ledger_error < 1e-12
    # The error is relative to that of 0 and 5, the values of the first two.
    middle = (r.x + r.z).mean() / 2.0
    assert r.error == pytest.approx(np.sum((r.x - middle) ** 2) / 12.5, rel=1e-6)
    assert 0.0 < r.error <= 1e-8


LEFT_ALONE: dict[str, Faults] = {
    "one": Faults(deaths=((5.0, 0), (5.0, 1)), joins=((100.0, 1),)),
    "nobody": Faults(deaths=((5.0, 0), (5.0, 1), (5.0, 2)), joins=((100.0, 0), (100.0, 2))),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tol", [0.0, 1e-8])
def test_one_that_is_left_waits_for_those_to_come(name: str, method: str, tol: float) -> None:
    faults, start = LEFT_ALONE[name], [0.0, 1.0, 5.0]
    how: dict[str, Any] = {"method": method, "tol": tol, "rng": 0, "faults": faults}
    r = network.simulate("path:3", start, until=500.0, **how)
    assert r.joins == list(faults.joins)
    assert r.t > 100.0
    waiting = network.simulate("path:3", start, until=50.0, **how)
    assert (waiting.t, waiting.reached, waiting.joins) == (50.0, False, [])
    assert waiting.message == "The time asked for has passed."


def test_one_alone_has_not_agreed_with_anybody() -> None:
    faults = FIRST_ALONE["one at the start"]
    for limits, words in (({"events": 0}, "The limit of events"), ({"until": 0.5}, "The time")):
        r = network.simulate("path:3", [0.0, 1.0, 5.0], rng=0, faults=faults, **limits)
        assert not r.reached
        assert r.message.startswith(words)


def test_a_graph_that_deaths_have_cut_is_said_to_be() -> None:
    faults = Faults(deaths=[(1.0, 4)])
    r = network.simulate("path:9", np.arange(9.0), faults=faults, rng=0, events=20_000)
    assert not r.reached
    assert r.message.endswith(
        "Deaths have cut the graph into 2 parts, each with a mean of its own."
    )
    assert np.allclose(r.x[:4], r.x[0], atol=1e-6)


def test_two_that_are_cut_off_end_the_run() -> None:
    r = network.simulate("path:3", [1.0, 2.0, 3.0], rng=0, faults=Faults(deaths=((1.0, 1),)))
    assert not r.reached
    assert r.ledger_error < 1e-12


@pytest.mark.parametrize("law", ["exponential", "constant"])
def test_staleness_is_two_delays(law: str) -> None:
    r = run(Faults(delay=0.4, law=law, timeout=100.0), events=4000, tol=0.0)
    assert r.staleness is not None
    # The mean of 4000 sums of two exponential delays: 5 standard errors are 5.5 %.
    assert r.staleness.mean == pytest.approx(0.8, rel=0.055 if law == "exponential" else 1e-9)
    assert r.staleness.exchanges == 4000
    # One of them is above 6 delays with a probability of 0.017, none of 4000 with 1e-30.
    if law == "exponential":
        assert r.staleness.largest > 2.4
    else:
        assert r.staleness.largest == pytest.approx(0.8, rel=1e-9)


def test_lost_messages_are_sent_again_and_copies_ignored() -> None:
    r = run(Faults(loss=0.5, duplication=0.5, delay=0.1), "plain", tol=1e-6, log=True)
    assert r.reached
    assert r.ledger_error < 1e-12
    assert r.log is not None
    applied = r.log.kind == LOG_APPLY
    names = np.column_stack([r.log.peer, r.log.node, r.log.seq])[applied]
    assert len(np.unique(names, axis=0)) == len(names)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "delay": ({"delay": -1.0}, "delay"),
    "loss": ({"loss": 1.0}, "loss"),
    "duplication": ({"duplication": "often"}, "duplication"),
    "timeout": ({"timeout": 0.0}, "timeout"),
    "a timeout lost in rounding": (
        {"timeout": 1e-308},
        "timeout must be a finite number >= 0.0001 or None, got 1e-308; a shorter one is lost",
    ),
    "a delay without end": (
        {"delay": 1e30},
        r"delay = 1e\+30, .* takes at least 1.6e\+29 messages and ticks on average, more than 1e",
    ),
    "a long delay": ({"delay": 1e6}, r"takes at least 1.6e\+05 messages and ticks"),
    "a loss near 1": (
        {"loss": 0.999999},
        r"loss = 0.999999 .* takes at least 4e\+12 messages and ticks",
    ),
    "no answer in time": (
        {"delay": 1.0, "law": "constant", "timeout": 1.9},
        "takes at least inf messages and ticks on average",
    ),
    "law": ({"law": "normal"}, '"exponential" or "constant"'),
    "deaths": ({"deaths": (3,)}, "pairs"),
    "a death in the past": ({"deaths": ((-1.0, 3),)}, "deaths"),
    "a node too many": ({"deaths": ((1.0, 25),)}, "node 25"),
    "two deaths": ({"deaths": ((1.0, 2), (2.0, 2))}, "is not there"),
    "two joins": ({"joins": ((1.0, 2), (2.0, 2))}, "is there already"),
    "skew": ({"skew": [0.1, 0.2]}, "skew"),
    "a clock that stands": ({"skew": -1.0}, "skew"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_faults(name: str) -> None:
    given, words = BAD[name]
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        run(Faults(**given), events=10)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [{"delay": 1e30}, {"loss": 0.999999}])
def test_a_time_to_stop_at_ends_any_run(given: dict[str, float]) -> None:
    r = run(Faults(**given), until=100.0)
    assert (r.t, r.messages) == (100.0, 0)


@pytest.mark.parametrize(
    "given",
    [{"loss": 0.8}, {"delay": 100.0}, {"delay": 1.0, "timeout": 0.1}, {"loss": 0.3, "delay": 1.0}],
)
def test_the_work_of_an_exchange_is_estimated_from_below(given: dict[str, float]) -> None:
    """From below, and within a factor of 20: there are timers, pauses and refusals too."""
    faults, graph = Faults(**given), Graph.of("path:3")
    nodes = make_nodes(np.arange(3.0)[:, None], network.Gossip().constants(graph))
    engine = MessageEngine(graph, nodes, seed_sequence(0), faults)
    events = engine.make_stream(seed_sequence(0)).draw(20_000)
    engine.run(events, 0, math.inf, 300, engines.NO_TESTS)
    ticks = np.searchsorted(events.t, engine.t)
    steps = (engine.network.counts[heap.PUSHED] + ticks) / engine.messages
    assert 1.0 <= steps / faults.steps_per_exchange(3) < 20.0


SLOW = Faults(delay=1.0, timeout=1e-4)  # a block of ticks takes a minute


def test_an_interrupt_is_heard_within_a_block() -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    run(SLOW, until=0.1)  # compiled before
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        began = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            run(SLOW, until=1e9, tol=0.0)
        assert time.process_time() - began < 20.0  # 0.6, and the block would take 60
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_progress_is_shown_within_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, str]] = []

    def show(done: int, words: str = "") -> None:
        told.append((done, words))
        if len(told) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "bar", lambda *given: contextlib.nullcontext(show))
    with pytest.raises(KeyboardInterrupt):
        run(SLOW, until=1e9, tol=0.0, progress=True)
    assert told[0][1].startswith("error")


@pytest.mark.parametrize("faults", [None, SETTINGS["everything"]])
def test_slices_change_no_bit(faults: Faults | None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(faults, until=100.0, log=True)
    stopped = run(faults, tol=1e-6)
    monkeypatch.setattr(engines.Engine, "slice_steps", 1)
    monkeypatch.setattr(engines.Engine, "fit_slice", lambda self, seconds: None)
    for before, now in (
        (whole, run(faults, until=100.0, log=True)),
        (stopped, run(faults, tol=1e-6)),
    ):
        assert now.x.tobytes() == before.x.tobytes()
        assert now.messages == before.messages
        for ours, theirs in zip(
            (*now.trace.columns.values(), *(now.log or ())),
            (*before.trace.columns.values(), *(before.log or ())),
            strict=True,
        ):
            assert ours.tobytes() == theirs.tobytes()
