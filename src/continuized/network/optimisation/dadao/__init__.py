"""DADAO: decoupled gradients and exchanges, accelerated."""
