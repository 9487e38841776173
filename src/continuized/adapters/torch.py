"""PyTorch: the continuized acceleration as a `torch.optim.Optimizer`, and learning on networks.

from continuized.adapters.torch import AsyncGossip, Continuized

`AsyncGossip` stands in `_torch_gossip`.  The optimizer is the process on one Poisson clock for all
parameters: a call of `step` is an event.  The formulas are those of `parameters`, `flow` and
`methods`, the times those of `clock`.
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

from continuized.process import clock, methods
from continuized.process.flow import mix, sharp_flow, weights
from continuized.process.methods import jump
from continuized.process.parameters import carried_time, gamma, gamma_prime, sharp_gamma_prime
from continuized.support import validation as check
from continuized.support.validation import short_repr

try:
    import torch
except ImportError as error:
    raise ImportError(
        'the optimizer needs PyTorch: run pip install "continuized[torch]"', name="torch"
    ) from error

if TYPE_CHECKING:
    from continuized.adapters._torch_gossip import AsyncGossip

__all__ = ["AsyncGossip", "Continuized"]

Tensor = torch.Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMMON = ("rng", "nonfinite", "k", "holds_x")  # of the optimizer; kept in every group
FOREACH_DEVICES = ("cuda", "xpu")  # where the foreach functions are one kernel for many tensors
BLOCK = 256  # events drawn at once
LOOK_EVERY = 100  # events, where to look at the gradients would stop the device


def __getattr__(name: str) -> Any:
    if name == "AsyncGossip":  # which brings the network with it
        from continuized.adapters._torch_gossip import AsyncGossip

        return AsyncGossip
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Continuized(torch.optim.Optimizer):
    """The continuized Nesterov acceleration (Theorems 3 and 4) for PyTorch.

    At the k-th call of `step`, the event at time T_k of a Poisson process, with the gradient g
    at the point y that the parameters hold,

        x = y - lr g,            z = z - gamma' g,
        y = x + a (z - x),       z = z + b (x - z)          (simultaneously),

    where a and b mix over the gap up to the next event.  The parameters as given are x = z = y.

    Parameters
    ----------
    params : tensors, pairs (name, tensor), or dictionaries (groups of parameters)
        Of type float16, bfloat16, float32 or float64; x and z are kept in the same type.
    lr : 1/L, with L the smoothness of the function, its weight decay included.  Schedulers may
        change it: the process carries on from its pair (sqrt A, sqrt B); at 0 it stands still.
    mu : the strong convexity, its weight decay included; 0 <= mu <= 1/lr.
    start : shifts the clock of the parameters; None is the paper's choice, 0 if mu = 0 and
        infinity if mu > 0.
    method : "continuized", or "sharp" for the constants of `cz.SharpContinuized`, which need mu > 0
        and have no start.
    rng : an integer, that of `cz.clock.Poisson(rng)`; None takes one from the system.  Copies
        of a model that are trained in parallel need the same.
    weight_decay : adds (weight_decay / 2) |y|^2 to the function.
    maximize : step along the gradient, not against it.
    foreach : handle the tensors of a group together; the same to the last bit, quicker on a
        GPU, and with more memory.  None: where all of them are on a GPU.
    nonfinite : what follows a gradient that is not finite, or whose step might overflow.  The
        event leaves it out, counts it as zero for every parameter, so that x and z stay finite.
        "raise": RuntimeError at the end of that step; on a GPU, which would have to stop for it,
        after the next multiple of 100 events, or in `swap`, `evaluating` or `state_dict`.
        "skip": go on (`skipped` counts).

    mu, start, method and rng may not be changed later.  A parameter without a gradient is left
    alone by the event.  A group that is added later starts its own time with its first event.

    Raises TypeError or ValueError for a constant that makes no sense, or a parameter of another
    type; `step` raises RuntimeError for a sparse gradient, or where the parameters hold x.

    >>> import torch
    >>> w = torch.tensor([3.0, -2.0], dtype=torch.float64, requires_grad=True)
    >>> optimizer = Continuized([w], lr=0.5, mu=0.25, rng=0)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     loss = w[0] ** 2 + w[1] ** 2 / 8
    ...     loss.backward()
    ...     _ = optimizer.step()
    >>> with optimizer.evaluating():  # w holds x
    ...     bool(w.abs().max() < 1e-9)
    True
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        mu: float = 0.0,
        start: float | None = None,
        *,
        method: str = "continuized",
        rng: int | None = 0,
        weight_decay: float = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        nonfinite: str = "raise",
    ) -> None:
        self._begin()
        defaults = {
            "lr": lr,
            "mu": mu,
            "start": start,
            "method": method,
            "rng": choose_seed(rng),
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "nonfinite": nonfinite,
        }
        super().__init__(params, defaults)

    def _begin(self) -> None:
        """What is not kept with the state: it follows from it, or counts from now on."""
        self._stream: clock.Stream | None = None
        self._ahead: deque[clock.Event] = deque()  # drawn, and still to come
        self._skipped: Tensor | None = None
        self._told = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._begin()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; its x = z = y are the parameters as given, its time is `start`.

        It shares the clock of the others, and may have its own lr, mu, start, method,
        weight_decay, maximize and foreach.
        """
        shared: dict[str, Any] = {"k": 0, "holds_x": False}
        if self.param_groups and isinstance(param_group, dict):  # else the parent says so
            first = self.param_groups[0]
            shared = {name: first[name] for name in shared}
            for name in ("rng", "nonfinite"):  # those of now: the defaults are before a load
                param_group.setdefault(name, first[name])
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            check_group(group)
            group.update(shared, time=group["start"], time_lr=None)
            check_common(self.param_groups[0], group)
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict`, and from the parameters of the same moment, bit by bit."""
        for group in state_dict["param_groups"]:
            needed = (*COMMON, "time", "time_lr", "mu", "method")
            missing = [name for name in needed if name not in group]
            if missing:
                raise ValueError(
                    f"the state_dict is not one of Continuized: a group has no {missing[0]!r}"
                )
            check_common(state_dict["param_groups"][0], group)
        super().load_state_dict(state_dict)

    def state_dict(self) -> dict[str, Any]:
        """The state: x and z of every parameter; numbers of Python in the groups."""
        self._look()
        for group in self.param_groups:  # schedulers may give numbers of NumPy, or fractions
            for name, value in group.items():
                kind: type = type(value)
                if isinstance(value, Real) and kind not in (bool, int, float):
                    group[name] = check.as_float(value)
        return super().state_dict()

    # One event

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One event, with the gradients that the parameters hold, or that `closure` gives them.

        Returns what `closure` returned.  An error leaves all as it was, but for that of a
        gradient that is not finite.
        """
        self._check_that_params_hold_y()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
            self._check_that_params_hold_y()
        now, following = self._two_events()
        jobs = [Job(group, self.state, now.dt, following.dt) for group in self.param_groups]
        self._leave_out_if_not_finite(jobs)
        for job in jobs:
            job.jump_and_mix(self.state)
            job.group.update(k=now.k, time=job.scalars.time, time_lr=job.scalars.time_lr)
        self._ahead.popleft()
        if now.k % LOOK_EVERY == 0 or (self._skipped is not None and self._skipped.is_cpu):
            self._look()
        return loss

    def _check_that_params_hold_y(self) -> None:
        if self.param_groups[0]["holds_x"]:
            raise RuntimeError("the parameters hold x: call swap() before the next gradient")

    def _two_events(self) -> tuple[clock.Event, clock.Event]:
        """The event of now and the one after it."""
        if self._stream is None:
            self._stream = clock.Poisson(self.param_groups[0]["rng"]).stream()
            self._stream.skip(self.param_groups[0]["k"])
        if len(self._ahead) < 2:
            self._ahead.extend(self._stream.draw(BLOCK).each())
        return self._ahead[0], self._ahead[1]

    def _leave_out_if_not_finite(self, jobs: list[Job]) -> None:
        """Put zeros for all gradients if one of them is of no use, without waiting for a GPU."""
        zeros = [zero for job in jobs for zero in job.find_overflows()]
        if not zeros:
            return
        total = torch.stack([zero.to(zeros[0].device, torch.float32) for zero in zeros]).sum()
        finite = torch.isfinite(total)
        if not (finite.is_cpu and finite):  # the CPU need not copy them to know
            for job in jobs:
                job.grads = [torch.where(finite.to(g.device), g, 0.0) for g in job.grads]
        left_out = (~finite).to(torch.int64)
        self._skipped = left_out if self._skipped is None else self._skipped + left_out

    # Gradients that are not finite

    @property
    def skipped(self) -> int:
        """How many events since the start, or since `load_state_dict`, left their gradient out.

        To read it waits for the device.
        """
        return 0 if self._skipped is None else int(self._skipped)

    def _look(self) -> None:
        """Raise if asked to, and a gradient was left out since the last look."""
        if self.param_groups[0]["nonfinite"] != "raise":
            return
        new, self._told = self.skipped - self._told, self.skipped
        if new:
            raise RuntimeError(
                f"{new} gradient{'s were' if new > 1 else ' was'} not finite, or too large for a "
                f"step, up to event {self.param_groups[0]['k']}, and left out, so that the "
                "parameters are still finite: lower lr or clip the gradients, or go on with "
                "nonfinite='skip'"
            )

    # x for evaluation

    def swap(self) -> None:
        """Exchange y, where gradients are asked for, and x in the parameters, bit by bit.

        A model is evaluated and used at x, the iterates of `cz.minimize`; `step` needs y.
        """
        self._look()
        self._exchange()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """In this context the parameters hold x; after it, what they held before."""
        held_x = self.param_groups[0]["holds_x"]
        if not held_x:
            self.swap()
        try:
            yield
        finally:
            if self.param_groups[0]["holds_x"] != held_x:
                self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p in self.state:
                    x = self.state[p]["x"]
                    held = p.detach().clone()
                    p.copy_(x)
                    x.copy_(held)
            group["holds_x"] = not group["holds_x"]


# An event: the scalars of a group, the update of its tensors, their checks


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
    mu, time, time_lr = group["mu"], group["time"], group["time_lr"]
    lr = read_lr(group["lr"], mu)
    L = smoothness(lr)
    if math.isinf(L):  # sqrt A and sqrt B, x and z stand still
        return Scalars(0.0, 0.0, 0.0, 0.0, time, time_lr)
    if time_lr is None:  # up to its first event x = z: only the time moves
        time = time + gap
    elif time_lr != lr:
        time = carried_time(time, smoothness(time_lr), L)
    if group["method"] == "sharp":
        a, b = sharp_flow(time, time + next_gap, next_gap, L, mu, 0.0)
        return Scalars(gamma(L), sharp_gamma_prime(L, mu), a, b, time + next_gap, lr)
    a, b = weights(time, time + next_gap, next_gap, L, mu, 0.0)  # start is counted in the time
    return Scalars(gamma(L), gamma_prime(time, L, mu, 0.0), a, b, time + next_gap, lr)


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
            check_tensors(p, z, g)

    def find_overflows(self) -> list[Tensor]:
        """Return a number for each parameter: 0, or NaN if its `update` might overflow.

        The numbers stay on the device.

        With |.| the largest of a tensor, and c at least 1 and gamma + gamma', all that `update`
        computes is at most |z| + |y| + c (|g| + weight_decay |y|), for a and b are in [0, 1].
        """
        triples = zip(self.params, self.zs, self.grads, strict=True)
        filled = [triple for triple in triples if triple[0].numel()]
        if not filled:
            return []
        y, z, g = (Many(column).largest() for column in zip(*filled, strict=True))
        c = max(1.0, self.scalars.gamma + self.scalars.gamma_prime)
        weight_decay: float = self.group["weight_decay"]
        return (0.0 * (z + (1.0 + c * weight_decay) * y + c * g)).tensors

    def jump_and_mix(self, state: Any) -> None:
        """Do the work, on all tensors at once or on one after the other."""
        for p in self.params:
            if p not in state:
                state[p].update(x=p.detach().clone(), z=p.detach().clone())
        xs, zs = ([state[p][name] for p in self.params] for name in ("x", "z"))
        columns: Any = (self.params, xs, zs, self.grads)
        foreach = self.group["foreach"]
        if foreach is None:
            foreach = all(p.device.type in FOREACH_DEVICES for p in self.params)
        rows = [map(Many, columns)] if foreach and self.params else zip(*columns, strict=True)
        for y, x, z, g in rows:
            update(y, x, z, g, self.scalars, self.group)


def check_group(group: dict[str, Any]) -> None:
    """Check what a new group was given, and replace it by numbers of Python."""
    for p in group["params"]:
        check_parameter(p)
    mu = group["mu"] = check.real(group["mu"], "mu", minimum=0.0)
    lr = read_lr(group["lr"], mu)
    if not isinstance(group["lr"], Tensor):  # which may be changed from outside
        group["lr"] = lr
    if methods.is_sharp(group["method"]):
        methods.SharpContinuized(max(1.0, mu), mu)
        if group["start"] is not None:
            raise ValueError('start= is of method="continuized"; drop it')
    group["start"] = methods.Continuized(max(1.0, mu), mu, group["start"]).start
    group["weight_decay"] = check.real(group["weight_decay"], "weight_decay", minimum=0.0)
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
    return check.whole(rng, "rng", minimum=0, other="None", counts=False)


def smoothness(lr: float) -> float:
    """Return L = 1/lr."""
    return 1.0 / lr if lr > 0.0 else math.inf


def read_lr(lr: Any, mu: float) -> float:
    """Return the learning rate as a number >= 0; raise ValueError unless mu <= L = 1/lr."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got one of shape {tuple(lr.shape)}")
        if lr.device.type != "cpu":
            raise ValueError(
                f"a Tensor lr must be on the CPU, got one on {lr.device}: to read it would stop "
                "the device at every step"
            )
        lr = lr.item()
    rate = check.real(lr, "lr", minimum=0.0)
    if mu > smoothness(rate):
        raise ValueError(
            f"mu must not exceed L = 1/lr, got mu = {mu!r} and lr = {rate!r}: lower one of them"
        )
    return rate


def check_parameter(p: Tensor) -> None:
    """Raise TypeError unless x and z can be kept in the type of p."""
    if p.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise TypeError(
            f"parameters must be real, of type {names}, got {p.dtype}: give the real and the "
            "imaginary part of a complex one as two"
        )


def check_tensors(p: Tensor, z: Tensor, g: Tensor) -> None:
    """Raise unless p is of the type in which its z, and x, are kept, and its gradient dense."""
    check_parameter(p)
    if p.dtype != z.dtype:
        raise RuntimeError(
            f"a parameter is of type {p.dtype}, but its x and z are of {z.dtype}: convert a model "
            "before its first step, or then load the optimizer's own state_dict()"
        )
    if g.layout != torch.strided:
        raise RuntimeError(
            f"gradients must be dense, got one of layout {g.layout}: z moves in every coordinate; "
            "set sparse=False in the layer"
        )


def __dir__() -> list[str]:
    return sorted(__all__)
