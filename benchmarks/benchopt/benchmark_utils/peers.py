"""The solvers of other libraries, as `python -m benchmarks` calls them."""

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

import continuized as cz
from benchmarks import logistic_peers, penalised_peers

PROBLEMS = {"logistic": cz.problems.LogisticRegression, "ridge": cz.problems.LeastSquares}
SOLVERS = {"logistic": logistic_peers.SOLVERS, "ridge": penalised_peers.RIDGE}


class Peer(BaseSolver):
    """A solver of another library; `solver` names one of several."""

    sampling_strategy = "tolerance"
    # The first tolerances may all give the same.
    stopping_criterion = SufficientProgressCriterion(patience=6, strategy="tolerance")

    def skip(self, X, y, lmbd, fit_intercept, loss):
        if self.peer() not in SOLVERS[loss]:
            return True, f"{self.peer()} is not for the loss {loss}"
        if self.peer() == "scikit-learn, newton-cholesky" and X.shape[1] > 2_000:
            return True, "a Hessian of so many columns is too large"
        return False, None

    def set_objective(self, X, y, lmbd, fit_intercept, loss):
        self.problem = PROBLEMS[loss](X, y, l2=lmbd / len(y))
        self.solve = SOLVERS[loss][self.peer()]

    def peer(self):
        """The name in `python -m benchmarks`."""
        return f"{self.name}, {self.solver}" if self.solver else self.name

    def warm_up(self):
        self.run(1e-3)

    def run(self, tolerance):
        self.beta = self.solve(self.problem, min(tolerance, 1.0))

    @staticmethod
    def get_next(tolerance):
        return min(tolerance, 1.0) / 10.0

    def get_result(self):
        return {"beta": self.beta}
