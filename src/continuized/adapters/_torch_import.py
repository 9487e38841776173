"""PyTorch, or a sentence that says how to get it."""

from __future__ import annotations

try:
    import torch
except ImportError as error:
    raise ImportError(
        'the optimizer needs PyTorch: run pip install "continuized[torch]"', name="torch"
    ) from error

__all__ = ["torch"]
