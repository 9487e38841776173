"""Problems: functions to minimise, with what is known of them."""

from continuized.problems.base import Problem
from continuized.problems.files import Data, DataError, read
from continuized.problems.quadratic import Quadratic, paper_convex, paper_strongly_convex
from continuized.problems.regression.models import (
    LeastSquares,
    LogisticRegression,
    SoftmaxRegression,
)

__all__ = [
    "Data",
    "DataError",
    "LeastSquares",
    "LogisticRegression",
    "Problem",
    "Quadratic",
    "SoftmaxRegression",
    "paper_convex",
    "paper_strongly_convex",
    "read",
]


def __dir__() -> list[str]:
    return sorted(__all__)
