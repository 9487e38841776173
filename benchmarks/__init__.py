"""`python -m benchmarks`: this library and its peers side by side on this machine.

A suite gives contests; a contest is one piece of work that several contestants do.  What is
reported is how many times ours each took, where a peer was quicker as where it was not.

    SUITES           one module each
    timing           how contestants are timed
    outcome          what a contest gives
    peers            the other libraries: imported only when installed, never dropped in silence
    machine          what the times depend on
"""

# Each a module here with `run(size, say)` and its sizes, FULL and QUICK.
SUITES = ("loop", "ensemble", "gradient", "logistic", "softmax", "penalised", "gossip")
