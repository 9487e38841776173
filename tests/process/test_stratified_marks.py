"""Stratified marks: the law p, spread evenly over every pass."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import continuized as cz
from continuized.process.marks import Categorical, Stratified

MASSES = st.lists(st.sampled_from([0.0, 0.1, 1.0, 3.0]) | st.floats(0.01, 10.0), min_size=1)


class Uniforms:
    """A generator whose uniforms are given and which does not shuffle."""

    def __init__(self, u):
        self.u = u

    def random(self):
        return self.u

    def permuted(self, marks, out):
        return marks


@settings(max_examples=100, deadline=None)
@given(masses=MASSES, passes=st.integers(0, 3), rest=st.integers(0, 40), seed=st.integers(0, 99))
def test_every_pass_has_each_mark_as_often_as_its_probability_says(masses, passes, rest, seed):
    p = np.array(masses)
    p = p / p.sum() if p.sum() > 0.0 else np.full(p.size, 1.0 / p.size)
    law, rest = Stratified(p), rest % p.size
    marks = law.draw(np.random.default_rng(seed), passes * p.size + rest)
    assert marks.dtype == np.int64
    whole = marks[: passes * p.size].reshape(passes, p.size)
    for part in (*whole, marks[passes * p.size :]):
        times = np.bincount(part, minlength=p.size)
        assert np.all(abs(times - part.size * p) < 1.0 + 1e-9)
        assert not times[p == 0.0].any()


@pytest.mark.parametrize("n", [5, 3, 10])
def test_each_mark_has_its_probability(n):
    """The mean over the uniform number, exactly: it is constant between a few jumps, which a grid
    of its midpoints in steps of 1/1000 does not split, for n p_i are multiples of 1/1000."""
    p = np.array([0.2, 0.0, 0.013, 0.387, 0.4])
    grid = (np.arange(1000) + 0.5) / 1000.0
    times = [np.bincount(Stratified(p).draw(Uniforms(u), n), minlength=5) for u in grid]
    np.testing.assert_allclose(np.mean(times, axis=0), n * p, atol=1e-12)


@pytest.mark.parametrize("u", [0.0, 1.0 - 2.0**-53])
def test_rounding_draws_no_impossible_mark(u):
    p = np.concatenate([[0.0], np.full(3000, 1.0 / 3000), [0.0]])
    marks = Stratified(p).draw(Uniforms(u), p.size)
    assert marks.size == p.size
    assert marks.min() >= 1
    assert marks.max() <= 3000


def test_the_order_is_random():
    """Each of the 24 orders of 4 equal marks 500 times of 12,000 on average; a count leaves
    500 +- 120 with probability 5e-8, so that one of all does with at most 2e-6."""
    marks = Stratified(np.full(4, 0.25)).draw(np.random.default_rng(0), 48_000).reshape(-1, 4)
    orders, counts = np.unique(marks, axis=0, return_counts=True)
    assert len(orders) == 24
    assert np.all(abs(counts - 500) < 120)


@pytest.mark.parametrize("bias", [1.0, 1.1])
def test_each_place_of_a_pass_has_the_law(bias):
    """A mark of each pass, now of one place and now of another: independent draws from p.

    By Pearson's test; for a seed that is not fixed, a false alarm with probability 1e-7.  A bias of
    a tenth in one probability is seen: its noncentrality is 70, where 36 are allowed.
    """
    p = np.array([0.2, 0.0, 0.013, 0.387, 0.4])
    planted = p * np.array([1.0, 1.0, 1.0, bias, 1.0])
    passes = 30_000
    marks = Stratified(planted / planted.sum()).draw(np.random.default_rng(1), 5 * passes)
    one = marks.reshape(passes, 5)[np.arange(passes), np.arange(passes) % 5]
    counts = np.bincount(one, minlength=5)
    assert counts[1] == 0
    is_law = chisquare(counts[p > 0.0], passes * p[p > 0.0]).pvalue > 1e-7
    assert is_law == (bias == 1.0)


def test_where_a_theorem_holds_marks_are_independent():
    X = np.random.default_rng(0).standard_normal((50, 3))
    ridge = cz.problems.LeastSquares(X, X[:, 0], l2=0.1)
    logistic = cz.problems.LogisticRegression(X, np.sign(X[:, 0]), l2=0.1)
    laws = [
        cz.DualCoordinate().prepare(ridge, np.zeros(3)).law.now,
        cz.CoordinateDescent().prepare(logistic, np.zeros(3)).law.now,
    ]
    assert all(isinstance(law, Categorical) for law in laws)


@pytest.mark.parametrize("p", [np.full(7, 1 / 7), np.array([0.1, 0.0, 0.15, 0.75])])
def test_passes_one_by_one_are_those_drawn_at_once(p):
    law, n = Stratified(p), p.size
    at_once = law.draw(np.random.default_rng(3), 3 * n + 2)
    rng = np.random.default_rng(3)
    one_by_one = [law.draw(rng, size) for size in (n, 2 * n, 2)]
    assert np.array_equal(at_once, np.concatenate(one_by_one))


@pytest.mark.parametrize("maxiter", [12_000, 4130])
def test_a_run_has_the_same_marks_with_and_without_a_record(maxiter):
    X = np.random.default_rng(0).standard_normal((60, 3))
    p = cz.problems.LogisticRegression(X, np.sign(X[:, 0] + 0.3), l2=1e-4)
    options = {"method": cz.DualCoordinate(), "rng": 0, "maxiter": maxiter, "tol": 0.0}
    ends = [cz.minimize(p, np.zeros(3), record=record, **options) for record in (True, False)]
    assert ends[0].nit == ends[1].nit == maxiter
    assert ends[0].passes == ends[1].passes
    np.testing.assert_allclose(ends[0].x, ends[1].x, rtol=1e-9)
