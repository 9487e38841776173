"""Minimising together: what nodes minimise, the methods, their events and the run.

The methods' names stand here, where nothing slow is imported: the command line lists them.
"""

METHODS = ("dual", "plain-dual", "dadao", "a2cid2", "plain-sgd")
