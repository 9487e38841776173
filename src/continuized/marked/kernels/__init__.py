"""The inner loops of marked methods, compiled by Numba from the formulas of `process`.

Importing this package imports Numba: do so only where compiled code runs.
"""

from continuized.problems import losses
from continuized.process import compiled as compiled  # which compiles the formulas of the process
from continuized.support.jit import compile_formulas

compile_formulas(*losses.FORMULAS)
