"""The optimizer for PyTorch: gradients that are not finite, and steps that would overflow."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from continuized.adapters import torch as adapter
from continuized.adapters.torch import Continuized
from tests.helpers.torch_steps import EIGENVALUES, X0, a_parameter, same, take_step, x_of


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("is_cpu", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_counts_as_zero(
    bad: float, is_cpu: bool, foreach: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda self: is_cpu))
    p, q, u, v = (a_parameter() for _ in range(4))
    skipping = Continuized([p, q], lr=0.3, nonfinite="skip", foreach=foreach)
    other = Continuized([u, v], lr=0.3)
    for k in range(10):
        for one in (p, q, u, v):
            one.grad = EIGENVALUES * one.detach()
        if k in (0, 5):
            p.grad[1] = bad
            u.grad, v.grad = torch.zeros_like(u), torch.zeros_like(v)
        skipping.step()
        other.step()
    assert (skipping.skipped, other.skipped) == (2, 0)
    assert same(skipping, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_largest_gradients_are_finite(dtype: torch.dtype) -> None:
    """Their squares, and their sum, are not."""
    p = torch.zeros(4, dtype=dtype, requires_grad=True)
    optimizer = Continuized([p, torch.zeros(0, dtype=dtype)], lr=1e-3)
    p.grad = torch.full_like(p, torch.finfo(dtype).max)
    optimizer.step()
    assert optimizer.skipped == 0
    assert bool((p < 0.0).all())


def test_a_gradient_that_is_not_finite_raises_once_and_the_run_may_go_on() -> None:
    p = a_parameter()
    optimizer = Continuized([p], lr=0.3)
    take_step(optimizer, p)
    p.grad = torch.tensor([1.0, math.nan, 1.0], dtype=torch.float64)
    with pytest.raises(
        RuntimeError, match=r"1 gradient was not finite, .* up to event 2, and left"
    ):
        optimizer.step()
    assert optimizer.param_groups[0]["k"] == 2
    for _ in range(40):
        take_step(optimizer, p)
    assert x_of(optimizer, p).abs().max() < 0.2
    optimizer.state_dict()


def test_on_a_device_that_would_stop_the_error_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The CPU in the place of such a device."""
    looks = []
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda self: False))
    monkeypatch.setattr(adapter, "LOOK_EVERY", 4)
    look = Continuized._look
    monkeypatch.setattr(Continuized, "_look", lambda self: (looks.append(1), look(self)))
    p = a_parameter()
    optimizer = Continuized([p], lr=0.3)
    p.grad = torch.full_like(p, math.nan)
    for _ in range(3):
        optimizer.step()
    assert not looks
    with pytest.raises(RuntimeError, match=r"4 gradients were not finite, .* up to event 4"):
        optimizer.step()
    optimizer.step()
    with pytest.raises(RuntimeError, match="1 gradient was"):
        optimizer.state_dict()
    optimizer.step()
    with pytest.raises(RuntimeError, match="1 gradient was"), optimizer.evaluating():
        pass
    assert p.tolist() == list(X0)


OVERFLOWS: dict[str, tuple[torch.dtype, float, dict[str, Any]]] = {
    "x": (torch.float32, 3e38, {"lr": 10.0, "mu": 0.1}),
    "z": (torch.float16, 100.0, {"lr": 0.1, "start": 1e5}),
}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_step_that_would_overflow_is_left_out(name: str, foreach: bool) -> None:
    dtype, entry, options = OVERFLOWS[name]
    p, q = a_parameter(dtype), a_parameter(torch.float64)
    optimizer = Continuized([p, q], **options, nonfinite="skip", foreach=foreach)
    for k in range(3):
        p.grad, q.grad = torch.full_like(p, entry), torch.zeros_like(q)
        optimizer.step()
        assert optimizer.skipped == k + 1
    assert p.tolist() == q.tolist() == list(X0)
    for kept in (p, q):
        assert all(t.tolist() == list(X0) for t in optimizer.state[kept].values())


def test_a_large_step_of_one_type_may_be_small_in_another() -> None:
    p, q = a_parameter(torch.float16), a_parameter(torch.float64)
    optimizer = Continuized([p, q], lr=0.1)
    p.grad, q.grad = torch.ones_like(p), torch.full_like(q, 1e300)
    optimizer.step()
    assert optimizer.skipped == 0
    assert bool(torch.isfinite(q).all())
