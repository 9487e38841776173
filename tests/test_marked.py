"""Marked methods: lazy equals eager, the solution is the direct solver's, and the trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import continuized as cz
from continuized import marked, oracle
from continuized.flow import mix
from continuized.kernels.schedule import coefficients
from continuized.methods import marked_step

SEEDS = st.integers(0, 2**32 - 1)


def data(seed, n=8, d=5, density=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    return X, np.sign(rng.standard_normal(n))


def advanced(engine, events):
    coefs = coefficients(engine.process, events, 0.0)
    engine.advance(events.marks, coefs)
    return engine


def eager(process, x0, events, jump_oracle):
    state = process.init(x0)
    for event in events.each():
        state = marked_step(process, state, event, jump_oracle)
    return state.x


PROBLEMS = {
    "quadratic": lambda X, y: cz.problems.Quadratic(np.geomspace(1.0, 0.01, 5), X[0]),
    "least squares": lambda X, y: cz.problems.LeastSquares(sparse.csr_array(X), y, l2=0.01),
    "logistic": lambda X, y: cz.problems.LogisticRegression(X, y, l2=0.01),
}


@settings(max_examples=25, deadline=None)
@given(
    seed=SEEDS,
    name=st.sampled_from(list(PROBLEMS)),
    start=st.sampled_from([None, 0.0, 0.3, 5.0]),
    sampling=st.sampled_from(["sqrt", "uniform"]),
)
def test_lazy_coordinates_equal_eager_ones(seed, name, start, sampling):
    problem = PROBLEMS[name](*data(seed))
    x0 = np.random.default_rng(seed).standard_normal(5)
    engine = cz.CoordinateDescent(sampling, start=start).prepare(problem, x0)
    events = cz.clock.Poisson(seed, marks=engine.law).stream().draw(400)
    jumps = oracle.Coordinates(problem, engine.form.L_i, engine.p)
    expected = eager(engine.process, x0, events, jumps)
    found = advanced(engine, events).point()
    np.testing.assert_allclose(found, expected, atol=1e-12 * (1.0 + np.abs(expected).max()))


DRIFT = {  # mu = 0 (two equal columns), mu > 0, and the dual, whose step is a proximal one
    "mu = 0": lambda X, y: (
        cz.problems.LeastSquares(X[:, [0, *range(6)]], y),
        cz.CoordinateDescent(),
    ),
    "mu > 0": lambda X, y: (cz.problems.LeastSquares(X, y, l2=0.01), cz.CoordinateDescent()),
    "dual": lambda X, y: (cz.problems.LogisticRegression(X, y, l2=1e-3), cz.DualCoordinate()),
}


@pytest.mark.parametrize("case", DRIFT.values(), ids=DRIFT)
def test_a_million_events_do_not_drift(case):
    problem, method = case(*data(5, n=20, d=6))
    engine = method.prepare(problem, np.zeros(problem.dim))
    stream = cz.clock.Poisson(0, marks=engine.law).stream()
    for _ in range(10):  # the time is the stream's: a long run at mu = 0 needs many digits of it
        advanced(engine, stream.draw(100_000))
    recomputed = engine.form.image(engine.coordinates())
    np.testing.assert_allclose(
        engine.images(), recomputed, rtol=0.0, atol=1e-11 * np.abs(recomputed).max()
    )
    if method.name == "coordinate-descent":
        assert engine.value() == pytest.approx(problem.f_star, rel=1e-10)
    else:
        assert abs(engine.measure()) <= 1e-12


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("accelerated", [True, False])
def test_an_entropy_step_solves_its_equation(dense, accelerated):
    X, y = data(7, n=12, d=4)
    problem = cz.problems.LogisticRegression(X if dense else sparse.csr_array(X), y, l2=0.01)
    engine = cz.DualCoordinate(accelerated=accelerated).prepare(problem, np.ones(4))
    events = cz.clock.Poisson(1, marks=engine.law).stream().draw(30)
    for e in range(30):
        before_flow = events._replace(t=events.t[e : e + 1], dt=events.dt[e : e + 1],
                                      marks=events.marks[e : e + 1])  # fmt: skip
        coefs = coefficients(engine.process, before_flow, 0.0)
        still = np.zeros_like(coefs)  # mix without a jump: the step starts from there
        still[:, :2] = coefs[:, :2]
        i, jump = int(events.marks[e]), coefs.copy()
        jump[:, :2] = 0.0
        if accelerated:
            engine.scalars[:] = mix(*engine.scalars, still[0, 0], still[0, 1])
        a, w = engine.coordinates()[i], engine.images()
        engine.advance(before_flow.marks, jump)
        v = engine.coordinates()[i]
        g = y[i] * (X[i] @ w) / 12
        L = (X[i] @ X[i]) / (0.01 * 12**2)
        assert 0.0 < v < 1.0
        assert g + L * (v - a) + np.log(v / (1.0 - v)) / 12 == pytest.approx(0.0, abs=1e-12)


def test_the_duality_gap_is_a_bound_from_the_first_pass_on():
    X, y = data(8, n=40, d=6)
    problem = cz.problems.LogisticRegression(X, y, l2=0.01 / 40)
    best = cz.minimize(problem, np.zeros(6), method=cz.DualCoordinate(), tol=1e-14, seed=0).fun
    engine = cz.DualCoordinate().prepare(problem, np.zeros(6))
    stream = cz.clock.Poisson(2, marks=engine.law).stream()
    left = 0
    for _ in range(100):
        advanced(engine, stream.draw(10))
        inside = np.clip(engine.coordinates(), 1e-300, 1.0 - 1e-16)
        left += bool(np.any(np.abs(engine.coordinates() - inside) > 1e-3))
        w = X.T @ (y * inside) / problem.l2 / 40
        entropy = np.mean(inside * np.log(inside) + (1.0 - inside) * np.log1p(-inside))
        assert engine.dual_value() == pytest.approx(-entropy - problem.l2 / 2 * w @ w, abs=1e-12)
        assert engine.dual_value() <= best + 1e-12
    assert left > 0  # the case that is easily got wrong did occur


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, method=st.sampled_from([cz.StochasticLeastSquares, cz.Kaczmarz]))
def test_lazy_rows_equal_eager_ones(seed, method):
    X, _ = data(seed, n=20, density=0.9)
    problem = cz.problems.LeastSquares(X, X @ np.arange(5.0))
    x0 = np.random.default_rng(seed).standard_normal(5)
    engine = method().prepare(problem, x0)
    events = cz.clock.Poisson(seed, marks=engine.law).stream().draw(300)
    expected = eager(engine.process, x0, events, oracle.Rows(problem, engine.R2, engine.factors))
    found = advanced(engine, events).point()
    np.testing.assert_allclose(found, expected, atol=1e-12 * (1.0 + np.abs(expected).max()))


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_coordinate_descent_reaches_the_direct_solution(kind, accelerated):
    X, y = data(1, n=40, d=6, density=0.8)
    X = sparse.csr_array(X) if kind == "sparse" else X
    p = cz.problems.LeastSquares(X, y, l2=0.05)
    r = cz.minimize(
        p, np.zeros(6), method=cz.CoordinateDescent(accelerated=accelerated), tol=1e-10, seed=0
    )
    assert r.success
    np.testing.assert_allclose(r.x, p.x_star, atol=1e-8)


@pytest.mark.parametrize("loss", [cz.problems.LeastSquares, cz.problems.LogisticRegression])
@pytest.mark.parametrize("accelerated", [True, False])
def test_the_dual_reaches_the_primal_solution(loss, accelerated):
    X, y = data(2, n=40, d=6, density=0.8)
    p = loss(X, y, l2=0.05)
    method = cz.DualCoordinate(accelerated=accelerated)
    r = cz.minimize(p, np.zeros(6), method=method, tol=1e-13, maxiter=400_000, seed=0)
    assert r.success, r.message
    assert "duality gap" in r.message
    primal = cz.minimize(p, np.zeros(6), tol=1e-11, maxiter=100_000, seed=0)
    np.testing.assert_allclose(r.x, primal.x, atol=1e-6)
    assert 0.0 <= r.fun - primal.fun + 1e-15 <= 1e-12


def test_the_trace_counts_passes():
    X, y = data(3, n=30, d=6, density=0.6)
    p = cz.problems.LeastSquares(X, y, l2=0.1)
    r = cz.minimize(p, np.zeros(6), method=cz.CoordinateDescent("uniform"), maxiter=600, seed=0)
    assert r.trace.k[-1] == r.nit == 600
    assert r.trace.passes[0] == 0.0
    assert np.all(np.diff(r.trace.passes) > 0.0)
    assert r.trace.passes[-1] == pytest.approx(100.0, rel=0.2)
    assert r.constants["S"] > 0.0
    full = cz.minimize(p, np.zeros(6), maxiter=5, seed=0)
    assert full.trace.passes.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_recorded_events_replay_with_their_marks():
    p = cz.problems.Quadratic(np.geomspace(1.0, 0.01, 5), np.ones(5))
    engine = cz.CoordinateDescent().prepare(p, np.zeros(5))
    events = cz.clock.Poisson(4, marks=engine.law).stream().draw(200)
    clock = cz.clock.Recorded(events.t, events.dt, events.marks)
    method = cz.CoordinateDescent()
    replayed = cz.minimize(p, np.zeros(5), method=method, clock=clock)
    again = cz.minimize(p, np.zeros(5), method=method, maxiter=200, seed=4)
    assert np.array_equal(replayed.x, again.x)


MERGED = {
    "a clock a coordinate": lambda p: [cz.clock.Poisson(i, rate) for i, rate in enumerate(p)],
    "marks of their own": lambda p: [
        cz.clock.Poisson(i, 0.5, cz.marks.Categorical(p)) for i in range(2)
    ],
}


@pytest.mark.parametrize("clocks", MERGED.values(), ids=MERGED)
def test_merged_clocks_drive_a_marked_method(clocks):
    p = cz.problems.Quadratic(np.geomspace(1.0, 0.01, 5), np.ones(5))
    method = cz.CoordinateDescent()
    law = method.prepare(p, np.zeros(5)).p
    merged = cz.clock.Merged(clocks(law))
    events = merged.stream().draw(3000)
    marks = events.marks[:, 0 if len(merged.clocks) == 5 else 1]
    # A count is binomial: five sigmas either way, five times twice, have probability 6e-6.
    spread = np.sqrt(3000 * law * (1.0 - law))
    assert np.all(np.abs(np.bincount(marks, minlength=5) - 3000 * law) <= 5.0 * spread)
    r = cz.minimize(p, np.zeros(5), method=method, clock=merged, tol=1e-6, maxiter=3000)
    assert r.success
    recorded = cz.clock.Recorded(events.t, events.dt, marks)
    again = cz.minimize(p, np.zeros(5), method=method, clock=recorded, tol=1e-6, maxiter=3000)
    assert np.array_equal(r.x, again.x)
    assert r.nit == again.nit


def test_merged_clocks_must_all_have_marks_or_none():
    p = cz.problems.Quadratic(np.ones(2))
    clocks = [cz.clock.Poisson(0, marks=cz.marks.Categorical([0.5, 0.5])), cz.clock.Poisson(1)]
    with pytest.raises(ValueError, match="give marks= to all"):
        cz.minimize(p, [1.0, 2.0], method=cz.CoordinateDescent(), clock=cz.clock.Merged(clocks))


class Overstepping(cz.CoordinateDescent):
    """Steps of z a hundred times too long."""

    def prepare(self, problem, x0):
        engine = super().prepare(problem, x0)
        engine.weights = 100.0 * engine.weights
        return engine


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("tol", [None, 1e-9])
def test_a_run_that_diverges_ends_at_its_last_good_point(record, tol):
    p = cz.problems.Quadratic(np.geomspace(1.0, 0.1, 5), np.ones(5))
    r = cz.minimize(p, np.zeros(5), method=Overstepping(), seed=0, tol=tol, maxiter=100_000,
                    record=record)  # fmt: skip
    assert r.status is cz.Status.NOT_FINITE
    assert np.all(np.isfinite(r.x))
    assert np.isfinite(r.fun)
    assert np.all(np.isfinite(r.trace.fun))


def test_a_run_whose_clock_ends_is_judged_where_it_ended():
    """Also where the last stopping test was some passes before."""
    p = cz.problems.Quadratic(np.geomspace(1.0, 0.1, 5), np.ones(5))
    method = cz.CoordinateDescent()
    events = cz.clock.Poisson(0, marks=method.prepare(p, np.zeros(5)).law).stream().draw(200)
    seen = set()
    for n in range(5, 200, 5):
        clock = cz.clock.Recorded(events.t[:n], events.dt[:n], events.marks[:n])
        r = cz.minimize(p, np.zeros(5), method=method, clock=clock, tol=1e-3)
        small = np.linalg.norm(p.grad(r.x)) <= 1e-3
        assert r.status is (cz.Status.CONVERGED if small else cz.Status.CLOCK_ENDED)
        assert r.nit == n or small
        seen.add(r.status)
        all_taken = cz.minimize(p, np.zeros(5), method=method, clock=clock)
        assert (all_taken.status, all_taken.nit) == (cz.Status.COMPLETED, n)
    assert len(seen) == 2


def test_zero_columns_and_empty_rows_are_valid():
    X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.5, 0.0, -1.0]])
    p = cz.problems.LeastSquares(X, [1.0, 2.0, 3.0])
    r = cz.minimize(p, np.ones(3), method=cz.CoordinateDescent(), tol=1e-10, seed=0)
    assert r.success
    assert r.x[1] == 1.0
    uniform = cz.minimize(p, np.ones(3), method=cz.CoordinateDescent("uniform"), tol=1e-10, seed=0)
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
    X, y = data(6, n=20, density=0.9)
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
    X, y = data(6, n=20, d=6, density=0.9)
    p = cz.problems.LeastSquares(X, y, l2=l2)
    seen = []
    for dtype in (np.float32, np.float64):
        x0 = np.ones((2, 3), dtype)
        r = cz.minimize(p, x0, method=method(), maxiter=40, seed=0, callback=seen.append)
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

    r = cz.minimize(p, np.zeros(2), method=method, tol=1e-15, seed=0, callback=stop)
    assert r.nit > 120_000


def test_a_dual_run_that_ends_too_early_says_what_was_measured():
    X, y = data(2)
    p = cz.problems.LeastSquares(X, y, l2=0.01)
    r = cz.minimize(p, np.zeros(5), method=cz.DualCoordinate(), maxiter=3, tol=1e-12, seed=0)
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
    monkeypatch.setattr("continuized.rows.EXACT_UP_TO", 4)
    estimated = method.prepare(p, np.zeros(5))
    assert exact.constants["exact"]
    assert not estimated.constants["exact"]
    assert estimated.kappa == pytest.approx(exact.kappa)
    assert exact.kappa > 100.0
    r = cz.minimize(p, np.zeros(5), method=method, maxiter=200_000, seed=0)
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
