"""continuized, for benchopt's benchmarks of logistic and ridge regression and for this one.

It stands by itself: these benchmarks give X, y, lmbd and fit_intercept to their solvers, and the
loss is the logistic one unless this benchmark says otherwise.
"""

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

import continuized as cz

PROBLEMS = {"logistic": cz.problems.LogisticRegression, "ridge": cz.problems.LeastSquares}


class Solver(BaseSolver):
    """`continuized.minimize` with method="auto", or with the plain process."""

    name = "continuized"
    sampling_strategy = "tolerance"
    # The first tolerances may all give the same.
    stopping_criterion = SufficientProgressCriterion(patience=6, strategy="tolerance")
    parameters = {"method": ["auto", "continuized"]}
    requirements = ["pip::continuized"]
    references = [
        "R. Berthier, F. Bach, N. Flammarion, P. Gaillard and A. Taylor, "
        '"A continuized view on Nesterov acceleration", arXiv:2102.06035 (2021)'
    ]

    def set_objective(self, X, y, lmbd, fit_intercept=False, loss="logistic"):
        self.X, self.y, self.lmbd = X, y, lmbd
        self.fit_intercept, self.problem = fit_intercept, PROBLEMS[loss]

    def warm_up(self):
        self.run(1e-3)  # the inner loops are compiled

    def run(self, tolerance):
        # Setting up is part of the work: the constants of the data are found here.
        n, d = self.X.shape
        problem = self.problem(self.X, self.y, l2=self.lmbd / n, intercept=self.fit_intercept)
        start = np.zeros(d + self.fit_intercept)
        # The tolerance is a duality gap or the norm of a gradient, of the mean loss: 1 would do
        # nothing at all.
        tol = 1e-3 * min(tolerance, 1.0)
        self.beta = cz.minimize(problem, start, method=self.method, tol=tol, rng=0, record=False).x

    @staticmethod
    def get_next(tolerance):
        return min(tolerance, 1.0) / 10.0

    def get_result(self):
        return {"beta": self.beta}
