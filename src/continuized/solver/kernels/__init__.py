"""The inner loops of the solver, compiled by Numba from the formulas of `process`.

Importing this package imports Numba: do so only where compiled code runs.
"""

from continuized.process import flow, methods, parameters
from continuized.solver import constant_checks
from continuized.support.jit import compile_formulas

compile_formulas(*parameters.FORMULAS, *flow.FORMULAS)
compile_formulas(*methods.FORMULAS, *constant_checks.FORMULAS)
