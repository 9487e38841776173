"""How contestants are timed, and what becomes of one that cannot be."""

import subprocess
import sys
from itertools import count

import pytest

from benchmarks import SUITES, machine, peers, timing
from benchmarks.outcome import ABSENT, AT_LEAST, FAILED, NOT_RUN, TIMED
from benchmarks.timing import Contestant, NotRunError, StoppedError, WrongError, compete


class Clock:
    """A clock that stands still but for the work."""

    def __init__(self):
        self.now, self.slept = 0.0, 0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.slept += 1


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(timing, "time", fake)
    return fake


class Worker:
    """Takes the seconds given, call after call, and notes that it was called."""

    def __init__(self, clock, log, name, seconds):
        self.clock, self.log, self.name, self.seconds = clock, log, name, iter(seconds)

    def __call__(self):
        self.log.append(self.name)
        step = next(self.seconds)
        if isinstance(step, Exception):
            raise step
        self.clock.now += step
        return self.name


def workers(clock, log, **seconds):
    return [
        Contestant(name, lambda name=name, steps=steps: Worker(clock, log, name, steps))
        for name, steps in seconds.items()
    ]


def raises(error):
    def prepare():
        raise error

    return prepare


def test_the_minimum_counts_and_the_first_call_does_not(clock):
    contest = compete(
        "work", workers(clock, [], ours=[0.1, 5.0, 2.0, 3.0], theirs=[99.0, 1.0, 7.0, 4.0]),
        repeats=3,
    )  # fmt: skip
    assert [e.amount for e in contest.entries] == [2.0, 1.0]
    assert [contest.ratio(e) for e in contest.entries] == [1.0, 0.5]
    assert contest.lost() == ["theirs"]


def test_rounds_are_interleaved_and_start_with_another_each(clock):
    log = []
    compete("work", workers(clock, log, a=[1.0] * 4, b=[1.0] * 4, c=[1.0] * 4), repeats=3)
    assert log == [*"abc", *"abc", *"bca", *"cab"]
    assert clock.slept == 9


def test_what_is_short_works_again_until_its_turn_is_over(clock, monkeypatch):
    monkeypatch.setattr(timing, "TURN", 1.0)
    log: list[str] = []
    seconds = {"a": [9.0, 0.5, 0.25, 0.25, 0.125], "b": [9.0, 1.0]}
    contest = compete("work", workers(clock, log, **seconds), repeats=1)
    assert log == [*"ab", *"aaa", *"b"]
    assert [entry.amount for entry in contest.entries] == [0.25, 1.0]


def test_the_time_is_divided_by_what_the_check_says(clock):
    contest = compete(
        "work", workers(clock, [], ours=[8.0, 8.0], theirs=[8.0, 8.0]), repeats=1,
        check=lambda answer: {"ours": 4.0, "theirs": 2.0}[answer],
    )  # fmt: skip
    assert [e.amount for e in contest.entries] == [2.0, 4.0]


def test_nobody_is_dropped_in_silence(clock):
    def check(answer):
        if answer == "wrong":
            raise WrongError("its answer is 3, and not 4")
        return 1.0

    contestants = [
        *workers(clock, [], ours=[1.0] * 3, wrong=[1.0], later=[1.0, 1.0, ValueError("no")]),
        Contestant("absent", raises(peers.AbsentError("peer is not installed"))),
        Contestant("broken", raises(TypeError("first line\nsecond line"))),
        Contestant("slow", raises(StoppedError(30.0, "given up"))),
        Contestant("large", raises(NotRunError("too large"))),
    ]
    entries = compete("work", contestants, repeats=2, check=check).entries
    assert [(e.name, e.status, e.amount) for e in entries] == [
        ("ours", TIMED, 1.0),
        ("wrong", FAILED, None),
        ("later", FAILED, None),
        ("absent", ABSENT, None),
        ("broken", FAILED, None),
        ("slow", AT_LEAST, 30.0),
        ("large", NOT_RUN, None),
    ]
    assert entries[1].words == "WrongError: its answer is 3, and not 4"
    assert entries[4].words == "TypeError: first line"


@pytest.mark.parametrize("steps", [[ValueError("first")], [1.0, ValueError("second")]])
def test_ours_failing_is_no_outcome(clock, steps):
    with pytest.raises(ValueError, match=r"first|second"):
        compete("work", workers(clock, [], ours=steps), repeats=1)


def test_a_peer_that_is_not_there_is_absent_and_one_that_breaks_is_not(monkeypatch, tmp_path):
    monkeypatch.setitem(peers.PEERS, "nowhere", "continuized_no_such_module")
    with pytest.raises(peers.AbsentError, match="nowhere is not installed"):
        peers.load("nowhere")
    assert peers.version("nowhere") == "absent"

    (tmp_path / "continuized_broken_peer.py").write_text("raise AttributeError('np.int')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(peers.PEERS, "broken", "continuized_broken_peer")
    contest = compete(
        "work",
        [
            Contestant("ours", lambda: lambda: None),
            Contestant("theirs", lambda: peers.load("broken")),
        ],
        repeats=1,
    )
    assert contest.entries[1].status == FAILED
    assert contest.entries[1].words == "AttributeError: np.int"


def test_no_peer_is_imported_before_it_is_asked_for():
    modules = ", ".join(f"benchmarks.{name}" for name in SUITES)
    found = f"[m for m in {sorted(peers.PEERS.values())!r} if m in sys.modules]"
    script = f"import sys; import {modules}; print({found})"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_the_machine_is_described(tmp_path):
    told = machine.describe()
    assert set(peers.PEERS) <= set(told["versions"])
    assert told["cores"] >= 1
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A  CPU @ 2 GHz\n")
    assert machine.processor(tmp_path / "cpuinfo") == "A CPU @ 2 GHz"
    assert machine.processor(tmp_path / "none")
    assert "not idle" in machine.sentences({**told, "load": 7.3})
    assert "not idle" not in machine.sentences({**told, "load": None})


def test_progress_says_what_is_being_timed(clock):
    said = []
    compete("work", workers(clock, [], ours=count(1)), repeats=2, say=said.append)
    assert said == ["work: ours", "work: round 1 of 2", "work: round 2 of 2"]
