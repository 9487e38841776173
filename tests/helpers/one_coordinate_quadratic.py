"""A quadratic of one coordinate, and its moments E[u^2, uw, w^2]."""

import numpy as np

import continuized as cz

L, LAM, V = 1.7, 0.6, 0.03  # one coordinate; V the noise's variance


def one(lam=LAM, mu=0.0):
    """One coordinate of curvature lam, in a problem whose L is free."""
    return cz.problems.Quadratic([lam], [0.0], mu=mu)


def got(m, i=0):
    return np.array([m.xx[i, 0], m.xz[i, 0], m.zz[i, 0]])
