"""What nodes compute, as compiled functions that the loops of the simulator call."""

from continuized.process import compiled as compiled  # which compiles the formulas of the process
