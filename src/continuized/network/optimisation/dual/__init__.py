"""The dual method: accelerated coordinate descent on the edges of a network."""
