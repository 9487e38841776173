"""A quadratic for the tests of the PyTorch optimizer, and events on it."""

from __future__ import annotations

import torch

from continuized.adapters.torch import Continuized

EIGENVALUES = torch.tensor([2.0, 0.5, 0.1], dtype=torch.float64)
X0 = (1.0, -2.0, 0.5)


def a_parameter(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(X0, dtype=dtype, requires_grad=True)


def take_step(optimizer: Continuized, *parameters: torch.Tensor) -> None:
    """An event with the gradient of 1/2 <eigenvalues p, p>, summed over the parameters."""
    for p in parameters:
        p.grad = EIGENVALUES.to(p.dtype) * p.detach()
    optimizer.step()


def x_of(optimizer: Continuized, p: torch.Tensor) -> torch.Tensor:
    with optimizer.evaluating():
        return p.detach().clone()
