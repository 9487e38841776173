"""Problems: functions to minimise, with what is known of them."""

from continuized.problems.base import Problem
from continuized.problems.quadratic import Quadratic, paper_convex, paper_strongly_convex
from continuized.problems.reading import Data, read
from continuized.problems.regression.regression import LeastSquares, LogisticRegression
from continuized.problems.regression.softmax import SoftmaxRegression
from continuized.problems.source import DataError

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
