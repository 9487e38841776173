"""`continuized verify`: every claim of the paper, checked against this implementation.

A check measures one claim on a `Subject` (the library, or in the tests a part of it with a planted
mistake) and gives a `Claim` with its verdict.  `registry.CHECKS` lists them, and the error budget.
"""
