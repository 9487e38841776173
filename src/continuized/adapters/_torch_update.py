"""An event in `adapters.torch`: the scalars of a group, the update of its tensors, their checks."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from continuized.process import methods
from continuized.process.flow import mix, weights
from continuized.process.methods import jump
from continuized.process.parameters import carried_time, gamma, gamma_prime
from continuized.support import validation as check
from continuized.support.validation import short_repr

try:
    import torch
except ImportError as error:
    raise ImportError(
        'the optimizer needs PyTorch: run pip install "continuized[torch]"', name="torch"
    ) from error

__all__ = ["torch"]

Tensor = torch.Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMMON = ("rng", "nonfinite", "k", "holds_x")  # of the optimizer; kept in every group
FOREACH_DEVICES = ("cuda", "xpu")  # where the foreach functions are one kernel for many tensors


class Scalars(NamedTuple):
    """The steps of an event, the mixing weights of the gap after it, and where that gap ends."""

    gamma: float
    gamma_prime: float
    a: float
    b: float
    time: float
    time_lr: float | None


def compute_scalars(group: dict[str, Any], gap: float, next_gap: float) -> Scalars:
    """Compute the scalars of a group at the event that ends `gap`; the group is not changed.

    group["time"] is t + start where y is, on the clock of the parameters for group["time_lr"].
    """
    lr, mu, time, time_lr = as_lr(group["lr"]), group["mu"], group["time"], group["time_lr"]
    L = smoothness(lr)
    if math.isinf(L):  # sqrt A and sqrt B, x and z stand still
        return Scalars(0.0, 0.0, 0.0, 0.0, time, time_lr)
    check_lr(lr, mu)
    if time_lr is None:  # up to its first event x = z: only the time moves
        time = time + gap
    elif time_lr != lr:
        time = carried_time(time, smoothness(time_lr), L)
    start = math.inf if time == math.inf else 0.0  # any other is counted in the time
    a, b = weights(time, time + next_gap, next_gap, L, mu, start)
    return Scalars(gamma(L), gamma_prime(time, L, mu, start), a, b, time + next_gap, lr)


class Many:
    """Several tensors as one vector, by PyTorch's foreach functions.

    It has the arithmetic that `mix` and `jump` ask of an array; each operation rounds as it
    does on one tensor, so that the results are the same to the last bit.
    """

    __slots__ = ("tensors",)

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = list(tensors)

    def __add__(self, other: Many) -> Many:
        return Many(torch._foreach_add(self.tensors, other.tensors))

    def __sub__(self, other: Many) -> Many:
        return Many(torch._foreach_sub(self.tensors, other.tensors))

    def __rmul__(self, factor: float) -> Many:
        return Many(torch._foreach_mul(self.tensors, factor))

    def __neg__(self) -> Many:
        return Many(torch._foreach_neg(self.tensors))

    def copy_(self, other: Many) -> None:
        torch._foreach_copy_(self.tensors, other.tensors)

    def largest(self) -> Many:
        """Return the largest |entry| of each; none of them may be empty."""
        return Many(torch._foreach_norm(self.tensors, math.inf))


def find_overflows(
    triples: Sequence[tuple[Tensor, Tensor, Tensor]], s: Scalars, weight_decay: float
) -> list[Tensor]:
    """Return a number for each (y, z, g): 0, or NaN if `update` might overflow.

    The numbers stay on the device.

    With |.| the largest of a tensor, and c at least 1 and gamma + gamma', all that `update`
    computes is at most |z| + |y| + c (|g| + weight_decay |y|), for a and b are in [0, 1].
    """
    filled = [triple for triple in triples if triple[0].numel()]
    if not filled:
        return []
    y, z, g = (Many(column).largest() for column in zip(*filled, strict=True))
    c = max(1.0, s.gamma + s.gamma_prime)
    return (0.0 * (z + (1.0 + c * weight_decay) * y + c * g)).tensors


def update(y: Any, x: Any, z: Any, g: Any, s: Scalars, group: dict[str, Any]) -> None:
    """Do the jump of an event and the mixing after it, in place; on tensors, or `Many` of them.

    On entry y and z are just before the event; on return y and z are just before the next one,
    and x is right after this one.
    """
    if group["maximize"]:
        g = -g
    if group["weight_decay"] != 0.0:
        g = g + group["weight_decay"] * y
    x_new, z_new = jump(y, z, g, s.gamma, s.gamma_prime)
    y_new, z_mixed = mix(x_new, z_new, s.a, s.b)
    x.copy_(x_new)
    y.copy_(y_new)
    z.copy_(z_mixed)


class Job:
    """The work of an event on a group: its parameters with gradients, and its scalars."""

    def __init__(self, group: dict[str, Any], state: Any, gap: float, next_gap: float) -> None:
        self.group, self.scalars = group, compute_scalars(group, gap, next_gap)
        self.params: list[Tensor] = [p for p in group["params"] if p.grad is not None]
        self.grads: list[Tensor] = [p.grad for p in self.params if p.grad is not None]
        self.zs: list[Tensor] = [state[p]["z"] if p in state else p for p in self.params]
        for p, z, g in zip(self.params, self.zs, self.grads, strict=True):
            check_kept(p, z)
            check_gradient(g)
        foreach = group["foreach"]
        if foreach is None:
            foreach = all(p.device.type in FOREACH_DEVICES for p in self.params)
        self.together = bool(foreach and self.params)

    def find_overflows(self) -> list[Tensor]:
        """Return NaN where the step of a parameter might overflow, 0 elsewhere."""
        triples = list(zip(self.params, self.zs, self.grads, strict=True))
        return find_overflows(triples, self.scalars, self.group["weight_decay"])


def check_group(group: dict[str, Any]) -> None:
    """Check what a new group was given, and replace it by numbers of Python."""
    for p in group["params"]:
        check_parameter(p)
    lr = as_lr(group["lr"])
    mu = group["mu"] = check.real(group["mu"], "mu", minimum=0.0)
    group["start"] = methods.Continuized(max(1.0, mu), mu, group["start"]).start
    group["weight_decay"] = check.real(group["weight_decay"], "weight_decay", minimum=0.0)
    check_lr(lr, mu)
    group["rng"] = choose_seed(group["rng"])
    check.one_of(group["nonfinite"], "nonfinite", ("raise", "skip"))


def check_common(first: dict[str, Any], group: dict[str, Any]) -> None:
    """Raise ValueError unless two groups agree in what belongs to the optimizer."""
    for name in COMMON:
        if group[name] != first[name]:
            raise ValueError(
                f"{name} must be the same in all groups, for they share one clock, got "
                f"{short_repr(first[name])} and {short_repr(group[name])}"
            )


def choose_seed(rng: Any) -> int:
    """Return an integer seed that can be kept in a `state_dict`."""
    if rng is None:
        return secrets.randbits(128)
    return check.whole(rng, "rng", minimum=0, other="None")


def smoothness(lr: float) -> float:
    """Return L = 1/lr."""
    return 1.0 / lr if lr > 0.0 else math.inf


def as_lr(lr: Any) -> float:
    """Return the learning rate as a number >= 0."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got one of shape {tuple(lr.shape)}")
        if lr.device.type != "cpu":
            raise ValueError(
                f"a Tensor lr must be on the CPU, got one on {lr.device}: to read it would stop "
                "the device at every step"
            )
        lr = lr.item()
    return check.real(lr, "lr", minimum=0.0)


def check_lr(lr: float, mu: float) -> None:
    """Raise ValueError unless mu <= L = 1/lr."""
    if mu > smoothness(lr):
        raise ValueError(
            f"mu must not exceed L = 1/lr, got mu = {mu!r} and lr = {lr!r}: lower one of them"
        )


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
