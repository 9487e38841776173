"""The inner loops of the solver, compiled by Numba from the formulas of `process`.

Importing this package imports Numba: do so only where compiled code runs.
"""

from continuized.process import compiled as compiled  # which compiles the formulas of the process
from continuized.solver import constant_checks
from continuized.support.jit import compile_formulas

compile_formulas(*constant_checks.FORMULAS)
