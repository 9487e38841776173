"""Blocks of coordinates: lazy equals eager, L_B is the block's, the solution a direct solver's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import continuized as cz
from continuized.marked.blocks import block_L, partition
from continuized.process import reference
from continuized.process.compiled import coefficients
from continuized.process.reference import marked_step

pytestmark = pytest.mark.blas

SEEDS = st.integers(0, 2**32 - 1)
D = 6
HALVES = [[0, 2, 5], [1, 3, 4]]


def data(seed, n=8, density=0.5, d=D):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    return X, np.sign(rng.standard_normal(n))


def random_blocks(seed, d):
    """One to d blocks of any sizes, in any order."""
    rng = np.random.default_rng(seed)
    cuts = np.flatnonzero(rng.random(d - 1) < 0.4) + 1
    return np.split(rng.permutation(d), cuts)


def eager(stepper, x0, jumps):
    """Steps that compute the whole gradient, and mix every coordinate: events -> x after them."""
    state = stepper.process.init(x0.copy())

    def after(events):
        nonlocal state
        for event in events.each():
            if stepper.accelerated:
                state = marked_step(stepper.process, state, event, jumps)
            else:
                support, dx, _ = jumps(state.x, event.mark)
                state.x[support] -= dx
        return state.x

    return after


PROBLEMS = {
    "quadratic": lambda X, y: cz.problems.Quadratic(np.geomspace(1.0, 0.01, X.shape[1]), X[0]),
    "sparse least squares": lambda X, y: cz.problems.LeastSquares(sparse.csr_array(X), y, l2=0.01),
    "dense logistic": lambda X, y: cz.problems.LogisticRegression(X, y, l2=0.01),
}


@settings(max_examples=30, deadline=None)
@given(
    seed=SEEDS,
    name=st.sampled_from(list(PROBLEMS)),
    start=st.sampled_from([None, 0.0, 5.0]),
    sampling=st.sampled_from(["sqrt", "uniform"]),
    accelerated=st.booleans(),
    shape=st.sampled_from([(8, 0.5), (60, 0.1)]),  # of the second, most rows are empty at d = 6
    d=st.sampled_from([D, 40, 200]),
)
def test_lazy_blocks_equal_eager_ones(seed, name, start, sampling, accelerated, shape, d):
    problem, blocks = PROBLEMS[name](*data(seed, *shape, d)), random_blocks(seed, d)
    x0 = np.random.default_rng(seed).standard_normal(d)
    stepper = cz.CoordinateDescent(sampling, accelerated, start, blocks).prepare(problem, x0)
    jumps = reference.CoordinateJumps(problem, stepper.form.L_i, stepper.p, blocks)
    after = eager(stepper, x0, jumps)
    stream = cz.clock.Poisson(seed, marks=stepper.law).stream()
    for n in (5, 20, 275):  # in the end both may be at the solution, whatever led there
        events = stream.draw(n)
        expected = after(events)
        stepper.take(events.marks, coefficients(stepper.process, events, 0.0))
        tolerance = 1e-12 * (1.0 + np.abs(expected).max())
        np.testing.assert_allclose(stepper.point(), expected, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("loss", [cz.problems.LeastSquares, cz.problems.LogisticRegression])
@pytest.mark.parametrize("how", ["together", "one by one", "lanczos"])
def test_L_B_is_the_largest_eigenvalue_of_the_block(loss, is_sparse, how, monkeypatch):
    if how != "together":
        monkeypatch.setattr("continuized.marked.blocks.SMALL_BLOCK", 1)
    if how == "lanczos":
        monkeypatch.setattr("continuized.problems.regression.spectrum.EXACT_UP_TO", 0)
    X, y = data(4, n=12)
    X[:, 1] = X[:, 3] = 0.0
    blocks = partition([[2, 0, 5], [1, 3], [4]], D)
    found = block_L(loss(sparse.csr_array(X) if is_sparse else X, y, l2=0.1), blocks)
    H = loss.curvature * X.T @ X / len(y) + 0.1 * np.eye(D)
    true = [np.linalg.eigvalsh(H[np.ix_(B, B)])[-1] for B in ([0, 2, 5], [1, 3], [4])]
    assert np.all(found >= true)
    slack = 1.0 / 0.95 - 1.0 if how == "lanczos" else 1e-12  # what the certificate may give away
    assert np.all(found <= np.multiply(true, 1.0 + slack))


def test_L_B_of_a_quadratic_and_the_probabilities_of_blocks():
    p = cz.problems.Quadratic([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    stepper = cz.CoordinateDescent(blocks=4).prepare(p, np.zeros(D))
    np.testing.assert_array_equal(stepper.form.L_i, [4.0, 6.0])
    roots = np.sqrt([4.0, 6.0])
    np.testing.assert_allclose(stepper.p, roots / roots.sum())
    assert stepper.constants["S"] == pytest.approx(roots.sum() ** 2)
    assert stepper.constants["max_L_B"] == 6.0
    given = cz.CoordinateDescent([0.5, 0.5], blocks=4).prepare(p, np.zeros(D))
    assert given.constants["S"] == pytest.approx(24.0)


def test_all_coordinates_in_one_block_are_the_continuized_method():
    X, y = data(1, n=30)
    p = cz.problems.LeastSquares(X, y, l2=0.1)
    method = cz.CoordinateDescent(blocks=D)
    clock = cz.clock.Poisson(3)
    r = cz.minimize(p, np.zeros(D), method=method, clock=clock, maxiter=40)
    assert r.constants["S"] == pytest.approx(p.L, rel=1e-12)
    full = cz.Continuized(r.constants["S"], p.mu)
    whole = cz.minimize(p, np.zeros(D), method=full, clock=clock, maxiter=40)
    np.testing.assert_allclose(r.x, whole.x, rtol=1e-12)


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("name", PROBLEMS)
def test_blocks_of_one_are_the_single_coordinates_bit_by_bit(name, accelerated):
    p = PROBLEMS[name](*data(2))
    runs = [
        cz.minimize(p, np.ones(D), method=method, maxiter=200, rng=1)
        for method in (
            cz.CoordinateDescent(accelerated=accelerated),
            cz.CoordinateDescent(accelerated=accelerated, blocks=1),
            cz.CoordinateDescent(accelerated=accelerated, blocks=[[i] for i in range(D)]),
        )
    ]
    for r in runs[1:]:
        assert np.array_equal(r.x, runs[0].x)
        assert np.array_equal(r.trace.fun, runs[0].trace.fun)
        assert r.constants == runs[0].constants


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_loop_over_blocks_of_one_is_the_loop_over_coordinates(accelerated):
    """In another order of the blocks, so that it is the other loop."""
    p, order = PROBLEMS["sparse least squares"](*data(3)), np.array([3, 0, 5, 1, 4, 2])
    method = cz.CoordinateDescent("uniform", accelerated)
    single = method.prepare(p, np.ones(D))
    blocks = cz.CoordinateDescent("uniform", accelerated, blocks=[[i] for i in order])
    block = blocks.prepare(p, np.ones(D))
    assert type(block) is not type(single)
    events = cz.clock.Poisson(0, marks=single.law).stream().draw(200)
    steps = coefficients(single.process, events, 0.0)
    single.take(order[events.marks], steps)
    block.take(events.marks, steps)
    np.testing.assert_allclose(block.point(), single.point(), rtol=1e-12)


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_blocks_reach_the_direct_solution(name, accelerated):
    X, y = data(1, n=40, density=0.8)
    p = cz.problems.LeastSquares(sparse.csr_array(X) if name == "sparse" else X, y, l2=0.05)
    method = cz.CoordinateDescent(accelerated=accelerated, blocks=HALVES)
    r = cz.minimize(p, np.zeros(D), method=method, tol=1e-10, rng=0)
    assert r.success
    direct = np.linalg.solve(X.T @ X / 40 + 0.05 * np.eye(D), X.T @ y / 40)
    np.testing.assert_allclose(r.x, direct, atol=1e-8)
    images = method.prepare(p, r.x).images()
    np.testing.assert_allclose(images, X @ r.x, atol=1e-12)


def test_a_hundred_thousand_events_do_not_drift():
    X, y = data(5, n=20)
    p = cz.problems.LeastSquares(X, y, l2=0.01)
    stepper = cz.CoordinateDescent(blocks=HALVES).prepare(p, np.zeros(D))
    events = cz.clock.Poisson(0, marks=stepper.law).stream().draw(100_000)
    stepper.take(events.marks, coefficients(stepper.process, events, 0.0))
    images = X @ stepper.point()
    np.testing.assert_allclose(stepper.images(), images, rtol=0, atol=1e-11 * np.abs(images).max())


def test_an_event_costs_the_entries_of_its_columns():
    X, y = data(6, n=30, density=0.6)
    p = cz.problems.LeastSquares(sparse.csr_array(X), y, l2=0.1)
    stepper = cz.CoordinateDescent(blocks=HALVES).prepare(p, np.zeros(D))
    counts = np.count_nonzero(X, axis=0)
    assert stepper.costs.tolist() == [counts[B].sum() for B in HALVES]
    r = cz.minimize(p, np.zeros(D), method=cz.CoordinateDescent(blocks=2), maxiter=300, rng=0)
    assert r.passes == pytest.approx(100.0, rel=0.2)
    assert r.trace.k[:3].tolist() == [0, 3, 6]  # f once a pass


def test_a_run_is_resumed_and_replayed(tmp_path):
    X, y = data(7, n=20)
    p, method = cz.problems.LogisticRegression(X, y, l2=0.01), cz.CoordinateDescent(blocks=HALVES)
    whole = cz.minimize(p, np.zeros(D), method=method, maxiter=90, rng=4)
    kept = {"method": method, "rng": 4, "checkpoint": tmp_path / "run.npz"}
    cz.minimize(p, np.zeros(D), maxiter=40, **kept)
    assert np.array_equal(cz.minimize(p, np.zeros(D), maxiter=90, resume=True, **kept).x, whole.x)
    others = {**kept, "method": cz.CoordinateDescent(blocks=[[0, 2, 4], [1, 3, 5]])}
    with pytest.raises(cz.CheckpointError, match="method"):
        cz.minimize(p, np.zeros(D), maxiter=90, resume=True, **others)
    law = method.prepare(p, np.zeros(D)).law
    events = cz.clock.Poisson(4, marks=law).stream().draw(90)
    clock = cz.clock.Recorded(events.t, events.dt, events.marks)
    replayed = cz.minimize(p, np.zeros(D), method=method, clock=clock)
    assert np.array_equal(replayed.x, whole.x)


def test_columns_of_zeros_are_valid():
    X = np.array([[1.0, 0.0, 2.0, 0.0], [0.5, 0.0, -1.0, 0.0]])
    p = cz.problems.LeastSquares(sparse.csr_array(X), [1.0, 3.0])
    r = cz.minimize(
        p, np.ones(4), method=cz.CoordinateDescent(blocks=[[0, 2], [1, 3]]), tol=1e-10, rng=0
    )
    assert r.success
    assert r.x[1] == r.x[3] == 1.0


def test_blocks_larger_than_all_are_all():
    assert partition(10**30, 5).bounds.tolist() == [0, 5]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_squares_that_overflow_are_refused(is_sparse):
    X = np.array([[1e200, 1.0], [1.0, 1.0]])
    p = cz.problems.LeastSquares(sparse.csr_array(X) if is_sparse else X, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"overflow .*: rescale X"):
        cz.minimize(p, np.zeros(2), method=cz.CoordinateDescent(blocks=2))


BAD = {
    "overlap": ([[0, 1, 2], [2, 3, 4, 5]], ValueError, "coordinate 2 is in block 0 and in block 1"),
    "twice": ([[0, 1, 1], [2, 3, 4, 5]], ValueError, "coordinate 1 is in block 0 and in block 0"),
    "missing": ([[0, 1], [3, 4, 5]], ValueError, "coordinate 2 is in no block"),
    "none": ([], ValueError, "coordinate 0 is in no block"),
    "empty": ([[0, 1, 2], [], [3, 4, 5]], ValueError, "block 1 is empty"),
    "too large": ([[0, 1, 2], [3, 4, 6]], ValueError, r"index 6, but indices must be in \[0, 6\)"),
    "negative": ([[0, 1, 2], [3, 4, -1]], ValueError, "index -1"),
    "zero": (0, ValueError, ">= 1, got 0"),
    "below zero": (-2, ValueError, ">= 1, got -2"),
    "float": (2.0, TypeError, "integer >= 1 or a list"),
    "truth": (True, TypeError, "integer >= 1 or a list"),
    "word": ("all", TypeError, "integer >= 1 or a list"),
    "not nested": ([0, 1, 2, 3, 4, 5], ValueError, r"block 0 must be a vector, got shape \(\)"),
    "floats": ([[0.0, 1.0, 2.0], [3, 4, 5]], TypeError, "block 0 must be a vector of indices"),
    "mask": ([[True] * 6], TypeError, "block 0 must be a vector of indices"),
    "ragged": ([[[0], [1, 2]], [3, 4, 5]], ValueError, "block 0 must be a vector of indices"),
}


@pytest.mark.parametrize(("blocks", "error", "words"), BAD.values(), ids=BAD)
def test_bad_blocks_are_refused(blocks, error, words):
    with pytest.raises(error, match=words) as caught:
        cz.minimize(
            cz.problems.Quadratic(np.ones(D)),
            np.zeros(D),
            method=cz.CoordinateDescent(blocks=blocks),
        )
    assert "\n" not in str(caught.value)


BAD_SAMPLING = {
    "length": ([0.2, 0.3, 0.5], "there are 2 blocks"),
    "zero": ([0.0, 1.0], "block 0 has probability 0"),
}


@pytest.mark.parametrize(("p", "words"), BAD_SAMPLING.values(), ids=BAD_SAMPLING)
def test_bad_probabilities_of_blocks_are_refused(p, words):
    method = cz.CoordinateDescent(p, blocks=3)
    with pytest.raises(ValueError, match=words):
        cz.minimize(cz.problems.Quadratic(np.ones(D)), np.zeros(D), method=method)
