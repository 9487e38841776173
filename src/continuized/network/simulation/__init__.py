"""Gossip simulated: compiled engines, faults, delays, replay."""
