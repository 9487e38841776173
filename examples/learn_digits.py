"""Scikit-learn's digits learnt by several workers that never wait for each other.

    torchrun --nproc-per-node 4 examples/learn_digits.py [--steps N] [--folder FOLDER]

Each worker has a part of the rows and its own optimiser; `AsyncGossip` exchanges parameters over a
cycle in the background.  With a folder, a worker that is told to end (SIGTERM) leaves the others,
writes its state there, and takes it up again when it is started again.
"""

import argparse
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from continuized.adapters.torch import AsyncGossip

parser = argparse.ArgumentParser(description="Learn digits.")
parser.add_argument("--steps", type=int, default=500)
parser.add_argument("--folder", type=Path)
options = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
pixels, digits = load_digits(return_X_y=True)
X, y = torch.tensor(pixels / 16.0, dtype=torch.float32), torch.tensor(digits)
X_own, y_own = X[:1500][rank::world], y[:1500][rank::world]

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
gossip = AsyncGossip(model, graph="cycle" if world > 2 else "path", communications=1.0, rng=0)

file = options.folder / f"rank{rank}.pt" if options.folder else None
if file and file.exists():
    saved = torch.load(file, weights_only=True)
    gossip.load_state_dict(saved["gossip"])  # the parameters are in it
    optimizer.load_state_dict(saved["optimizer"])

told_to_end = []
signal.signal(signal.SIGTERM, lambda *_: told_to_end.append(True))
generator = torch.Generator().manual_seed(rank)
print(f"rank {rank} of {world}: {len(y_own)} rows", flush=True)
while gossip.stats.steps < options.steps and not told_to_end:
    rows = torch.randint(len(y_own), (16,), generator=generator)
    cross_entropy(model(X_own[rows]), y_own[rows]).backward()
    optimizer.step()
    optimizer.zero_grad()
    gossip.step()

stats = gossip.stats
gossip.finish(average=not told_to_end)
if told_to_end and file:
    part = file.with_suffix(".part")
    torch.save({"gossip": gossip.state_dict(), "optimizer": optimizer.state_dict()}, part)
    os.replace(part, file)
accuracy = (model(X[1500:]).argmax(1) == y[1500:]).double().mean().item()
print(
    f"rank {rank}: {stats.steps} steps, {stats.realised:.2f} exchanges for each gradient, "
    f"accuracy {accuracy:.3f}{', told to end' if told_to_end else ''}",
    flush=True,
)
dist.destroy_process_group()
