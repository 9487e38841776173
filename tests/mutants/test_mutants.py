"""Every planted mistake is caught by the checks of `verify` that are there for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from continuized.app.verify.registry import CHECKS, measure
from tests.helpers.without_numba import find_differences
from tests.mutants import in_source, network, process
from tests.mutants.mutant import EFFORT

ROOT = Path(__file__).parents[2]
MUTANTS = (*process.MUTANTS, *network.MUTANTS)
BY_NAME = {check.claim: check for check in CHECKS}


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, marks=pytest.mark.slow if mutant.is_slow else ()) for mutant in MUTANTS],
    ids=lambda mutant: mutant.mistake,
)
def test_the_planted_mistake_is_caught(mutant):
    for name in mutant.caught_by:
        claim = measure(BY_NAME[name], mutant.subject, EFFORT)
        assert claim.verdict == "FAILS", (name, claim.measurement)
        assert not claim.raised, name  # what was measured fails, not the planting


@pytest.mark.parametrize("planted", in_source.ALL, ids=lambda planted: planted.mistake)
def test_what_a_mistake_is_planted_in_still_stands_in_the_source(planted):
    """The tests that plant it are slow: this one notices at once that a name has changed."""
    source = (in_source.PACKAGE / planted.file).read_text(encoding="utf-8")
    assert source.count(planted.right) == planted.times
    assert planted.wrong != planted.right


def test_what_must_catch_a_planted_mistake_exists():
    assert {each.caught_by for each in in_source.CLAIMED} <= BY_NAME.keys()
    for each in (each for subject in in_source.SUBJECTS for each in subject):
        file, _, test = each.caught_by.partition("::")
        name = test.partition("[")[0]
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), each.mistake


MEASURE = """
import sys
from continuized.app.verify.registry import CHECKS, measure
claim = measure(next(check for check in CHECKS if check.claim == sys.argv[1]))
print(claim.verdict, claim.raised)
"""


def run_planted(folder, *command):
    """Run Python with the package of that folder."""
    return subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "999"},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.slow
@pytest.mark.parametrize("planted", in_source.CLAIMED, ids=lambda planted: planted.mistake)
def test_the_mistake_planted_in_the_source_is_caught(planted, tmp_path):
    in_source.plant(tmp_path, [planted])
    answer = run_planted(tmp_path, "-c", MEASURE, planted.caught_by)
    assert answer.stdout.split() == ["FAILS"], answer.stderr


@pytest.mark.slow
@pytest.mark.parametrize("planted", list(zip(*in_source.SUBJECTS, strict=True)))
def test_the_mistakes_planted_in_the_source_are_caught_by_tests(planted, tmp_path):
    in_source.plant(tmp_path, planted)
    named = [f"tests/{each.caught_by}" for each in planted]
    options = ["-n0", "-m", "", "-rf", "--tb=line", "-p", "no:cacheprovider"]
    answer = run_planted(tmp_path, "-m", "pytest", *options, *named)
    for name in named:  # what was measured fails, not the planting
        seen = [line for line in answer.stdout.splitlines() if line.startswith(f"FAILED {name}")]
        assert len(seen) == 1, (name, answer.stdout)
        assert seen[0].partition(" - ")[2].lower().startswith("assert"), seen


@pytest.mark.slow
def test_mistakes_in_what_runs_without_numba_are_caught(tmp_path):
    in_source.plant(tmp_path, in_source.TWINS)
    names = [planted.caught_by for planted in in_source.TWINS]
    seen = find_differences([*names, "gossip"], tmp_path / "plain.npz", first=tmp_path)
    assert {name.partition("/")[0] for name in seen} == set(names)
