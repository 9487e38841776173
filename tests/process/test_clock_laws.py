"""Marks that a clock brings: their law is the one that the steps are made for, or is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.process.clock import Merged, Poisson, Recorded, Unit, mark_shares
from continuized.process.marks import Categorical, Changing, Stratified

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4)) * np.array([1.0, 1e-2, 1e-3, 1e-4])
Y = RNG.choice([-1.0, 1.0], 30)
RIDGE = cz.problems.LeastSquares(X, Y, l2=1e-8)
LOGISTIC = cz.problems.LogisticRegression(X, Y, l2=1e-2)
SOLVABLE = cz.problems.LeastSquares(X, X.sum(axis=1))
EQUAL = np.full(4, 0.25)
ROWS = np.full(30, 1 / 30)
UNEQUAL_ROWS = np.arange(1.0, 31.0) / 465.0


class Unsaid:
    """A law that does not say its probabilities."""

    def draw(self, rng: np.random.Generator, n: int) -> Any:
        return rng.integers(4, size=n)


def run(problem: Any, method: Any, clock: Any, **options: Any) -> cz.Result:
    return cz.minimize(problem, np.zeros(4), method=method, clock=clock, **options)


def with_law(p: Any) -> dict[str, Any]:
    """Clocks whose marks have the law p."""
    return {
        "categorical": Poisson(0, marks=Categorical(p)),
        "stratified": Unit(0, marks=Stratified(p)),
        "changing": Poisson(0, 2.0, Changing(Categorical(p))),
        "a clock a mark": Merged([Poisson(i, rate) for i, rate in enumerate(p)]),
        "two of one law": Merged([Poisson(0, 0.1, Categorical(p)), Unit(1, Stratified(p))]),
    }


KINDS = list(with_law(EQUAL))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_made_for_another_law_are_refused(kind: str) -> None:
    clock = with_law(EQUAL)[kind]
    for method in (cz.CoordinateDescent(), cz.CoordinateDescent([0.1, 0.2, 0.3, 0.4])):
        with pytest.raises(
            ValueError,
            match=r"mark 0 has probability 0.25 by the clock, but the steps of coordinate-descent "
            r"are made for 0.\d+; give the method sampling= the same, or a clock without marks",
        ):
            run(RIDGE, method, clock)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_made_for_the_law_of_the_clock_run(kind: str) -> None:
    law = cz.CoordinateDescent().prepare(RIDGE, np.zeros(4)).p
    for p, method in (
        (EQUAL, cz.CoordinateDescent("uniform")),
        (EQUAL, cz.CoordinateDescent(EQUAL)),
        (law, cz.CoordinateDescent()),
        (law * (1.0 + 1e-9 * RNG.standard_normal(4)), cz.CoordinateDescent()),
    ):
        assert run(RIDGE, method, with_law(p / p.sum())[kind], maxiter=400).fun < RIDGE.fun(
            np.zeros(4)
        )


@pytest.mark.parametrize(
    "clock",
    [
        Poisson(0, marks=Categorical([0.5, 0.5])),
        Merged([Poisson(0), Poisson(1)]),
        Merged([Poisson(0, marks=Categorical([0.5, 0.5])), Poisson(1, marks=Categorical([1.0]))]),
        Poisson(0, marks=Categorical(np.full(5, 0.2))),
    ],
)
@pytest.mark.parametrize("accelerated", [True, False])
def test_laws_of_another_size_are_refused(clock: Any, accelerated: bool) -> None:
    with pytest.raises(ValueError, match=r"the clock has [25] marks, but coordinate-descent has 4"):
        run(RIDGE, cz.CoordinateDescent("uniform", accelerated), clock)


SPOILT = np.array([0.0, *np.full(29, 1 / 29)])
FOR_EVERY_LAW = {
    "plain coordinates": (RIDGE, cz.CoordinateDescent(accelerated=False)),
    "plain dual": (LOGISTIC, cz.DualCoordinate(accelerated=False)),
    "projections": (SOLVABLE, cz.Kaczmarz(accelerated=False)),
    "given R2": (SOLVABLE, cz.StochasticLeastSquares(R2=40.0, accelerated=False)),
    "given constants": (SOLVABLE, cz.StochasticLeastSquares(R2=40.0, kappa=40.0, mu=0.0)),
}


@pytest.mark.parametrize("name", FOR_EVERY_LAW)
def test_where_no_step_depends_on_the_law_every_mark_must_come(name: str) -> None:
    problem, method = FOR_EVERY_LAW[name]
    coordinates = name == "plain coordinates"
    law = Categorical(EQUAL if coordinates else UNEQUAL_ROWS)
    r = run(problem, method, Poisson(0, marks=law), maxiter=600)
    assert r.fun < problem.fun(np.zeros(4))
    never = Categorical([0.0, 0.5, 0.25, 0.25] if coordinates else SPOILT)
    with pytest.raises(ValueError, match="mark 0 has probability 0 by the clock, and would never"):
        run(problem, method, Poisson(0, marks=never))


FOR_ONE_LAW = {
    "dual": (LOGISTIC, cz.DualCoordinate(), "sampling="),
    "rows": (SOLVABLE, cz.StochasticLeastSquares(kappa=9.0), "the method R2, mu for that law"),
    "plain rows": (SOLVABLE, cz.StochasticLeastSquares(accelerated=False), "the method R2 for"),
    "kaczmarz": (SOLVABLE, cz.Kaczmarz(), "the method R2, kappa, mu for that law"),
}


@pytest.mark.parametrize("name", FOR_ONE_LAW)
def test_what_to_give_for_another_law(name: str) -> None:
    problem, method, advice = FOR_ONE_LAW[name]
    with pytest.raises(ValueError, match=advice):
        run(problem, method, Poisson(0, marks=Categorical(UNEQUAL_ROWS)))
    own = method.prepare(problem, np.zeros(4)).p
    assert run(problem, method, Poisson(0, marks=Categorical(own)), maxiter=60).nit == 60


def test_rows_of_another_law_can_make_plain_steps_diverge() -> None:
    """Why plain rows are not for every law: R2 for equal probabilities is too small for others."""
    A = np.array([[10.0, 0.0], *[[1.0, 0.0]] * 400, [0.0, 1.0]])
    problem, method = cz.problems.LeastSquares(A, A.sum(axis=1)), cz.StochasticLeastSquares
    R2 = method(accelerated=False).prepare(problem, np.zeros(2)).R2
    assert 2.0 * R2 < 100.0  # the step of row 0 overshoots, and is seldom taken
    often = Categorical([0.9, *np.full(401, 0.1 / 401)])
    bad = method(R2=R2, accelerated=False)
    r = cz.minimize(problem, np.zeros(2), method=bad, clock=Poisson(0, marks=often), maxiter=50_000)
    assert r.status is cz.Status.NOT_FINITE


@pytest.mark.parametrize("law", [Categorical(EQUAL), Unsaid()])
def test_what_has_no_known_law_is_taken_as_it_is(law: Any) -> None:
    events = Poisson(0, marks=law).stream().draw(300)
    record = Recorded(events.t, events.dt, events.marks)
    method = cz.CoordinateDescent([0.2, 0.2, 0.3, 0.3])
    for clock in (record, Merged([record])):
        assert mark_shares(clock) is None
        assert run(RIDGE, method, clock, maxiter=300).nit == 300
    unsaid = Poisson(0, marks=Unsaid())
    assert run(RIDGE, method, unsaid, maxiter=9).nit == 9
    assert mark_shares(Merged([unsaid, Poisson(1, marks=Categorical(EQUAL))])) is None


def test_the_law_of_merged_clocks_is_that_of_their_events() -> None:
    """A share of n = 40,000 independent marks leaves p +- 0.5 sqrt(30/n) with probability 2e^-15
    or less (Hoeffding); of 3 and 4 of them, 5e-6."""
    three, two = Categorical([0.7, 0.1, 0.2]), Categorical([0.4, 0.6])
    for clocks in (
        [Poisson(i, rate) for i, rate in enumerate([0.5, 2.0, 3.0, 0.1])],
        [Poisson(0, 2.0, three), Poisson(1, 5.0, two)],
    ):
        clock = Merged(clocks)
        p, marks = mark_shares(clock), clock.stream().draw(40_000).marks
        assert p is not None
        assert marks is not None
        shares = np.bincount(marks[:, int(marks[0, 1] >= 0)], minlength=p.size) / 40_000
        assert np.all(abs(shares - p) < 0.5 * np.sqrt(30.0 / 40_000))
        assert p.sum() == pytest.approx(1.0)


BAD_MARKS = {
    "too large": ([0, 3, 4], "but that of event 3 is 4"),
    "negative": ([0, -2, 9], "but that of event 2 is -2"),
    "no integers": ([0.5, 1.0, 2.0], "but that of event 1 is 0.5"),
    "words": (["a", "b", "c"], "but that of event 1 is 'a'"),
    "vectors": (np.zeros((3, 3), int), r"but that of event 1 is \[0, 0, 0\]"),
}


@pytest.mark.parametrize(("marks", "words"), BAD_MARKS.values(), ids=BAD_MARKS)
def test_the_first_bad_mark_is_named(marks: Any, words: str) -> None:
    clock = Recorded([1.0, 2.0, 3.0], marks=marks)
    with pytest.raises(ValueError, match=r"marks must be integers in \[0, 4\), " + words):
        run(RIDGE, cz.CoordinateDescent(), clock)


def test_a_bad_mark_is_counted_from_the_first_event() -> None:
    marks = np.zeros(9, int)
    marks[7] = 6
    with pytest.raises(ValueError, match="that of event 8 is 6"):  # in the second block of four
        run(RIDGE, cz.CoordinateDescent(), Recorded(np.arange(1.0, 10.0), marks=marks))


def test_a_record_of_the_dual_repeats_a_run_on_marks_of_a_clock() -> None:
    """By its seed alone, the run takes the same marks at first, but other steps."""
    n = 4096
    A = np.random.default_rng(1).standard_normal((n, 3))
    p = cz.problems.LogisticRegression(A, np.sign(A[:, 0] + 0.1), l2=1e-3)
    method = cz.DualCoordinate()
    own = method.prepare(p, np.zeros(3)).p
    clock = Poisson(0, marks=Stratified(own))
    events = clock.stream().draw(n)
    record = Recorded(events.t, events.dt, events.marks)
    replayed = cz.minimize(p, np.zeros(3), method=method, clock=record, maxiter=n)
    again = cz.minimize(p, np.zeros(3), method=method, clock=clock, maxiter=n)
    assert np.array_equal(replayed.x, again.x)
    by_seed = cz.minimize(p, np.zeros(3), method=method, rng=0, maxiter=n)
    assert by_seed.trace.t[-1] == again.trace.t[-1]
    assert not np.allclose(by_seed.x, again.x, rtol=1e-6)
