"""Mistakes that only the source can have: compiled code, and what no check of `verify` is given.

They are planted in a copy of the package, `SUBJECTS` one of each subject at a time: they stand in
different files, and no test that is named runs two of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import continuized

PACKAGE = Path(continuized.__file__).parent


class Planted(NamedTuple):
    """The file, what stands there, what is planted, the claim, test or run that must fail, and how
    often it stands there."""

    mistake: str
    file: str
    right: str
    wrong: str
    caught_by: str
    times: int = 1


def plant(folder: Path, mistakes: Iterable[Planted]) -> None:
    """Copy the package into a folder, with these mistakes."""
    copy = folder / "continuized"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for each in mistakes:
        source = (copy / each.file).read_text(encoding="utf-8")
        (copy / each.file).write_text(source.replace(each.right, each.wrong), encoding="utf-8")


# Caught by a claim of `verify`.
CLAIMED = (
    Planted(
        "theta of DADAO five per cent too large",
        "network/optimisation/dadao.py",
        "0.5 / s",
        "0.525 / s",
        "dual and DADAO: the paths",
        times=2,
    ),
    Planted(
        "prox with gamma in place of gamma'",
        "process/composite.py",
        "composite_jump(x, z, g, gamma, gamma_prime, self.move)",
        "composite_jump(\n                x, z, g, gamma, gamma_prime,\n                "
        "lambda z, g, s: proximal_step(self.prox, z - s * g, gamma),\n            )",
        "f + psi: the paths",
    ),
    Planted(
        "gamma in place of gamma' in compiled proximal steps",
        "solver/kernels/composite.py",
        "entry_step(z - gamma_prime * g, gamma_prime, ",
        "entry_step(z - gamma_prime * g, gamma, ",
        "f + psi: the paths",
    ),
    Planted(
        "a sign in the moments of the exact rate",
        "theory/quadratic_rate.py",
        "(gamma, gamma_prime, uw, uu)",
        "(gamma, -gamma_prime, uw, uu)",
        "the exact rate on quadratics",
    ),
    Planted(
        "one coordinate of 32 or more stands still in the compiled loop",
        "solver/kernels/loop.py",
        "                y, z = mix(work[X, c], work[Z, c], a, b)",
        "                if c == 17 and work.shape[1] >= 32:\n                    continue\n"
        "                y, z = mix(work[X, c], work[Z, c], a, b)",
        "runs of 200 variables",
    ),
)

LASSO, SHARDED = "solver/lasso.py", "network/sharded/problem.py"
MODEL, NODE = "network/learning/model.py", "network/learning/learning_node.py"
MINIMISER = "solver/test_lasso.py::test_the_minimiser_is_where_the_gap_is_zero"
SUMS = "network/sharded/test_sharded_sums.py::test_sums_are_those_of_all_rows[logistic-dense"
LEARNING = "network/learning/test_learning_node.py::"

# Caught by a test: the same number of each subject.
SUBJECTS = (
    (
        Planted(
            "the slope of l2 |w|^2 / 2 forgotten",
            LASSO,
            "g + self.l2 * w\n",
            "g\n",
            f"{MINIMISER}[False-dense-few columns-on the Hessian]",
        ),
        Planted(
            "weights in the Hessian squared",
            LASSO,
            "np.sqrt(shares / n)",
            "shares / math.sqrt(n)",
            f"{MINIMISER}[True-dense-working sets-on the Hessian]",
        ),
        Planted(
            "a sign of the intercept",
            LASSO,
            "self._middle - inner(",
            "self._middle + inner(",
            f"{MINIMISER}[False-dense-few columns-on the Hessian]",
        ),
    ),
    (
        Planted(
            "the intercept penalised in Hessians of shards",
            SHARDED,
            "np.flatnonzero(numbers < self.column_count)",
            "np.flatnonzero(numbers <= self.column_count)",
            f"{SUMS}-False-True]",
        ),
        Planted(
            "weights of shards that are not of mean 1",
            SHARDED,
            "found.rows / found.weight",
            "1.0",
            f"{SUMS}-True-False]",
        ),
        Planted(
            "the intercept penalised in gradients of shards",
            SHARDED,
            "g[:penalised] += self.l2 * w[:penalised]",
            "g += self.l2 * w",
            f"{SUMS}-False-True]",
        ),
    ),
    (
        Planted(
            "alpha~ in place of alpha~ - 1/2",
            MODEL,
            "sign * (float(transfer[-1]) - ALPHA)",
            "sign * float(transfer[-1])",
            f"{LEARNING}test_the_moves_are_those_of_gossip_in_other_coordinates",
        ),
        Planted(
            "exchanges during a step of the optimiser forgotten",
            MODEL,
            "new[block] + (self.x[block] - old[block])",
            "new[block]",
            f"{LEARNING}test_what_an_optimiser_did_is_added_and_x_given_back",
        ),
        Planted(
            "the flow at the rate that was asked for",
            NODE,
            "self.model.mix(self.share * (t - self._t))",
            "self.model.mix(t - self._t)",
            f"{LEARNING}test_slow_links_cost_exchanges_and_not_stability",
        ),
    ),
    (
        Planted(
            "sketches of nodes without signs",
            "network/runtime/sketch.py",
            "self._sign * x.ravel()",
            "x.ravel()",
            "network/runtime/test_monitor.py::"
            "test_the_error_of_sketches_is_near_that_of_the_states[True]",
        ),
        Planted(
            "a sketch of a sample divided by all rows",
            "solver/metric_factory.py",
            "/ np.sqrt(len(q)))",
            "/ np.sqrt(n))",
            "solver/test_metric_softmax.py::test_a_sketch_by_drawn_labels_is_close_to_the_hessian",
        ),
        Planted(
            "drawn labels without their means",
            "solver/metric_factory.py",
            "factors = -p\n",
            "factors = 0.0 * p\n",
            "solver/test_metric_softmax.py::test_a_sketch_by_drawn_labels_is_close_to_the_hessian",
        ),
    ),
)

# In what runs in place of compiled loops where there is no Numba: caught by a run that differs.
TWINS = (
    Planted(
        "steps of x and z exchanged",
        "solver/kernels/loop.py",
        "work[X], work[Z] = jump(y, z, g, gamma, gamma_prime)",
        "work[X], work[Z] = jump(y, z, g, gamma_prime, gamma)",
        "own",
    ),
    Planted(
        "images that are not mixed",
        "marked/kernels/events.py",
        "else images[rows, S] + alpha * images[rows, D]",
        "else images[rows, S]",
        "coordinates",
    ),
    Planted(
        "the first change of a secant metric first",
        "solver/kernels/gram.py",
        "np.flatnonzero(along > 0.0)[::-1]",
        "np.flatnonzero(along > 0.0)",
        "algebra",
    ),
    Planted(
        "Huber's loss without its half",
        "problems/losses.py",
        "inside * (size - 0.5 * inside), np.clip",
        "inside * (size - inside), np.clip",
        "auto huber",
    ),
    Planted(
        "a pull of the wrong moments",
        "theory/moments/pair.py",
        "jump_slope(a_rows, b, S, W, U.T)",
        "jump_slope(a_rows, b, S, U, U.T)",
        "moments",
    ),
)

ALL = (*CLAIMED, *(each for subject in SUBJECTS for each in subject), *TWINS)
