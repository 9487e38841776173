"""Methods whose events touch a part: coordinates, blocks, rows, and their duals."""
