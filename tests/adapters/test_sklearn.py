"""The estimators for scikit-learn: its own checks, parameters, and data good and bad."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import validation
from sklearn.utils.estimator_checks import check_estimator

from continuized.adapters import sklearn as adapter
from continuized.adapters.sklearn import (
    ContinuizedElasticNet,
    ContinuizedHuberRegressor,
    ContinuizedLasso,
    ContinuizedLogisticRegression,
    ContinuizedPoissonRegressor,
    ContinuizedRidge,
)
from tests.helpers.sklearn_data import CLOSE, agree, classification, given, logistic, regression
from tests.invariants.registry import same_bits

ESTIMATORS = (
    ContinuizedRidge,
    ContinuizedLogisticRegression,
    ContinuizedLasso,
    ContinuizedElasticNet,
    ContinuizedPoissonRegressor,
    ContinuizedHuberRegressor,
)
# What scikit-learn itself leaves out where pandas and SCIPY_ARRAY_API are not there.
NOT_HERE = ("pandas is not installed", "SCIPY_ARRAY_API is not set")
# One check compares a fit with weights to one with repeated rows, to 7 digits: the norm of the
# gradient mapping, with l1_ratio > 0, needs a smaller tol for that.
CHECKED = (
    ContinuizedRidge(),
    ContinuizedLogisticRegression(),
    ContinuizedLasso(),
    ContinuizedPoissonRegressor(),
    pytest.param(ContinuizedHuberRegressor(), marks=pytest.mark.slow),
    pytest.param(ContinuizedElasticNet(), marks=pytest.mark.slow),
    pytest.param(ContinuizedLasso(positive=True), marks=pytest.mark.slow),
    pytest.param(ContinuizedRidge(positive=True), marks=pytest.mark.slow),
    pytest.param(ContinuizedLogisticRegression(l1_ratio=0.5, tol=1e-10), marks=pytest.mark.slow),
)


@pytest.mark.parametrize("model", CHECKED, ids=repr)
def test_the_checks_of_scikit_learn(model: Any) -> None:
    with warnings.catch_warnings():
        # One check has weights of 1000 and 1e-4 for two classes, and 1000 iterations.
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = check_estimator(model, on_skip=None, on_fail="raise")
    assert len(results) > 50
    for result in results:
        skipped = result["status"] == "skipped"
        assert skipped or result["status"] == "passed", result
        assert not skipped or str(result["exception"]).startswith(NOT_HERE), result
    assert sum(result["status"] == "skipped" for result in results) <= 3


# Parameters and data


def cases() -> list[Any]:
    return [
        (ContinuizedRidge(), *regression()),
        (ContinuizedRidge(), *regression(targets=2)),
        (ContinuizedLogisticRegression(tol=1e-10), *classification(2)),
        (ContinuizedLogisticRegression(fit_intercept=False, tol=1e-10), *classification(5)),
        (ContinuizedLogisticRegression(tol=1e-10), *classification(5)),
    ]


@pytest.mark.parametrize("case", range(5))
def test_random_state_gives_the_same_bits(case: int) -> None:
    model, X, y = cases()[case]
    before = np.random.get_state()  # noqa: NPY002
    fits = [clone(model).set_params(random_state=7).fit(X, y) for _ in range(2)]
    assert same_bits(fits[0].coef_, fits[1].coef_)
    assert same_bits(fits[0].intercept_, fits[1].intercept_)
    clone(model).fit(X, y)  # with random_state=None too, NumPy's own is left alone
    after = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    generator = np.random.RandomState(3)
    agree(clone(model).set_params(random_state=generator).fit(X, y), fits[0])


@pytest.mark.parametrize("case", range(5))
def test_warm_start(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, y = cases()[case]
    slopes: list[float] = []

    solve = adapter.LinearEstimator._solve

    def watched(self: Any, problem: Any, w0: np.ndarray, seed: Any, **options: Any) -> Any:
        slopes.append(float(np.linalg.norm(problem.grad(w0))))
        return solve(self, problem, w0, seed, **options)

    monkeypatch.setattr(adapter.LinearEstimator, "_solve", watched)
    model.set_params(warm_start=True, random_state=0).fit(X, y)
    coef, intercept = model.coef_, model.intercept_
    cold = slopes.copy()
    slopes.clear()
    model.fit(X, y)
    assert max(slopes) < 1e-6 * min(cold)
    np.testing.assert_allclose(model.coef_, coef, **CLOSE)
    np.testing.assert_allclose(model.intercept_, intercept, **CLOSE)
    scaled = clone(model).set_params(warm_start=False).fit(2.0 * X, y)
    agree(model.fit(2.0 * X, y), scaled)  # from a start elsewhere, to the same end
    with pytest.raises(ValueError, match="warm_start: the last fit left coefficients of shape"):
        model.fit(X[:, :3], y)


def test_labels_of_any_kind() -> None:
    X, y = classification(2)
    names = np.array(["no", "yes"])[y]
    model = ContinuizedLogisticRegression(class_weight={"no": 2.0, "yes": 1.0}).fit(X, names)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) == {"no", "yes"}


def test_constant_targets() -> None:
    X, _ = regression()
    model = ContinuizedRidge().fit(X, np.full(len(X), 7.5))
    assert model.coef_.tolist() == [0.0] * X.shape[1]
    assert model.intercept_ == 7.5
    assert ContinuizedRidge().fit(X, np.zeros(len(X))).intercept_ == 0.0


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e9, 1e200])
def test_tol_is_relative_to_the_targets(scale: float) -> None:
    X, y = regression()
    one, other = ContinuizedRidge().fit(X, y), ContinuizedRidge().fit(X, scale * y)
    np.testing.assert_allclose(other.coef_ / scale, one.coef_, **CLOSE)
    np.testing.assert_allclose(other.intercept_ / scale, one.intercept_, **CLOSE)


def test_rows_of_weight_zero_do_not_count() -> None:
    X, y = classification(2)
    weights = np.ones(len(y))
    weights[:30] = 0.0
    wild = X.copy()
    wild[:30] *= 1e6
    model = ContinuizedLogisticRegression(random_state=0, tol=1e-10)
    agree(clone(model).fit(wild, y, weights), clone(model).fit(X[30:], y[30:]))


def test_separable_data() -> None:
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    ours = ContinuizedLogisticRegression(C=1e4, random_state=0, tol=1e-10).fit(X, y)
    agree(ours, logistic(ours).fit(X, y), rtol=1e-4, atol=1e-4)
    with pytest.warns(ConvergenceWarning, match="took 50 iterations"):
        model = ContinuizedLogisticRegression(C=np.inf, tol=0.0, max_iter=50).fit(X, y)
    assert np.all(np.isfinite(model.coef_))
    assert model.score(X, y) == 1.0
    assert model.n_iter_.tolist() == [50]
    log = model.predict_log_proba([[1e6], [-1e6]])
    assert np.all(np.isfinite(log))
    assert log.min() < -1e5
    assert model.predict_proba([[1e6]]).tolist() == [[0.0, 1.0]]


def test_single_precision_is_not_widened() -> None:
    X, y = classification(2)
    model = ContinuizedLogisticRegression(random_state=0, tol=1e-10)
    wide = clone(model).fit(X.astype(np.float32).astype(float), y)
    for form in ("dense", "int32"):
        single = given(X.astype(np.float32), form)
        agree(clone(model).fit(single, y), wide)


def test_names_of_features(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named(np.ndarray):
        names: Any = None

    def named(values: np.ndarray, names: list[str]) -> Any:
        array = values.view(Named)
        array.names = np.array(names, dtype=object)
        return array

    # As of a data frame, of which there is none without pandas or the like.
    monkeypatch.setattr(validation, "_get_feature_names", lambda X: getattr(X, "names", None))
    X, y = regression(d=2)
    model = ContinuizedRidge().fit(named(X, ["a", "b"]), y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(named(X, ["b", "a"]))


BAD = [
    (ContinuizedRidge(alpha=-1.0), {}, "alpha must be finite and >= 0, got -1.0"),
    (ContinuizedRidge(tol=-1.0), {}, "tol must be a number >= 0, got -1.0"),
    (ContinuizedRidge(tol=np.nan), {}, "tol must be a number >= 0, got nan"),
    (ContinuizedRidge(max_iter=0), {}, "max_iter must be an integer >= 1, got 0"),
    (ContinuizedRidge(max_iter=1.5), {}, "max_iter must be an integer >= 1, got 1.5"),
    (ContinuizedRidge(), {"sample_weight": [1.0]}, "sample_weight must have shape"),
    (
        ContinuizedRidge(),
        {"sample_weight": -np.ones(4)},
        r"sample_weight must be finite and >= 0, but sample_weight\[0\] is -1.0",
    ),
    (ContinuizedRidge(), {"sample_weight": 0.0}, "every sample_weight is zero"),
    (ContinuizedLasso(-1.0), {}, "alpha must be finite and >= 0, got -1.0"),
    (ContinuizedElasticNet(l1_ratio=1.5), {}, "l1_ratio must be a number in .0, 1., got 1.5"),
    (
        ContinuizedLogisticRegression(l1_ratio=-0.1),
        {},
        "l1_ratio must be a number in .0, 1., got -0.1",
    ),
    (ContinuizedPoissonRegressor(alpha=-1.0), {}, "alpha must be a finite number >= 0, got -1.0"),
    (ContinuizedPoissonRegressor(), {"y": [0, 1, -2, 1]}, r"counts >= 0, but y\[2\] is -2.0"),
    (ContinuizedPoissonRegressor(), {"y": [0, 0, 0, 0]}, "every y is 0, or has no weight"),
    (ContinuizedPoissonRegressor(verbose=-1), {}, "verbose must be an integer >= 0, got -1"),
    (ContinuizedHuberRegressor(epsilon=0.9), {}, "epsilon must be a finite number >= 1, got 0.9"),
    (ContinuizedHuberRegressor(alpha=-1.0), {}, "alpha must be a finite number >= 0, got -1.0"),
    (ContinuizedLogisticRegression(C=0.0), {}, "C must be a number > 0 or infinity, got 0.0"),
    (ContinuizedLogisticRegression(class_weight="even"), {}, 'class_weight must be None, "bal'),
    (
        ContinuizedLogisticRegression(class_weight={0: 0.0, 1: 1.0}),
        {},
        "the class 0 has no row of positive",
    ),
    (
        ContinuizedLogisticRegression(),
        {"y": [3, 3, 3, 3]},
        "y holds only one class, .*3.*: at least",
    ),
    (
        ContinuizedLogisticRegression(),
        {"sample_weight": [0, 0, 1, 1]},
        "the class 0 has no row of positive",
    ),
]


@pytest.mark.parametrize(("model", "options", "message"), BAD)
def test_bad_arguments(model: Any, options: dict[str, Any], message: str) -> None:
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(**{"X": X, "y": y, **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ContinuizedRidge(alpha="a"), "alpha must be a number, or one for each target, got 'a'"),
        (ContinuizedRidge(tol="1"), "tol must be a number >= 0, got '1'"),
        (ContinuizedLasso(positive=1), "positive must be True or False, got 1"),
        (ContinuizedElasticNet(l1_ratio="1"), "l1_ratio must be a number in .0, 1., got '1'"),
        (ContinuizedHuberRegressor(epsilon=None), "epsilon must be a finite number >= 1, got None"),
        (ContinuizedRidge(max_iter=True), "max_iter must be an integer >= 1, got True"),
        (ContinuizedLogisticRegression(C="1"), "C must be a number > 0 or infinity, got '1'"),
        (ContinuizedLogisticRegression(class_weight=3), "class_weight must be None, .* got 3"),
    ],
)
def test_arguments_of_the_wrong_type(model: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        model.fit([[0.0], [1.0]], [0, 1])
    assert "\n" not in str(caught.value)


def test_without_scikit_learn_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "try:\n    import continuized.adapters.sklearn\n"
        "except ImportError as error:\n    print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert 'pip install "continuized[sklearn]"' in result.stdout


def wrong_index(form: str) -> Any:
    X = getattr(sparse, f"{form}_array")(np.arange(24.0).reshape(6, 4))
    (X.col if form == "coo" else X.indices)[0] = 10**7
    return X


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_wrong_sparse_indices_are_refused_in_fits_and_predictions(kind: Any, form: str) -> None:
    X, estimator = wrong_index(form), kind()
    with pytest.raises(ValueError, match="not a valid sparse matrix"):
        estimator.fit(X, np.arange(6) % 2)
    estimator.coef_, estimator.intercept_, estimator.n_features_in_ = np.ones((1, 4)), 0.0, 4
    with pytest.raises(ValueError, match="not a valid sparse matrix"):
        estimator.predict(X)


@pytest.mark.parametrize("model", ESTIMATORS)
def test_huge_integers_and_arrays_for_flags_get_a_sentence(model: Any) -> None:
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    huge = 10**400
    for what, call in {
        "X or y": lambda: model().fit([[huge, 1]] * 6, y),
        "sample_weight": lambda: model().fit(X, y, sample_weight=[huge] * 6),
        "X": lambda: model().fit(X, y).predict([[huge, 1]]),
    }.items():
        with pytest.raises(ValueError, match=f"^{what} has an integer in it that is too large"):
            call()
    with pytest.raises(ValueError, match=r"^sample_weight must be a finite number >= 0"):
        model().fit(X, y, sample_weight=huge)
    assert model(tol=huge).fit(X, y).n_iter_ is not None
    for name in ("fit_intercept", "warm_start"):
        with pytest.raises(TypeError, match=f"^{name} must be True or False, got array"):
            model(**{name: np.array([True, False])}).fit(X, y)
