"""The solver: `minimize`, `ensemble`, the loop and its steppers."""
