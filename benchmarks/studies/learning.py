"""AsyncGossip: speed, consensus, slow workers, accuracy, overhead, deaths and stops.

    pip install ".[torch,sklearn]"
    python -m benchmarks.studies.learning [--quick] [speed] [consensus] [straggler] ...

Everything runs on this machine, on 127.0.0.1, with one thread for each worker; where there are more
workers than cores, they share them, and what is said of times is of such a machine.

speed: exchanges a second, of four workers together that do nothing else, and the time from a
request to its answer, for models of 10^3 to 10^7 numbers (float32).

consensus: sum_i |x_i - mean|^2, averaged over time, on a cycle of 8 with 0.25 exchanges for each
gradient; every worker is drawn to a point of its own, with noise.

straggler: seconds until the training loss of rank 0 is below a half, with steps of 10 ms, and of
50 ms on one worker of four; beside DistributedDataParallel, which waits for the slowest.

accuracy: on a part of the digits that was kept back, after equal samples; shards alike, and sorted
by label, so that each worker sees two or three digits only.

overhead: steps a second without gossip and with it, in turns.

kills: a worker of four is killed while exchanges go on; what the mean of the others differs from
where they began, moved by their own steps and by what they had got from the dead.

stop: a worker of four is stopped for 5 s; the steps a second of the others meanwhile.
"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from benchmarks.processes import World
from benchmarks.studies.parts import run_parts
from continuized.adapters.torch import AsyncGossip

Tell = Callable[[Any], None]
METHODS = ("DDP", "plain", "accelerated")


def start(job: Callable[..., None], world: int, folder: str) -> World:
    """Start workers; DistributedDataParallel imports the compiler."""
    return World(job, world, Path(folder), ["sklearn.datasets", "torch._dynamo"], longest=180)


def collect(job: Callable[..., None], world: int) -> list[Any]:
    """Run a job, and return what each rank tells."""
    with tempfile.TemporaryDirectory() as folder, start(job, world, folder) as workers:
        return [workers.hear(rank) for rank in range(world)]


def median(values: list[float]) -> str:
    """The median, and the range where there are several."""
    if len(values) == 1:
        return f"{values[0]:.3g}"
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


# Speed


class Vector(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(torch.zeros(size))


def exchange_only(size: int, seconds: float, rank: int, world: int, tell: Tell) -> None:
    model = Vector(size)
    # Steps are rare, and in each of them more is asked for than there is time for.
    gossip = AsyncGossip(model, "cycle", communications=500.0, rng=rank, timeout=30.0)
    for _ in range(2):
        gossip.step()
        time.sleep(0.1)
    dist.barrier()
    before, began, used = gossip.stats, time.perf_counter(), time.process_time()
    while time.perf_counter() < began + seconds:
        gossip.step()
        time.sleep(0.5)
    after, took = gossip.stats, time.perf_counter() - began
    used = time.process_time() - used
    gossip.finish()
    tell((after.exchanges - before.exchanges, took, after.seconds, used))


def speed(quick: bool) -> None:
    """Exchanges a second and their latency; and the processors' time, which other work on the
    machine changes less."""
    print("Exchanges a second of four workers on a cycle, milliseconds to an answer, and")
    print("milliseconds of processors for an exchange, both ends and everything else together")
    for size in (10**3, 10**4, 10**5, 10**6, 10**7):
        rates, latencies, costs = [], [], []
        for _ in range(1 if quick else 3):
            told = collect(partial(exchange_only, size, 2.0 if quick else 5.0), 4)
            rates.append(sum(t[0] / t[1] for t in told) / 2.0)  # each has two ends
            latencies.append(1e3 * float(np.nanmedian([t[2] for t in told])))
            costs.append(2e3 * sum(t[3] for t in told) / max(1, sum(t[0] for t in told)))
        columns = f"{median(rates)} /s   {median(latencies)} ms   {median(costs)} ms"
        print(f"  {size:>10,} numbers   {columns}", flush=True)


# Consensus


def follow_points(
    accelerated: bool, seed: int, steps: int, rank: int, world: int, tell: Tell
) -> None:
    """Go to a point of one's own, with noise, and remember x."""
    model = Vector(50)
    gossip = AsyncGossip(model, "cycle", 0.25, accelerated, rng=seed)
    random = np.random.default_rng([seed, rank])
    point = torch.tensor(random.standard_normal(50), dtype=torch.float32)
    path, times = [], []
    dist.barrier()
    for _ in range(steps):
        with torch.no_grad():
            noise = torch.tensor(random.standard_normal(50), dtype=torch.float32)
            model.x -= 0.05 * (model.x - point + noise)
        time.sleep(0.004)
        gossip.step()
        path.append(model.x.detach().numpy().copy())
        times.append(time.monotonic())
    realised = gossip.stats.realised
    gossip.finish()
    tell((np.array(times), np.array(path), realised))


def measure_consensus(told: list[Any]) -> float:
    """The mean over the second half of the common time of sum_i |x_i - mean|^2."""
    first, last = max(t[0][0] for t in told), min(t[0][-1] for t in told)
    grid = np.linspace(0.5 * (first + last), last, 200)
    x = np.array([path[np.searchsorted(times, grid, "right") - 1] for times, path, _ in told])
    return float(((x - x.mean(axis=0)) ** 2).sum(axis=(0, 2)).mean())


def consensus(quick: bool) -> None:
    """Accelerated against plain."""
    seeds = range(2 if quick else 5)
    print(f"Mean of sum_i |x_i - mean|^2, cycle:8, communications=0.25, {len(seeds)} seeds")
    found: dict[bool, list[float]] = {True: [], False: []}
    realised: list[float] = []
    for seed in seeds:
        for accelerated in (False, True):
            told = collect(partial(follow_points, accelerated, seed, 400 if quick else 1000), 8)
            found[accelerated].append(measure_consensus(told))
            realised += [t[2] for t in told]
    ratios = [a / b for a, b in zip(found[False], found[True], strict=True)]
    for accelerated, name in ((False, "plain"), (True, "accelerated")):
        print(f"  {name:12} {median(found[accelerated])}")
    print(f"  plain over accelerated {median(ratios)}; realised {median(realised)} of 0.25")


# Digits


def load_digits(seed: int) -> tuple[torch.Tensor, ...]:
    """Scikit-learn's digits, as X and y to train on and X and y that are kept back."""
    from sklearn.datasets import load_digits as load

    pixels, digits = load(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(digits))
    X = torch.tensor(pixels[order] / 16.0, dtype=torch.float32)
    y = torch.tensor(digits[order])
    return X[:1497], y[:1497], X[1497:], y[1497:]


def make_network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


class Trainer:
    """A network on a shard of the digits, by one of the METHODS."""

    def __init__(self, method: str, seed: int, rank: int, world: int, by_label: bool = False):
        X, y, self.X_test, self.y_test = load_digits(seed)
        order = torch.argsort(y, stable=True) if by_label else torch.arange(len(y))
        rows = order.chunk(world)[rank]
        self.X, self.y, self.X_all, self.y_all = X[rows], y[rows], X, y
        self.network = make_network(seed)
        self.model, self.gossip = self.network, None
        if method == "DDP":
            self.model = DistributedDataParallel(self.network)
        elif method != "alone":
            self.gossip = AsyncGossip(
                self.network, "cycle", 1.0, accelerated=method == "accelerated", rng=seed
            )
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.05, momentum=0.9)
        self.draws = torch.Generator().manual_seed(100 * seed + rank)

    def step(self) -> None:
        rows = torch.randint(len(self.y), (16,), generator=self.draws)
        cross_entropy(self.model(self.X[rows]), self.y[rows]).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.gossip is not None:
            self.gossip.step()

    @torch.no_grad()
    def loss(self) -> float:
        return cross_entropy(self.network(self.X_all), self.y_all).item()

    @torch.no_grad()
    def accuracy(self) -> float:
        return (self.network(self.X_test).argmax(1) == self.y_test).double().mean().item()


def reach_loss(method: str, seed: int, rank: int, world: int, tell: Tell) -> None:
    trainer = Trainer(method, seed, rank, world)
    flag = torch.zeros(1)
    dist.barrier()
    began, steps, took = time.perf_counter(), 0, None
    limit = began + 40.0
    store = dist.distributed_c10d._get_default_store()
    while time.perf_counter() < limit:
        time.sleep(0.05 if rank == world - 1 else 0.01)
        trainer.step()
        steps += 1
        if rank == 0 and took is None and steps % 5 == 0 and trainer.loss() < 0.5:
            took = time.perf_counter() - began
            store.set("reached", "1")
        if method == "DDP":  # it must end everywhere in the same step
            flag[0] = float(took is not None)
            dist.all_reduce(flag)
            if flag[0] > 0.0:
                break
        elif steps % 5 == 0 and store.check(["reached"]):
            break
    if trainer.gossip is not None:
        trainer.gossip.finish()
    tell((took, steps))


def straggler(quick: bool) -> None:
    """Time to a loss, with one worker 5 times slower."""
    seeds = range(2 if quick else 5)
    print(
        f"Seconds until rank 0 has a training loss of 0.5, one of four slower, {len(seeds)} seeds"
    )
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in seeds:
        for method in METHODS:
            took = collect(partial(reach_loss, method, seed), 4)[0][0]
            found[method].append(float("inf") if took is None else took)
    for method in METHODS:
        print(f"  {method:12} {median(found[method])}", flush=True)


def train(
    method: str, seed: int, by_label: bool, steps: int, rank: int, world: int, tell: Tell
) -> None:
    trainer = Trainer(method, seed, rank, world, by_label)
    for k in range(steps):
        trainer.step()
        time.sleep(0.002)  # so that workers which share a core take turns
        if k % 20 == 19:  # none ends long before the others, who would draw the mean their way
            dist.barrier()
    realised = float("nan") if trainer.gossip is None else trainer.gossip.stats.realised
    before = trainer.accuracy()
    if trainer.gossip is not None:
        trainer.gossip.finish()
    tell((trainer.accuracy(), before, realised))


def accuracy(quick: bool) -> None:
    """After equal samples."""
    seeds, steps = range(2 if quick else 5), 200 if quick else 400
    print(f"Accuracy after {steps} steps of 16 samples on each of four, {len(seeds)} seeds")
    for by_label in (False, True):
        for method in METHODS:
            ends, own, realised = [], [], []
            for seed in seeds:
                told = collect(partial(train, method, seed, by_label, steps), 4)
                ends.append(told[0][0])
                own.append(statistics.mean(t[1] for t in told))
                realised.append(statistics.mean(t[2] for t in told))
            shards = "by label" if by_label else "alike"
            more = "" if method == "DDP" else f"; before the mean was taken {median(own)}"
            more += "" if method == "DDP" else f"; realised {median(realised)}"
            print(f"  shards {shards:9} {method:12} {median(ends)}{more}", flush=True)


def take_turns(rounds: int, rank: int, world: int, tell: Tell) -> None:
    rates: dict[str, list[float]] = {"alone": [], "accelerated": []}
    for _ in range(rounds):
        for method, found in rates.items():
            trainer = Trainer(method, 0, rank, world)
            for _ in range(20):
                trainer.step()
            dist.barrier()
            began = time.perf_counter()
            for _ in range(300):
                trainer.step()
            found.append(300.0 / (time.perf_counter() - began))
            if trainer.gossip is not None:
                trainer.gossip.finish()
            dist.barrier()
    tell((max(rates["alone"]), max(rates["accelerated"])))


def overhead(quick: bool) -> None:
    """Steps a second."""
    told = collect(partial(take_turns, 2 if quick else 5), 4)
    without, with_gossip = (statistics.median(t[i] for t in told) for i in (0, 1))
    print(
        f"Steps a second of each of four, best of the rounds: {without:.0f} without gossip, "
        f"{with_gossip:.0f} with it ({with_gossip / without:.2f})"
    )


# Faults


def drift(seconds: float, rank: int, world: int, tell: Tell) -> None:
    """Take random steps in float64 for a while; tell what the account must explain."""
    torch.manual_seed(0)
    model = Vector(1000).double()
    gossip = AsyncGossip(model, "cycle", rng=rank, ledger=True)
    began, moved = model.x.detach().clone(), torch.zeros(1000, dtype=torch.float64)
    tell("began")
    random = torch.Generator().manual_seed(rank)
    limit, ticks = time.monotonic() + seconds, []
    while time.monotonic() < limit:
        before = model.x.detach().clone()
        with torch.no_grad():
            model.x += 0.01 * torch.randn(1000, generator=random, dtype=torch.float64)
        moved += model.x.detach() - before
        gossip.step()
        ticks.append(time.monotonic())
        time.sleep(0.001)
    stats = gossip.stats
    gossip.finish()
    account = torch.as_tensor(gossip.account[None])
    tell((began, moved, model.x.detach(), account, stats.dead, np.array(ticks)))


def kills(quick: bool) -> None:
    """SIGKILL, and the mean of the survivors."""
    trials, errors, shares = 3 if quick else 10, [], []
    random, job = np.random.default_rng(0), partial(drift, 1.5)
    for _ in range(trials):
        victim = int(random.integers(4))
        with tempfile.TemporaryDirectory() as folder, start(job, 4, folder) as workers:
            for rank in range(4):
                workers.hear(rank)
            time.sleep(0.3 + 0.5 * random.random())
            workers.processes[victim].kill()
            told = [workers.hear(rank) for rank in range(4) if rank != victim]
        assert all(t[4] == (victim,) for t in told)
        wanted = sum(t[0] + t[1] + t[3] for t in told) / 3.0
        errors.append(max(float(np.abs(t[2] - wanted).max()) for t in told))
        shares.append(float(np.abs(sum(t[3] for t in told) / 3.0).max()))
    print(
        f"{trials} SIGKILLs: the mean of the survivors is where they began, moved by their steps "
        f"and by what the dead had given them ({median(shares)}), up to {max(errors):.1e}"
    )


def stop(quick: bool) -> None:
    """SIGSTOP for 5 s."""
    length = 2.0 if quick else 5.0
    job = partial(drift, length + 4.0)
    with tempfile.TemporaryDirectory() as folder, start(job, 4, folder) as workers:
        for rank in range(4):
            workers.hear(rank)
        time.sleep(2.0)
        began = time.monotonic()
        os.kill(workers.processes[1].pid or 0, signal.SIGSTOP)
        try:
            time.sleep(length)
        finally:
            os.kill(workers.processes[1].pid or 0, signal.SIGCONT)
        ended = time.monotonic()
        told = [workers.hear(rank) for rank in range(4)]
    for rank in (0, 2, 3):
        ticks = told[rank][5]
        during = np.sum((ticks > began) & (ticks < ended)) / (ended - began)
        before = np.sum((ticks > began - 1.5) & (ticks < began)) / 1.5
        longest = np.diff(ticks[(ticks > began) & (ticks < ended)]).max()
        print(
            f"Rank {rank}: {before:.0f} steps a second before, {during:.0f} while rank 1 was "
            f"stopped for {length:g} s; the longest step then {1e3 * longest:.0f} ms"
        )
    assert all(t[4] == () for t in told)
    wanted = sum(t[0] + t[1] for t in told) / 4.0
    print(f"All four came to the mean, up to {max(np.abs(t[2] - wanted).max() for t in told):.1e}")


PARTS: dict[str, Callable[[bool], None]] = {
    "speed": speed,
    "consensus": consensus,
    "straggler": straggler,
    "accuracy": accuracy,
    "overhead": overhead,
    "kills": kills,
    "stop": stop,
}


if __name__ == "__main__":
    run_parts(__doc__, PARTS, "fewer seeds and shorter runs")
