"""Nodes that minimise together: methods, their events compiled, comparisons."""
