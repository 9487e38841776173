"""PyTorch: the continuized acceleration as a `torch.optim.Optimizer`.

from continuized.adapters.torch import Continuized

The process runs on one Poisson clock for all parameters: a call of `step` is an event.  The
formulas are those of `parameters`, `flow` and `methods`, the times those of `clock`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from continuized.adapters._torch_update import (
    COMMON,
    Job,
    Many,
    check_common,
    check_group,
    choose_seed,
    torch,
    update,
)
from continuized.process import clock

__all__ = ["Continuized"]

Tensor = torch.Tensor

BLOCK = 256  # events drawn at once
LOOK_EVERY = 100  # events, where to look at the gradients would stop the device


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

    mu, start and rng may not be changed later.  A parameter without a gradient is left alone by
    the event.  A group that is added later starts its own time with its first event.

    Raises
    ------
    TypeError, ValueError : a constant that makes no sense; a parameter of another type.
    RuntimeError : (`step`) a sparse gradient, or the parameters hold x.

    Examples
    --------
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

        It shares the clock of the others, and may have its own lr, mu, start, weight_decay,
        maximize and foreach.
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
            missing = [name for name in (*COMMON, "time", "time_lr", "mu") if name not in group]
            if missing:
                raise ValueError(
                    f"the state_dict is not one of Continuized: a group has no {missing[0]!r}"
                )
            check_common(state_dict["param_groups"][0], group)
        super().load_state_dict(state_dict)

    def state_dict(self) -> dict[str, Any]:
        """The state: x and z of every parameter; numbers of Python in the groups."""
        self._look()
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
            self._jump_and_mix(job)
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

    def _jump_and_mix(self, job: Job) -> None:
        for p in job.params:
            if p not in self.state:
                self.state[p].update(x=p.detach().clone(), z=p.detach().clone())
        xs, zs = ([self.state[p][name] for p in job.params] for name in ("x", "z"))
        if job.together:
            together = (Many(job.params), Many(xs), Many(zs), Many(job.grads))
            update(*together, job.scalars, job.group)
            return
        for tensors in zip(job.params, xs, zs, job.grads, strict=True):
            update(*tensors, job.scalars, job.group)

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
