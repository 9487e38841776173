"""Cases of `theory`: exact expectations, bounds, the Lyapunov function and their kin."""

from __future__ import annotations

import importlib
import math
from functools import partial
from typing import Any

import numpy as np
from common import METHODS, Cases, clocks, problems, quadratic, run_known, seeded, solvable, table
from network_cases import GOSSIPS, parts_of

import continuized as cz
from continuized import network, theory

T = np.array([0.5, 4.0, 30.0])


def full_gradients() -> Cases:
    """The methods of the paper."""
    p, x0 = quadratic(3), np.zeros(3)
    for name, make in METHODS.items():
        m = make(p.L, p.mu)
        moments, bound = partial(theory.moments, p, m, x0), partial(theory.log_bound, m, p, x0)
        yield f"moments/{name}/k", partial(moments, k=[0, 1, 7, 15])
        yield f"moments/{name}/k-noise", partial(moments, k=[9], sigma2=0.1)
        if name != "custom":
            yield f"bound/{name}/k", partial(theory.bound, m, p, x0, k=[1, 5, 20])
        if name.startswith(("continuized", "custom")):
            yield f"moments/{name}/t", partial(moments, [0.0, *T])
            yield f"moments/{name}/t-noise", partial(moments, T, sigma2=0.1)
        if name.startswith("continuized"):
            yield f"bound/{name}/t", partial(theory.bound, m, p, x0, t=T)
            yield f"bound/{name}/t-noise", partial(bound, t=T, sigma2=0.2)
            yield f"bound/{name}/k-noise", partial(bound, k=[2, 9], sigma2=0.2)
            yield f"lyapunov/{name}", partial(run_lyapunov, name)
            yield f"along/{name}", partial(run_along, m, p)
    for d in (40, 200):
        p = quadratic(d)
        for mu in (0.0, p.mu):
            m, x0, name = cz.Continuized(p.L, mu), np.zeros(d), f"{d}-{'mu' if mu else 'convex'}"
            yield f"moments/{name}/t", partial(theory.moments, p, m, x0, T)
            yield f"moments/{name}/k", partial(theory.moments, p, m, x0, k=[5])
            yield f"along/{name}", partial(run_along, m, p)


def run_lyapunov(method: str) -> Any:
    """The Lyapunov function along a run."""
    phi = theory.lyapunov(run_known(method, "quadratic-3"), problems()["quadratic-3"])
    return [phi.t, phi.phi, phi.log_phi, phi.at([0.0, 1.5]), phi.log_at(phi.t[3], "left")]


def run_along(m: Any, p: Any) -> Any:
    """The drift of the Lyapunov function, its weights, and events to a precision."""
    x, z = np.random.default_rng(2).standard_normal((2, 3, p.dim))
    to = (m, p, np.zeros(p.dim), 1e-3)
    return [
        theory.drift(m, p, T, x, z),
        theory.drift(m, p, T, x, z, sigma2=0.1),
        theory.supermartingale_gap(m, p, T, x, z),
        [theory.weight(m, T), theory.log_weight(m, T)],
        [theory.events_to(*to), theory.time_to(*to)],
    ]


def marked() -> Cases:
    """Coordinates and rows."""
    p, ridge, clean = quadratic(3), problems()["least-squares"], solvable()
    for plain in (False, True):
        how: dict[str, Any] = {"accelerated": not plain}
        for name, on, m in (
            ("coordinate", p, cz.CoordinateDescent(**how)),
            ("coordinate-uniform", p, cz.CoordinateDescent("uniform", **how)),
            ("coordinate-blocks", p, cz.CoordinateDescent(blocks=2, **how)),
            ("coordinate-ridge", ridge, cz.CoordinateDescent(**how)),
            ("coordinate-ridge-blocks", ridge, cz.CoordinateDescent(blocks=5, **how)),
            ("rows", clean, cz.StochasticLeastSquares(**how)),
            ("rows-batch", clean, cz.StochasticLeastSquares(batch=3, **how)),
            ("kaczmarz", clean, cz.Kaczmarz(**how)),
            ("kaczmarz-batch", clean, cz.Kaczmarz(batch=3, **how)),
            ("dual-coordinate", ridge, cz.DualCoordinate(**how)),
        ):
            short, x0 = f"{name}{'-plain' if plain else ''}", np.zeros(on.dim)
            if name != "dual-coordinate":
                yield f"moments/{short}", partial(theory.moments, on, m, x0, T)
            yield f"bound/{short}/t", partial(theory.bound, m, on, x0, t=T)
            yield f"bound/{short}/k", partial(theory.bound, m, on, x0, k=[1, 9])


def networks() -> Cases:
    """Gossip and decentralised optimisation."""
    values = np.arange(12.0)
    for spec in ("cycle:12", "grid:3x4", "star:12"):
        for name, m in GOSSIPS.items():
            yield f"gossip/{spec}/{name}", partial(both, network.Graph.of(spec), m, values)
            yield f"gossip-rate/{spec}/{name}", partial(theory.gossip_rate, spec, m)
    pair = (network.Graph.of("grid:3x4"), parts_of("ridge"))
    for accelerated in (True, False):
        yield f"dual/{accelerated}", partial(both, pair, network.Dual(accelerated), 0.0)
        m = network.A2CiD2(accelerated=accelerated)
        yield f"a2cid2/{accelerated}", partial(theory.bound, m, pair[0], values, t=T)
    few = cz.problems.LeastSquares(*table(30, 2), 0.1)
    small = (network.Graph.of("path:3"), network.split(few, 3))
    yield "dadao", partial(both, small, network.DADAO(), 0.0)


def both(p: Any, m: Any, x0: Any) -> Any:
    """Exact expectations and bounds."""
    bounds = [theory.bound(m, p, x0, t=T), theory.bound(m, p, x0, k=[3])]
    return [theory.moments(p, m, x0, T), *bounds]


def other() -> Cases:
    """Scaling limits, event times, tuning, and what all of it is made of."""
    p, flat, x0 = quadratic(3), cz.problems.Quadratic([0.0, 0.2, 1.0], np.ones(3)), np.zeros(3)
    yield "scaling-limit/mu", partial(theory.scaling_limit, p, x0, T)
    yield "scaling-limit/convex", partial(theory.scaling_limit, flat, x0, T)
    logistic = problems()["logistic"]
    yield "scaling-limit/logistic", partial(theory.scaling_limit, logistic, np.zeros(12), T)
    distance = (cz.problems.Quadratic([0.2, 1.0]), np.ones(2), 2.0, [1e2, 1e3])
    yield "scaling-distance", partial(seeded, theory.scaling_distance, *distance, runs=20)
    yield "scaling-distance/expected", partial(theory.expected_scaling_distance, *distance)
    for sigma2, horizon in ((0.01, 30.0), (1.0, 300.0)):
        for name, on in (("mu", p), ("convex", flat)):
            case = partial(theory.noise_tuned_L, on, x0, sigma2, horizon)
            yield f"noise-tuned-L/{name}/{horizon:g}", case
    yield "event-time-quantile", partial(theory.event_time_quantile, [1, 10, 1000], 0.95)
    yield "event-count-quantile", partial(theory.event_count_quantile, [0.5, 20.0, 3e3], 0.95)
    yield "expected-gradients", partial(theory.expected_gradients, T)
    for name, make in clocks().items():
        yield f"events/{name}", lambda make=make: make().stream().draw(40)
    categorical = cz.marks.Categorical([0.2, 0.3, 0.5])
    laws = (categorical, cz.marks.Stratified([0.2, 0.3, 0.5]), cz.marks.Batches(categorical, 3))
    for law in laws:
        clock = cz.clock.Poisson(0, marks=law)
        yield f"events/{type(law).__name__}", lambda c=clock: c.stream().draw(40)
    yield "parameters", run_parameters


def run_parameters() -> Any:
    """The scalars of t, and the weights of mixing."""
    flow = getattr(cz, "flow", None) or importlib.import_module("continuized.flow")
    found: dict[str, Any] = {}
    for mu, start in ((0.0, 0.0), (0.0, 3.0), (0.2, math.inf), (0.2, 0.0), (0.2, 2.5)):
        for t in (0.3, 1.0, 17.0):
            names = ("eta", "eta_prime", "gamma_prime", "log_A", "log_B")
            scalars = [getattr(cz.parameters, name)(t, 1.7, mu, start) for name in names]
            weights = flow.weights(t, t + 0.7, 0.7, 1.7, mu, start)
            found[f"mu={mu},start={start},t={t}"] = [scalars, weights]
    return found


CASES = (full_gradients, marked, networks, other)
