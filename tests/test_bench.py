"""How contestants are timed, what becomes of one that cannot be, and what the command says."""

import json
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from continuized.bench import SUITES, machine, peers, pictures, timing
from continuized.bench.outcome import (
    ABSENT,
    AT_LEAST,
    FAILED,
    NOT_RUN,
    TIMED,
    Contest,
    Curve,
    Entry,
    Panel,
    Suite,
)
from continuized.bench.timing import Contestant, NotRunError, StoppedError, WrongError, compete
from continuized.cli import main


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


def test_warm_works_once_untimed_before_it_is_timed(clock):
    log = []
    contest = compete("work", workers(clock, log, a=[1.0, 0.5, 2.0]), repeats=1, warm=True)
    assert log == [*"aaa"]
    assert contest.entries[0].amount == 2.0


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
    modules = ", ".join(f"continuized.bench.{name}" for name in SUITES)
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


CONTEST = Contest(
    "some work",
    "s",
    (
        Entry("continuized", TIMED, 2e-3),
        Entry("quicker", TIMED, 1e-3),
        Entry("slower", AT_LEAST, 1.0, "given up at 1e-2"),
        Entry("missing", ABSENT, words="missing is not installed"),
        Entry("broken", FAILED, words="TypeError: no"),
    ),
    "A note.",
)
CURVES = tuple(
    Curve(name, np.arange(1.0, 1000.0), np.exp(-np.arange(1.0, 1000.0) / scale))
    for name, scale in (("continuized", 10.0), ("quicker", 5.0))
)


@pytest.fixture
def canned(monkeypatch):
    """Every suite gives the contest above; returns the sizes they were asked for."""
    asked = []
    for name in SUITES:
        module = __import__(f"continuized.bench.{name}", fromlist=[name])

        def run(size, say, name=name):
            asked.append((name, size))
            say("at work")
            return Suite([CONTEST], [Panel(name, "gradients", CURVES)])

        monkeypatch.setattr(module, "run", run)
    return asked


def invoke(*arguments):
    return CliRunner().invoke(main, ["bench", *map(str, arguments)])


def test_our_losses_stand_in_the_table_like_our_wins(canned):
    result = invoke("--suite", "loop", "--quick")
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line.split()}
    assert "0.50" in rows["quicker"]
    assert "1.00 ms" in rows["quicker"]
    assert "> 500" in rows["slower"]
    assert "missing is not installed" in rows["missing"]
    assert "failed: TypeError: no" in rows["broken"]
    assert "Less than ours in 1 of 2 comparisons:\n- some work: quicker" in result.stdout
    assert "numpy" in result.stdout


def test_all_suites_by_default_and_quick_ones_with_quick(canned):
    assert invoke().exit_code == 0
    assert [name for name, _ in canned] == list(SUITES)
    full = dict(canned)
    canned.clear()
    assert invoke("--quick").exit_code == 0
    assert all(size != full[name] for name, size in canned)


def test_json_is_one_object(canned):
    result = invoke("--suite", "ensemble", "--json")
    answer = json.loads(result.stdout, parse_constant=pytest.fail)
    (contest,) = answer["suites"]["ensemble"]
    assert [e["times_ours"] for e in contest["entries"]] == [1.0, 0.5, 500.0, None, None]
    assert [e["status"] for e in contest["entries"]][2:] == [AT_LEAST, ABSENT, FAILED]
    assert answer["machine"]["versions"]["continuized"]
    assert result.stderr == ""


def test_markdown_is_a_table(canned):
    lines = invoke("--suite", "gossip", "--markdown").stdout.splitlines()
    assert lines[1] == "|---|---|---:|---|"
    assert "| some work | continuized | 1.00 | |" in lines
    assert "| | quicker | 0.50 | |" in lines
    assert "| | slower | > 500 | given up at 1e-2 |" in lines
    assert lines.count("- A note.") == 1


def test_out_has_the_report_the_tables_and_the_pictures(canned, tmp_path):
    assert invoke("--suite", "loop", "--out", tmp_path / "new").exit_code == 0
    written = {path.name: path for path in (tmp_path / "new").iterdir()}
    assert set(written) == {"bench.md", "bench.json", "index.html", "loop.png", "loop.svg"}
    assert written["index.html"].read_text().count("data:image/svg+xml") == 1
    assert json.loads(written["bench.json"].read_text())["suites"]["loop"]
    assert written["loop.png"].read_bytes().startswith(b"\x89PNG")


def test_the_same_curves_give_the_same_picture():
    panels = [Panel("one", "gradients", CURVES), Panel("two", "seconds", CURVES[1:])]
    assert pictures.render(panels, ("svg",)) == pictures.render(panels, ("svg",))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--json", "--markdown"], "exclude each other"),
        (["--suite", "loop", "--data", "two.svm"], "--data is for the suite logistic"),
        (["--suite", "logistic", "--data", "three.svm"], "needs two labels, got 3"),
        (["--suite", "logistic", "--data", "none.svm"], "none.svm"),
        (["--suite", "logistic", "--data", "bad.svm"], "bad.svm"),
        (["--suite", "all", "--out", "two.svm"], "two.svm"),
        (["--suite", "everything"], "everything"),
    ],
)
def test_bad_input_is_refused_before_the_work(canned, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("two.svm").write_text("1 1:2\n-1 1:3\n")
    Path("three.svm").write_text("1 1:2\n2 1:3\n3 1:1\n")
    Path("bad.svm").write_text("not a number\n")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert canned == []


def test_progress_says_what_is_being_timed(clock):
    said = []
    compete("work", workers(clock, [], ours=count(1)), repeats=2, say=said.append)
    assert said == ["work: ours", "work: round 1 of 2", "work: round 2 of 2"]
