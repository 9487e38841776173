"""Theorems as functions."""
