"""Default fits of the estimators beside scikit-learn's own: processor time, and how exact they are.

    pip install ".[sklearn]"
    taskset -c 0 python -m benchmarks.studies.estimators [--repeats 20] [--only lasso] [--exact]

Data, all from fixed seeds: independent normal columns, or with --condition K columns of variance 1
that are mixed so that the singular values of X fall from K to 1.  The first Lasso has 0.3 times the
least alpha that leaves nothing, the second 0.03 times, the elastic net 0.1 times; Ridge, the
logistic models, Poisson's and Huber's have the default penalties, and a tenth of Huber's rows are
outliers.
Both fit in turn, and the least processor time of each is kept; the first fits, in which things are
compiled, do not count.  With --exact it is told what each leaves to gain, relative to what there
was: the objective above the least that was seen, a fit of ours with a small tol included.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax
from sklearn import linear_model

from continuized.adapters import sklearn as ours
from continuized.problems.base import Array

SHAPES = ((100, 5), (500, 20), (5_000, 50), (20_000, 100), (2_000, 500), (200, 1_000))
SECONDS, FEWEST = 0.3, 5  # of both fits, beyond which fewer repeats are made
EXACT = 1e-9  # a tol that leaves nothing, beside the defaults


class Case(NamedTuple):
    """A pair of estimators, their targets, and the objective that both minimise."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    y: Array
    objective: Callable[[Any], float]


def make_cases(X: Array, rng: np.random.Generator) -> list[Case]:
    n, d = X.shape
    w = np.zeros(d)
    w[: max(d // 10, 3)] = rng.standard_normal(max(d // 10, 3))
    signal = X @ w / np.linalg.norm(w)
    y = 3.0 * signal + rng.standard_normal(n)
    labels = np.where(signal + rng.logistic(size=n) / 2.0 > 0.0, "yes", "no")
    kinds = np.digitize(signal + 0.5 * rng.standard_normal(n), [-0.5, 0.5])
    counts = rng.poisson(np.exp(0.5 * signal)).astype(np.float64)
    rough = y + np.where(rng.random(n) < 0.1, 30.0 * rng.standard_normal(n), 0.0)
    most = float(np.abs(X.T @ (y - y.mean())).max()) / n

    def pair(name: str, y: Array, objective: Any, **options: Any) -> Case:
        mine = partial(getattr(ours, f"Continuized{name}"), random_state=0, **options)
        return Case(name, mine, partial(getattr(linear_model, name), **options), y, objective)

    def sparse(share: float, name: str = "Lasso", ratio: float = 1.0) -> Case:
        alpha = share * most / ratio

        def objective(m: Any) -> float:
            r, w = y - m.predict(X), m.coef_
            penalty = ratio * np.abs(w).sum() + 0.5 * (1.0 - ratio) * w @ w
            return float(0.5 * r @ r / n + alpha * penalty)

        return pair(name, y, objective, alpha=alpha)._replace(name=f"{name}, {share:g}")

    def ridge(m: Any) -> float:
        return float(np.sum((y - m.predict(X)) ** 2) + m.coef_ @ m.coef_)

    def logistic(m: Any, y: Array) -> float:
        scores = np.atleast_2d(m.decision_function(X).T).T
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        own = np.searchsorted(m.classes_, y)
        losses = -log_softmax(scores, axis=1)[np.arange(n), own]
        return float(losses.sum() + 0.5 * np.sum(m.coef_**2))

    def poisson(m: Any) -> float:
        p = X @ m.coef_ + m.intercept_
        return float(np.mean(np.exp(p) - counts * p) + 0.5 * m.coef_ @ m.coef_)

    def huber(m: Any) -> float:
        s = m.scale_
        z = np.abs(rough - m.predict(X)) / s
        h = np.where(z <= 1.35, z**2, 2.7 * z - 1.35**2)
        return float(n * s + s * h.sum() + 1e-4 * m.coef_ @ m.coef_)

    cases = [
        pair("Ridge", y, ridge),
        sparse(0.3),
        sparse(0.03),
        sparse(0.1, "ElasticNet", 0.5),
        pair("LogisticRegression", labels, partial(logistic, y=labels)),
        pair("LogisticRegression", kinds, partial(logistic, y=kinds))._replace(name="3 classes"),
        pair("PoissonRegressor", counts, poisson),
        pair("HuberRegressor", rough, huber),
    ]
    return cases if d < n else cases[:-1]  # of data that are fitted exactly, Huber's scale is 0


def mix(X: Array, condition: float, rng: np.random.Generator) -> Array:
    """Mix columns of variance 1 so that their covariance has eigenvalues from condition^2 to 1."""
    if condition == 1.0:
        return X
    Q = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0]
    mixed = X * np.geomspace(condition, 1.0, X.shape[1]) @ Q
    return np.asarray(mixed / mixed.std(axis=0))


def time_both(case: Case, X: Array, repeats: int) -> tuple[float, float]:
    """Return the least processor times of default fits, ours and theirs."""
    best = [np.inf, np.inf]
    for repeat in range(repeats):
        for i, make in enumerate((case.ours, case.theirs)):
            model = make()
            began = time.process_time()
            model.fit(X, case.y)
            best[i] = min(best[i], time.process_time() - began)
        if sum(best) > SECONDS and repeat + 1 >= FEWEST:
            break
    return best[0], best[1]


def find_excess(case: Case, X: Array) -> tuple[float, float]:
    """Return what ours and theirs leave to gain, relative to what there was from w = 0."""
    models = [case.ours().fit(X, case.y), case.theirs().fit(X, case.y)]
    exact = case.ours().set_params(tol=EXACT).fit(X, case.y)
    values = [case.objective(model) for model in (*models, exact)]
    nothing = case.ours().fit(X, case.y)
    nothing.coef_ = np.zeros_like(nothing.coef_)
    least = min(values)
    scale = max(case.objective(nothing) - least, 1e-300)
    return (values[0] - least) / scale, (values[1] - least) / scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--condition", type=float, default=1.0, help="of columns that are mixed")
    parser.add_argument("--exact", action="store_true", help="what each leaves to gain, too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for n, d in SHAPES:
        rng = np.random.default_rng(n + d)
        X = mix(rng.standard_normal((n, d)), options.condition, rng)
        print(f"{n} x {d}")
        for case in make_cases(X, rng):
            if options.only.lower() not in case.name.lower():
                continue
            model = case.ours().fit(X, case.y)
            mine, theirs = time_both(case, X, options.repeats)
            events = int(np.max(model.n_iter_))
            line = f"    {case.name:20s} {1e3 * mine:9.2f} ms {1e3 * theirs:9.2f} ms"
            line += f" {mine / theirs:6.2f} {events:5d} events"
            if options.exact:
                line += " left {:9.1e} {:9.1e}".format(*find_excess(case, X))
            print(line, flush=True)


if __name__ == "__main__":
    main()
