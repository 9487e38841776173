"""Nodes that run for real: wire, processes and actors; the state machine is `network.protocol`."""
