"""What a planted mistake is, and how hard the checks look for it."""

from __future__ import annotations

from typing import NamedTuple

from continuized.app.verify.claims import Effort, Subject

EFFORT = Effort(seed=0, runs=20_000, states=600)


class Mutant(NamedTuple):
    """A planted mistake; `caught_by` names the claims of `verify` that must fail.

    is_slow: many runs catch it, or a process that is run in Python; others take a second at most.
    """

    mistake: str
    subject: Subject
    caught_by: tuple[str, ...]
    is_slow: bool = False
