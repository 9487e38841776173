"""Checks of what `adapters.torch` is given."""

from __future__ import annotations

import math
import secrets
from typing import Any

from continuized.adapters._torch_import import torch
from continuized.process import methods
from continuized.support.validation import brief, is_real, is_whole

Tensor = torch.Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMMON = ("seed", "nonfinite", "k", "holds_x")  # of the optimizer; kept in every group


def check_group(group: dict[str, Any]) -> None:
    """Check what a new group was given, and put numbers of Python for it."""
    for p in group["params"]:
        check_parameter(p)
    lr = as_lr(group["lr"])
    mu = group["mu"] = non_negative(group["mu"], "mu")
    group["start"] = methods.Continuized(max(1.0, mu), mu, group["start"]).start
    group["weight_decay"] = non_negative(group["weight_decay"], "weight_decay")
    check_lr(lr, mu)
    group["seed"] = kept_seed(group["seed"])
    if group["nonfinite"] not in ("raise", "skip"):
        raise ValueError(f"nonfinite must be 'raise' or 'skip', got {brief(group['nonfinite'])}")


def check_common(first: dict[str, Any], group: dict[str, Any]) -> None:
    """Raise ValueError unless two groups agree in what belongs to the optimizer."""
    for name in COMMON:
        if group[name] != first[name]:
            raise ValueError(
                f"{name} must be the same in all groups, for they share one clock, got "
                f"{brief(first[name])} and {brief(group[name])}"
            )


def kept_seed(seed: Any) -> int:
    """A seed that can be kept in a `state_dict`."""
    if seed is None:
        return secrets.randbits(128)
    if not is_whole(seed):
        raise TypeError(f"seed must be an integer >= 0 or None, got {brief(seed)}")
    if seed < 0:
        raise ValueError(f"seed must be an integer >= 0 or None, got {brief(seed)}")
    return int(seed)


def smoothness(lr: float) -> float:
    """L = 1/lr."""
    return 1.0 / lr if lr > 0.0 else math.inf


def as_lr(lr: Any) -> float:
    """The learning rate as a number >= 0."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got one of shape {tuple(lr.shape)}")
        if lr.device.type != "cpu":
            raise ValueError(
                f"a Tensor lr must be on the CPU, got one on {lr.device}: to read it would stop "
                "the device at every step"
            )
        lr = lr.item()
    return non_negative(lr, "lr")


def check_lr(lr: float, mu: float) -> None:
    """Raise ValueError unless mu <= L = 1/lr."""
    if mu > smoothness(lr):
        raise ValueError(
            f"mu must not exceed L = 1/lr, got mu = {mu!r} and lr = {lr!r}: lower one of them"
        )


def non_negative(value: Any, name: str) -> float:
    """A finite number >= 0 as a float."""
    if not is_real(value):
        raise TypeError(f"{name} must be a number >= 0, got {brief(value)}")
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number >= 0, got {brief(value)}")
    return float(value)


def check_parameter(p: Tensor) -> None:
    """Raise TypeError unless x and z can be kept in the type of p."""
    if p.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise TypeError(
            f"parameters must be real, of type {names}, got {p.dtype}: give the real and the "
            "imaginary part of a complex one as two"
        )


def check_kept(p: Tensor, z: Tensor) -> None:
    """Raise unless p is still of the type in which its z, and x, are kept."""
    check_parameter(p)
    if p.dtype != z.dtype:
        raise RuntimeError(
            f"a parameter is of type {p.dtype}, but its x and z are of {z.dtype}: convert a model "
            "before its first step, or then load the optimizer's own state_dict()"
        )


def check_gradient(g: Tensor) -> None:
    """Raise RuntimeError for a gradient that is not dense: z moves in every coordinate."""
    if g.layout != torch.strided:
        raise RuntimeError(
            f"gradients must be dense, got one of layout {g.layout}: z moves in every coordinate; "
            "set sparse=False in the layer"
        )
