"""What the loop runs in the solver: known constants, and constants found on the way."""
