"""Batches of rows: lazy equals eager, and the constants are those of all batches, enumerated."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import continuized as cz
from continuized.marked import rows as row_methods
from continuized.marked.kernels.events import row_events
from continuized.problems.regression import spectrum
from continuized.process import reference
from continuized.process.compiled import coefficients
from continuized.process.reference import marked_step

pytestmark = pytest.mark.blas

SEEDS = st.integers(0, 2**32 - 1)
KINDS = [cz.StochasticLeastSquares, cz.Kaczmarz]
D = 5


def least_squares(seed, n=20, d=D, density=0.7, is_sparse=True):
    """Sparse rows of different lengths; labels without noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    X *= rng.uniform(0.5, 1.5, (n, 1))
    X[0, 0] = 1.0  # never all zeros
    return cz.problems.LeastSquares(sparse.csr_array(X) if is_sparse else X, X @ np.arange(d))


def advance(stepper, events):
    stepper.take(events.marks, coefficients(stepper.process, events, 0.0))
    return stepper.point()


@settings(max_examples=30, deadline=None)
@given(
    seed=SEEDS,
    kind=st.sampled_from(KINDS),
    batch=st.sampled_from([2, 3, 30]),
    start=st.sampled_from([None, 0.0, 5.0]),
    accelerated=st.booleans(),
    # Of the last, most columns are empty.
    shape=st.sampled_from([(20, D, 0.7), (20, 40, 0.7), (20, 200, 0.7), (6, 60, 0.05)]),
)
def test_lazy_batches_equal_eager_ones(seed, kind, batch, start, accelerated, shape):
    p = least_squares(seed, *shape)
    x0 = np.random.default_rng(seed).standard_normal(p.dim)
    stepper = kind(batch=batch, start=start, accelerated=accelerated).prepare(p, x0)
    jumps = reference.RowJumps(p, stepper.R2, stepper.factors)
    stream = cz.clock.Poisson(seed, marks=stepper.law).stream()
    state = stepper.process.init(x0.copy())
    for n in (5, 20, 175):  # in the end both may be at the solution, whatever led there
        events = stream.draw(n)
        assert events.marks.shape == (n, batch)
        for event in events.each():
            if accelerated:
                state = marked_step(stepper.process, state, event, jumps)
            else:
                support, dx, _ = jumps(state.x, event.mark)
                state.x[support] -= dx
        tolerance = 1e-12 * (1.0 + np.abs(state.x).max())
        np.testing.assert_allclose(advance(stepper, events), state.x, rtol=0.0, atol=tolerance)


def enumerate_batches(p, stepper, batch):
    """E A^2, E A H^+ A and H, over all batches of rows and their probabilities."""
    a = p.X.toarray() * stepper.factors[:, None]
    H = a.T @ (stepper.p[:, None] * a)
    square, whitened = np.zeros_like(H), np.zeros_like(H)
    for marks in itertools.product(range(len(a)), repeat=batch):
        chance = np.prod(stepper.p[list(marks)])
        A = sum(np.outer(a[i], a[i]) for i in marks) / batch
        square += chance * A @ A
        whitened += chance * A @ np.linalg.pinv(H) @ A
    return square, whitened, H


def largest_ratio(M, H):
    """The smallest c with M <= c H."""
    values, vectors = np.linalg.eigh(H)
    white = vectors / np.sqrt(values)
    return np.linalg.eigvalsh(white.T @ M @ white)[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [2, 3])
def test_the_constants_are_those_of_all_batches(kind, batch):
    p = least_squares(1, n=5, d=3, density=1.0)
    one, many = kind().prepare(p, np.zeros(3)), kind(batch=batch).prepare(p, np.zeros(3))
    square, whitened, H = enumerate_batches(p, many, batch)
    single, _, _ = enumerate_batches(p, one, 1)
    np.testing.assert_allclose(square, single / batch + (1 - 1 / batch) * H @ H, rtol=1e-12)
    assert many.kappa == pytest.approx(largest_ratio(whitened, H), rel=1e-12)
    least, L_H = largest_ratio(square, H), np.linalg.eigvalsh(H)[-1]
    assert pytest.approx(L_H, rel=1e-12) == many.L_H
    assert least <= many.R2 * (1 + 1e-12)
    assert pytest.approx(one.R2 / batch + (1 - 1 / batch) * L_H, rel=1e-12) == many.R2
    assert one.R2 / batch < 0.9 * least  # without the term of L_H it would not hold
    assert many.R2 * many.kappa == many.process.L
    assert many.constants["R2"] == many.R2


def test_given_constants_are_those_of_single_rows():
    p = least_squares(2)
    method = cz.StochasticLeastSquares(R2=40.0, kappa=9.0, mu=0.01, batch=4)
    stepper = method.prepare(p, np.zeros(D))
    assert pytest.approx(10.0 + 0.75 * stepper.L_H) == stepper.R2
    assert (stepper.kappa, stepper.mu) == (3.0, 0.01)
    words = "R2 to be at least"
    with pytest.raises(ValueError, match=words):
        cz.theory.bound(cz.StochasticLeastSquares(R2=0.1, batch=4), p, np.zeros(D), t=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_L_H_of_many_columns_is_a_certified_bound(kind, monkeypatch):
    p = least_squares(3, n=40)
    exact = kind(batch=2).prepare(p, np.zeros(D))
    monkeypatch.setattr(spectrum, "EXACT_UP_TO", 0)
    monkeypatch.setattr(row_methods, "EXACT_UP_TO", 4)
    bound = kind(batch=2).prepare(p, np.zeros(D))
    assert not bound.exact
    assert exact.L_H <= bound.L_H <= exact.L_H / 0.95
    assert bound.R2 >= exact.R2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accelerated", [True, False])
def test_batches_of_one_are_the_rows_bit_by_bit(kind, accelerated):
    p = least_squares(4)
    options = {"maxiter": 100, "rng": 0}
    one = cz.minimize(p, np.zeros(D), method=kind(accelerated=accelerated), **options)
    same = kind(accelerated=accelerated, batch=1)
    again = cz.minimize(p, np.zeros(D), method=same, **options)
    assert np.array_equal(one.x, again.x)
    assert one.constants == again.constants
    # A batch that has the same row again and again takes the step of that row.
    steppers = [same.prepare(p, np.zeros(D)) for _ in range(2)]
    events = cz.clock.Poisson(0, marks=steppers[0].law).stream().draw(100)
    steps = coefficients(steppers[0].process, events, 0.0)
    for e, times in zip(steppers, (1, 3), strict=True):
        marks = np.repeat(events.marks[:, None], times, axis=1)
        known = (e.factors, e.rhs, e.entries, 1.0 / e.R2, accelerated)
        row_events(marks, steps, *known, e.scalars, e.pairs)
    x = steppers[0].point()
    # 100 events add up a few roundings each, of the size of x: an entry near 0 has no digits.
    np.testing.assert_allclose(steppers[1].point(), x, rtol=0, atol=1e-12 * np.abs(x).max())


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_reach_the_direct_solution(kind, is_sparse, accelerated):
    p = least_squares(5, n=30, is_sparse=is_sparse)
    method = kind(accelerated=accelerated, batch=4)
    r = cz.minimize(p, np.zeros(D), method=method, tol=1e-10, rng=0)
    assert r.success
    X = p.X.toarray() if is_sparse else p.X
    np.testing.assert_allclose(r.x, np.linalg.lstsq(X, p.y)[0], atol=1e-7)


def test_a_batch_larger_than_the_data_is_nearly_the_whole_gradient():
    p = least_squares(6, n=8)
    stepper = cz.StochasticLeastSquares(batch=100_000).prepare(p, np.zeros(D))
    assert stepper.kappa == pytest.approx(1.0, rel=1e-3)
    assert pytest.approx(p.L, rel=1e-3) == stepper.R2
    method = cz.StochasticLeastSquares(batch=40)
    r = cz.minimize(p, np.zeros(D), method=method, maxiter=20, rng=0, record=False)
    assert r.nit == 20


def test_passes_count_every_row_of_a_batch():
    p = least_squares(7)
    method = cz.StochasticLeastSquares(batch=5)
    r = cz.minimize(p, np.zeros(D), method=method, maxiter=40, rng=0)
    law = method.prepare(p, np.zeros(D)).law
    marks = cz.clock.Poisson(0, marks=law).stream().draw(40).marks
    entries = np.maximum(np.diff(p.X.indptr), 1)
    assert r.passes == pytest.approx(entries[marks].sum() / p.X.nnz)
    assert r.trace.k[:3].tolist() == [0, 4, 8]  # f once a pass: twenty rows


def test_a_run_is_resumed_and_replayed(tmp_path):
    p, method = least_squares(8), cz.StochasticLeastSquares(batch=2)
    whole = cz.minimize(p, np.zeros(D), method=method, maxiter=90, rng=4)
    kept = {"method": method, "rng": 4, "checkpoint": tmp_path / "run.npz"}
    cz.minimize(p, np.zeros(D), maxiter=40, **kept)
    assert np.array_equal(cz.minimize(p, np.zeros(D), maxiter=90, resume=True, **kept).x, whole.x)
    law = method.prepare(p, np.zeros(D)).law
    stream = cz.clock.Poisson(4, marks=law).stream()
    parts = [stream.draw(n) for n in (1, 30, 59)]  # however they are cut, the same batches
    t, dt, marks = (
        np.concatenate([getattr(q, name) for q in parts]) for name in ("t", "dt", "marks")
    )
    replayed = cz.minimize(
        p, np.zeros(D), method=method, clock=cz.clock.Recorded(t, dt, np.asfortranarray(marks))
    )
    assert np.array_equal(replayed.x, whole.x)


WRONG_MARKS = {
    "one": (2, [3, 4]),
    "three": (2, [[0, 1, 2], [3, 4, 5]]),
    "out of range": (2, [[0, 1], [3, 20]]),
    "negative": (2, [[0, -1], [3, 4]]),
    "floats": (2, [[0.0, 1.0], [3.0, 4.0]]),
}


@pytest.mark.parametrize(("batch", "marks"), WRONG_MARKS.values(), ids=WRONG_MARKS)
def test_marks_that_are_no_batches_are_refused(batch, marks):
    clock = cz.clock.Recorded([0.5, 1.0], marks=marks)
    with pytest.raises(ValueError, match=r"batches of 2 integers in \[0, 20\)"):
        cz.minimize(
            least_squares(9),
            np.zeros(D),
            method=cz.StochasticLeastSquares(batch=batch),
            clock=clock,
        )


def test_the_law_of_a_clock_is_compared_with_that_of_the_batches():
    p, method = least_squares(9), cz.Kaczmarz(batch=2)
    law = method.prepare(p, np.zeros(D)).law
    clock = cz.clock.Poisson(3, marks=cz.marks.Batches(cz.marks.Categorical(law.p), 2))
    given = cz.minimize(p, np.zeros(D), method=method, clock=clock, maxiter=30)
    assert np.array_equal(given.x, cz.minimize(p, np.zeros(D), method=method, rng=3, maxiter=30).x)
    uniform = cz.marks.Batches(cz.marks.Categorical(np.full(20, 0.05)), 2)
    with pytest.raises(ValueError, match=r"has probability 0\.05 by the clock"):
        cz.minimize(p, np.zeros(D), method=method, clock=cz.clock.Poisson(3, marks=uniform))


@pytest.mark.parametrize(
    "method",
    [
        cz.StochasticLeastSquares(R2=50.0, kappa=9.0, mu=0.0, batch=2),
        cz.Kaczmarz(accelerated=False, batch=2),
    ],
)
def test_constants_of_batches_are_for_one_law(method):
    p = least_squares(9)
    other = np.arange(1.0, 21.0) / 210.0
    clock = cz.clock.Poisson(3, marks=cz.marks.Batches(cz.marks.Categorical(other), 2))
    with pytest.raises(ValueError, match=r"by the clock, .* give batch=1, and R2"):
        cz.minimize(p, np.zeros(D), method=method, clock=clock, maxiter=5)


@pytest.mark.parametrize("batch", [1, 3])
def test_batches_of_another_size_are_refused(batch):
    p, method = least_squares(9), cz.StochasticLeastSquares(batch=batch)
    law = cz.marks.Batches(cz.marks.Categorical(np.full(20, 0.05)), 2)
    words = f"has 2 marks, but one of stochastic-least-squares takes {batch}; give a clock without"
    with pytest.raises(ValueError, match=words):
        cz.minimize(p, np.zeros(D), method=method, clock=cz.clock.Poisson(3, marks=law))


def test_merged_clocks_have_no_batches():
    clock = cz.clock.Merged([cz.clock.Poisson(0), cz.clock.Poisson(1)])
    method = cz.StochasticLeastSquares(batch=2)
    with pytest.raises(ValueError, match="one mark, but that of a batch has 2"):
        cz.minimize(least_squares(9), np.zeros(D), method=method, clock=clock)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (0, ValueError),
        (-3, ValueError),
        (10**400, ValueError),
        (2.0, TypeError),
        ("2", TypeError),
        (True, TypeError),
    ],
)
def test_bad_batches_are_refused(kind, batch, error):
    with pytest.raises(error, match="batch must be an integer from 1 to 2147483647, got"):
        kind(batch=batch)
    with pytest.raises(error, match="batch must be an integer from 1 to 2147483647, got"):
        cz.marks.Batches(cz.marks.Categorical([1.0]), batch)
    assert kind(batch=np.int32(3)).batch == 3
