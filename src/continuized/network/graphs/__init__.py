"""Graphs whose edges ring: their making, their constants, their best rates."""
