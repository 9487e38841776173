"""`continuized decentralized`, and the dual method on real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from continuized.app.cli import main
from continuized.network import Dual, split
from continuized.network.runtime.run import run as run_nodes
from continuized.network.simulation.node_models.single_node import SingleNode
from continuized.problems import LeastSquares, LogisticRegression

REPORT = {
    "graph", "nodes", "edges", "rows", "columns", "l2", "L", "mu", "objective", "tol", "results",
    "slow", "slow_node", "slow_tol", "race", "faults", "seed", "data", "loss", "method", "events",
    "transport", "seconds",
}  # fmt: skip
RESULT = {
    "method", "reached", "messages", "gradients", "t", "error", "excess", "consensus",
    "rate_measured", "rate_theory", "deaths", "died", "ledger_error", "agreed_error",
}  # fmt: skip


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["decentralized", *(str(a) for a in arguments)])


def data_file(folder: Path, labels: bool) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(90)
    path = folder / "data.csv"
    rows = np.column_stack([np.where(y > 0.0, 4.0, 2.0) if labels else y, X])
    np.savetxt(path, rows, delimiter=",", header="y,a,b,c", comments="")
    return path


def test_json_of_made_up_data() -> None:
    result = run("--nodes", 6, "--method", "all", "--tol", 1e-6, "--events", 20_000, "--json")
    report = json.loads(result.stdout)
    assert set(report) == REPORT
    assert (report["graph"], report["nodes"], report["rows"]) == ("grid:2x3", 6, 240)
    assert [r["method"] for r in report["results"]] == [
        "dual", "plain-dual", "dadao", "a2cid2", "plain-sgd",
    ]  # fmt: skip
    for r in report["results"]:
        assert set(r) == RESULT
        assert r["reached"] == (r["error"] <= 1e-6)
        assert (r["rate_theory"] is None) == (r["method"] in ("a2cid2", "plain-sgd"))
    reached = [r["reached"] for r in report["results"] if r["rate_theory"] is not None]
    assert result.exit_code == (0 if all(reached) else 1)
    assert reached[0]
    names = [r["method"] for r in report["race"]]
    assert names == ["dual", "plain-dual", "synchronous-dual", "all-reduce"]


def test_faults() -> None:
    faults = ("--message-loss", 0.1, "--duplication", 0.05, "--delay", 0.1, "--skew", "--kill", 1)
    result = run("--graph", "grid:3x3", "--method", "all", "--events", 30_000, "--json", *faults)
    report = json.loads(result.stdout)
    assert report["faults"] == {
        "message loss": 0.1, "duplication": 0.05, "delay": 0.1, "skew": 0.5, "kill": 1.0,
    }  # fmt: skip
    for r in report["results"]:
        assert r["ledger_error"] < 1e-12
        assert r["rate_theory"] is None
        assert r["deaths"] == 1
        assert 0.0 < r["agreed_error"] < 1.0
    exact = [r["reached"] for r in report["results"][:3]]
    assert exact[0]
    assert result.exit_code == (0 if all(exact) else 1)
    alone = run("--graph", "grid:3x3", *faults)
    shown = alone.stdout.splitlines()
    assert all(len(line) <= 80 and "…" not in line for line in shown[2:])
    assert "" not in shown
    header = " ".join(" ".join(shown[2:5]).split())
    assert "deaths" in header
    row = next(line.split() for line in shown if line.startswith("dual"))
    same = json.loads(run("--graph", "grid:3x3", *faults, "--json").stdout)
    dual, race = same["results"][0], same["race"][0]
    assert row == [
        "dual", f"{dual['messages']:,}", f"{dual['gradients']:,}", f"{dual['error']:.1e}",
        f"{dual['rate_measured']:.3g}", f"{dual['agreed_error']:.1e}", f"{race['time']:,.0f}",
    ]  # fmt: skip
    told = " ".join(alone.stdout.split())
    assert "With message loss 0.1, duplication 0.05, delay 0.1, skew 0.5, kill 1" in told
    assert "moved by deaths: the squared distance" in told


def test_the_json_of_a_run_that_diverges() -> None:
    """JSON knows no infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    options = ("--graph", "grid:3x3", "--method", "dadao", "--delay", 5, "--json")
    report = json.loads(run(*options).stdout, parse_constant=refuse)
    assert report["results"][0]["error"] is None
    assert report["results"][0]["reached"] is False


def test_nodes_that_outlive_the_run() -> None:
    shown = run("--graph", "grid:3x3", "--events", 5, "--kill", 2).stdout
    assert "Not all of the 2 to be killed died in the runs of: dual." in shown
    assert "Error 1e-08 was not reached by: dual." in shown


@pytest.mark.parametrize("loss", ["ridge", "logistic"])
def test_a_data_file_against_one_machine(tmp_path: Path, loss: str) -> None:
    data = data_file(tmp_path, loss == "logistic")
    out = tmp_path / "made" / "here"
    result = run("--data", data, "--loss", loss, "--l2", 0.1, "--graph", "path:4", "--out", out)
    assert result.exit_code == 0, result.output
    assert "90 rows, 3 columns on 4 nodes and 3 edges (path:4)" in result.stdout
    assert "\n\n" not in result.stdout
    assert {p.name for p in out.iterdir()} == {
        "decentralized.png", "decentralized.svg", "decentralized.json",
    }  # fmt: skip
    report = json.loads((out / "decentralized.json").read_text())
    assert (report["data"], report["loss"], report["method"]) == (str(data), loss, "dual")
    raw = np.loadtxt(data, delimiter=",", skiprows=1)
    X, y = raw[:, 1:], raw[:, 0]
    whole = (
        LeastSquares(X, y, 0.1)
        if loss == "ridge"
        else LogisticRegression(X, np.where(y == 4.0, 1.0, -1.0), 0.1)
    )
    assert report["objective"] == pytest.approx(whole.fun(split(whole, 1).x_star), rel=1e-9)
    assert abs(report["results"][0]["excess"]) < 1e-8


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--graph", "grid:0x3"], "grid"),
        (["--slow", 0.5], "--slow must be a finite number >= 1, got 0.5"),
        (["--slow", "nan"], "--slow must be a finite number >= 1"),
        (["--nodes", 4, "--kill", 3], "--kill: 3 of 4 nodes cannot be killed"),
        (["--tol", 2], "tol must be a number in [0, 1), got 2.0"),
        (["--l2", -1], "l2 must be a finite number >= 0"),
        (["--data", "missing.csv"], "missing.csv"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[Any], complaint: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_labels_and_rows_that_do_not_fit(tmp_path: Path) -> None:
    numbers = run("--data", data_file(tmp_path, False), "--loss", "logistic")
    assert numbers.exit_code == 2
    assert "needs two labels, got 90 (" in numbers.stderr
    assert numbers.stderr.endswith("; use --loss ridge for numbers\n")
    many = run("--data", data_file(tmp_path, False), "--nodes", 91)
    assert many.exit_code == 2
    assert "from 1 to 90, got 91; there are 90 rows" in many.stderr


def test_the_rule_of_a_real_node() -> None:
    """Two nodes by hand: what one pays the other gets, and their estimates meet at the solution."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    p = LogisticRegression(X, np.sign(X @ [1.0, 2.0] + rng.standard_normal(30)), l2=0.1)
    parts = split(p, 2)
    a, b = (spec.make() for spec in Dual().node_models("path:2", parts))
    assert isinstance(a, SingleNode)
    for _ in range(400):
        for node in (a, b):
            node.mix(1.0)
        transfer = a.pay(b.answer())
        b.apply(transfer, plain=False)
        (xa, za), (xb, zb) = a.state(), b.state()
        np.testing.assert_allclose(xa + xb, 0.0, atol=1e-14)
        np.testing.assert_allclose(za + zb, 0.0, atol=1e-14)
    for node in (a, b):
        np.testing.assert_allclose(node.answer(), parts.x_star, atol=1e-10)
    a.join(b.answer())  # a neighbour's estimate is no dual variable: it starts from nothing
    assert not np.any(a.state())


def test_real_nodes_by_the_command_with_one_killed() -> None:
    options = "--graph", "complete:4", "--transport", "local", "--kill", 1, "--tol", 1e-6
    result = run(*options, "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["transport"]) == (0, "local")
    (r,) = report["results"]
    assert (r["reached"], r["deaths"], r["rate_theory"]) == (True, 1, None)
    assert r["ledger_error"] < 1e-12


@pytest.mark.slow
def test_real_nodes_of_all_methods_in_the_table() -> None:
    shown = run("--graph", "cycle:3", "--transport", "local", "--method", "all", "--seconds", 2)
    assert "real nodes (local)" in shown.stdout
    assert "a2cid2" in shown.stdout


def test_training_on_real_processes() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    p = LeastSquares(X, X @ np.arange(4.0) + rng.standard_normal(120), l2=0.1)
    parts = split(p, 6)
    r = run_nodes(
        "cycle:6",
        Dual().node_models("cycle:6", parts),
        method="dual",
        rng=0,
        tol=1e-10,
        seconds=25.0,
    )
    assert r.reached
    assert not r.deaths
    assert r.ledger_error < 1e-12
    np.testing.assert_allclose(r.x, np.tile(p.x_star, (6, 1)), atol=1e-4)


def test_names_of_nodes_stand_in_the_report_and_in_the_log(tmp_path: Path) -> None:
    graph, log = tmp_path / "g.adjlist", tmp_path / "log"
    graph.write_text("paris lyon nice\nnice lyon\n")
    given = ("--graph", graph, "--kill", 1, "--tol", 1e-4, "--log", log)
    result = run(*given, "--json")
    report = json.loads(result.stdout)
    assert report["slow_node"] == "lyon"
    (dead,) = report["results"][0]["died"]
    assert f"Died in the runs of dual: {dead}." in " ".join(run(*given).stdout.split())
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["node"] for line in events if line["event"] == "death"] == [dead, dead]
    assert [line["event"] for line in events].count("end") == 2  # lines are added
