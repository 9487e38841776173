"""How the workers of a process group find each other: addresses, a key, and the same model.

All through the group's store, which every launcher of torch.distributed has: nothing is pickled,
and a rank that does not come is named.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
import socket
import time
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from continuized.network.workers.frames import KEY_BYTES

c10d: Any = distributed_c10d  # it does not say which of its names are public
_count = itertools.count()  # of the meetings of this process: all ranks have the same


class Meeting:
    """The place in the store where the ranks of one AsyncGossip meet; `within` in seconds."""

    def __init__(self, within: float) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError(
                "AsyncGossip needs a process group: call torch.distributed.init_process_group "
                "first, in a program started by torchrun, srun or the like"
            )
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self._within = within
        name = f"continuized/gossip/{next(_count)}"
        self._store = c10d.PrefixStore(name, c10d._get_default_store())

    def exchange(
        self, host: str, port: int, description: Sequence[str]
    ) -> tuple[bytes, dict[int, tuple[str, int]]]:
        """Tell the others this worker's address, and learn theirs, and the key of the run.

        `description` says what must be the same on all ranks, line by line: ValueError names the
        first line that is not.
        """
        if self.rank == 0:
            self._store.set("key", secrets.token_bytes(KEY_BYTES).hex())
        facts = {
            "host": host,
            "port": port,
            "machine": socket.gethostname(),
            "fingerprint": hashlib.sha256("\n".join(description).encode()).hexdigest(),
        }
        self._store.set(f"description/{self.rank}", json.dumps(list(description)))
        self._store.set(f"rank/{self.rank}", json.dumps(facts))
        self._wait_for_all()
        found = [json.loads(self._store.get(f"rank/{rank}")) for rank in range(self.world)]
        self._compare([each["fingerprint"] for each in found])
        _check_hosts([(each["host"], each["machine"]) for each in found])
        key = bytes.fromhex(self._store.get("key").decode())
        return key, {rank: (each["host"], each["port"]) for rank, each in enumerate(found)}

    def _wait_for_all(self) -> None:
        keys = [f"rank/{rank}" for rank in range(self.world)]
        limit = time.monotonic() + self._within
        while not self._store.check(keys):
            if time.monotonic() > limit:
                missing = [rank for rank, key in enumerate(keys) if not self._store.check([key])]
                raise TimeoutError(
                    f"the ranks {missing} of {self.world} made no AsyncGossip within "
                    f"{self._within:g} s: every rank must make one, as often as the others"
                )
            time.sleep(0.01)

    def _compare(self, fingerprints: list[str]) -> None:
        for rank, fingerprint in enumerate(fingerprints):
            if fingerprint != fingerprints[0]:
                first, other = (
                    json.loads(self._store.get(f"description/{each}")) for each in (0, rank)
                )
                one, two = next(
                    (one or "nothing", two or "nothing")
                    for one, two in itertools.zip_longest(first, other)
                    if one != two
                )
                raise ValueError(
                    f"the ranks have different models or options: rank 0 has {one}, where rank "
                    f"{rank} has {two}; give all ranks the same"
                )


def _check_hosts(found: list[tuple[str, str]]) -> None:
    """Refuse workers of several machines at an address that only their own machine reaches."""
    machines = sorted({machine for _, machine in found})
    for rank, (host, machine) in enumerate(found):
        if len(machines) > 1 and is_loopback(host):
            raise ValueError(
                f"the ranks run on {len(machines)} machines, and rank {rank} on {machine} listens "
                f"at {host}, which the others cannot reach: give host=, the address of each "
                "machine in their network"
            )


def is_loopback(host: str) -> bool:
    """Tell whether an address is of this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def broadcast(tensor: Any, device: Any) -> None:
    """Give all ranks the tensor of rank 0, which is on the CPU; other backends than gloo and MPI
    need it on a `device` of theirs on the way."""
    backend = str(dist.get_backend())
    moved = tensor if "gloo" in backend or "mpi" in backend else tensor.to(device)
    dist.broadcast(moved, src=0)
    if moved is not tensor:
        tensor.copy_(moved)
