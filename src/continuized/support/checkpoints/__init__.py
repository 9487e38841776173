"""The state of a run in a file, written whole or not at all."""
