"""Coordinates with a separable prox: the compiled steps, the solutions, the gap, and bad input."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import lsq_linear, nnls
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, enet_path

import continuized as cz
from continuized.process import parameters, reference
from continuized.process.compiled import coefficients
from continuized.process.methods import State
from tests.helpers.regressions import FORMS, data

L1 = 0.05


def targets(X, seed):
    rng = np.random.default_rng(seed)
    return X @ np.sign(rng.standard_normal(X.shape[1])) + rng.standard_normal(len(X))


def least_squares(n=30, d=12, seed=3, form="dense", l2=0.0):
    X, _ = data(n, d, seed, density=0.8)
    X = X * np.geomspace(2.0, 0.5, d)
    return cz.problems.LeastSquares(FORMS[form](X), targets(X, seed), l2=l2)


def logistic(n=30, d=12, seed=3, form="dense"):
    X, y = data(n, d, seed, density=0.8)
    return cz.problems.LogisticRegression(FORMS[form](X), y, l2=0.01)


def uneven(d):
    shares = 1.0 + np.arange(d) % 3
    return shares / shares.sum()


# name: problem, method, and where psi has an l2, the same without: it belongs to f.
GROUPS = np.arange(12) % 4
WEIGHTS = [0.1, 0.0, 0.3, 0.02]
LABELLED = [np.flatnonzero(g == GROUPS) for g in range(4)]
COMPILED = {
    "lasso": (least_squares(), {"prox": cz.prox.L1(L1)}),
    "lasso, sparse": (least_squares(form="sparse"), {"prox": cz.prox.L1(L1)}),
    "lasso, mu = 0": (least_squares(6, 12), {"prox": cz.prox.L1(L1)}),
    "weighted p": (least_squares(), {"prox": cz.prox.L1(L1), "sampling": uneven(12)}),
    "box": (least_squares(), {"prox": cz.prox.Box(-0.3, np.linspace(0.0, 1.0, 12))}),
    "nonnegative, start": (least_squares(6, 12), {"prox": cz.prox.NonNegative(L1), "start": 150.0}),
    "mu > 0, start": (least_squares(), {"prox": cz.prox.L1(L1), "start": 150.0}),
    "logistic": (logistic(form="sparse"), {"prox": cz.prox.L1(L1)}),
    "quadratic": (cz.problems.Quadratic(np.geomspace(1.0, 0.1, 12), np.linspace(-1, 1, 12)),
                  {"prox": cz.prox.L1(L1)}),
    "blocks": (least_squares(form="sparse"), {"prox": cz.prox.L1(L1), "blocks": 5}),
    "groups": (least_squares(), {"prox": cz.prox.GroupLasso(WEIGHTS, GROUPS)}),
    "groups, sparse": (least_squares(6, 12, form="sparse"),
                       {"prox": cz.prox.GroupLasso(WEIGHTS, GROUPS)}),
    "groups, given": (least_squares(), {"prox": cz.prox.GroupLasso(WEIGHTS, GROUPS),
                                        "blocks": LABELLED[::-1]}),
}  # fmt: skip


def blocks_of(stepper):
    if not hasattr(stepper, "partition"):
        return None
    members, bounds = stepper.partition
    return [members[first:last] for first, last in pairwise(bounds)]


def run_reference(step, stepper, problem, prox, x0, events):
    state = State(0, 0.0, x0.copy(), x0.copy())
    for event in events.each():
        state = step(stepper.process, state, event, problem, prox, stepper.p, blocks_of(stepper))
    return state


def run_both(name, step):
    """Run the compiled steps, in two parts, and the eager ones on the same events."""
    problem, options = COMPILED[name]
    x0 = np.clip(np.random.default_rng(0).standard_normal(12), 0.0, np.linspace(0.0, 0.1, 12))
    stepper = cz.CoordinateDescent(**options).prepare(problem, x0)
    events = cz.clock.Poisson(1, marks=stepper.law).stream().draw(600)
    coefs = coefficients(stepper.process, events, 0.0)
    for part in (slice(0, 7), slice(7, 600)):
        stepper.take(events.marks[part], coefs[part])
    return stepper, run_reference(step, stepper, problem, options["prox"], x0, events)


@pytest.mark.blas
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_steps_are_the_eager_ones(name):
    stepper, state = run_both(name, reference.proximal_coordinate_step)
    np.testing.assert_allclose(stepper.coordinates(), state.x, rtol=0.0, atol=1e-12)


def eta_before(process, state, event, problem, prox, p, blocks):
    """The eta of T_k, not of T_{k+1}."""
    return change_x(process, state, event, problem, prox, p, blocks, event.t - event.dt, 1.0)


def no_p_in_x(process, state, event, problem, prox, p, blocks):
    return change_x(process, state, event, problem, prox, p, blocks, event.t, p[event.mark])


def change_x(process, state, event, problem, prox, p, blocks, t, factor):
    """Take the step with another eta, and another factor, in x."""
    after = reference.proximal_coordinate_step(process, state, event, problem, prox, p, blocks)
    a, b = process.coefficients(event.k, state.t, event.t, event.dt, 0.0)[:2]
    x, z = reference.mix(state.x, state.z, a, b)
    move = after.z - z
    return after._replace(
        x=x + parameters.eta(t, *process.constants) * factor / p[event.mark] * move
    )


def no_p_in_z(process, state, event, problem, prox, p, blocks):
    one = np.ones_like(p)
    after = reference.proximal_coordinate_step(process, state, event, problem, prox, one, blocks)
    a, b = process.coefficients(event.k, state.t, event.t, event.dt, 0.0)[:2]
    x, _ = reference.mix(state.x, state.z, a, b)
    return after._replace(x=x + (after.x - x) / p[event.mark])


@pytest.mark.parametrize("mistake", [eta_before, no_p_in_x, no_p_in_z])
def test_planted_mistakes_are_seen_by_that_comparison(mistake):
    stepper, state = run_both("lasso, mu = 0", mistake)
    assert np.abs(stepper.coordinates() - state.x).max() > 1e-6


def test_an_l2_in_prox_is_one_in_f():
    rows = [
        (least_squares(l2=0.02), cz.prox.ElasticNet(L1, 0.03)),
        (least_squares(l2=0.05), cz.prox.L1(L1)),
    ]
    for options in ({}, {"accelerated": False}, {"blocks": 4}):
        found = []
        for problem, prox in rows:
            stepper = cz.CoordinateDescent(prox=prox, **options).prepare(problem, np.zeros(12))
            events = cz.clock.Poisson(1, marks=stepper.law).stream().draw(300)
            stepper.take(events.marks, coefficients(stepper.process, events, 0.0))
            found.append((stepper.coordinates(), stepper.value(), stepper.evaluate_criterion()))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def solve(problem, sampling="sqrt", tol=1e-13, **options):
    method = cz.CoordinateDescent(sampling, **options)
    r = cz.minimize(problem, np.zeros(problem.dim), method=method, tol=tol, rng=0)
    assert r.success, r.message
    return r


PLAIN_AND_NOT = pytest.mark.parametrize("accelerated", [True, False])


@pytest.mark.blas
@PLAIN_AND_NOT
@pytest.mark.parametrize("form", FORMS)
def test_lasso_and_elastic_net_are_those_of_scikit_learn(form, accelerated):
    p = least_squares(60, 20, form=form)
    X = p.X.toarray() if form == "sparse" else p.X
    for l2 in (0.0, 0.2):
        r = solve(p, prox=cz.prox.ElasticNet(L1, l2), accelerated=accelerated)
        exact = {"fit_intercept": False, "tol": 1e-14, "max_iter": 10**6}
        model = ElasticNet(alpha=L1 + l2, l1_ratio=L1 / (L1 + l2), **exact)
        theirs = model.fit(X, p.y).coef_
        np.testing.assert_allclose(r.x, theirs, atol=1e-6)
        if not accelerated:
            np.testing.assert_array_equal(r.x == 0.0, theirs == 0.0)


@pytest.mark.blas
@PLAIN_AND_NOT
def test_bounds_are_those_of_scipy(accelerated):
    p = least_squares(60, 20)
    options = {"accelerated": accelerated}
    positive = solve(p, prox=cz.prox.NonNegative(), tol=1e-10, **options).x
    np.testing.assert_allclose(positive, nnls(p.X, p.y)[0], atol=1e-7)
    assert positive.min() == 0.0
    low, high = np.full(20, -0.4), np.linspace(0.0, 0.7, 20)
    inside = solve(p, prox=cz.prox.Box(low, high), **options).x
    expected = lsq_linear(p.X, p.y, (low, np.maximum(high, 1e-12)), tol=1e-14).x
    np.testing.assert_allclose(inside, expected, atol=1e-6)
    assert np.all((low <= inside) & (inside <= high))


@PLAIN_AND_NOT
def test_sparse_logistic_regression_is_that_of_scikit_learn(accelerated):
    X, y = data(80, 10, 4, density=0.9)
    p = cz.problems.LogisticRegression(X, y, l2=0.0)
    r = solve(p, prox=cz.prox.L1(0.03), tol=1e-9, accelerated=accelerated)
    model = LogisticRegression(
        C=1.0 / (0.03 * 80), l1_ratio=1.0, solver="saga", fit_intercept=False, tol=1e-10,
        max_iter=10**5, random_state=0,
    )  # fmt: skip
    np.testing.assert_allclose(r.x, model.fit(X, y).coef_.ravel(), atol=1e-5)
    assert "gradient mapping" in r.message


@pytest.mark.parametrize("form", FORMS)
@PLAIN_AND_NOT
def test_the_group_lasso_satisfies_its_conditions(form, accelerated):
    """A group is 0 where |grad_g| <= weight, and otherwise grad_g = -weight x_g / |x_g|."""
    p = least_squares(form=form)
    weights = np.array([0.3, 0.0, 4.0, 0.1])
    prox = cz.prox.GroupLasso(weights, GROUPS)
    for blocks in (None, LABELLED[::-1]):
        x = solve(p, prox=prox, blocks=blocks, tol=1e-12, accelerated=accelerated).x
        g = p.grad(x)
        for group, weight in zip(LABELLED, weights, strict=True):
            size = np.linalg.norm(x[group])
            if size < 1e-6:
                assert np.linalg.norm(g[group]) <= weight * (1.0 + 1e-6)
            else:
                np.testing.assert_allclose(g[group], -weight * x[group] / size, atol=1e-5)
    assert np.any([np.linalg.norm(x[group]) < 1e-6 for group in LABELLED])


def test_groups_of_one_are_the_lasso():
    p = least_squares()
    weights = np.linspace(0.0, 0.2, 12)
    alone = solve(p, prox=cz.prox.GroupLasso(weights, np.arange(12)), tol=1e-9).x
    np.testing.assert_allclose(alone, solve(p, prox=cz.prox.L1(weights), tol=1e-9).x, atol=1e-9)


BOUNDED = {
    "lasso": cz.prox.L1(L1),
    "elastic net": cz.prox.ElasticNet(L1, 0.1),
    "nonnegative": cz.prox.NonNegative(L1),
    "box": cz.prox.Box(-0.3, 0.5),
    "box, no zero": cz.prox.Separable(l1=L1, l2=0.1, low=0.1, high=0.5),
    "half a box": cz.prox.Separable(l1=L1, low=-np.inf, high=0.5),
    "groups": cz.prox.GroupLasso(0.1, GROUPS),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_the_gap_bounds_what_is_left_to_gain(name):
    p, x0 = least_squares(), np.full(12, 0.2)
    method = cz.CoordinateDescent(prox=BOUNDED[name])
    best = cz.minimize(p, x0, method=method, tol=1e-13, rng=0)
    assert best.success
    assert best.message == "The duality gap is at most tol."
    stepper = method.prepare(p, x0)
    stream = cz.clock.Poisson(2, marks=stepper.law).stream()
    for _ in range(60):
        gap, left = stepper.evaluate_criterion(), stepper.value() - best.fun
        assert left <= gap + 1e-12
        events = stream.draw(12)
        stepper.take(events.marks, coefficients(stepper.process, events, 0.0))
    assert gap < 0.05


def test_the_gap_is_no_more_than_that_of_scikit_learn():
    p = least_squares(60, 20)
    for l1_ratio in (1.0, 0.5):
        _, w, theirs = enet_path(p.X, p.y, l1_ratio=l1_ratio, alphas=[0.05], tol=1e-3)
        prox = cz.prox.ElasticNet(0.05 * l1_ratio, 0.05 * (1.0 - l1_ratio))
        ours = cz.CoordinateDescent(prox=prox).prepare(p, w[:, 0]).evaluate_criterion()
        assert 0.0 < ours <= theirs[0] * (1.0 + 1e-9)


def test_without_a_dual_tol_is_for_the_gradient_mapping():
    p = least_squares()
    for prox in (cz.prox.NonNegative(), cz.prox.L1([0.0, *[0.1] * 11])):
        r = solve(p, prox=prox, tol=1e-8)
        assert r.message == "The norm of the gradient mapping is at most tol."
        assert r.gap is None
        L = (p.X**2).mean(axis=0)
        moved = [L[i] * (r.x[i] - prox(r.x - p.grad(r.x) / L[i], 1.0 / L[i])[i]) for i in range(12)]
        assert 0.0 < np.linalg.norm(moved) <= 1e-8


@PLAIN_AND_NOT
def test_coordinates_that_f_does_not_depend_on_go_where_psi_leads_them(accelerated):
    p = cz.problems.Quadratic([1.0, 0.0, 0.5], [1.0, 5.0, -1.0], mu=0.0)
    method = cz.CoordinateDescent(prox=cz.prox.L1(0.1), accelerated=accelerated)
    options = {"method": method, "tol": 1e-5, "rng": 0, "record": False}
    r = cz.minimize(p, np.array([3.0, 2.0, 0.0]), **options)
    np.testing.assert_allclose(r.x, [0.9, 0.0, -0.8], atol=1e-4)
    # Where psi leaves it, it is never drawn.
    assert method.prepare(p, np.zeros(3)).p[1] == 0.0
    nothing = cz.problems.LeastSquares(np.zeros((3, 2)), np.ones(3))
    np.testing.assert_allclose(cz.minimize(nothing, np.ones(2), **options).x, 0.0, atol=1e-4)


def test_x_keeps_its_shape_and_constants_may_have_it():
    p = least_squares()
    weights = np.linspace(0.0, 0.2, 12)
    flat = solve(p, prox=cz.prox.L1(weights), tol=1e-9).x
    method = cz.CoordinateDescent(prox=cz.prox.L1(weights.reshape(3, 4)))
    r = cz.minimize(p, np.zeros((3, 4)), method=method, tol=1e-9, rng=0)
    np.testing.assert_array_equal(r.x, flat.reshape(3, 4))


@pytest.mark.parametrize("form", FORMS)
def test_a_working_set_leads_to_the_same_solutions(form):
    p = least_squares(60, 100, form=form)
    for prox in (
        cz.prox.L1(1.0),
        cz.prox.Box(-0.1, 0.2),
        cz.prox.GroupLasso(1.0, np.arange(100) // 3),
    ):
        expected = solve(p, prox=prox, accelerated=False, tol=1e-10)
        r = solve(p, "active", prox=prox, accelerated=False, tol=1e-10)
        np.testing.assert_allclose(r.x, expected.x, atol=1e-4)
        assert r.passes < 0.7 * expected.passes
    theirs = Lasso(1.0, fit_intercept=False, tol=1e-12).fit(p.X, p.y).coef_
    found = solve(p, "active", prox=cz.prox.L1(1.0), accelerated=False)
    np.testing.assert_allclose(found.x, theirs, atol=1e-6)
    np.testing.assert_array_equal(found.x == 0.0, theirs == 0.0)


def test_a_working_set_is_what_is_off_its_kinks_or_gains_most_by_leaving():
    p = least_squares(60, 100)
    stepper = cz.CoordinateDescent("active", prox=cz.prox.L1(0.1), accelerated=False).prepare(
        p, np.concatenate([np.ones(40), np.zeros(60)])
    )
    stepper.configure(np.zeros(100), None, False)
    stepper.begin()
    order = stepper.law.now.order
    np.testing.assert_array_equal(order[:40], np.arange(40))
    g, L = np.abs(p.grad(stepper.coordinates())), (p.X**2).mean(axis=0)
    gains = np.maximum(g - 0.1, 0.0)[40:] ** 2 / L[40:]
    assert len(order) == 40 + min(40, np.count_nonzero(gains))
    assert gains[order[40:] - 40].min() >= np.sort(gains)[-(len(order) - 40)]


METHODS = pytest.mark.parametrize(
    "options", [{}, {"accelerated": False}, {"sampling": "active", "accelerated": False}]
)


@METHODS
def test_a_run_resumed_is_the_same(tmp_path, options):
    p, of_method = least_squares(), options

    def run(passes, l1=L1, **options):
        method = cz.CoordinateDescent(prox=cz.prox.L1(l1), **of_method)
        return cz.minimize(
            p, np.zeros(12), method=method, rng=3, tol=0.0, maxiter=passes * 12, **options
        )

    kept = {"checkpoint": tmp_path / "run", "every": 0.0}
    run(3, **kept)
    np.testing.assert_array_equal(run(8, resume=True, **kept).x, run(8).x)
    with pytest.raises(cz.CheckpointError):
        run(9, l1=0.06, resume=True, **kept)


SQUARES = least_squares()
FLAT = cz.problems.Quadratic([1.0, 0.5, 0.0], np.ones(3), mu=0.0)


def prepare(problem=SQUARES, x0=None, **options):
    x0 = np.zeros(problem.dim) if x0 is None else x0
    return cz.CoordinateDescent(**options).prepare(problem, x0)


REFUSED = {
    "not separable": ("sum over coordinates", lambda: prepare(prox=cz.prox.Simplex())),
    "a function": ("cz.prox.L1, ElasticNet", lambda: prepare(prox=lambda v, step: v)),
    "no prox": ("3 is not", lambda: prepare(prox=3)),
    "weights": ("weights .* shape", lambda: prepare(prox=cz.prox.L1([0.1, 0.2]))),
    "groups": ("4 groups .* 6 blocks", lambda: prepare(
        blocks=2, prox=cz.prox.GroupLasso(0.1, GROUPS))),
    "other groups": ("groups", lambda: prepare(
        blocks=3, prox=cz.prox.GroupLasso(0.1, np.arange(12) % 4))),
    "outside": ("by 3.46: entry 0 is 0, the nearest allowed is 1", lambda: prepare(
        prox=cz.prox.Box(1.0, 2.0))),
    "start, mu = 0": ("use start >= 4.82843", lambda: prepare(
        FLAT, prox=cz.prox.L1(0.1), start=0.0)),
    "start, mu > 0": ("start = 9 makes eta", lambda: prepare(prox=cz.prox.L1(0.1), start=9.0)),
    "p = 0": ("coordinate 0 has probability 0", lambda: prepare(
        sampling=[0.0, *[1 / 11] * 11], prox=cz.prox.L1(0.1))),
    "p = 0, for psi": ("coordinate 2 has probability 0", lambda: prepare(
        FLAT, np.ones(3), sampling=[0.5, 0.5, 0.0], prox=cz.prox.L1(0.1))),
    "prox beside the method": (r"give it to the method, cz.CoordinateDescent\(prox", lambda:
        cz.minimize(FLAT, np.zeros(3), method=cz.CoordinateDescent(), prox=cz.prox.L1(0.1))),
    "active, accelerated": ("plain steps with prox", lambda: prepare(
        sampling="active", prox=cz.prox.L1(0.1))),
    "active, no prox": ("plain steps with prox", lambda: prepare(
        sampling="active", accelerated=False)),
    "start of the dual": ("use start >= ", lambda: cz.DualCoordinate(start=1.0).prepare(
        logistic(), np.zeros(12))),
}  # fmt: skip


@pytest.mark.parametrize(("words", "call"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(words, call):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_the_least_start_that_is_named_works():
    for problem in (FLAT, SQUARES):
        with pytest.raises(ValueError, match="use start >= ") as error:
            prepare(problem, prox=cz.prox.L1(0.1), start=0.5)
        least = float(str(error.value).split("use start >= ")[1])
        stepper = prepare(problem, prox=cz.prox.L1(0.1), start=least * (1.0 + 1e-5))
        eta = parameters.eta(0.0, *stepper.process.constants)
        assert 0.99 < eta / stepper.p[stepper.p > 0.0].min() <= 1.0


def test_p_may_be_0_where_nothing_depends_on_it():
    stepper = prepare(FLAT, sampling=[0.5, 0.5, 0.0], prox=cz.prox.L1(0.1))
    assert stepper.process.start == pytest.approx(4.0)


def test_plain_lasso_of_scikit_learn_at_a_far_start_leaves_no_rounding():
    p = least_squares()
    method = cz.CoordinateDescent(prox=cz.prox.L1(L1))
    r = cz.minimize(p, np.full(12, 1e8), method=method, tol=1e-10, maxiter=10**6, rng=0)
    assert r.success
    theirs = Lasso(L1, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(p.X, p.y).coef_
    np.testing.assert_allclose(r.x, theirs, atol=1e-5)


def test_sparse_rows_without_entries_change_nothing():
    X = np.zeros((40, 6))
    X[:5] = data(5, 6, 1)[0] + np.eye(5, 6)
    y = np.random.default_rng(0).standard_normal(40)
    found = [
        solve(cz.problems.LeastSquares(form(X), y), prox=cz.prox.L1(0.01), tol=1e-8).x
        for form in (np.array, sparse.csr_array)
    ]
    np.testing.assert_allclose(*found, atol=1e-9)
