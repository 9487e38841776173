"""The inner loops of marked methods, compiled by Numba from the formulas of `process`.

Importing this package imports Numba: do so only where compiled code runs.
"""

from continuized.problems.losses import compile_losses
from continuized.process import compiled as compiled  # which compiles the formulas of the process

compile_losses()
