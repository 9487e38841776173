"""The clock of a marked method: it brings marks of its own, or is given those of the method."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from continuized.marked.stepper import MarkedStepper
from continuized.process import clock as clocks
from continuized.process import random_streams as seeds
from continuized.process.marks import Batches, batch_of, mark_shares, probabilities

SAME_LAW = 1e-6  # relative: probabilities that differ by less come from the same formula


def clock_with_marks(clock: Any, stepper: MarkedStepper, root: seeds.Root) -> clocks.Clock:
    """The clock given, or a Poisson clock, with marks of the stepper's law unless it has its own.

    Those of merged clocks are their own marks, or where they have none, their numbers: a clock
    of rate p_i for each coordinate or row i is a clock of rate 1 with marks of the law p.
    Raises ValueError where its own marks have a law that is known, and that the steps of the
    stepper are not made for.
    """
    law = stepper.law
    if clock is None:
        return clocks.Poisson(root, marks=law)
    is_merged = isinstance(clock, clocks.Merged)
    if is_merged and isinstance(law, Batches):
        raise ValueError(
            f"an event of merged clocks has one mark, but that of a batch has {law.batch}; use "
            "cz.clock.Poisson, or batch=1"
        )
    if is_merged and len({getattr(each, "marks", None) is None for each in clock.clocks}) > 1:
        raise ValueError("of the clocks that are merged some have marks: give marks= to all")
    if is_merged or getattr(clock, "marks", None) is not None:
        _check_law(clock, stepper)
        with_its_own: clocks.Clock = clock
        return with_its_own
    if isinstance(clock, clocks.Poisson):  # its root, not its seed: None would be drawn again
        return dataclasses.replace(clock, rng=clock.root, marks=law)
    if isinstance(clock, clocks.Unit):
        own = root if clock.rng is None else clock.rng
        return dataclasses.replace(clock, rng=own, marks=law)
    raise ValueError("the clock of a marked method must have marks: give it marks=")


def _check_law(clock: Any, stepper: MarkedStepper) -> None:
    """Steps are made for the probabilities of their marks; where they are not, every mark must
    still come.  Raises ValueError with the first mark for which it is otherwise."""
    drawn, taken = batch_of(getattr(clock, "marks", None)), batch_of(stepper.law)
    if drawn > 1 and drawn != taken:
        raise ValueError(
            f"an event of the clock has {drawn} marks, but one of {stepper.name} takes {taken}; "
            "give a clock without marks"
        )
    its, ours = mark_shares(clock), probabilities(stepper.law)
    if its is None or ours is None:
        return
    if its.size != ours.size:
        raise ValueError(
            f"the clock has {its.size} marks, but {stepper.name} has {ours.size} on this problem; "
            "give a clock of as many marks, or one without"
        )
    advice = stepper.for_another_law
    if not advice:
        never = np.flatnonzero((its == 0.0) & (ours > 0.0))
        if never.size:
            raise ValueError(
                f"mark {never[0]} has probability 0 by the clock, and would never be used; give "
                "it more, or a clock without marks"
            )
        return
    wrong = np.flatnonzero(np.abs(its - ours) > SAME_LAW * ours)
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"mark {i} has probability {its[i]:.6g} by the clock, but the steps of {stepper.name} "
            f"are made for {ours[i]:.6g}; give {advice}, or a clock without marks"
        )
