"""What the workers of the tests of AsyncGossip do; see `benchmarks.processes`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from continuized.adapters.torch import AsyncGossip


def make_mixed() -> torch.nn.Module:
    """Shapes of all kinds, of two types, one of them shared and one frozen."""
    model = torch.nn.Module()
    model.scalar = torch.nn.Parameter(torch.randn(()))
    model.matrix = torch.nn.Parameter(torch.randn(3, 4, dtype=torch.float64))
    model.same = model.matrix
    model.cube = torch.nn.Parameter(torch.randn(2, 3, 2).transpose(0, 2))
    model.empty = torch.nn.Parameter(torch.zeros(0))
    model.frozen = torch.nn.Parameter(torch.randn(5), requires_grad=False)
    model.register_buffer("counter", torch.tensor(3 + int(100 * torch.rand(()))))
    return model


def make_normed() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], dict[str, Any]]] = {
    "mixed": (make_mixed, {}),
    "plain": (lambda: torch.nn.Linear(3, 2).double(), {"accelerated": False, "graph": "complete"}),
    "half": (lambda: torch.nn.Linear(40, 5).to(torch.bfloat16), {"graph": "star"}),
    "buffers": (make_normed, {"buffers": True}),
}


def read(model: torch.nn.Module, buffers: bool = False) -> torch.Tensor:
    tensors = [p for p in model.parameters() if p.requires_grad]
    tensors += [b for b in model.buffers() if b.is_floating_point()] if buffers else []
    return torch.cat([t.detach().double().flatten() for t in tensors])


def train_models(rank: int, world: int, tell: Callable[[Any], None]) -> None:
    """Train each of the models for a while; tell how it began, how it moved, and how it ended."""
    for name, (make, options) in MODELS.items():
        model = make()
        gossip = AsyncGossip(model, **{"graph": "cycle", "rng": 0, **options})
        buffers = bool(options.get("buffers"))
        began, moved = read(model, buffers), 0.0
        frozen = [p.clone() for p in model.parameters() if not p.requires_grad]
        while gossip.stats.exchanges < 30:
            before = read(model, buffers)
            change(model)
            moved = moved + read(model, buffers) - before
            gossip.step()
            time.sleep(0.001)
        if name == "mixed":
            gossip = resume(gossip, model)
        done = gossip.finish()
        same = all(torch.equal(a, b) for a, b in zip(frozen, find_frozen(model), strict=True))
        ints = [int(b) for b in model.buffers() if not b.is_floating_point()]
        shadow = gossip._background.node.model.x[:-1].astype("f8")
        tell((name, done, began, moved, read(model, buffers), same, ints, shadow))


def find_frozen(model: torch.nn.Module) -> list[torch.Tensor]:
    return [p for p in model.parameters() if not p.requires_grad]


def resume(gossip: AsyncGossip, model: torch.nn.Module) -> AsyncGossip:
    """Save the state of all at a moment when nothing is exchanged, and go on from it."""
    dist.barrier()
    gossip.pause()
    dist.barrier()
    state = gossip.state_dict()
    gossip.finish(average=False)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.zero_()  # what is loaded counts
    other = AsyncGossip(model, graph="cycle", rng=1)
    other.load_state_dict(state)
    for _ in range(20):
        other.step()
        time.sleep(0.001)
    return other


@torch.no_grad()
def change(model: torch.nn.Module) -> None:
    """What stands for a step of an optimiser, and for a pass through the model."""
    for p in model.parameters():
        if p.requires_grad:
            p.add_(0.01 * torch.randn_like(p))
    for b in model.buffers():
        if b.is_floating_point():
            b.add_(0.01 * torch.rand_like(b))


def lose_workers(rank: int, world: int, tell: Callable[[Any], None]) -> None:
    """Rank 2 is killed by the test, rank 3 raises; the others go on, and account for both."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).double()
    gossip = AsyncGossip(model, graph="complete", rng=0, ledger=True)
    began, moved = read(model), 0.0
    tell("began")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while len(gossip.stats.dead) < 2 or gossip.stats.exchanges < 60:
            before = read(model)
            change(model)
            moved = moved + read(model) - before
            gossip.step()
            time.sleep(0.001)
            if rank == 3 and gossip.stats.exchanges > 20:
                raise RuntimeError("a worker that raises")
        done = gossip.finish()
    said = [str(warning.message) for warning in caught]
    account = torch.as_tensor(gossip.account[None])
    tell((done, began, moved, read(model), account, sorted(gossip.stats.dead), said))


def step_on(rank: int, world: int, tell: Callable[[Any], None]) -> None:
    """Take steps; one that the test stops for a while delays nobody."""
    model = torch.nn.Linear(4, 3)
    gossip = AsyncGossip(model, graph="cycle", rng=0, timeout=1.0)
    tell("began")
    steps = 0
    limit = time.monotonic() + 3.0
    while time.monotonic() < limit:
        change(model)
        gossip.step()
        steps += 1
        time.sleep(0.001)
    stats = gossip.stats
    done = gossip.finish()
    tell((done, steps, read(model), stats.dead, stats.given_up))


def refuse(rank: int, world: int, tell: Callable[[Any], None]) -> None:
    """Different models and options; then a rank that makes no AsyncGossip."""
    said = []
    for make in (
        lambda: AsyncGossip(torch.nn.Linear(3, 2 + rank), graph="path"),
        lambda: AsyncGossip(torch.nn.Linear(3, 2), graph="path", communications=1.0 + rank),
        lambda: AsyncGossip(torch.nn.Linear(3, 2), graph="cycle"),
        lambda: AsyncGossip(torch.nn.Linear(3, 2), graph="path", wait=0.5) if rank == 0 else None,
    ):
        try:
            made = make()
            said.append(repr(made))
        except (ValueError, TimeoutError) as error:
            said.append(str(error))
    tell(said)
