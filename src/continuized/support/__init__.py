"""Tools that every package may use: checks, files, checkpoints, progress, statistics."""
