"""Problems: functions to minimise, with what is known of them."""

from continuized.problems.base import Problem
from continuized.problems.files import read
from continuized.problems.quadratic import Quadratic, paper_convex, paper_strongly_convex
from continuized.problems.quasar import Charbonnier, SigmoidRegression
from continuized.problems.regression.huber import HuberRegression
from continuized.problems.regression.models import (
    LeastSquares,
    LogisticRegression,
    SoftmaxRegression,
)
from continuized.problems.regression.poisson import PoissonRegression
from continuized.problems.sources import Data, DataError

__all__ = [
    "Charbonnier",
    "Data",
    "DataError",
    "HuberRegression",
    "LeastSquares",
    "LogisticRegression",
    "PoissonRegression",
    "Problem",
    "Quadratic",
    "SigmoidRegression",
    "SoftmaxRegression",
    "paper_convex",
    "paper_strongly_convex",
    "read",
]


def __dir__() -> list[str]:
    return sorted(__all__)
