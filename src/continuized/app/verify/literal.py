"""Checks against `formulas`, the paper's parameters written a second time.  None involves chance.

The paths are of 200 variables where the compiled loops allow it: their kernels treat long vectors
otherwise than short ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from continuized.app.verify import formulas
from continuized.app.verify.claims import Effort, Found, Subject
from continuized.app.verify.network import ridge
from continuized.network import Graph, NoGainWarning, Objective, simulate
from continuized.network.logs.entries import LOG_PAY
from continuized.network.optimisation.node_models import make_nodes
from continuized.network.simulation.instant import InstantEngine
from continuized.problems import LeastSquares, Quadratic
from continuized.problems.base import Array
from continuized.process.random_streams import seed_sequence
from continuized.support.statistics import Measurement

DIM = 200
EVENTS = 60
TIME = 20.0  # before so many events
CLOSE = 1e-9  # relative: what rounding may add up to


def compare(found: Any, expected: Any) -> Measurement:
    """Judge the largest difference, relative to the largest of what is expected; NaN stays."""
    expected = np.asarray(expected, dtype=np.float64)
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-300)
    return Measurement(float(np.max(np.abs(np.asarray(found) - expected)) / scale), CLOSE)


def compare_each(found: Iterable[Any], expected: Iterable[Any]) -> Found:
    """Judge every number by its own size."""
    return [compare(f, e) for f, e in zip(found, expected, strict=True)]


def process(subject: Subject, effort: Effort) -> Found:
    """Compare the coefficients of an event, of the three methods of the paper."""
    for L, mu in ((1.0, 0.0), (7.0, 0.0), (1.0, 0.01), (7.0, 2.0)):
        for start in (0.0, 0.3, 5.0, math.inf)[: None if mu else -1]:
            method = subject.continuized(L, mu, start)
            for t0, t in ((0.0, 0.7), (0.7, 1.9), (40.0, 40.2)):
                found = method.coefficients(1, t0, t, t - t0, 0.0)[2:4]
                expected = formulas.process_parameters(t, L, mu, start)[2:]
                yield from compare_each(found, expected)
        nesterov, descent = subject.nesterov(L, mu), subject.gradient_descent(L)
        carry = nesterov.init(0.0).carry
        for k in range(5):
            a, b, gamma, step, carry = nesterov.coefficients(k + 1, k, k + 1.0, 1.0, carry)
            tau, tau_prime, *steps = formulas.nesterov_steps(k, L, mu)
            yield compare([a, b], [tau, tau_prime * (1.0 - tau)])
            yield from compare_each((gamma, step), steps)
        yield compare(descent.coefficients(1, 0.0, 1.0, 1.0, 0.0)[2], 1.0 / L)


def paths(subject: Subject, effort: Effort) -> Found:
    """Compare x, z and f of runs of 200 variables against the iteration of Theorem 4.

    By `minimize`, compiled and with Python's gradients, and by `ensemble`, at events and at a time.
    """
    h, star, x0 = np.geomspace(0.01, 1.0, DIM), np.cos(np.arange(DIM)), np.zeros(DIM)
    asked = [x0]  # where gradients were asked for

    def value(x: Array) -> float:
        return 0.5 * float(h @ (x - star) ** 2)

    def gradient(x: Array) -> Array:
        asked.append(x)
        return np.asarray(h * (x - star))

    for mu in (0.0, 0.01):
        p, method = Quadratic(h, star, mu=mu), subject.continuized(1.0, mu)
        for given in ((p, x0), (value, x0, gradient)):
            path: Any = subject.minimize(
                *given, method=method, maxiter=EVENTS, rng=effort.seed, record="path", tol=0.0
            ).path
            points = formulas.iterate(gradient, x0, path.t[1:], 1.0, mu)
            for k, (x, z) in enumerate(points, 1):
                yield from compare_each((path.x[k], path.z[k]), (x, z))
        e: Any = subject.ensemble(p, method, x0, runs=3, steps=EVENTS, rng=effort.seed)
        late: Any = subject.ensemble(p, method, x0, runs=3, times=[TIME], rng=effort.seed)
        for t, found, last in zip(e.t, e.fun, late.fun, strict=True):
            expected = [value(x) for x, _ in formulas.iterate(gradient, x0, t[1:], 1.0, mu)]
            yield compare(found[1:] / expected, np.ones(EVENTS))
            until = np.append(t[1:][t[1:] < TIME], TIME)  # x at TIME is where it would ask
            list(formulas.iterate(gradient, x0, until, 1.0, mu))
            yield compare(last / value(asked[-1]), np.ones(1))


def marked(subject: Subject, effort: Effort) -> Found:
    """Compare S, the probabilities and the steps of coordinates; R2, kappa and mu of rows."""
    L_i = np.linspace(0.2, 1.0, DIM)
    p, root = Quadratic(L_i, np.ones(DIM)), np.sqrt(L_i)
    for sampling, weights in (("sqrt", root), ("uniform", np.ones(DIM)), (L_i / L_i.sum(), L_i)):
        stepper: Any = subject.coordinate_descent(sampling).prepare(p, np.zeros(DIM))
        chances = weights / weights.sum()
        S, process = float(np.max(L_i / chances**2)), stepper.process
        found = stepper.p, stepper.law.p, stepper.weights, stepper.steps, process.constants[:2]
        yield from compare_each(found, (chances, chances, 1.0 / chances, 1.0 / L_i, [S, 0.2]))
    rng = np.random.default_rng(9)
    X = rng.standard_normal((30, 10)) * rng.uniform(0.5, 1.5, (30, 1))
    rows, norms2 = LeastSquares(X, X @ np.ones(10)), (X * X).sum(axis=1)
    uniform, by_norm = np.full(30, 1.0 / 30.0), norms2 / norms2.sum()
    for make, chances, a in (
        (subject.stochastic_least_squares, uniform, X),
        (subject.kaczmarz, by_norm, X / np.sqrt(norms2)[:, None]),
    ):
        stepper = make().prepare(rows, np.zeros(10))
        found = stepper.p, stepper.law.p, stepper.R2, stepper.kappa, stepper.process.constants[:2]
        R2, kappa, mu = formulas.row_constants(a, chances)
        yield from compare_each(found, (chances, chances, R2, kappa, [R2 * kappa, mu]))


def networks(subject: Subject, effort: Effort) -> Found:
    """Compare the constants that nodes know: of gossip, of the dual method, of A²CiD²."""
    for spec in ("path:12", "grid:3x4", "star:8"):
        g = Graph.of(spec)
        mu_g, R = formulas.graph_constants(g.nodes, g.edges, g.P)
        parts = ridge(g.nodes, 2)
        _, mu, L = _hessians(parts)
        for damping in (0.9, 1.0):
            expected = damping * math.sqrt(mu_g / (2.0 * R)), 0.5, 1.0 / math.sqrt(2.0 * mu_g * R)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoGainWarning)
                found = subject.gossip(damping=damping).constants(g)
            yield from compare_each(found, expected)
        expected = _dual_constants(mu_g, R, mu, L)
        yield from compare_each(subject.dual().constants(g, parts), expected)
        exchanges = 1.5 * g.nodes  # in the time in which each node takes a gradient
        chi_1, chi_2 = 1.0 / (exchanges * mu_g), R / (2.0 * exchanges)
        expected = 1.0 / (2.0 * math.sqrt(chi_1 * chi_2)), 0.5, 0.5 * math.sqrt(chi_1 / chi_2)
        yield from compare_each(subject.a2cid2(communications=1.5).constants(g), expected)


def _dual_constants(mu_g: float, R: float, mu: float, L: float) -> tuple[float, float, float]:
    """Return theta, gamma and gamma' of the dual method."""
    theta = math.sqrt(mu_g / (2.0 * R)) * math.sqrt(mu / L)
    return theta, mu / 2.0, math.sqrt(L * mu / (2.0 * mu_g * R))


def gossip_path(subject: Subject, effort: Effort) -> Found:
    """Compare x and z of the simulator's nodes, 200 variables each, against gossip written out."""
    g = Graph.of("grid:3x4")
    mu_g, R = formulas.graph_constants(g.nodes, g.edges, g.P)
    x0 = np.random.default_rng(effort.seed).standard_normal((g.nodes, DIM))
    method = subject.gossip(damping=1.0)
    r = simulate(g, x0, method=method, events=5 * EVENTS, tol=0.0, rng=effort.seed, log=True)
    assert r.log is not None
    paid = r.log.kind == LOG_PAY
    events = zip(
        *(part[paid].tolist() for part in (r.log.time, r.log.node, r.log.peer)), strict=True
    )
    theta, step = math.sqrt(mu_g / (2.0 * R)), 1.0 / math.sqrt(2.0 * mu_g * R)
    x, z = formulas.exchange_path(lambda i, y: y, x0, events, r.t, theta, 0.5, step)
    yield from compare_each((r.x, r.z), (x, z))


def decentralized_paths(subject: Subject, effort: Effort) -> Found:
    """Compare the nodes' estimates by the dual method and by DADAO, against both written out."""
    g, dim = Graph.of("grid:3x4"), 3
    parts = ridge(g.nodes, dim)
    mu_g, R = formulas.graph_constants(g.nodes, g.edges, g.P)
    hessians, mu, L = _hessians(parts)
    own = [parts.rows(i) for i in range(g.nodes)]
    pulls = [parts.scale[i] * parts.X[o].T @ parts.y[o] for i, o in enumerate(own)]

    def estimate(i: int, y: Array) -> Array:
        return np.linalg.solve(hessians[i], y + pulls[i])

    engine, events = _follow(subject.dual(), g, parts, effort.seed)
    constants, start = _dual_constants(mu_g, R, mu, L), np.zeros((g.nodes, dim))
    y, _ = formulas.exchange_path(estimate, start, events, engine.t, *constants)
    yield compare(engine.estimate(engine.t), [estimate(i, y[i]) for i in range(g.nodes)])
    yield compare(engine.rates, g.P)

    engine, events = _follow(subject.dadao(), g, parts, effort.seed)
    rate = math.sqrt(R / mu_g)  # of all edges together, so that 2 chi_1 chi_2 = 1
    chi_1 = 1.0 / (rate * mu_g)
    x = formulas.dadao_path(
        lambda i, x: hessians[i] @ x - pulls[i], (g.nodes, dim), events, engine.t, L, mu, chi_1
    )
    yield compare(engine.estimate(engine.t), x)
    yield compare(engine.rates, np.concatenate([rate * g.P, np.ones(g.nodes)]))


def _hessians(parts: Objective) -> tuple[list[Array], float, float]:
    """Return the Hessians of the nodes; mu and L, the least and the largest of all their
    eigenvalues."""
    rows = [parts.X[parts.rows(i)] for i in range(parts.nodes)]
    hessians = [scale * X.T @ X for scale, X in zip(parts.scale.tolist(), rows, strict=True)]
    values = np.linalg.eigvalsh(np.stack(hessians))
    return hessians, float(values.min()), float(values.max())


def _follow(
    method: Any, g: Graph, parts: Objective, seed: int
) -> tuple[InstantEngine, list[tuple[float, int, int]]]:
    """Return an engine after some events, and these as (t, i, j) or (t, i, -1)."""
    root = seed_sequence(seed)
    engine = InstantEngine(g, make_nodes(method, g, parts), root)
    drawn = engine.make_stream(root).draw(5 * EVENTS)
    engine.advance(drawn)
    assert drawn.marks is not None
    ends = [*g.edges.tolist(), *([i, -1] for i in range(g.nodes))]
    events = [(t, *ends[m]) for t, m in zip(drawn.t.tolist(), drawn.marks.tolist(), strict=True)]
    return engine, events
