"""The books of a real run, with stations in memory: they close, and would show a mistake."""

from __future__ import annotations

import numpy as np
import pytest

from continuized.network import Gossip, Graph
from continuized.network.protocol.node_model import AVERAGING, RuleSpec
from continuized.network.runtime.monitor import Board
from continuized.network.runtime.node_process import Station
from continuized.network.runtime.transport import Plan

GRAPH = Graph.of("cycle:6")
VALUES = np.arange(6.0)
PLACES = [[0, 2, 4], [1, 3], [5]]


def plan(**changes: object) -> Plan:
    constants = Gossip().constants(GRAPH)._asdict()
    rules = [RuleSpec(AVERAGING, {"x": VALUES[i : i + 1]}, constants) for i in range(6)]
    options = {
        "graph": GRAPH, "rules": rules, "dim": 1, "places": PLACES, "key": bytes(32),
        "seed": [1, 2], "speed": 1000.0, "stride": 2.0, "timeout": 5.0, "skews": np.ones(6),
        "loss": 0.1, "duplication": 0.1, "delay": 0.1, "log": False, "port": None,
    }  # fmt: skip
    return Plan(**{**options, **changes})


class Hall:
    """All stations of a plan, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.stations = [Station(plan().order(place)) for place in range(len(PLACES))]
        self.streams = [station.stream() for station in self.stations]
        self.inboxes: list[list] = [[] for _ in PLACES]
        self.alive = set(range(len(PLACES)))
        self.wall = 0.0
        self.tell({"home": plan().home()})
        self.board = Board(PLACES, 1, averaging=True)
        self.report()
        self.board.begin()

    def tell(self, header: dict) -> None:
        for place in self.alive:
            self.stations[place].command(header)

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self.wall += 0.0005
            for place in self.alive:
                inbox, self.inboxes[place] = self.inboxes[place], []
                for other, data in self.stations[place].turn(self.wall, inbox).items():
                    self.inboxes[other] += self.streams[other].feed(data)

    def report(self, final: bool = False) -> None:
        for place in self.alive:
            self.board.take(place, self.stations[place].report(final))

    def lose(self, place: int) -> None:
        """A process ends, without a word."""
        self.alive.discard(place)
        for node in PLACES[place]:
            self.board.bury(node, "killed")
        self.tell({"dead": [(node, 1) for node in PLACES[place]]})


def test_the_books_close_in_the_middle_of_a_run_with_what_is_on_its_way() -> None:
    hall = Hall()
    flying = 0.0
    for _ in range(20):
        hall.run(40)
        hall.board._books.clear()
        hall.report(final=True)
        flying = max(flying, float(np.abs(hall.board.in_flight()).max()))
        assert hall.board.ledger_error() < 1e-13
        assert hall.board.drift() < 1e-12
    assert flying > 0.0  # else the test would not test it
    assert hall.board.messages > 100


def test_the_books_close_after_a_death() -> None:
    hall = Hall()
    hall.run(20)
    hall.lose(1)
    hall.run(500)
    hall.tell({"quiet": True})
    hall.run(500)
    hall.report(final=True)
    board = hall.board
    assert board.idle[[0, 2]].all()
    assert board.ledger_error() < 1e-13
    assert board.drift() > 1e-3  # the dead took their share
    assert [node for _, node, _ in board.deaths] == [1, 3]


@pytest.mark.parametrize("mistake", ["lost", "twice"])
def test_the_books_show_a_mistake(mistake: str) -> None:
    hall = Hall()
    hall.run(200)
    node = next(n for s in hall.stations for n in s.host.nodes.values() if n.applied)
    x = node.rule.x.copy()
    if mistake == "lost":
        node.rule.pay(np.array([0.0]))  # what is paid goes nowhere
    else:
        node.rule.apply(np.array([0.5]), plain=False)  # what comes was never paid
    assert not np.array_equal(node.rule.x, x)
    hall.report(final=True)
    assert hall.board.ledger_error() > 1e-3


def test_a_trace_has_a_row_for_each_round_of_reports() -> None:
    hall = Hall()
    for _ in range(5):
        hall.run(200)
        hall.report()
        assert hall.board.round({0, 1, 2})
        assert not hall.board.round({0, 1, 2})
    trace = hall.board.trace
    assert len(trace.t) == 6
    assert (np.diff(trace.t) > 0.0).all()
    assert trace.error[0] == 1.0
    assert trace.error[-1] < 1e-3
