"""Nodes that run for real: the state machine, the wire, the processes and actors."""
