"""Exact second moments of the process, for every kind of mark."""
