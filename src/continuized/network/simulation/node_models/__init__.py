"""What nodes compute, as compiled functions that the loops of the simulator call."""
