"""Runs the checks, and the mutants."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from continuized.app.verify.claims import QUICK, Check, Claim, Effort, Measurement, Mutant, Subject
from continuized.app.verify.mutants import EFFORT, MUTANTS
from continuized.app.verify.registry import CHECKS, SHARE
from continuized.support.progress import bar


class Caught(NamedTuple):
    """A planted mistake, and what the checks that must catch it said."""

    mutant: Mutant
    claims: tuple[Claim, ...]

    @property
    def passed(self) -> bool:
        """Every one of them must have failed, and judged."""
        return all(c.verdict == "FAILS" for c in self.claims)


def run(effort: Effort, progress: bool = False) -> list[Claim]:
    """Every check on the library itself."""
    claims: list[Claim] = []
    with bar("verify", len(CHECKS), progress, unit="check") as show:
        for check in CHECKS:
            show(len(claims), check.claim)
            claims.append(measured(check, effort=effort))
        show(len(claims), "")
    return claims


def run_mutants(seed: int, progress: bool = False) -> list[Caught]:
    """Every planted mistake, against the checks that must catch it."""
    by_name = {check.claim: check for check in CHECKS}
    effort = EFFORT._replace(seed=seed)
    caught: list[Caught] = []
    with bar("mutants", len(MUTANTS), progress, unit="mutant") as show:
        for mutant in MUTANTS:
            show(len(caught), mutant.mistake)
            checks = (by_name[name] for name in mutant.caught_by)
            claims = tuple(measured(check, mutant.subject, effort) for check in checks)
            caught.append(Caught(mutant, claims))
        show(len(caught), "")
    return caught


def measured(check: Check, subject: Subject | None = None, effort: Effort = QUICK) -> Claim:
    """One check, on the library unless another subject is given."""
    started, raised = time.perf_counter(), ""
    try:
        measurement = check.measure(subject or Subject(), effort._replace(alpha=SHARE))
    except Exception as error:  # a claim that cannot be measured does not hold; the rest go on
        measurement, raised = Measurement(math.nan, math.nan), f"{type(error).__name__}: {error}"
    return Claim(check, measurement, time.perf_counter() - started, raised)
