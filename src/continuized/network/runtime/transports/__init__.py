"""The ways to run nodes for real: one module for each implementation of `Transport`."""
