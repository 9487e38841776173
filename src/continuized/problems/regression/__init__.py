"""Regressions: least squares, logistic and softmax, dense and sparse."""
