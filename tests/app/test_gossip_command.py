"""`continuized gossip`: its JSON, its table, its pictures, its exit codes and sentences."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from continuized import network, theory
from continuized.app.cli import main
from continuized.network import Gossip, Graph

FIELDS = {
    "graph", "nodes", "edges", "start", "method", "tol", "transport", "seconds", "seed", "faults",
    "results",
}  # fmt: skip
RESULT = {
    "method", "messages", "reached", "rate_measured", "rate_theory", "events_per_s", "deaths",
    "died", "ledger_error", "mean_drift", "error", "bound", "fell_back",
}  # fmt: skip


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["gossip", *(str(a) for a in arguments)])


def results(*arguments: Any) -> dict[str, Any]:
    answer = run(*arguments, "--json")
    assert answer.exit_code in (0, 1), answer.output
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_json_is_what_the_simulator_gives():
    found = results("--graph", "path:30", "--seed", 3)
    assert set(found) == FIELDS
    assert (found["graph"], found["nodes"], found["edges"]) == ("path:30", 30, 29)
    assert (found["tol"], found["transport"], found["seed"]) == (1e-8, "simulate", 3)
    values = np.eye(30)[0]
    for result, name in zip(found["results"], ("plain", "accelerated"), strict=True):
        assert set(result) == RESULT
        outcome = network.simulate("path:30", values, method=name, rng=3)
        assert (result["method"], result["messages"]) == (name, outcome.messages)
        assert result["rate_measured"] == outcome.rate_measured
        exact = theory.gossip_rate("path:30", Gossip(accelerated=name == "accelerated"))
        assert result["rate_theory"] == pytest.approx(exact, rel=1e-2)
        assert result["reached"] is True
        assert result["error"] == outcome.error <= 1e-8
        # (1 + damping) e^{-rate t}, by hand: at the end relative to the start.
        rate = Gossip(accelerated=name == "accelerated").rate(Graph.of("path:30"))
        first = 1.9 if name == "accelerated" else 1.0
        assert result["bound"] == pytest.approx(first * np.exp(-rate * outcome.t), rel=1e-9)
        assert result["deaths"] == 0
        assert result["ledger_error"] < 1e-12
        assert result["mean_drift"] < 1e-12
    plain, accelerated = found["results"]
    assert accelerated["messages"] < plain["messages"] / 5


@pytest.mark.parametrize("name", ["plain", "accelerated"])
def test_one_method_alone_gives_the_run_it_gives_beside_the_other(name):
    alone = results("--graph", "cycle:12", "--method", name)["results"]
    both = results("--graph", "cycle:12", "--method", "both")["results"]
    beside = next(result for result in both if result["method"] == name)
    for result in (*alone, beside):
        result.pop("events_per_s")
    assert alone == [beside]


def test_beyond_the_exact_rate_there_is_the_theorem():
    found = results("--graph", "regular:4x1200", "--tol", "1e-4")["results"]
    graph = Graph.of("regular:4x1200")
    assert found[0]["rate_theory"] == 0.5 * graph.mu_g
    assert found[1]["rate_theory"] == Gossip().constants(graph).theta


def test_a_rate_that_cannot_be_certified_does_not_cost_the_runs(monkeypatch):
    def refuse(*_: Any, **__: Any) -> float:
        raise ArithmeticError("could not be certified")

    monkeypatch.setattr(theory, "gossip_rate", refuse)
    answer = run("--graph", "path:30", "--json")
    assert answer.exit_code == 0
    assert answer.stderr == "continuized: could not be certified\n"
    graph = Graph.of("path:30")
    rates = [result["rate_theory"] for result in json.loads(answer.stdout)["results"]]
    assert rates == [Gossip(accelerated=faster).rate(graph) for faster in (False, True)]


def test_a_terminal_is_told_what_takes_time_and_the_runs_come_first():
    """Standard error is a terminal: bars of the runs, then of the rates; none in the JSON."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "continuized.app.cli", "gossip", "--graph", "path:8", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other side is closed
        while more := os.read(ours, 65536):
            shown += more
    os.close(ours)
    told, _ = child.communicate(timeout=60)
    assert json.loads(told)["graph"] == "path:8"
    assert 0 <= shown.find(b"accelerated") < shown.find(b"exact rates in theory")


def test_faults_reach_the_simulator_and_the_ledger_closes():
    arguments = ("--graph", "grid:5x5", "--loss", 0.1, "--duplication", 0.05, "--skew", "--kill", 3)
    found = results(*arguments)["results"]
    for result in found:
        assert result["reached"]
        assert result["deaths"] == 3
        assert result["ledger_error"] < 1e-12
        assert result["mean_drift"] > 0.0
        assert result["bound"] is None  # no theorem covers faults
    without = results("--graph", "grid:5x5", "--kill", 3)["results"]
    assert [r["messages"] for r in found] != [r["messages"] for r in without]
    told = run(*arguments).stdout
    for words in ("loss 0.1", "duplication 0.05", "skew 0.5", "deaths"):
        assert words in told
    asked = results(*arguments)["faults"]
    assert asked == {"loss": 0.1, "duplication": 0.05, "skew": 0.5, "kill": 3}


def test_too_long_a_delay_is_told_and_the_exit_code_says_not_reached():
    answer = run("--graph", "path:12", "--delay", 20)
    assert answer.exit_code == 1
    assert "past the limit" in answer.stderr
    assert "The accelerated run did not reach 1e-08" in answer.stdout
    fine = run("--graph", "path:12", "--delay", 0.05)
    assert (fine.exit_code, fine.stderr) == (0, "")


def test_no_gain_is_told_in_a_sentence():
    answer = run("--graph", "complete:6")
    assert answer.exit_code == 0
    assert answer.stderr == (
        "continuized: acceleration gains nothing on complete:6; --method plain does as well\n"
    )
    told = " ".join(answer.stdout.split())
    assert "Acceleration gained nothing: the graph is so well connected" in told
    assert "times fewer" not in told


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--graph", "path:3", "--tol", 0.4], "the runs are too short to show it"),
        (
            ["--graph", "path:3", "--kill", 1],
            "deaths leave a smaller network, and the runs are too short to show it",
        ),
        (["--graph", "path:8", "--delay", 6], "these faults slow it down more than plain gossip"),
    ],
)
def test_where_nothing_was_gained_the_reason_is_told(arguments, why):
    plain, accelerated = results(*arguments)["results"]
    assert plain["messages"] <= accelerated["messages"]  # of this seed
    told = " ".join(run(*arguments).stdout.split())
    assert f"Acceleration gained nothing here: {why}; without faults" in told


def test_the_table_and_the_factor():
    answer = run("--graph", "path:20")
    plain, accelerated = results("--graph", "path:20")["results"]
    assert f"{plain['messages']:,}" in answer.stdout
    assert f"{accelerated['messages']:,}" in answer.stdout
    factor = plain["messages"] / accelerated["messages"]
    assert f"needed {factor:.1f} times fewer exchanges" in " ".join(answer.stdout.split())
    assert answer.stderr == ""  # no bar where there is no terminal
    assert "\n\n" not in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "nodes"),
    [
        (["--graph", "grid", "--nodes", "12"], "grid:3x4"),
        (["--nodes", "2"], "grid:1x2"),
        (["--nodes", "8"], "grid:2x4"),
        (["--graph", "star", "--nodes", "9"], "star:9"),
        (["--graph", "path:5", "--nodes", "5"], "path:5"),
    ],
)
def test_nodes_completes_a_family(arguments, nodes):
    assert results(*arguments, "--tol", "0.1")["graph"] == nodes


@pytest.mark.parametrize("command", ["gossip", "decentralized"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--graph", "path"], "--graph path needs a size: give --nodes N, or --graph path:N"),
        (["--graph", "grid"], "give --nodes N, or --graph grid:RxC"),
        (["--graph", "path:10", "--nodes", "9"], "path:10 has 10 nodes: leave out --nodes 9"),
        (["--graph", "grid", "--nodes", "13"], "no grid near a square: give 12 (3x4) or 15 (3x5)"),
        (["--nodes", "10"], "give 9 (3x3) or 12 (3x4), or, if it is to be so long, --graph"),
        (["--nodes", "10"], "--graph grid:2x5; --graph cycle takes any number"),
        (["--nodes", 10**400], "is not in the range"),
        (["--graph", "complete", "--nodes", "2147483647"], "does not fit into memory"),
        (["--message-loss", "1.5"], "--message-loss must be a number in [0, 1), got 1.5"),
        (["--duplication", "-1"], "--duplication must be a number in [0, 1), got -1.0"),
        (["--delay", "nan"], "--delay must be a finite number >= 0, got nan"),
        (["--skew", "1"], "--skew must be a number in [0, 1), got 1.0"),
    ],
)
def test_both_commands_about_networks_refuse_in_the_same_words(command, arguments, words):
    answer = CliRunner().invoke(main, [command, *(str(a) for a in arguments)])
    assert answer.exit_code == 2
    assert words in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_message_loss_has_two_spellings():
    long, short = (
        results("--graph", "path:8", option, 0.2) for option in ("--message-loss", "--loss")
    )
    for found in (long, short):
        for result in found["results"]:
            result.pop("events_per_s")
    assert long == short
    assert long["faults"] == {"loss": 0.2}


def test_a_run_too_short_to_measure_its_rate_says_so():
    shown, said = (
        run("--graph", "path:2", "--method", "plain", *more) for more in ((), ("--json",))
    )
    row = next(line for line in shown.stdout.splitlines() if line.startswith("rate, measured"))
    assert row.split("  ")[-1].strip() == "too short to measure"
    assert json.loads(said.stdout)["results"][0]["rate_measured"] is None


def test_out_holds_pictures_and_their_data(tmp_path: Path):
    answer = run("--graph", "grid:4x5", "--out", tmp_path, "--json", "--seed", 1)
    assert answer.exit_code == 0, answer.output
    kinds = {"png": b"\x89PNG", "svg": b"<?xml"}
    for stem in ("error", "network"):
        for kind, first in kinds.items():
            assert (tmp_path / f"{stem}.{kind}").read_bytes().startswith(first)
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(answer.stdout)
    with open(tmp_path / "error.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for result in json.loads(answer.stdout)["results"]:
        last = [row for row in rows if row["method"] == result["method"]][-1]
        assert int(last["messages"]) == result["messages"]
        assert float(last["error"]) <= 1e-8
    with open(tmp_path / "network.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert len(header) == 1 + 2 * 4
    assert len(rows) == 20
    columns = np.array(rows, dtype=float).T[1:]
    np.testing.assert_allclose(columns[:4].mean(axis=1), 1.0)  # plain gossip keeps the mean
    spread = columns.std(axis=1)
    assert np.all(np.diff(spread[:4]) < 0.0)  # and never spreads
    assert spread[7] < spread[3]  # at the same time acceleration is ahead


@pytest.mark.parametrize(
    "arguments",
    [
        ("path:3",),
        ("star:9", "--kill", 2),
        *[
            pytest.param(each, marks=pytest.mark.slow)
            for each in (("path:20",), ("complete:10",), ("grid:4x4", "--kill", 3))
        ],
    ],
)
def test_pictures_go_from_the_start_to_where_the_quicker_run_agrees(tmp_path: Path, arguments):
    """The scale of colours goes from 0 to 2 means: 0.05 of its half cannot be seen.

    The median distance to the median is at most the standard deviation; with two of nine nodes
    dead it is that of 5 in 7 of the living, at most twice as much by Chebyshev's inequality.
    """
    run("--graph", *arguments, "--out", tmp_path)
    with open(tmp_path / "network.csv", newline="") as file:
        header, *rows = csv.reader(file)
    values = dict(zip(header, np.array(rows, dtype=float).T, strict=True))
    for name in ("plain", "accelerated"):
        assert values[f"{name} start"][0] == len(rows)
        assert not values[f"{name} start"][1:].any()
    lasts = [[column for column in header if column.startswith(name)][-1] for name in ("p", "a")]
    apart = [np.median(np.abs(values[last] - np.median(values[last]))) for last in lasts]
    assert min(apart) <= 0.1


def test_the_same_command_writes_the_same_files(tmp_path: Path):
    for name in ("a", "b"):
        run("--graph", "path:6", "--out", tmp_path / name, "--tol", "1e-3", "--seed", 2)
    for path in (tmp_path / "a").iterdir():
        if path.name != "result.json":  # has a speed
            assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--graph", "nothing"], "unknown graph 'nothing'"),
        (["--graph", "path:1"], "at least two nodes"),
        (["--graph", "path:10", "--kill", "9"], "9 of 10 nodes cannot be killed"),
        (["--graph", "path:99999999999"], "does not fit into memory"),
        (["--graph", "path:10", "--tol", "2"], "tol must be a number in [0, 1)"),
        (["--graph", "path:10", "--seconds", "0"], "--seconds"),
        (["--graph", "path:10", "--seconds", "60"], "--seconds is for real nodes: leave it out"),
        (
            ["--graph", "path:10", "--transport", "local", "--seconds", "nan"],
            "seconds must be a finite number > 0",
        ),
        (["--graph", "path:10", "--transport", "pigeons"], "pigeons"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    answer = run(*arguments)
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert words in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_disconnected_file_names_its_components(tmp_path: Path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n2 3\n")
    answer = run("--graph", path)
    assert answer.exit_code == 2
    assert "2 components" in answer.stderr


def test_real_nodes_over_the_local_transport(tmp_path: Path):
    answer = run("--graph", "cycle:6", "--method", "accelerated", "--transport", "local",
                 "--tol", "1e-4", "--seconds", 30, "--out", tmp_path, "--json")  # fmt: skip
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    (result,) = found["results"]
    assert found["transport"] == "local"
    assert result["reached"]
    assert result["ledger_error"] < 1e-12
    with open(tmp_path / "network.csv", newline="") as file:
        header = next(csv.reader(file))
    assert len(header) > 2  # values on the way, from the log


def test_a_run_that_fell_back_is_no_acceleration() -> None:
    """What is said of one; real nodes fall back only where the machine is busy."""
    from continuized.app.commands import gossip as output

    graph = Graph.of("path:5")
    start = np.eye(5)[0]
    setting = output.Setting(
        graph, start, "local", 1e-8, 0, {"loss": 0.1, "duplication": 0.0, "delay": 0.0, "skew": 0.0}
    )
    runs = []
    for gossip in (Gossip(accelerated=False), Gossip()):
        outcome = network.simulate(graph, start, method=gossip, rng=0)
        runs.append(output.MethodRun(gossip, outcome, None, gossip.rate(graph)))
    assert "times fewer exchanges" in " ".join(output._sentences(setting, runs))
    fallen = runs[1]._replace(outcome=dataclasses.replace(runs[1].outcome, fell_back=True))
    told = " ".join(output._sentences(setting, [runs[0], fallen]))
    assert told == "Answers were too old for acceleration: that run went on as plain gossip."
    said = json.loads(output._json(setting, [runs[0], fallen]))
    assert [r["fell_back"] for r in said["results"]] == [False, True]
    assert said["faults"] == {"loss": 0.1}


def test_where_real_nodes_gained_nothing_only_faults_that_were_asked_for_are_blamed() -> None:
    """What is said of two runs that took as many exchanges."""
    from continuized.app.commands import gossip as output

    graph, start = Graph.of("path:5"), np.eye(5)[0]
    outcome = network.simulate(graph, start, rng=0)
    kinds = (Gossip(accelerated=False), Gossip())
    runs = [output.MethodRun(gossip, outcome, None, gossip.rate(graph)) for gossip in kinds]
    faults = "these faults slow it down more than plain gossip"
    time = "messages take their time, or the runs are too short to show it"
    for transport, loss, why in (("local", 0.1, faults), ("local", 0.0, time), ("ray", 0.0, time)):
        setting = output.Setting(graph, start, transport, 1e-8, 0, {"loss": loss})
        (told,) = output._sentences(setting, runs)
        assert told.startswith(f"Acceleration gained nothing here: {why}; without faults")


NAMED = "paris lyon {'weight': 2.0}\nlyon nice {'weight': 1.0}\nnice paris {'weight': 1.0}\n"


@pytest.mark.parametrize("transport", ["simulate", "local"])
def test_names_of_nodes_and_every_event_stand_in_all_output(transport, tmp_path):
    file, log, out = tmp_path / "g.edgelist", tmp_path / "log", tmp_path / "out"
    file.write_text(NAMED)
    given = ("--graph", file, "--method", "accelerated", "--transport", transport, "--kill", 1)
    answer = run(*given, "--log", log, "--out", out)
    assert answer.exit_code == 0, answer.output
    found = json.loads((out / "result.json").read_text())
    assert found["start"] == "paris"
    (dead,) = found["results"][0]["died"]
    assert f"In the accelerated run died: {dead}." in answer.output
    with open(out / "network.csv") as table:
        assert [row["node"] for row in csv.DictReader(table)] == ["paris", "lyon", "nice"]
    picture = (out / "network.svg").read_text()
    assert all(name in picture for name in ("paris", "lyon", "nice"))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["node"] for line in events if line["event"] == "death"] == [dead]
    exchanges = [line for line in events if line["event"] == "exchange"]
    # A process that is killed has not reported its last counts; the log leaves before messages do.
    messages = found["results"][0]["messages"]
    assert len(exchanges) == messages or (transport == "local" and len(exchanges) > messages > 0)
    assert {line["node"] for line in exchanges} <= {"paris", "lyon", "nice"}
    assert (events[0]["event"], events[-1]["event"]) == ("start", "end")
    assert [line for line in events if line["event"] == "summary"]


def test_an_address_is_for_ray_alone(tmp_path):
    answer = run("--graph", "path:3", "--address", "10.0.0.5:6379")
    assert answer.exit_code == 2
    assert "--address is for Ray: give --transport ray too" in answer.output
    answer = run("--graph", "path:3", "--log", tmp_path / "absent" / "log")
    assert answer.exit_code == 2
    assert "absent" in answer.output


def test_nodes_die_at_the_same_times_in_the_runs_that_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate, deaths = network.simulate, []

    def noted(*arguments, **options):
        deaths.append(options["faults"].deaths)
        return simulate(*arguments, **options)

    monkeypatch.setattr(network, "simulate", noted, raising=False)
    run("--graph", "path:12", "--kill", 2)
    assert len(deaths) == 2
    assert deaths[0] == deaths[1]
    assert len(deaths[0]) == 2
