"""Coordinate steps on working sets, against the duality gap as its definition has it."""

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.process.prox import mapping_norm
from continuized.solver import lasso, sparse_newton
from continuized.solver.kernels import coordinate_passes
from continuized.solver.lasso import solve_lasso
from continuized.solver.steppers.adaptive import AdaptiveStepper

SHAPES = {"few columns": (80, 7), "working sets": (150, 260)}


def data(shape, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) * np.geomspace(1.0, 3.0, shape[1]) + offset
    w = np.where(np.arange(shape[1]) % 5 == 0, rng.standard_normal(shape[1]), 0.0)
    return X, X @ w + 0.3 * rng.standard_normal(shape[0])


def constants(prox, d):
    """The rows that solve_lasso takes."""
    return np.array([np.broadcast_to(c, d) for c in prox.constants])


def find_gap(X, y, shares, w, b, l1, l2):
    """The duality gap, written down from the definition: f(w) less the dual at a scaled residual.

    With f = mean of shares (y - Xw - b)^2 / 2 + l2/2 |w|^2 the dual of the stacked least squares
    [X; sqrt(n l2) I] w ~ [y; 0] is c <R, Y> - c^2 |R|^2 / 2, all over n."""
    n = len(y)
    r = shares**0.5 * (y - X @ w - b)
    A = shares[:, None] ** 0.5 * X
    R = np.append(r, -np.sqrt(n * l2) * w)
    Y = np.append(shares**0.5 * y, np.zeros(len(w)))
    slope = np.abs(A.T @ r / n - l2 * w).max()
    c = min(1.0, l1 / slope)
    return float((0.5 * R @ R - c * R @ Y + 0.5 * c * c * R @ R) / n + l1 * np.abs(w).sum())


def take_steps_along_columns(monkeypatch):
    """As of a working set that is larger than the data."""
    monkeypatch.setattr(lasso, "LARGEST", 0)


@pytest.mark.parametrize("steps", ["on the Hessian", "along columns"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_minimiser_is_where_the_gap_is_zero(shape, kind, weighted, steps, monkeypatch):
    if steps == "along columns":
        take_steps_along_columns(monkeypatch)
    X, y = data(shape)
    if kind == "sparse":
        X = np.where(np.abs(X) > 1.0, X, 0.0)
    given = sparse.csr_array(X) if kind == "sparse" else X
    weights = np.random.default_rng(1).random(len(y)) if weighted else None
    shares = np.ones(len(y)) if weights is None else weights / weights.mean()
    p = cz.problems.LeastSquares(given, y, weights=weights, intercept=True)
    penalty = constants(cz.prox.Separable(0.1, 0.05), shape[1])
    found = solve_lasso(p, penalty, np.zeros(p.dim), 1e-9, most=10_000)
    w, b = found.x[:-1], found.x[-1]
    assert found.success
    assert 0 < np.count_nonzero(w) < len(w)
    # The intercept has no penalty: the gap is that of centred data.
    centred = y - np.average(y, weights=shares), X - np.average(X, axis=0, weights=shares)
    gap = find_gap(centred[1], centred[0], shares, w, 0.0, 0.1, 0.05)
    assert gap <= 2e-9
    assert np.average(y - X @ w - b, weights=shares) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("steps", ["on the Hessian", "along columns"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_l2_of_the_problem_is_as_good_as_one_of_the_penalty(kind, steps, monkeypatch):
    if steps == "along columns":
        take_steps_along_columns(monkeypatch)
    X, y = data(SHAPES["working sets"])
    X = sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0)) if kind == "sparse" else X
    d = X.shape[1]
    found = [
        solve_lasso(
            cz.problems.LeastSquares(X, y, l2=l2),
            constants(cz.prox.Separable(0.1, 0.5 - l2), d),
            np.zeros(d),
            1e-9,
            most=10_000,
        )
        for l2 in (0.0, 0.5)
    ]
    assert all(each.success for each in found)
    np.testing.assert_allclose(found[0].x, found[1].x, rtol=0.0, atol=1e-4)  # of gaps of 1e-9
    assert found[1].passes <= 2 * found[0].passes


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_means_far_from_zero_lose_no_digits_that_count(shape, offset):
    """Of X^T X, 1e12 beside a variance of 1, rounding leaves 1e-4 of the variance; of gradients,
    products of X and residuals, 1e-16 offset^2 / sqrt(n), to which the gap is proportional."""
    X, y = data(shape)
    penalty, tol = constants(cz.prox.L1(0.1), shape[1]), max(1e-7, 1e-16 * offset**2)
    p = cz.problems.LeastSquares(X + offset, y, intercept=True)
    found = solve_lasso(p, penalty, np.zeros(p.dim), tol, most=10_000)
    assert found.success
    centred = X - X.mean(axis=0)
    w = found.x[:-1]
    assert find_gap(centred, y - y.mean(), np.ones(len(y)), w, 0.0, 0.1, 0.0) <= 2.0 * tol


def test_a_constant_column_and_one_of_zeros_are_left_out():
    X, y = data((60, 4))
    X[:, 1], X[:, 2] = 5.0, 0.0
    p = cz.problems.LeastSquares(X, y, intercept=True)
    found = solve_lasso(p, constants(cz.prox.L1(0.01), 4), np.zeros(5), 1e-10, most=1000)
    assert found.success
    assert found.x[1] == found.x[2] == 0.0


def test_all_columns_at_once_equal_working_sets(monkeypatch):
    X, y = data((150, 90))
    p, penalty = cz.problems.LeastSquares(X, y), constants(cz.prox.L1(0.05), 90)
    monkeypatch.setattr(lasso, "ALL_CHOSEN", 90)
    whole = solve_lasso(p, penalty, np.zeros(90), 1e-13, most=10_000)
    monkeypatch.setattr(lasso, "ALL_CHOSEN", 3)
    monkeypatch.setattr(lasso, "ROOM", 0.0)
    parts = solve_lasso(p, penalty, np.zeros(90), 1e-13, most=10_000)
    assert whole.success
    assert parts.success
    np.testing.assert_allclose(whole.x, parts.x, atol=1e-6)
    assert np.array_equal(whole.x != 0.0, parts.x != 0.0)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("d", [40, 7])  # all of few columns are in the set, and f is not computed
def test_the_gap_bounds_what_is_left(d, tol, positive):
    X, y = data((100, d))
    p = cz.problems.LeastSquares(X, y, intercept=True)
    prox = cz.prox.Separable(0.1, 0.01, 0.0 if positive else -np.inf)
    penalty = constants(prox, d)

    def value(x):
        return p.fun(x) + prox.value(x[:-1])

    best = value(solve_lasso(p, penalty, np.zeros(d + 1), 1e-13, most=10_000).x)
    found = solve_lasso(p, penalty, np.zeros(d + 1), tol, most=10_000)
    assert value(found.x) - best - 1e-12 <= found.gap <= tol


def test_too_few_passes_are_told():
    X, y = data((50, 30))
    p = cz.problems.LeastSquares(X, y)
    found = solve_lasso(p, constants(cz.prox.L1(0.01), 30), np.zeros(30), 1e-14, most=2)
    assert not found.success
    assert found.passes == 2
    assert found.gap > 1e-14


def test_bounds_hold_and_stop_coordinates():
    """Against SciPy's bounded least squares, with the l1 norm of x >= 0 as a linear term."""
    from scipy.optimize import minimize

    X, y = data((100, 6))
    p = cz.problems.LeastSquares(X, y)
    penalty = constants(cz.prox.Separable(0.1, low=0.0), 6)
    found = solve_lasso(p, penalty, np.zeros(6), 1e-12, most=1000)
    other = minimize(
        lambda w: (p.fun(w) + 0.1 * w.sum(), p.grad(w) + 0.1), np.ones(6), jac=True,
        bounds=[(0.0, None)] * 6, options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    np.testing.assert_allclose(found.x, other.x, atol=1e-6)
    assert found.x.min() == 0.0


def find_violation(X, y, w, b, l1, l2=0.0, low=-np.inf):
    """How far w is from optimality, by its conditions: of the slopes s of the smooth part,
    s + l1 sign(w) = 0 where w is not 0, and |s| <= l1 where it is; s >= -l1 at a bound of 0."""
    s = -X.T @ (y - X @ w - b) / len(y) + l2 * w
    at_zero = np.maximum(-s if low == 0.0 else np.abs(s), 0.0) - l1
    return np.where(w != 0.0, np.abs(s + l1 * np.sign(w)), np.maximum(at_zero, 0.0)).max()


def alike(n, d, rho, seed=0):
    """Columns of which neighbours have the correlation rho."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = rho * X[:, j - 1] + (1.0 - rho**2) ** 0.5 * X[:, j]
    return X, X[:, ::7] @ rng.standard_normal(len(range(0, d, 7))) + rng.standard_normal(n)


@pytest.mark.parametrize("rho", [0.9, 0.999])
@pytest.mark.parametrize("share", [0.99, 0.1, 1e-3])
def test_columns_that_are_much_alike(rho, share):
    """Coordinate steps alone take more than 2,000 passes where rho and the weight are extreme."""
    X, y = alike(120, 60, rho)
    l1 = share * np.abs(X.T @ y).max() / len(y)
    p = cz.problems.LeastSquares(X, y)
    psi = constants(cz.prox.L1(l1), 60)
    found = solve_lasso(p, psi, np.zeros(60), 0.0, most=2000, slope=1e-9)
    assert found.success
    assert found.passes <= 200
    assert find_violation(X, y, found.x, 0.0, l1) <= 1e-9
    again = solve_lasso(p, psi, found.x, 0.0, most=2000, slope=1e-9)
    assert (again.success, again.passes) == (True, 0)


def test_a_small_fit_waits_for_no_hessian(monkeypatch):
    """Passes along dense columns come first, until they cost as much as their products."""
    monkeypatch.setattr(lasso, "PRODUCT", 10.0)
    X, y = data((150, 90))
    p, made = cz.problems.LeastSquares(X, y), []
    monkeypatch.setattr(lasso._Hessian, "add", lambda *arguments: made.append(1))
    found = solve_lasso(p, constants(cz.prox.L1(0.5), 90), np.zeros(90), 1e-6, most=1000)
    assert found.success
    assert not made


def test_few_columns_make_the_hessian_at_once(monkeypatch):
    """No passes along columns, and few evaluations: the passes on the Hessian go far enough."""
    X, y = alike(400, 50, 0.5)
    p, evaluations = cz.problems.LeastSquares(X, y), []

    def evaluate(x):
        evaluations.append(1)
        return p.value_and_gradient(x)

    def forbid(*arguments):
        raise AssertionError("passes along columns")

    monkeypatch.setattr(lasso._Columns, "descend", forbid)
    l1 = constants(cz.prox.L1(0.1 * np.abs(X.T @ y).max() / 400), 50)
    found = solve_lasso(p, l1, np.zeros(50), 1e-4, most=1000, evaluate=evaluate)
    assert found.success
    assert len(evaluations) == 3  # at zero and on two sets


def test_few_coordinates_take_more_passes_before_a_leap(monkeypatch):
    X, y = alike(100, 10, 0.7)
    p, leaps = cz.problems.LeastSquares(X, y), []
    monkeypatch.setattr(lasso, "_leap", lambda *arguments: leaps.append(1) or 0.0)
    found = solve_lasso(p, constants(cz.prox.L1(0.01), 10), np.zeros(10), 1e-4, most=1000)
    assert found.success
    assert found.passes > lasso.PASSES
    assert not leaps


def test_sets_that_may_still_grow_are_not_solved_to_the_end(monkeypatch):
    take_steps_along_columns(monkeypatch)
    X, y = alike(150, 260, 0.9)
    p, l1 = cz.problems.LeastSquares(X, y), 0.05 * np.abs(X.T @ y).max() / 150
    passes = []
    for rough in (lasso.ROUGH, 0.0):
        monkeypatch.setattr(lasso, "ROUGH", rough)
        found = solve_lasso(p, constants(cz.prox.L1(l1), 260), np.zeros(260), 1e-6, most=5000)
        assert found.success
        assert find_gap(X, y, np.ones(150), found.x, 0.0, l1, 0.0) <= 1.01e-6
        passes.append(found.passes)
    assert passes[0] < 0.9 * passes[1]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("l1", "bound"), [(0.3, np.inf), (0.0, np.inf), (0.3, 1.5), (0.0, 1.5)])
def test_a_leap_ends_at_the_minimiser_on_the_face_or_where_the_first_one_stops(l1, bound, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((20, 6))
    H, x = A.T @ A / 20, rng.uniform(0.2, 1.2, 6) * rng.choice([-1.0, 1.0], 6)
    x[3] = 0.0  # at rest: not on the face
    g, on = rng.standard_normal(6), np.flatnonzero(x)
    step = np.linalg.solve(H[np.ix_(on, on)], -g[on] - l1 * np.sign(x[on]))
    stops = [(np.copysign(bound, s) - v) / s for v, s in zip(x[on], step, strict=True)]
    if l1:
        stops += [-v / s for v, s in zip(x[on], step, strict=True) if v * s < 0.0]
    length = min(1.0, *stops)
    moved, changed = x.copy(), g.copy()
    psi = np.array([[l1] * 6, [-bound] * 6, [bound] * 6])
    assert lasso._leap(H, changed, moved, psi) == pytest.approx(length, rel=1e-12)
    expected = x.copy()
    expected[on] += length * step
    np.testing.assert_allclose(moved, expected, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(changed, g + H @ (expected - x), rtol=0.0, atol=1e-12)
    stopped = (moved == 0.0) | (np.abs(moved) == bound)  # exactly, and no other than that one
    assert np.count_nonzero(stopped[on]) == (length < 1.0)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_sparse_column_whose_mean_hides_its_variance(offset):
    X, y = data((150, 260))
    X = np.where(np.abs(X) > 2.0, X, 0.0)
    X[:, 0] = np.linspace(-1.0, 1.0, 150) + offset
    y = y + 20.0 * X[:, 0] - 20.0 * offset
    p = cz.problems.LeastSquares(sparse.csr_array(X), y, intercept=True)
    found = solve_lasso(p, constants(cz.prox.L1(0.1), 260), np.zeros(261), 1e-6, most=10_000)
    assert found.success
    centred = X - X.mean(axis=0)
    w = found.x[:-1]
    assert find_gap(centred, y - y.mean(), np.ones(150), w, 0.0, 0.1, 0.0) <= 2e-6


@pytest.mark.parametrize("positive", [False, True])
def test_many_columns_of_zeros_and_few_rows(positive):
    X, y = data((20, 300))
    X[:, ::2] = 0.0
    low = 0.0 if positive else -np.inf
    p = cz.problems.LeastSquares(X, y)
    psi = constants(cz.prox.Separable(0.05, 0.01, low), 300)
    found = solve_lasso(p, psi, np.zeros(300), 0.0, most=10_000, slope=1e-8)
    assert found.success
    assert not found.x[::2].any()
    assert found.x.min() >= low
    assert find_violation(X, y, found.x, 0.0, 0.05, 0.01, low) <= 1e-8


def test_what_is_lost_in_rounding_is_not_waited_for():
    X, y = data((50, 30))
    p = cz.problems.LeastSquares(X, y)
    found = solve_lasso(p, constants(cz.prox.L1(0.01), 30), np.zeros(30), 0.0, most=10**6)
    assert not found.success
    assert found.passes < 10_000
    assert found.gap <= 1e-13


def test_minimize_ends_where_the_coordinate_steps_end():
    """They tell that the slope is at most tol; f is asked for once at the start and once for each
    working set, no more."""
    X, y = alike(200, 60, 0.5)
    p, calls = cz.problems.LeastSquares(X, y, intercept=True), []
    inside = p.value_and_gradient
    p.value_and_gradient = lambda x: calls.append(1) or inside(x)
    l1 = np.append(np.full(60, 0.05), 0.0)
    r = cz.minimize(p, np.zeros(61), prox=cz.prox.L1(l1), method="auto", tol=1e-8, rng=0)
    assert r.success
    assert (r.nit, r.nfev) == (0, len(calls))
    assert len(calls) <= 8
    assert find_violation(X, y, r.x[:-1], r.x[-1], 0.05) <= 1e-8
    assert 0 < np.count_nonzero(r.x[:-1]) < 60
    assert r.fun == pytest.approx(p.fun(r.x) + 0.05 * np.abs(r.x[:-1]).sum(), rel=1e-14)


@pytest.mark.parametrize("version", ["compiled", "whole arrays"])
def test_sparse_rows_are_arranged_by_columns(version):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 6)) < 0.4, rng.standard_normal((30, 6)), 0.0)
    X[:, 2] = 0.0
    shares = rng.random(30)
    roots = np.sqrt(shares / shares.sum())
    means = roots**2 @ X
    rows = sparse.csr_array(X)
    starts, places = np.zeros(7, np.int32), np.empty_like(rows.indices)
    values, curvatures = np.empty(rows.nnz), np.empty(6)
    names = {"compiled": "arrange_columns", "whole arrays": "_arrange_columns_in_numpy"}
    arrange = getattr(coordinate_passes, names[version])
    given = rows.data, rows.indptr, rows.indices
    arrange(given, roots, means, starts, places, values, curvatures)
    scaled = sparse.csc_array((values, places, starts), shape=X.shape)
    np.testing.assert_allclose(scaled.toarray(), roots[:, None] * X, rtol=1e-15)
    np.testing.assert_allclose(curvatures, roots**2 @ (X - means) ** 2, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("intercept", [False, True])
def test_small_sparse_data_take_passes_along_all_columns_first(intercept, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 120)) < 0.03, rng.standard_normal((300, 120)), 0.0)
    y = X @ np.where(rng.random(120) < 0.5, 10.0, 0.0) + rng.standard_normal(300)
    p = cz.problems.LeastSquares(sparse.csr_array(X), y, intercept=intercept)
    penalty, calls = constants(cz.prox.L1(0.01), 120), []

    def evaluate(x):
        calls.append(x)
        return p.value_and_gradient(x)

    how = {"slope": 1e-3, "evaluate": evaluate}
    found = solve_lasso(p, penalty, np.zeros(p.dim), 0.0, 1000, **how)
    assert found.success
    assert len(calls) == 2  # at the start, and after all passes
    monkeypatch.setattr(lasso, "FEW_ENTRIES", 0)
    solve_lasso(p, penalty, np.zeros(p.dim), 0.0, 1000, **how)
    assert len(calls) > 4  # as of working sets, one after the other
    exact = solve_lasso(p, penalty, np.zeros(p.dim), 1e-13, most=1000).x
    psi = cz.prox.L1(0.01)
    best, value = (p.fun(x) + psi.value(x[:120]) for x in (exact, found.x))
    assert best <= value <= best + 1e-3


def test_passes_along_all_columns_that_do_not_get_there_leave_the_rest_to_the_hessian(monkeypatch):
    X, y = data((300, 40))
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]  # so alike that steps are slow
    p, penalty = cz.problems.LeastSquares(sparse.csr_array(X), y), constants(cz.prox.L1(0.01), 40)
    monkeypatch.setattr(lasso, "SWEEPS", 2)
    found = solve_lasso(p, penalty, np.zeros(40), 0.0, most=10_000, slope=1e-9)
    assert found.success
    assert find_gap(X, y, np.ones(300), found.x, 0.0, 0.01, 0.0) <= 1e-6


def test_a_rounded_intercept_is_not_in_the_residual():
    X, y = data((150, 20))
    p = cz.problems.LeastSquares(sparse.csr_array(X + 1e7), y + 1e7, intercept=True)
    columns = lasso._Columns(lasso._Reduced(p, np.zeros(20), p.value_and_gradient))
    w = np.linspace(1.0, 2.0, 20)
    assert abs(columns._find_residual(w) @ columns._roots) < 1e-13


@pytest.mark.parametrize("version", ["compiled", "in NumPy"])
def test_few_columns_are_multiplied_as_many_are(version):
    """By rows, four at a time: of 41 the last one stands alone; 3 columns join 5."""
    add = coordinate_passes.add_few_columns_to_hessian
    if version == "in NumPy":
        add = coordinate_passes._add_few_columns_in_numpy
    rng = np.random.default_rng(0)
    X, roots = rng.standard_normal((41, 30)), rng.random(41)
    chosen, means = np.array([3, 0, 7, 29, 11, 2, 20, 9]), rng.standard_normal(8)
    A = (X[:, chosen] - means) * roots[:, None]
    H = np.zeros((8, 8))
    add(X, chosen, means, roots, 5, H)
    np.testing.assert_allclose(H[5:], A[:, 5:].T @ A, rtol=1e-12, atol=1e-14)
    assert not H[:5].any()


def test_few_products_are_made_without_gathering_columns(monkeypatch):
    X, y = data((150, 90))
    p, penalty = cz.problems.LeastSquares(X, y, intercept=True), constants(cz.prox.L1(0.5), 90)
    gathered = []
    gather = lasso.gather_columns
    monkeypatch.setattr(lasso, "gather_columns", lambda *a: gathered.append(a) or gather(*a))
    monkeypatch.setattr(lasso, "FEW_PRODUCTS", 90**2)
    few = solve_lasso(p, penalty, np.zeros(91), 1e-12, most=1000)
    assert not gathered
    monkeypatch.setattr(lasso, "FEW_PRODUCTS", 0)
    many = solve_lasso(p, penalty, np.zeros(91), 1e-12, most=1000)
    assert gathered
    assert few.success
    np.testing.assert_allclose(few.x, many.x, atol=1e-10)


def test_no_step_is_taken_where_the_coordinate_steps_have_come_to_tol(monkeypatch):
    """The least subgradient bounds every gradient mapping: none need be measured.  There is no
    event, and no clock is started."""
    X, y = data((150, 90))
    p, prox = cz.problems.LeastSquares(X, y), cz.prox.L1(0.1)
    measured = []
    measure = AdaptiveStepper._measure
    monkeypatch.setattr(AdaptiveStepper, "_measure", lambda *a: measured.append(a) or measure(*a))
    stream = cz.clock.Poisson.stream
    monkeypatch.setattr(cz.clock.Poisson, "stream", lambda *a: measured.append(a) or stream(*a))
    for record in (True, False):
        r = cz.minimize(p, np.zeros(90), method="auto", prox=prox, tol=1e-6, rng=0, record=record)
        assert r.success
        assert not measured
        assert (r.nit, r.trace.k.tolist(), r.trace.t.tolist()) == (0, [0, 0], [0.0, 0.0])
        assert r.trace.fun[0] == p.fun(np.zeros(90))
        assert r.fun == p.fun(r.x) + prox.value(r.x) == r.trace.fun[-1]
        assert mapping_norm(prox, r.x, p.grad(r.x), 1.0 / p.L) <= 1e-6
    # Where they have not, and Newton's steps go on, the run judges.
    monkeypatch.setattr(sparse_newton, "MOST_PASSES", 1)
    r = cz.minimize(p, np.zeros(90), method="auto", prox=prox, tol=1e-6, rng=0)
    assert r.success
    assert measured
    assert mapping_norm(prox, r.x, p.grad(r.x), 1.0 / p.L) <= 1e-6
