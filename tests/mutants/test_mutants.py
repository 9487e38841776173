"""Every planted mistake is caught by the checks of `verify` that are there for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import continuized
from continuized.app.verify.registry import CHECKS, measure
from tests.mutants import network, process
from tests.mutants.mutant import EFFORT

MUTANTS = (*process.MUTANTS, *network.MUTANTS)
BY_NAME = {check.claim: check for check in CHECKS}


# Caught by many runs, or by a process that is run in Python; the others take a second at most.
LONG = (
    "gamma' taken at T_k (the paper's Theorem 4 as printed)",
    "a quarter of the exchanges",
    "a tenth of what an exchange moves",
    "gamma = mu",
    "a row of 40 is never drawn",
    "a third of the variance of rows",
    "half of the compensator in Ito's formula",
    "noise of twice the variance",
    "the 2 forgotten in 1/sqrt(2 mu_g R)",
    "the 2 forgotten in sqrt(mu_g/(2R))",
    "a step of 2/L in compiled runs",
    "z starts where x does",
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


# Mistakes that only the source can have, for compiled code is not given by a `Subject`: the file,
# what stands there, what is planted, and the claim that must fail.
IN_SOURCE = {
    "theta of DADAO five per cent too large": (
        "network/optimisation/dadao.py",
        "0.5 / s",
        "0.525 / s",
        "dual and DADAO: the paths",
    ),
    "prox with gamma in place of gamma'": (
        "process/composite.py",
        "composite_jump(x, z, g, gamma, gamma_prime, self.move)",
        "composite_jump(\n                x, z, g, gamma, gamma_prime,\n                "
        "lambda z, g, s: proximal_step(self.prox, z - s * g, gamma),\n            )",
        "f + psi: the paths",
    ),
    "gamma in place of gamma' in compiled proximal steps": (
        "solver/kernels/composite.py",
        "entry_step(z - gamma_prime * g, gamma_prime, ",
        "entry_step(z - gamma_prime * g, gamma, ",
        "f + psi: the paths",
    ),
    "a sign in the moments of the exact rate": (
        "theory/quadratic_rate.py",
        "(gamma, gamma_prime, uw, uu)",
        "(gamma, -gamma_prime, uw, uu)",
        "the exact rate on quadratics",
    ),
    "one coordinate of 32 or more stands still in the compiled loop": (
        "solver/kernels/loop.py",
        "                y, z = mix(work[X, c], work[Z, c], a, b)",
        "                if c == 17 and work.shape[1] >= 32:\n                    continue\n"
        "                y, z = mix(work[X, c], work[Z, c], a, b)",
        "runs of 200 variables",
    ),
}
MEASURE = """
import sys
from continuized.app.verify.registry import CHECKS, measure
claim = measure(next(check for check in CHECKS if check.claim == sys.argv[1]))
print(claim.verdict, claim.raised)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mistake", IN_SOURCE)
def test_the_mistake_planted_in_the_source_is_caught(mistake, tmp_path):
    file, right, wrong, name = IN_SOURCE[mistake]
    copy = tmp_path / "continuized"
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(continuized.__file__).parent, copy, ignore=caches)
    source = (copy / file).read_text()
    assert right in source
    (copy / file).write_text(source.replace(right, wrong))
    answer = subprocess.run(
        [sys.executable, "-c", MEASURE, name],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == ["FAILS"]
