"""What worker processes share, whoever starts them: bytes, starting and ending, and Ray."""
