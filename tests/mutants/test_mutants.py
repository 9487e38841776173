"""Every planted mistake is caught by the checks of `verify` that are there for it."""

import pytest
from tests.mutants import network, process
from tests.mutants.mutant import EFFORT

from continuized.app.verify import runner
from continuized.app.verify.registry import CHECKS

MUTANTS = (*process.MUTANTS, *network.MUTANTS)
BY_NAME = {check.claim: check for check in CHECKS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_the_planted_mistake_is_caught(mutant):
    for name in mutant.caught_by:
        claim = runner.measure(BY_NAME[name], mutant.subject, EFFORT)
        assert claim.verdict == "FAILS", (name, claim.measurement)
