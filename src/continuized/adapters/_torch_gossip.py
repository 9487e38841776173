"""PyTorch: asynchronous decentralised training of one's own model, by A²CiD² or plain gossip.

The parameters are the program's: nothing but `step`, which the program calls, writes them.
Exchanges act on a copy, the shadow, in a thread (`network.learning`).
"""

from __future__ import annotations

import errno
import weakref
from typing import Any

import numpy as np
import torch

from continuized.adapters._torch_rendezvous import Meeting, broadcast
from continuized.adapters.torch import check_parameter
from continuized.network.graphs.families import give_size
from continuized.network.graphs.graph import Graph
from continuized.network.learning.background import BackgroundNode
from continuized.network.learning.learning_node import LearningNode
from continuized.network.learning.links import listen, make_codec
from continuized.network.learning.membership import Membership
from continuized.network.learning.model import LearningModel
from continuized.network.learning.stats import GossipStats, read_stats
from continuized.network.optimisation.a2cid2 import A2CiD2
from continuized.process.random_streams import Seed, child, seed_sequence
from continuized.support import validation as check
from continuized.support.progress import warn_caller

Tensor = torch.Tensor
VERSION = 1  # of the state
COMPILED = "_orig_mod."  # what torch.compile puts into the names of parameters


class AsyncGossip:
    """Trains one model on many workers that never wait for each other.

    Every worker takes its own steps with its own optimiser, and exchanges parameters with its
    neighbours in a graph, pair by pair and at random times, in a thread.  The exchanges are those
    of A²CiD² (Nabli et al. 2023), or of plain gossip: the mean over the workers of (x + x~) / 2 is
    moved by their optimisers alone.  A worker that dies is dropped; a slow one delays nobody.

    Make one on every rank of a process group, call `step` after each step of the optimiser, and
    `finish` at the end.  All ranks start from the parameters and buffers of rank 0.

    Parameters
    ----------
    model : torch.nn.Module
        Of real parameters, of any shapes and on any device; those of lower precision than float32
        are exchanged in float32.  Frozen ones are not exchanged.  Not one that is wrapped to
        average gradients, or whose parameters are sharded.
    graph : str, Graph or pairs
        A family by its name, "cycle", "path", "complete", "star", "grid", "regular:3", "erdos:0.5",
        "geometric:0.6" or "smallworld:4:0.1", whose size is that of the world; or all that
        `network.Graph.of` takes, with a node for each rank.
    communications : float
        Exchanges for each gradient, over the whole network; 1.0 lets every worker take part in two
        for each of its steps, on average.
    accelerated : bool
        False: plain gossip.
    rng : int, optional
        Of the times of exchanges.  A run cannot be repeated by it: the order of events is the
        machines'.
    buffers : bool
        Whether floating-point buffers, such as running means, are averaged too; plainly, so that
        running variances stay positive.
    host, port : str, int
        Where this worker listens for its neighbours: an address of its machine that theirs reach,
        and a port, by default a free one.
    timeout : float
        Seconds after which a neighbour that does not answer is no longer asked, until it is heard
        of.  It must be longer than the model takes to cross a link.
    wait : float
        Seconds for all ranks to come.
    ledger : bool
        Keep account of what exchanges brought from each neighbour, the dead among them (`account`);
        it takes as much memory for each neighbour as two models.

    Raises
    ------
    RuntimeError
        Without a process group.
    TypeError, ValueError
        Where arguments make no sense, or differ between ranks.
    TimeoutError
        Where ranks do not come; OSError where the port is in use.

    >>> import torch, torch.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.Linear(3, 1)
    >>> gossip = AsyncGossip(model)  # alone: nothing is exchanged
    >>> model(torch.ones(3)).backward()
    >>> torch.optim.SGD(model.parameters(), lr=0.1).step()
    >>> gossip.step()
    >>> gossip.finish(), gossip.stats.steps
    (True, 1)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        model: Any,
        graph: Any = "cycle",
        communications: float = 1.0,
        accelerated: bool = True,
        rng: Seed = None,
        *,
        buffers: bool = False,
        host: str = "127.0.0.1",
        port: int | None = None,
        timeout: float = 10.0,
        wait: float = 120.0,
        ledger: bool = False,
    ) -> None:
        check.flag(accelerated, "accelerated")
        method = A2CiD2(communications=communications, accelerated=accelerated)
        timeout = check.real(timeout, "timeout", above=0.0)
        wait = check.real(wait, "wait", above=0.0)
        self._tensors = tensors = Tensors(model, check.flag(buffers, "buffers"))
        self._ledger, root = check.flag(ledger, "ledger"), seed_sequence(rng)
        meeting = Meeting(wait)
        membership = Membership(make_graph(graph, meeting.world), meeting.rank, method)
        listening = open_port(host, port)
        try:
            own_port = listening.getsockname()[1]
            description = [*describe(membership.graph, method), *tensors.describe()]
            key, addresses = meeting.exchange(host, own_port, description)
            tensors.start()
            x = tensors.shadow.numpy()
            codec = make_codec(key, x.size - 1, x.dtype)
            count = tensors.parameter_count if accelerated else 0
            learning = LearningModel(x, membership.constants(), count)
            random = np.random.default_rng(child(root, meeting.rank))
            node = LearningNode(membership, learning, random, timeout, self._ledger)
        except BaseException:
            listening.close()
            raise
        self._background = BackgroundNode(node, membership, codec, listening, addresses)
        self._background.start(wait)
        self._close = weakref.finalize(self, self._background.close)
        self._first_step, self._finished = 0, False

    def step(self) -> None:
        """Hand over what was done to the parameters since the last call, and take the exchanges of
        the meantime.  Call it after each step of the optimiser, outside of backward.

        Parameters that are not finite are left as they are: until they are finite again this worker
        exchanges nothing, and `stats.nonfinite` counts.  Warns of ranks that died.
        """
        self._check_that_it_runs()
        self._tensors.check_as_before()
        new = self._tensors.gather()
        if self._background.take_step(new, self._tensors.old):
            self._tensors.scatter()
        self._tell_news()

    def finish(self, average: bool = True, seconds: float = 1800.0) -> bool:
        """Finish the exchanges under way, and end.

        With `average`, this worker goes on answering until all that are in its reach have finished
        too; then all get the mean of their (x + x~) / 2.  Those that have not finished after so
        many seconds are left behind.  Without, it tells the others that it leaves, and does not
        wait.

        Returns whether the mean was taken; a warning says why not.
        """
        if self._finished:
            return self._background.final_mean.taken
        self._check_that_it_runs()
        check.flag(average, "average")
        seconds = check.real(seconds, "seconds", minimum=0.0)
        new = self._tensors.gather()
        finite = self._background.take_step(new, self._tensors.old, counts=False)
        self._background.finish(average, seconds)
        self._finished = True
        self._close()
        if finite or self._background.final_mean.taken:
            self._tensors.old[:] = self._background.node.model.x[:-1]
            self._tensors.scatter()
        self._tell_news()
        if average and not self._background.final_mean.taken:
            why = self._background.final_mean.why_not or str(self._background.failure)
            warn_caller(f"the mean was not taken: {why}", RuntimeWarning)
        return self._background.final_mean.taken

    def pause(self) -> None:
        """Finish the exchange under way, and exchange nothing until the next `step`.

        Between two barriers it makes a moment in which the states of all ranks can be saved
        without a transfer that one of them has and the other has not.
        """
        self._check_that_it_runs()
        self._background.pause()

    @property
    def stats(self) -> GossipStats:
        """What this worker can tell of its exchanges."""
        return read_stats(self._background, self._first_step)

    @property
    def account(self) -> dict[int | None, np.ndarray]:
        """With `ledger`: by rank, how much of (x + x~) / 2 exchanges brought, less what they took.

        None stands for all ranks that are gone.
        """
        if not self._ledger:
            raise RuntimeError("no account was kept: make AsyncGossip with ledger=True")
        with self._background.lock:
            node = self._background.node
            found: dict[int | None, Any] = {peer: 0.5 * a for peer, a in node.account.items()}
            return {**found, None: 0.5 * node.of_dead + np.zeros(self._tensors.old.size)}

    def state_dict(self) -> dict[str, Any]:
        """The state of this worker: x and x~ - x, as they are now, and the count of steps.

        Each rank saves its own.  The mean over ranks is that of the run where nothing was exchanged
        between the first that saved and the last; see `pause`.
        """
        with self._background.lock:
            learning = self._background.node.model
            return {
                "version": VERSION,
                "x": torch.from_numpy(learning.x[:-1].copy()),
                "difference": torch.from_numpy(learning.D.copy()),
                "steps": self._background.node.clock.steps,
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`, before the first `step`; the parameters become its x."""
        if self._background.node.clock.steps != self._first_step or self._finished:
            raise RuntimeError("a state is loaded before the first step: make a new AsyncGossip")
        missing = [name for name in self.state_dict() if name not in state]
        if missing or state["version"] != VERSION:
            what = f"it has no {missing[0]!r}" if missing else f"version {state['version']!r}"
            raise ValueError(
                f"the state is not one of AsyncGossip: {what}; give what state_dict() returned"
            )
        steps = check.whole(state["steps"], "steps", minimum=0)
        with self._background.lock:
            node = self._background.node
            for name, held in (("x", node.model.x[:-1]), ("difference", node.model.D)):
                given = state[name]
                if not isinstance(given, Tensor) or tuple(given.shape) != held.shape:
                    raise ValueError(
                        f"{name!r} of the state must be a tensor of {held.size} numbers, as of the "
                        f"same model and options, got {check.short_repr(given)}"
                    )
            node.model.x[:-1] = state["x"].cpu().numpy()
            node.model.D[:] = state["difference"].cpu().numpy()
            node.resume(steps)
            self._first_step = node.clock.steps
            self._tensors.old[:] = node.model.x[:-1]
        self._tensors.scatter()

    def _check_that_it_runs(self) -> None:
        if self._finished:
            raise RuntimeError("this AsyncGossip has finished: make a new one")
        in_backward = getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1
        if in_backward:
            raise RuntimeError(
                "step() was called within backward, which still reads the parameters: call it "
                "after the optimiser's step"
            )

    def _tell_news(self) -> None:
        for notice in self._background.take_notices():
            warn_caller(f"{notice}; the others go on", RuntimeWarning)


class Tensors:
    """The parameters of a model, and its buffers where asked, as one vector on the CPU.

    shadow: x of this worker, on which exchanges act, and one number more (see `LearningModel`);
    old: what the parameters last got; both in float32, or in float64 if some parameter is.
    """

    def __init__(self, model: Any, buffers: bool) -> None:
        check.instance(model, "model", torch.nn.Module, "a torch.nn.Module")
        check_wrapper(model)
        named = {name.replace(COMPILED, ""): p for name, p in model.named_parameters()}
        for name, p in named.items():
            check_tensor(name, p)
        self._frozen = [(name, p) for name, p in named.items() if not p.requires_grad]
        self.named = {name: p for name, p in named.items() if p.requires_grad}
        if not self.named:
            raise ValueError("model has no parameter that requires a gradient: nothing to train")
        self.parameter_count = sum(p.numel() for p in self.named.values())
        floats = {
            name.replace(COMPILED, ""): b
            for name, b in model.named_buffers()
            if b.is_floating_point()
        }
        if buffers:
            for name, b in floats.items():
                check_tensor(name, b)
            self.named |= floats
        self.tensors: list[Tensor] = list(self.named.values())
        # What is not exchanged is given to all ranks at the start as well.
        self._others = [p for _, p in self._frozen]
        self._others += [b for b in model.buffers() if not (buffers and b.is_floating_point())]
        doubles = any(t.dtype == torch.float64 for t in self.tensors)
        self.dtype = torch.float64 if doubles else torch.float32
        self._exact = all(t.dtype == self.dtype for t in self.tensors)

    def describe(self) -> list[str]:
        """Say what must be the same on all ranks."""
        return [
            f"{name} of shape {tuple(t.shape)} and type {str(t.dtype).removeprefix('torch.')}"
            for name, t in self.named.items()
        ]

    @torch.no_grad()
    def start(self) -> None:
        """Make the vectors, and give all ranks what rank 0 has."""
        count = sum(t.numel() for t in self.tensors)
        pinned = any(t.device.type == "cuda" for t in self.tensors)  # quicker to copy
        self.shadow, self._new, self._old = (
            torch.zeros(size, dtype=self.dtype, pin_memory=pinned)
            for size in (count + 1, count, count)
        )
        self.old, self._views = self._old.numpy(), split(self._old, self.tensors)
        self._new_views = split(self._new, self.tensors)
        device = self.tensors[0].device
        self.gather()
        broadcast(self._new, device)
        if not torch.isfinite(self._new).all():
            raise ValueError("the parameters of rank 0 are not all finite: nothing can be trained")
        for other in self._others:
            received = other.cpu().clone()
            broadcast(received, device)
            other.copy_(received)
        self._old.copy_(self._new)
        self.scatter()
        self.shadow[:-1] = self._old

    @torch.no_grad()
    def gather(self) -> Any:
        """Read the parameters."""
        torch._foreach_copy_(self._new_views, self.tensors)
        return self._new.numpy()

    @torch.no_grad()
    def scatter(self) -> None:
        """Give the parameters what `old` holds; of lower precision, keep what they could take."""
        torch._foreach_copy_(self.tensors, self._views)
        if not self._exact:
            torch._foreach_copy_(self._views, self.tensors)

    def check_as_before(self) -> None:
        """Refuse a parameter that was frozen at the start and is no longer."""
        for name, p in self._frozen:
            if p.requires_grad:
                raise RuntimeError(
                    f"the parameter {name} was frozen when AsyncGossip was made, and is not "
                    "exchanged: call finish() and make a new AsyncGossip after unfreezing"
                )


def split(vector: Tensor, like: list[Tensor]) -> list[Tensor]:
    """Return views of a vector with the shapes of some tensors, one after the other."""
    parts = torch.split(vector, [t.numel() for t in like])
    return [part.view(t.shape) for part, t in zip(parts, like, strict=True)]


def check_wrapper(model: Any) -> None:
    """Refuse a model that averages gradients itself."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel | torch.nn.DataParallel):
        raise TypeError(
            f"model is wrapped in {type(model).__name__}, which averages gradients itself: give "
            "model.module"
        )


def check_tensor(name: str, tensor: Tensor) -> None:
    """Refuse what has no numbers here, or none that can be averaged."""
    if torch.nn.parameter.is_lazy(tensor) or tensor.is_meta:
        raise ValueError(f"{name} has no values yet: run the model once before AsyncGossip")
    if hasattr(tensor, "placements") or tensor.layout != torch.strided:
        raise TypeError(f"{name} is sharded or sparse: give a model whose parameters are whole")
    check_parameter(tensor)


def make_graph(graph: Any, world: int) -> Graph:
    """Make the graph of so many ranks; with a family's name, one rank may be alone."""
    spec = give_size(graph, world) if isinstance(graph, str) else graph
    if world == 1 and isinstance(graph, str) and spec != graph:
        return Graph(1, np.zeros((0, 2), np.int64), np.zeros(0), graph)
    made = Graph.of(spec)
    if made.nodes != world:
        raise ValueError(
            f"the graph {made.name or 'given'} has {made.nodes} nodes, and the world {world} "
            'ranks: give one of this size, or the name of a family alone, such as "cycle"'
        )
    return made


def describe(graph: Graph, method: A2CiD2) -> list[str]:
    """Say what must be the same on all ranks, beside the model."""
    edges = ", ".join(
        f"{i}-{j}: {p!r}" for (i, j), p in zip(graph.edges.tolist(), graph.P.tolist(), strict=True)
    )
    return [
        f"communications={method.communications!r}",
        f"accelerated={method.accelerated}",
        f"the graph {graph.name} with the edges {edges}",
    ]


def open_port(host: str, port: int | None) -> Any:
    """Listen on a port of this machine, 0 for a free one."""
    if not isinstance(host, str):
        raise check.refusal(TypeError, "host", "the address of this machine", host)
    chosen = 0
    if port is not None:
        chosen = check.whole(port, "port", minimum=1, maximum=65535, other="None")
    try:
        return listen(host, chosen)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OSError(
                error.errno,
                f"port {chosen} of {host} is in use: give another port=, a different one to each "
                "rank of a machine, or none to take a free one",
            ) from None
        raise OSError(
            error.errno,
            f"cannot listen at {host}: {error.strerror or error}; give host=, an "
            "address of this machine",
        ) from None
