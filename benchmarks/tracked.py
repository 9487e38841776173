"""Our own numbers of the README's table, for asv, which follows them from commit to commit.

    asv run --config benchmarks/asv.conf.json HEAD^!

The work is that of `python -m benchmarks --quick`, without the peers.  Compiling is done before
anything is timed.  asv finds the names here that begin with time and track.
"""

from __future__ import annotations

from typing import Any

import continuized as cz
from benchmarks import data, ensemble, gossip, gradient, logistic, loop
from benchmarks.race import Race
from benchmarks.task import logistic as logistic_task
from benchmarks.task import quadratic
from continuized import network


class Step:
    """So many gradient steps: 20,000 on the quadratic, 200 on the regression."""

    param_names = ("function",)
    params = (("quadratic, d = 100", "logistic regression, dense 2,000 x 100"),)

    def setup(self, function: str) -> None:
        size = loop.QUICK
        if function.startswith("quadratic"):
            self.task = quadratic(size.dim, size.gradients)
        else:
            self.task = logistic_task(size.rows, size.dim, size.gradients // 100)
        self.time_step(function)

    def time_step(self, function: str) -> None:
        loop.ours(self.task, self.task.problem)


class Ensemble:
    """2,000 runs of 500 steps, d = 100."""

    param_names = ("threads",)
    params = (("1", "all"),)

    def setup(self, count: str) -> None:
        given = 1 if count == "1" else None
        self.work = ensemble.ours(cz.problems.paper_convex(), ensemble.QUICK, given)
        self.work()

    def time_ensemble(self, count: str) -> None:
        self.work()


class Gradient:
    """A loss and its gradient: dense 20,000 x 200, sparse 20,000 x 20,000."""

    param_names = ("data",)
    params = (("dense", "sparse"),)

    def setup(self, form: str) -> None:
        size = gradient.QUICK
        made = (
            data.dense(*size.dense[-1], rotated=False)
            if form == "dense"
            else data.sparse(*size.sparse)
        )
        self.work = gradient.ours(gradient.make_point(*made), value=True)
        self.work()

    def time_loss_and_gradient(self, form: str) -> None:
        self.work()


class Logistic:
    """An l2-logistic regression to 1e-6: dense, rotated 5,000 x 100, sparse 5,000 x 5,000."""

    param_names = ("data", "l2 n")
    params = (("dense", "sparse"), (1.0, 0.01))

    def setup(self, form: str, factor: float) -> None:
        size = logistic.QUICK
        X, y = (
            data.dense(*size.dense, rotated=True) if form == "dense" else data.sparse(*size.sparse)
        )
        p = cz.problems.LogisticRegression(X, y, l2=factor / len(y))
        self.work = Race(p, size.most, logistic.ours, {}).prepare("continuized", logistic.ours)

    def time_to_precision(self, form: str, factor: float) -> None:
        self.work()


class Exchange:
    """200,000 exchanges of accelerated gossip, grid:20x20."""

    def setup(self) -> None:
        self.graph: Any = network.Graph.of(gossip.QUICK.graph)
        self.values = gossip.start(self.graph)
        self.time_exchanges()

    def time_exchanges(self) -> None:
        gossip.ours(self.graph, self.values, gossip.QUICK.exchanges)


class Exchanges:
    """How many exchanges accelerated gossip needs for 1e-6."""

    param_names = ("graph",)
    params = (gossip.QUICK.graphs,)
    unit = "exchanges"

    def track_exchanges(self, name: str) -> float:
        contest, _ = gossip.counted(name)
        amount = contest.entries[0].amount
        assert amount is not None
        return amount


def timeraw_import() -> str:
    """`import continuized`, in a process of its own."""
    return "import continuized"
