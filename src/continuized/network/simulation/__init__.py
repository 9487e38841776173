"""Compiled engines that run gossip and optimisation, at once or message by message; replay.

Faults are in `network/faults.py`, the limits of delay in `network/analysis.py`.
"""
