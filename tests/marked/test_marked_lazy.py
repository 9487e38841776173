"""Marked methods: lazy events equal eager ones, without drift, and solve what they should."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import continuized as cz
from continuized import parameters
from continuized.marked.kernels import layout
from continuized.process import reference
from continuized.process.compiled import coefficients
from continuized.process.flow import mix
from continuized.process.reference import marked_step
from tests.helpers.regressions import data

SEEDS = st.integers(0, 2**32 - 1)
DIMENSIONS = (5, 40, 200)


def advance(stepper, events):
    coefs = coefficients(stepper.process, events, 0.0)
    stepper.take(events.marks, coefs)
    return stepper


def eager(process, x0, events, jump_oracle):
    state = process.init(x0)
    for event in events.each():
        state = marked_step(process, state, event, jump_oracle)
    return state.x


PROBLEMS = {
    "quadratic": lambda X, y: cz.problems.Quadratic(np.geomspace(1.0, 0.01, X.shape[1]), X[0]),
    "least squares": lambda X, y: cz.problems.LeastSquares(sparse.csr_array(X), y, l2=0.01),
    "logistic": lambda X, y: cz.problems.LogisticRegression(X, y, l2=0.01),
}


@settings(max_examples=25, deadline=None)
@given(
    seed=SEEDS,
    d=st.sampled_from(DIMENSIONS),
    name=st.sampled_from(list(PROBLEMS)),
    start=st.sampled_from([None, 0.0, 0.3, 5.0]),
    sampling=st.sampled_from(["sqrt", "uniform"]),
)
def test_lazy_coordinates_equal_eager_ones(seed, d, name, start, sampling):
    problem = PROBLEMS[name](*data(8, d, seed))
    x0 = np.random.default_rng(seed).standard_normal(d)
    stepper = cz.CoordinateDescent(sampling, start=start).prepare(problem, x0)
    events = cz.clock.Poisson(seed, marks=stepper.law).stream().draw(400)
    jumps = reference.CoordinateJumps(problem, stepper.form.L_i, stepper.p)
    expected = eager(stepper.process, x0, events, jumps)
    found = advance(stepper, events).point()
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
    problem, method = case(*data(20, 6, 5))
    stepper = method.prepare(problem, np.zeros(problem.dim))
    stream = cz.clock.Poisson(0, marks=stepper.law).stream()
    for _ in range(10):  # the time is the stream's: a long run at mu = 0 needs many digits of it
        advance(stepper, stream.draw(100_000))
    recomputed = stepper.form.fill_rows(stepper.form.image(stepper.coordinates()))
    np.testing.assert_allclose(
        stepper.images(), recomputed, rtol=0.0, atol=1e-11 * np.abs(recomputed).max()
    )
    if method.name == "coordinate-descent":
        assert stepper.value() == pytest.approx(problem.f_star, rel=1e-10)
    else:
        assert abs(stepper.evaluate_criterion()) <= 1e-12


def at_z(stepper):
    return layout.at_factor(stepper.pairs, stepper.scalars[layout.BETA])


@pytest.mark.blas
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("accelerated", [True, False])
def test_an_entropy_step_solves_its_equation(dense, accelerated):
    X, y = data(12, 4, 7)
    problem = cz.problems.LogisticRegression(X if dense else sparse.csr_array(X), y, l2=0.01)
    stepper = cz.DualCoordinate(accelerated=accelerated).prepare(problem, np.ones(4))
    events = cz.clock.Poisson(1, marks=stepper.law).stream().draw(30)
    for e in range(30):
        before_flow = events._replace(t=events.t[e : e + 1], dt=events.dt[e : e + 1],
                                      marks=events.marks[e : e + 1])  # fmt: skip
        coefs = coefficients(stepper.process, before_flow, 0.0)
        still = np.zeros_like(coefs)  # mix without a jump: the step starts from there
        still[:, :2] = coefs[:, :2]
        i, jump = int(events.marks[e]), coefs.copy()
        jump[:, :2] = 0.0
        if accelerated:
            stepper.scalars[:] = mix(*stepper.scalars, still[0, 0], still[0, 1])
        a, z, w = stepper.coordinates()[i], at_z(stepper)[i], stepper.images()
        stepper.take(before_flow.marks, jump)
        v = at_z(stepper)[i]
        # Of the entropy less 2 v^2, whose convexity 4/12 is in the slope along row i at a.
        g = y[i] * (X[i] @ w) / 12 + 4.0 / 12 * a
        curvature = (X[i] @ X[i]) / (0.01 * 12**2) + 4.0 / 12
        if accelerated:
            curvature = stepper.p[i] / coefs[0, 3]
        assert 0.0 < v < 1.0
        left = g + curvature * (v - z) + (np.log(v / (1.0 - v)) - 4.0 * v) / 12
        assert left == pytest.approx(0.0, abs=1e-12)
        if accelerated:
            moved = (stepper.coordinates()[i] - a) / (v - z)
            eta = parameters.eta(events.t[e], *stepper.process.constants)
            assert moved == pytest.approx(eta / stepper.p[i], rel=1e-6)


def test_the_duality_gap_is_a_bound_from_the_first_pass_on():
    X, y = data(40, 6, 8)
    problem = cz.problems.LogisticRegression(X, y, l2=0.01 / 40)
    best = cz.minimize(problem, np.zeros(6), method=cz.DualCoordinate(), tol=1e-14, rng=0).fun
    stepper = cz.DualCoordinate().prepare(problem, np.zeros(6))
    stream = cz.clock.Poisson(2, marks=stepper.law).stream()
    for _ in range(100):
        advance(stepper, stream.draw(10))
        inside = stepper.coordinates()
        assert 0.0 < inside.min() < inside.max() < 1.0
        w = X.T @ (y * inside) / problem.l2 / 40
        entropy = np.mean(inside * np.log(inside) + (1.0 - inside) * np.log1p(-inside))
        assert stepper.dual_value() == pytest.approx(-entropy - problem.l2 / 2 * w @ w, abs=1e-12)
        assert stepper.dual_value() <= best + 1e-12


@settings(max_examples=25, deadline=None)
@given(
    seed=SEEDS,
    d=st.sampled_from(DIMENSIONS),
    method=st.sampled_from([cz.StochasticLeastSquares, cz.Kaczmarz]),
)
def test_lazy_rows_equal_eager_ones(seed, d, method):
    X, _ = data(20, d, seed, density=0.9)
    problem = cz.problems.LeastSquares(X, X @ np.arange(float(d)))
    x0 = np.random.default_rng(seed).standard_normal(d)
    stepper = method().prepare(problem, x0)
    events = cz.clock.Poisson(seed, marks=stepper.law).stream().draw(300)
    expected = eager(
        stepper.process, x0, events, reference.RowJumps(problem, stepper.R2, stepper.factors)
    )
    found = advance(stepper, events).point()
    np.testing.assert_allclose(found, expected, atol=1e-12 * (1.0 + np.abs(expected).max()))


@pytest.mark.blas
@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("name", ["least squares", "logistic"])
def test_a_far_start_leaves_no_rounding_behind(name, accelerated):
    problem = PROBLEMS[name](*data(12, 5, 9))
    exact = cz.minimize(problem, np.zeros(5), tol=1e-12, maxiter=100_000, rng=0).x
    r = cz.minimize(
        problem, np.full(5, 1e9), method=cz.CoordinateDescent(accelerated=accelerated),
        tol=1e-10, maxiter=200_000, rng=0,
    )  # fmt: skip
    assert r.success
    np.testing.assert_allclose(r.x, exact, atol=1e-8)


def few_entries(shape):
    """6 x 40, or 40 x 6, with entries in 5 of the 40 only."""
    rng = np.random.default_rng(10)
    X = np.zeros((6, 40))
    X[:, rng.permutation(40)[:5]] = data(6, 5, 10)[0]
    X = X if shape == "wide" else X.T
    return sparse.csr_array(X), rng.standard_normal(X.shape[0])


RIDGE = partial(cz.problems.LeastSquares, l2=0.01)
EMPTY = {
    "dual": ("wide", RIDGE, cz.DualCoordinate),
    "rows": ("wide", cz.problems.LeastSquares, cz.StochasticLeastSquares),
    "batches": ("wide", cz.problems.LeastSquares, lambda **o: cz.Kaczmarz(batch=2, **o)),
    "coordinates": ("tall", RIDGE, cz.CoordinateDescent),
    "logistic": (
        "tall",
        lambda X, u: cz.problems.LogisticRegression(X, np.sign(u)),
        cz.CoordinateDescent,
    ),
    "blocks": ("tall", cz.problems.LeastSquares, lambda **o: cz.CoordinateDescent(blocks=2, **o)),
}


@pytest.mark.blas
@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("name", EMPTY)
def test_leaving_out_what_no_entry_touches_changes_nothing(monkeypatch, name, accelerated):
    shape, make, method = EMPTY[name]
    problem = make(*few_entries(shape))

    def run():
        stepper = method(accelerated=accelerated).prepare(problem, np.ones(problem.dim))
        events = cz.clock.Poisson(0, marks=stepper.law).stream().draw(5000)
        return stepper, advance(stepper, events).point()

    stepper, found = run()
    monkeypatch.setattr(layout, "keep_occurring", lambda indices, length: (slice(None), indices))
    whole, expected = run()
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-13)
    if shape == "wide":
        empty = np.diff(problem.X.tocsc().indptr) == 0
        assert empty.sum() == 35
        assert np.all(found[empty] == (0.0 if name == "dual" else 1.0))
    kept = stepper.form.targets if hasattr(stepper, "form") else stepper.pairs
    assert len(kept) == 5
    if hasattr(stepper, "images"):
        np.testing.assert_allclose(stepper.images(), whole.images(), rtol=0.0, atol=1e-13)
