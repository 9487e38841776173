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


def held(optimizer: Continuized) -> list[torch.Tensor]:
    """All tensors of an optimizer: y, x and z."""
    ps = [p for group in optimizer.param_groups for p in group["params"]]
    return [t for p in ps for t in (p, *optimizer.state[p].values())]


def same(one: Continuized, other: Continuized) -> bool:
    tensors = zip(held(one), held(other), strict=True)
    groups = zip(one.param_groups, other.param_groups, strict=True)
    keys = ("k", "time", "time_lr", "lr", "rng", "holds_x")
    return all(torch.equal(a, b) for a, b in tensors) and all(
        a[key] == b[key] for a, b in groups for key in keys
    )
