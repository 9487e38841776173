"""Marked methods: the solution is the direct solver's; the trace, the end, and what is refused."""

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.marked import stepper as marked
from tests.helpers.regressions import data

pytestmark = pytest.mark.blas


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_coordinate_descent_reaches_the_direct_solution(kind, accelerated):
    X, y = data(40, 6, 1, density=0.8)
    X = sparse.csr_array(X) if kind == "sparse" else X
    p = cz.problems.LeastSquares(X, y, l2=0.05)
    r = cz.minimize(
        p, np.zeros(6), method=cz.CoordinateDescent(accelerated=accelerated), tol=1e-10, rng=0
    )
    assert r.success
    np.testing.assert_allclose(r.x, p.x_star, atol=1e-8)


@pytest.mark.parametrize("loss", [cz.problems.LeastSquares, cz.problems.LogisticRegression])
@pytest.mark.parametrize("accelerated", [True, False])
def test_the_dual_reaches_the_primal_solution(loss, accelerated):
    X, y = data(40, 6, 2, density=0.8)
    p = loss(X, y, l2=0.05)
    method = cz.DualCoordinate(accelerated=accelerated)
    r = cz.minimize(p, np.zeros(6), method=method, tol=1e-13, maxiter=400_000, rng=0)
    assert r.success, r.message
    assert "duality gap" in r.message
    primal = cz.minimize(p, np.zeros(6), tol=1e-11, maxiter=100_000, rng=0)
    np.testing.assert_allclose(r.x, primal.x, atol=1e-6)
    assert 0.0 <= r.fun - primal.fun + 1e-15 <= 1e-12


def test_the_trace_counts_passes():
    X, y = data(30, 6, 3, density=0.6)
    p = cz.problems.LeastSquares(X, y, l2=0.1)
    r = cz.minimize(p, np.zeros(6), method=cz.CoordinateDescent("uniform"), maxiter=600, rng=0)
    assert r.trace.k[-1] == r.nit == 600
    assert r.trace.passes[0] == 0.0
    assert np.all(np.diff(r.trace.passes) > 0.0)
    assert r.trace.passes[-1] == pytest.approx(100.0, rel=0.2)
    assert r.constants["S"] > 0.0
    full = cz.minimize(p, np.zeros(6), maxiter=5, rng=0)
    assert full.trace.passes.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("method", [cz.StochasticLeastSquares(), cz.Kaczmarz()])
@pytest.mark.parametrize("empty", [0, 20])
def test_passes_of_rows_are_events_times_the_cost_of_their_rows(method, empty):
    X, y = data(30, 6, 3, density=0.6)
    X[:empty] = 0.0
    p = cz.problems.LeastSquares(X, y)
    law = method.prepare(p, np.zeros(6)).law
    events = cz.clock.Poisson(4, marks=law).stream().draw(90)
    clock = cz.clock.Recorded(events.t, marks=events.marks)
    r = cz.minimize(p, np.zeros(6), method=method, clock=clock, maxiter=90)
    entries = np.count_nonzero(X, axis=1)
    costs = np.maximum(entries, 1)[events.marks].sum()  # to look at an empty row costs as much
    assert r.passes == pytest.approx(costs / max(entries.sum(), 30), rel=1e-12)


class Overstepping(cz.CoordinateDescent):
    """Steps of z a hundred times too long."""

    def prepare(self, problem, x0):
        stepper = super(type(self), self).prepare(problem, x0)
        stepper.weights = 100.0 * stepper.weights
        return stepper


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("tol", [None, 1e-9])
def test_a_run_that_diverges_ends_at_its_last_good_point(record, tol):
    p = cz.problems.Quadratic(np.geomspace(1.0, 0.1, 5), np.ones(5))
    r = cz.minimize(p, np.zeros(5), method=Overstepping(), rng=0, tol=tol, maxiter=100_000,
                    record=record)  # fmt: skip
    assert r.status is cz.Status.NOT_FINITE
    assert np.all(np.isfinite(r.x))
    assert np.isfinite(r.fun)
    assert np.all(np.isfinite(r.trace.fun))


class OversteppingDual(cz.DualCoordinate):
    """The same in the dual."""

    prepare = Overstepping.prepare


def test_a_run_that_diverges_has_no_gap():
    X, y = data(30, 6, 3)
    p = cz.problems.LeastSquares(X, y, l2=0.1)
    r = cz.minimize(p, np.zeros(6), method=OversteppingDual(), rng=0, maxiter=100_000)
    assert r.status is cz.Status.NOT_FINITE
    assert np.all(np.isfinite(r.x))
    assert r.gap is None


def test_a_dual_whose_start_overflows_is_refused():
    X, y = data(30, 6, 3)
    p = cz.problems.LeastSquares(X, 1e170 * y, l2=0.1)
    with pytest.raises(ValueError, match="squares overflow: divide y"):
        cz.minimize(p, np.zeros(6), method=cz.DualCoordinate(), rng=0)


def test_zero_columns_and_empty_rows_are_valid():
    X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.5, 0.0, -1.0]])
    p = cz.problems.LeastSquares(X, [1.0, 2.0, 3.0])
    r = cz.minimize(p, np.ones(3), method=cz.CoordinateDescent(), tol=1e-10, rng=0)
    assert r.success
    assert r.x[1] == 1.0
    uniform = cz.minimize(p, np.ones(3), method=cz.CoordinateDescent("uniform"), tol=1e-10, rng=0)
    np.testing.assert_allclose(uniform.x, r.x, atol=1e-8)


BAD = {
    "not a distribution": (cz.CoordinateDescent([0.5, 0.6, 0.1]), ValueError, "sum to 1"),
    "negative": (cz.CoordinateDescent([1.5, -0.5, 0.0]), ValueError, ">= 0"),
    "wrong length": (cz.CoordinateDescent([0.5, 0.5]), ValueError, "3 coordinates"),
    "zero": (cz.CoordinateDescent([0.5, 0.5, 0.0]), ValueError, "coordinate 2 has probability 0"),
    "words": (cz.CoordinateDescent(["a", "b", "c"]), TypeError, "vector of numbers"),
    "overflow": (cz.CoordinateDescent([0.5, 0.5, 1e-200]), ValueError, "larger probabilities"),
    "class": (cz.CoordinateDescent, TypeError, "method object"),
    "word": (cz.CoordinateDescent("cube"), ValueError, '"sqrt"'),
    "kind": (cz.StochasticLeastSquares(), TypeError, "LeastSquares"),
    "dual": (cz.DualCoordinate(), TypeError, "LogisticRegression"),
}


@pytest.mark.parametrize(("method", "error", "words"), BAD.values(), ids=BAD)
def test_bad_methods_are_refused(method, error, words):
    with pytest.raises(error, match=words):
        cz.minimize(cz.problems.Quadratic([1.0, 2.0, 3.0]), np.zeros(3), method=method)


@pytest.mark.parametrize(
    "arguments", [{"L": 1.0}, {"mu": 0.1}, {"noise": cz.noise.Gaussian(1.0)}, {"record": "path"}]
)
def test_arguments_that_mean_nothing_to_marked_methods_are_refused(arguments):
    with pytest.raises(ValueError, match="coordinate-descent"):
        cz.minimize(cz.problems.Quadratic([1.0]), [0.0], method=cz.CoordinateDescent(), **arguments)


METHODS = {
    "coordinate": (cz.CoordinateDescent, 0.1),
    "dual": (cz.DualCoordinate, 0.1),
    "rows": (cz.StochasticLeastSquares, 0.0),
}


@pytest.mark.parametrize(("method", "l2"), METHODS.values(), ids=METHODS)
def test_the_same_clock_gives_the_same_run(method, l2):
    X, y = data(20, 5, 6, density=0.9)
    p = cz.problems.LeastSquares(X, y, l2=l2)
    fresh, generated = cz.clock.Poisson(), cz.clock.Poisson(np.random.default_rng(1))
    for clock in (fresh, generated, cz.clock.Unit(7)):
        a, b = (
            cz.minimize(p, np.ones(5), method=method(), clock=clock, maxiter=60) for _ in range(2)
        )
        assert np.array_equal(a.x, b.x)
        assert np.array_equal(a.trace.t, b.trace.t)


@pytest.mark.parametrize(("method", "l2"), METHODS.values(), ids=METHODS)
def test_x_has_the_shape_and_type_of_x0(method, l2):
    X, y = data(20, 6, 6, density=0.9)
    p = cz.problems.LeastSquares(X, y, l2=l2)
    seen = []
    for dtype in (np.float32, np.float64):
        x0 = np.ones((2, 3), dtype)
        r = cz.minimize(p, x0, method=method(), maxiter=40, rng=0, callback=seen.append)
        assert np.all(x0 == 1.0)
        assert {(x.shape, x.dtype) for x in (r.x, r.jac, seen[-1])} == {(x0.shape, x0.dtype)}


@pytest.mark.parametrize("method", [cz.DualCoordinate(), cz.StochasticLeastSquares()])
def test_by_default_a_run_may_take_a_thousand_passes_over_the_rows(method):
    rng = np.random.default_rng(0)
    p = cz.problems.LeastSquares(rng.standard_normal((120_000, 2)), np.ones(120_000))
    if method.name == "dual-coordinate":
        p = cz.problems.LeastSquares(p.X, p.y, l2=1e-6)

    def stop(intermediate_result):
        if intermediate_result.nit > 120_000:
            raise StopIteration

    r = cz.minimize(p, np.zeros(2), method=method, tol=1e-15, rng=0, callback=stop)
    assert r.nit > 120_000


def test_a_dual_run_that_ends_too_early_says_what_was_measured():
    X, y = data(8, 5, 2)
    p = cz.problems.LeastSquares(X, y, l2=0.01)
    r = cz.minimize(p, np.zeros(5), method=cz.DualCoordinate(), maxiter=3, tol=1e-12, rng=0)
    assert not r.success
    assert "duality gap" in r.message


@pytest.mark.parametrize("sampling", ["sqrt", "uniform"])
def test_no_variables_are_refused(sampling):
    with pytest.raises(ValueError, match="no variables"):
        cz.minimize(cz.problems.Quadratic([]), [], method=cz.CoordinateDescent(sampling))


@pytest.mark.parametrize("method", [cz.StochasticLeastSquares(), cz.Kaczmarz()])
def test_the_estimate_of_kappa_sees_rare_columns(method, monkeypatch):
    counts = np.array([1, 2, 5, 50, 200])  # rows e_j, as often as this: H is diagonal
    X = sparse.csr_array(np.repeat(np.diag([1.0, 3.0, 0.5, 2.0, 1.0]), counts, axis=0))
    p = cz.problems.LeastSquares(X, X @ np.ones(5))
    exact = method.prepare(p, np.zeros(5))
    monkeypatch.setattr("continuized.marked.rows.EXACT_UP_TO", 4)
    estimated = method.prepare(p, np.zeros(5))
    assert exact.constants["exact"]
    assert not estimated.constants["exact"]
    assert estimated.kappa == pytest.approx(exact.kappa)
    assert exact.kappa > 100.0
    r = cz.minimize(p, np.zeros(5), method=method, maxiter=200_000, rng=0)
    assert r.fun < 1e-4 * p.fun(np.zeros(5))


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ((10.0, 1e-2), (20.0, 1e-3), 25.0),  # 10 passes left for a tenth: half of them
        ((19.0, 1e-2), (20.0, 2e-4), 20.0 + np.log(2.0) / np.log(50.0)),  # the end is near
        ((10.0, 1e-2), (20.0, 9e-3), 40.0),  # the end is far
        ((10.0, 1e-3), (20.0, 1e-3), 22.0),  # no rate is seen
        ((0.0, np.nan), (20.0, 1.0), 22.0),
    ],
)
def test_the_stopping_test_is_made_where_the_end_is_expected(before, now, expected):
    tol = 1e-4
    assert marked._next_test(before, now, tol) == pytest.approx(expected)
