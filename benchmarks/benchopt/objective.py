"""The objective: a sum of losses and an l2 penalty, as benchopt's own benchmarks write it."""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    """sum_i loss_i(<x_i, beta>) + lmbd/2 |beta|^2, the loss logistic or half the square."""

    name = "l2-regularised regression"
    parameters = {"loss": ["logistic", "ridge"], "lmbd": [1.0, 0.01]}
    min_benchopt_version = "1.6"

    def skip(self, X, y):
        if (self.loss == "logistic") != bool(np.all(np.abs(y) == 1.0)):
            return True, "labels are for the logistic loss, other values for the ridge"
        return False, None

    def set_data(self, X, y):
        self.X, self.y = X, y

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1])}

    def evaluate_result(self, beta):
        fitted = self.X @ beta
        if self.loss == "logistic":
            losses = np.logaddexp(0.0, -self.y * fitted)
        else:
            losses = 0.5 * (fitted - self.y) ** 2
        return {"value": losses.sum() + 0.5 * self.lmbd * (beta @ beta)}

    def get_objective(self):
        return {
            "X": self.X, "y": self.y, "lmbd": self.lmbd, "fit_intercept": False, "loss": self.loss
        }  # fmt: skip
