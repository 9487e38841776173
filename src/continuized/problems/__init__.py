"""Problems: functions to minimise, with what is known of them."""

from continuized.problems.base import Problem
from continuized.problems.quadratic import Quadratic, paper_convex, paper_strongly_convex
from continuized.problems.regression import LeastSquares, LogisticRegression
from continuized.problems.softmax import SoftmaxRegression

__all__ = [
    "LeastSquares",
    "LogisticRegression",
    "Problem",
    "Quadratic",
    "SoftmaxRegression",
    "paper_convex",
    "paper_strongly_convex",
]
