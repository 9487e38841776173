"""Workers of a process group as processes of this machine, forked from a server that has PyTorch.

Importing PyTorch takes seconds: the server imports it once, and a worker starts in milliseconds.  A
worker ends itself after a while, whatever happens to the process that started it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from continuized.adapters.torch import AsyncGossip  # noqa: F401  (so that the server has it)

LONGEST = 120  # seconds


class World:
    """Processes that run job(rank, world, tell); `tell` sends something to this process.

    The folder is for the file by which they find each other; `modules` are imported beforehand;
    after `longest` seconds a worker ends itself.
    """

    def __init__(
        self,
        job: Callable[..., None],
        world: int,
        folder: Path,
        modules: Sequence[str] = (),
        longest: int = LONGEST,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, *modules])
        self.processes, self.pipes = [], []
        self._longest = longest
        for rank in range(world):
            ours, theirs = context.Pipe(duplex=False)
            args = (job, rank, world, str(folder / "store"), theirs, longest)
            process = context.Process(target=run, args=args, daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(ours)

    def hear(self, rank: int) -> Any:
        """The next thing that a rank tells; EOFError where it ended without a word."""
        assert self.pipes[rank].poll(self._longest), f"rank {rank} says nothing"
        return self.pipes[rank].recv()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *error: Any) -> None:
        for process in self.processes:
            if process.is_alive() and error[0] is not None:
                process.kill()
            process.join(self._longest)
            assert process.exitcode is not None, "a worker is left over"


def run(
    job: Callable[..., None], rank: int, world: int, store: str, pipe: Connection, longest: int
) -> None:
    signal.alarm(longest)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        job(rank, world, lambda told: pipe.send(as_arrays(told)))


def as_arrays(told: Any) -> Any:
    """Tensors as arrays: torch would send handles of memory that ends with the worker."""
    if isinstance(told, tuple):
        return tuple(t.numpy() if isinstance(t, torch.Tensor) else t for t in told)
    return told
