"""`continuized verify`: every claim of the paper, checked against this implementation.

A check measures one claim on a `Subject` (the library, or a mutant of it with a planted
mistake) and gives a `Claim` with its verdict.  `registry.CHECKS` lists them, and the error
budget; `mutants.MUTANTS` lists the mistakes and which check must catch each.
"""
