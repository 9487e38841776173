"""Every planted mistake is caught by the checks of `verify` that are there for it."""

import pytest

from continuized.app.verify.registry import CHECKS, measure
from tests.mutants import network, process
from tests.mutants.mutant import EFFORT

MUTANTS = (*process.MUTANTS, *network.MUTANTS)
BY_NAME = {check.claim: check for check in CHECKS}


# Caught by many runs, or by a process that is run in Python; the others take a second at most.
LONG = (
    "gamma' taken at T_k (the paper's Theorem 4 as printed)",
    "a quarter of the exchanges",
    "theta of DADAO five per cent too large",
)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, marks=pytest.mark.slow if mutant.mistake in LONG else ())
        for mutant in MUTANTS
    ],
    ids=lambda mutant: mutant.mistake,
)
def test_the_planted_mistake_is_caught(mutant):
    for name in mutant.caught_by:
        claim = measure(BY_NAME[name], mutant.subject, EFFORT)
        assert claim.verdict == "FAILS", (name, claim.measurement)
        assert not claim.raised, name  # what was measured fails, not the planting
