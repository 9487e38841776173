"""Cases of `network`: graphs, gossip, decentralised optimisation, with faults and without."""

from __future__ import annotations

import runpy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Cases, seeded, table
from solver_cases import run_resumed

import continuized as cz
from continuized import network
from continuized.network import DADAO, A2CiD2, Dual, Faults, Gossip

GRAPH = "grid:3x4"
GOSSIPS = {
    "accelerated": Gossip(),
    "damping-1": Gossip(damping=1.0),
    "plain": Gossip(accelerated=False),
}
FAULTS = {
    "at-once": None,
    "none": Faults(),
    "delay": Faults(delay=0.3),
    "delay-constant": Faults(delay=0.3, law="constant"),
    "loss": Faults(loss=0.2),
    "duplication": Faults(duplication=0.2),
    "skew": Faults(skew=0.3),
    "skew-given": Faults(skew=np.linspace(-0.2, 0.4, 12)),
    "timeout": Faults(delay=0.3, loss=0.1, timeout=2.0),
    "deaths": Faults(deaths=((20.0, 3), (50.0, 7))),
    "joins": Faults(joins=((15.0, 2),)),
    "all": Faults(
        delay=0.2,
        loss=0.1,
        duplication=0.1,
        skew=0.2,
        deaths=((20.0, 3), (50.0, 7), (90.0, 3)),
        joins=((35.0, 3), (15.0, 2)),
    ),
}
METHODS = {
    "dual": Dual(),
    "plain-dual": Dual(accelerated=False),
    "dadao": DADAO(),
    "a2cid2": A2CiD2(),
    "a2cid2-batch": A2CiD2(step=0.05, batch=3, communications=2.0),
    "plain-sgd": A2CiD2(accelerated=False),
}


@cache
def parts_of(kind: str) -> Any:
    """The rows of a regression, dealt out to 12 nodes."""
    X, y = table(96, 4)
    if kind == "ridge":
        return network.split(cz.problems.LeastSquares(X, y, 0.1), 12)
    return network.split(cz.problems.LogisticRegression(X, np.sign(y), 0.1), 12)


def run_gossip(method: Any, faults: Any, **options: Any) -> Any:
    """A simulation with its log, and its replay."""
    values = np.random.default_rng(4).standard_normal((12, 2))
    given = {"tol": 0.0, "events": 600, "log": True, "snapshots": [5.0, 40.0]} | options
    r = seeded(network.simulate, GRAPH, values, method=method, faults=faults, seed=11, **given)
    return [r, None if r.log is None else network.replay(GRAPH, values, method, r.log)]


def gossip() -> Cases:
    """Averages."""
    for what, faults in FAULTS.items():
        for name, method in GOSSIPS.items():
            yield f"gossip/{name}/{what}", partial(run_gossip, method, faults)
    for what in ("at-once", "all"):
        for name, given in {
            "tol": {"tol": 1e-5, "events": None},
            "until": {"until": 80.0, "events": None},
            "not-logged": {"log": False, "record": 20},
        }.items():
            yield f"gossip/{name}/{what}", partial(run_gossip, "accelerated", FAULTS[what], **given)
    values = np.random.default_rng(6).standard_normal(400)
    for what in ("at-once", "loss"):
        how = {"faults": FAULTS[what], "events": 20_000, "tol": 0.0}
        case = partial(seeded, network.simulate, "regular:4x400", values, **how)
        yield f"gossip/400-nodes/{what}", case


def run_learning(kind: str, method: Any, faults: Any, **options: Any) -> Any:
    """Decentralised optimisation."""
    given = {"tol": 0.0, "events": 1500, "record": 50} | options
    how = {"method": method, "faults": faults} | given
    return seeded(network.minimize, GRAPH, parts_of(kind), seed=5, **how)


def faster(faults: Any, factor: float = 0.02) -> Any:
    """The same faults in shorter times: nodes that take gradients exchange more often."""
    if faults is None:
        return None
    timeout = None if faults.timeout is None else factor * faults.timeout
    deaths, joins = (
        tuple((5.0 * factor * t, i) for t, i in pairs) for pairs in (faults.deaths, faults.joins)
    )
    times = {"delay": factor * faults.delay, "deaths": deaths, "joins": joins}
    return replace(faults, timeout=timeout, **times)


def learning() -> Cases:
    """Regressions whose rows are dealt out."""
    for kind in ("ridge", "logistic"):
        for name, method in METHODS.items():
            for what, given in FAULTS.items():
                faults = given if "dual" in name else faster(given)
                case = partial(run_learning, kind, method, faults)
                yield f"learning/{name}/{kind}/{what}", case
        case = partial(run_learning, kind, "dual", None, tol=1e-4, events=None)
        yield f"learning/tol/{kind}", case
    speeds = np.linspace(0.5, 2.0, 12)
    for name in ("dadao", "a2cid2"):
        yield f"learning/speeds/{name}", partial(run_learning, "ridge", name, None, speeds=speeds)


def checkpoints() -> Cases:
    """Runs that are interrupted and resumed."""
    for what in ("at-once", "all"):
        how: dict[str, Any] = {"limit": "events", "most": (300, 900), "tol": 0.0}
        gossip = partial(run_resumed, network.simulate, GRAPH, np.arange(12.0), log=True, **how)
        yield f"checkpoint/gossip/{what}", partial(gossip, faults=FAULTS[what])
        for name in ("dual", "dadao", "a2cid2"):
            faults = FAULTS[what] if name == "dual" else faster(FAULTS[what])
            learning = partial(run_resumed, network.minimize, GRAPH, parts_of("ridge"), **how)
            yield f"checkpoint/{name}/{what}", partial(learning, method=name, faults=faults)


def run_graph(spec: str) -> Any:
    """A graph and its constants."""
    random = spec.startswith(("regular", "erdos", "geometric", "smallworld"))
    g = seeded(network.Graph.of, spec, seed=3) if random else network.Graph.of(spec)
    constants = [g.mu_g_range, g.R_range, g.chi_1, g.chi_2, g.theta, g.speedup]
    found = [g.edges, g.P, g.positions, constants]
    if g.nodes > 30:
        return found
    best = g.optimise_rates(tol=0.01, maxiter=20)
    limits = [network.delay_limit(g), network.share_limit(g), network.exchange_share(g, 0.5)]
    return [*found, g.resistances(), best.graph.P, best.theta, best.bound, limits]


def find_study(old_name: str, example: str, name: str) -> Any:
    """Find a study that was a function of the package, and is an example now."""
    if hasattr(network, old_name):
        return getattr(network, old_name)
    path = Path(__file__).parents[2] / "examples" / f"{example}.py"
    return runpy.run_path(str(path))[name]


def graphs() -> Cases:
    """Graphs, and what is known of delays and of slow nodes."""
    small = "path:10 cycle:9 grid:4x5 complete:6 star:7 regular:3x20 erdos:20:0.3"
    for spec in f"{small} geometric:25:0.4 smallworld:20:4:0.1 grid:40x40".split():
        yield f"graph/{spec}", partial(run_graph, spec)
    triangle = network.Graph.of([(0, 1), (1, 2), (0, 2)], [3.0, 1.0, 2.0])
    yield "graph/rates", lambda: [triangle.P, triangle.resistances()]
    study_workers = find_study("study_workers", "stale_gradients", "study_workers")
    yield "network/workers", partial(study_workers, 100.0, workers=[1, 2])
    study_delays = find_study("delay_study", "delay_study", "study_delays")
    yield "network/delay-study", partial(seeded, study_delays, "path:6", [0.5, 2.0], runs=2)
    work = np.linspace(0.5, 2.0, 12)
    yield "network/race", partial(seeded, network.race, GRAPH, parts_of("ridge"), work)
    stale = partial(network.too_stale, "path:10", "accelerated")
    yield "network/too-stale", lambda: [bool(stale(age)) for age in (0.1, 9.0, 90.0)]


CASES = (gossip, learning, checkpoints, graphs)
