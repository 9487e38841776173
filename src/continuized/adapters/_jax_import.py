"""JAX, or a sentence that says how to get it."""

from __future__ import annotations

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError as error:
    raise ImportError(
        'the adapters of JAX and optax need JAX: run pip install "continuized[jax]"', name="jax"
    ) from error

__all__ = ["jax", "jnp", "lax"]
