"""Graphs whose edges tick: their making, their constants, their best rates."""
