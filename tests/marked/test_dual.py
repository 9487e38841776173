"""The dual of logistic regression: its metric, its marks, the sweep that dense columns share."""

from functools import cache

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized import marks
from continuized.marked import dual
from continuized.process.compiled import coefficients

ROWS = 4200


@cache
def problem():
    """Rows of unequal norms, most of them fitted well."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((ROWS, 1500), density=0.01, rng=rng, data_sampler=rng.standard_normal)
    X = sparse.diags_array(np.exp(rng.standard_normal(ROWS))) @ X
    flips = rng.random(ROWS) < 0.05
    y = np.where((X @ rng.standard_normal(1500) > 0.0) ^ flips, 1.0, -1.0)
    return cz.problems.LogisticRegression(X.tocsr(), y, l2=0.01 / ROWS)


def advance(stepper, passes):
    stream = cz.clock.Poisson(0, marks=stepper.law).stream()
    for _ in range(passes):
        events = stream.draw(ROWS)
        stepper.take(events.marks, coefficients(stepper.process, events, 0.0))
    return stepper


def prepare_stepper(method=None):
    return (method or cz.DualCoordinate()).prepare(problem(), np.zeros(1500))


def test_the_local_metric_is_the_curvature_of_the_entropy_where_the_points_agree():
    a = np.array([0.5, 0.1, 0.01, 1e-6, 0.9, 0.0, 1e-310])  # of the last two, 1/a is infinite
    margins = np.log1p(-a) - np.log(np.maximum(a, 1e-300))
    curvature = 1.0 / np.maximum(a * (1.0 - a), 1e-300)
    found = dual.local_metric(a, a, margins, smooth=np.full(7, 100.0))
    known = np.clip(curvature / 4.0, 1.0, dual.CURVATURE_SHARE * 100.0)
    np.testing.assert_allclose(found, known, rtol=1e-12)
    assert found[2] > found[1] > found[0] == 1.0


@pytest.mark.parametrize("which", range(3))
def test_the_local_metric_trusts_no_point_that_another_contradicts(which):
    points = [np.array([1e-3])] * 3
    points[which] = np.array([0.3])
    x, z, slope = points
    margins = np.log((1.0 - slope) / slope)
    found = dual.local_metric(x, z, margins, smooth=np.array([1e9]))
    assert found == pytest.approx(1.0 / (4.0 * 0.3 * 0.7))


@pytest.mark.blas
def test_marks_constants_and_steps_follow_the_metric():
    before = prepare_stepper()
    stepper = advance(prepare_stepper(), dual.FIRST_METRIC)
    L_i, m = stepper.form.L_i, stepper.metric
    assert m.min() == 1.0
    assert m.max() > 2.0
    assert pytest.approx(np.sum(np.sqrt(L_i / m)) ** 2) == stepper.S
    assert before.S > stepper.S == stepper.process.L
    np.testing.assert_allclose(stepper.p, np.sqrt(L_i / m) / np.sqrt(L_i / m).sum(), rtol=1e-12)
    np.testing.assert_array_equal(stepper.law.now.p, marks.Categorical(stepper.p).p)
    # What the theorem asks of the steps in this norm: gamma' / (p_i m_i), and eta / p_i for x_i.
    np.testing.assert_allclose(stepper.weights * stepper.p * m, 1.0, rtol=1e-12)
    np.testing.assert_allclose(stepper.steps * stepper.p, 1.0, rtol=1e-12)


def test_the_local_metric_saves_passes():
    p = prepare_stepper().p
    runs = [
        cz.minimize(
            problem(), np.zeros(1500), method=cz.DualCoordinate(sampling), tol=1e-7, rng=0,
            record=False,
        )
        for sampling in ("sqrt", p)
    ]  # fmt: skip
    assert runs[0].success
    assert runs[1].success
    assert runs[0].passes < 0.7 * runs[1].passes
    np.testing.assert_allclose(runs[0].fun, runs[1].fun, atol=1e-7)


def far(stepper):
    """|x - z|, and the same of the images."""
    return [
        (stepper.scalars[0] - stepper.scalars[1]) * np.abs(pairs[:, 1]).max()
        for pairs in (stepper.pairs, stepper.image_pairs)
    ]


def test_the_process_begins_after_plain_passes():
    plain = prepare_stepper(cz.DualCoordinate(accelerated=False))
    stepper, stream = prepare_stepper(), cz.clock.Poisson(0, marks=plain.law).stream()
    stepper.law.is_drawn = True  # the same marks for both
    for _ in range(dual.FIRST_METRIC + 1):
        begun = stepper.metric.max() > 1.0
        events = stream.draw(ROWS)
        for each in (stepper, plain):
            each.take(events.marks, coefficients(each.process, events, 0.0))
        apart = np.abs(stepper.coordinates() - plain.coordinates()).max()
        assert begun == (apart > 1e-3) == (far(stepper)[0] > 1e-3)
        assert begun or max(apart, far(stepper)[0]) < 1e-12


def passes_to_the_gap(p):
    r = cz.minimize(
        p,
        np.zeros(p.dim),
        method=cz.DualCoordinate(),
        tol=1e-7,
        rng=0,
        record=False,
    )
    assert r.success
    return r.passes


@cache
def make_fittable():
    """Rows that can all be fitted; S falls to a hundredth and less."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((ROWS, 2100), density=0.02, rng=rng, data_sampler=rng.standard_normal)
    y = np.where(X @ rng.standard_normal(2100) > 0.0, 1.0, -1.0)
    return cz.problems.LogisticRegression(X.tocsr(), y, l2=1e-4 / ROWS)


def test_plain_passes_first_save_passes(monkeypatch):
    first_plain = passes_to_the_gap(make_fittable())
    monkeypatch.setattr(dual.DualStepper, "_plain", lambda self, marks, ours: ours)
    assert first_plain < 0.75 * passes_to_the_gap(make_fittable())


def test_stratified_marks_save_passes(monkeypatch):
    stratified = passes_to_the_gap(problem())
    monkeypatch.setattr(dual.DualStepper, "_law", lambda self: marks.Categorical(self.p))
    assert stratified < 0.85 * passes_to_the_gap(problem())


def test_marks_of_another_law_keep_theirs():
    stepper = prepare_stepper()
    stream = cz.clock.Poisson(0, marks=marks.Categorical(stepper.p)).stream()
    S = stepper.S
    for _ in range(dual.FIRST_METRIC + 1):
        events = stream.draw(ROWS)
        stepper.take(events.marks, coefficients(stepper.process, events, 0.0))
    assert S == stepper.S
    assert np.all(stepper.metric == 1.0)


def test_rows_in_many_columns_run_alike_with_and_without_a_record():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 10**6, ROWS)
    X = sparse.csr_array((np.ones(ROWS), (np.arange(ROWS), columns)), (ROWS, 10**6))
    p = cz.problems.LogisticRegression(X, np.where(rng.random(ROWS) < 0.5, -1.0, 1.0), l2=1e-4)
    runs = [
        cz.minimize(p, np.zeros(10**6), method=cz.DualCoordinate(), rng=0, maxiter=5 * ROWS,
                    record=record)
        for record in (True, False)
    ]  # fmt: skip
    assert runs[0].constants == runs[1].constants
    np.testing.assert_array_equal(runs[0].x, runs[1].x)


@pytest.mark.parametrize("before", [2, 6])  # plain passes only, and in the local metric
def test_a_run_resumed_is_the_same(tmp_path, before):
    def run(passes, **options):
        return cz.minimize(
            problem(), np.zeros(1500), method=cz.DualCoordinate(), rng=3, tol=0.0,
            maxiter=passes * ROWS, **options,
        )  # fmt: skip

    kept = {"checkpoint": tmp_path / "run", "every": 0.0}
    run(before, **kept)
    resumed, whole = run(8, resume=True, **kept), run(8)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert resumed.constants == whole.constants


def test_the_gap_is_a_bound_and_the_images_do_not_drift_in_a_changing_metric():
    stepper = advance(prepare_stepper(), 200)
    images = stepper.form.fill_rows(stepper.form.image(stepper.coordinates()))
    np.testing.assert_allclose(stepper.images(), images, rtol=0.0, atol=1e-11 * abs(images).max())
    assert -1e-14 <= stepper.evaluate_criterion() <= 1e-12


def test_compiled_alias_tables_are_those_of_python(monkeypatch):
    p = np.random.default_rng(1).exponential(size=5000)
    p[::7] = 0.0
    compiled = marks.Categorical(p / p.sum())
    monkeypatch.setattr(marks, "COMPILED_FROM", 10**9)
    plain = marks.Categorical(p / p.sum())
    np.testing.assert_array_equal(compiled.threshold, plain.threshold)
    np.testing.assert_array_equal(compiled.alias, plain.alias)


@pytest.mark.blas
@pytest.mark.parametrize("loss", [cz.problems.LeastSquares, cz.problems.LogisticRegression])
@pytest.mark.parametrize("accelerated", [True, False])
def test_dense_columns_swept_once_are_those_swept_twice(loss, accelerated):
    """The sparse loops sweep twice: the same data, stored as CSR with every entry."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 7)), np.sign(rng.standard_normal(30))
    found = []  # after each part: at the end, wrong paths have come to the same solution
    for data in (X, sparse.csr_array(X)):
        method = cz.CoordinateDescent(accelerated=accelerated, start=0.5 if accelerated else None)
        stepper = method.prepare(loss(data, y, l2=0.1), np.ones(7))
        events = cz.clock.Poisson(1, marks=stepper.law).stream().draw(3000)
        coefs = coefficients(stepper.process, events, 0.0)
        rebased, path = 0, []
        for part in np.split(np.arange(3000), [1, 2, *range(100, 3000, 100)]):
            before = stepper.scalars.copy()
            stepper.take(events.marks[part], coefs[part])
            rebased += bool(np.ptp(stepper.scalars) > np.ptp(before))
            path += [*stepper.coordinates(), *stepper.images()]
        assert rebased or not accelerated  # the case that breaks the sweep did occur
        found.append(path)
    np.testing.assert_allclose(*found, rtol=0.0, atol=1e-12)
