"""A regression whose rows are in several processes, or on several machines."""
