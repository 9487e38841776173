"""Runs the checks."""

from __future__ import annotations

import math
import time

from continuized.app.verify.claims import QUICK, Check, Claim, Effort, Measurement, Subject
from continuized.app.verify.registry import CHECKS, SHARE
from continuized.support.progress import bar


def run(effort: Effort, progress: bool = False) -> list[Claim]:
    """Make every check on the library itself."""
    claims: list[Claim] = []
    with bar("verify", len(CHECKS), progress, unit="check") as show:
        for check in CHECKS:
            show(len(claims), check.claim)
            claims.append(measure(check, effort=effort))
        show(len(claims), "")
    return claims


def measure(check: Check, subject: Subject | None = None, effort: Effort = QUICK) -> Claim:
    """Make one check, on the library unless another subject is given."""
    started, raised = time.perf_counter(), ""
    try:
        measurement = check.measure(subject or Subject(), effort._replace(alpha=SHARE))
    except Exception as error:  # a claim that cannot be measured does not hold; the rest go on
        measurement, raised = Measurement(math.nan, math.nan), f"{type(error).__name__}: {error}"
    return Claim(check, measurement, time.perf_counter() - started, raised)
