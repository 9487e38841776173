"""The hot loops, compiled by Numba from the very formulas of the other rooms.

Importing this package imports Numba: do so only where compiled code runs.
"""

from continuized import flow, methods, parameters, witness
from continuized.jit import compile_formulas

compile_formulas(*parameters.FORMULAS, *flow.FORMULAS, *methods.FORMULAS, *witness.FORMULAS)
