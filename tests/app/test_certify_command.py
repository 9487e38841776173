"""`continuized certify`: a table and a lemma, exit codes, and one sentence for bad input."""

import json
import re
import sys

import pytest
from click.testing import CliRunner

from continuized.app.cli import main

PAPER = ["certify", "--L", "1", "--mu", "0.01"]


def run(*arguments):
    return CliRunner().invoke(main, [*PAPER, *arguments])


@pytest.mark.needs("cvxpy")
def test_a_table_and_a_lemma():
    done = run("--rate", "0.1")
    assert done.exit_code == 0
    assert "proved in exact arithmetic" in done.output
    assert r"\begin{lemma}" in done.output
    assert r"\rho = 0.1" in done.output


@pytest.mark.needs("cvxpy")
def test_the_table_claims_no_more_than_the_lemma_proves():
    said, found = run().output, json.loads(run("--json").output)
    in_table = re.search(r"c of V .*? ([0-9.]+)\n", said)[1]
    assert in_table == re.search(r"with \$c = ([0-9.]+)\$", said)[1]
    assert found["constant"] - 1e-4 < float(in_table) <= found["constant"]
    assert round(found["constant"], 4) > found["constant"]  # here rounding would go up


@pytest.mark.needs("cvxpy")
def test_json_for_programs_and_the_best_rate():
    found = json.loads(run("--json").output)
    assert found["proved"] is True
    assert found["rate"] > 0.135
    assert found["gamma_prime"] == 10.0


@pytest.mark.needs("cvxpy")
def test_exit_code_1_where_there_is_none():
    done = run("--gamma-prime", "20")
    assert done.exit_code == 1
    assert done.output.startswith("no certificate of this form")
    found = json.loads(run("--gamma-prime", "20", "--json").output)
    assert found["proved"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mu", "0"], "--mu must be a finite number > 0, got 0.0"),
        (["--mu", "2"], "mu must be below L"),
        (["--eta", "-1"], "--eta must be a finite number > 0, got -1.0"),
        (["--rate", "nan"], "--rate must be a finite number > 0, got nan"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_cvxpy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    done = run()
    assert done.exit_code == 2
    assert 'pip install "continuized[certify]"' in done.stderr
