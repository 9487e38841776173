"""Every entry point is given what nobody should give it.

It may take it, or refuse it: with a TypeError or ValueError, in one line of its own words, within
two seconds of the processor, or twenty of waiting; the arrays given, the global random states and
the warnings of others are left alone.
`--cases N` sets how many cases each entry point is tried with.
"""

from __future__ import annotations

import atexit
import inspect
import os
import random
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import sklearn.preprocessing  # noqa: F401  (else imported later, with rich, which draws)
from matplotlib.figure import Figure
from scipy import optimize

import continuized as cz
from continuized import network, theory
from continuized.adapters import sklearn as estimators
from continuized.network.sharded import pool
from tests.helpers.odd_values import odd_values
from tests.helpers.shards import HereLink
from tests.invariants.registry import METHODS

# The longest call that ends by itself takes 2 s on a slow machine; one that does not is stopped
# after so many seconds of its own, or of waiting.
SECONDS, WAITING = 6.0, 30.0
LONGEST = 600  # characters of a sentence
REFUSALS = (TypeError, ValueError, MemoryError, OSError, FloatingPointError)

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((20, 3)), RNG.standard_normal(20)
SIGNS = np.sign(Y)
P = cz.problems.Quadratic([0.5, 1.0, 2.0], [1.0, 1.0, 1.0])
M = cz.Continuized(2.0, 0.5)
WIDE = cz.problems.Quadratic([0.1, 1.0, 2.0], [1.0, 1.0, 1.0])  # for Theorems A and B
G = network.Graph.of("cycle:5")
PARTS = network.split(cz.problems.LeastSquares(X, Y, 0.1), 5)
PAIR = network.split(cz.problems.LeastSquares(X, Y, 0.1), 2)
HALVES = [cz.problems.LeastSquares(X[rows], Y[rows], 0.1) for rows in (slice(8), slice(8, 20))]
GIF = Path(tempfile.gettempdir()) / f"continuized-{os.getpid()}.gif"
atexit.register(GIF.unlink, missing_ok=True)
ROWS_FILE = GIF.with_suffix(".npz")
np.savez(ROWS_FILE, X=X, y=Y)
atexit.register(ROWS_FILE.unlink, missing_ok=True)
RUN = cz.minimize(P, np.zeros(3), method=M, maxiter=20, record="path", rng=0)

PHI = theory.Observable(
    lambda t, x, z: float(np.sum(np.square(z))), lambda t, x, z: (0.0, 0.0 * x, 2.0 * z)
)
PROX_RUN = cz.minimize(
    P, np.zeros(3), method=M, prox=cz.prox.L1(0.1), maxiter=20, record="path", rng=0
)


def fun(x: Any) -> float:
    with np.errstate(all="ignore"):
        return 0.5 * float(np.sum(np.square(x)))


def jac(x: Any) -> Any:
    return x


def fit(kind: Any, X: Any, y: Any, **options: Any) -> Any:
    return kind(**options).fit(X, y)


def scipy(fun: Any, x0: Any, jac: Any, bounds: Any, tol: Any, **options: Any) -> Any:
    how: Any = {"jac": jac, "bounds": bounds, "tol": tol, "options": options}
    return optimize.minimize(fun, x0, method=cz.scipy_method, **how)


def with_method(kind: Any, **options: Any) -> Any:
    by_rows = kind in (cz.StochasticLeastSquares, cz.Kaczmarz)
    p = cz.problems.LeastSquares(X, Y, 0.0 if by_rows else 0.1)
    return cz.minimize(p, np.zeros(3), method=kind(**options), maxiter=50, rng=0)


def marked(kind: Any, **options: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    return with_method, {"kind": kind, **options}


def shard(**given: Any) -> Any:
    with mock.patch.object(pool, "LocalLink", HereLink):
        return network.Sharded(**given)


def shard_files(**given: Any) -> Any:
    with mock.patch.object(pool, "LocalLink", HereLink):
        return network.Sharded.read(**given)


ROWS = {"R2": None, "kappa": None, "mu": None, "accelerated": True, "start": None, "batch": 2}
THEOREM = {"method": M, "problem": P, "x0": np.zeros(3), "t": [1.0, 2.0], "k": None, "sigma2": 0.0}
AT = {"method": M, "p": P, "t": 1.0, "x": np.zeros(3), "z": np.zeros(3)}
TO = {"method": M, "p": P, "x0": np.zeros(3), "eps": 1e-3, "delta": 0.05}
SCALING = {"x0": np.zeros(3), "horizon": 1.0, "L_values": [10.0, 20.0], "points": 2}
REGRESSION = {"X": X, "y": SIGNS, "l2": 0.1, "weights": None, "intercept": False}

# Never spoilt.  scikit-learn checks data itself, in its own words, which its estimators must keep.
KEPT = {"kind"}
KEPT_BY_ESTIMATORS = {"kind", "X", "y"}

# A function, and arguments that are right.
ENTRY_POINTS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "minimize": (cz.minimize, {
        "fun": fun, "x0": np.ones(3), "jac": jac, "L": 1.0, "mu": 0.5, "noise": None, "rng": 0,
        "clock": None, "tol": 1e-3, "maxiter": 30, "callback": None, "record": True,
        "progress": False, "nonfinite": "stop", "every": 30.0, "resume": False,
    }),
    "minimize, z0": (cz.minimize, {
        "fun": fun, "x0": np.ones(3), "z0": np.zeros(3), "jac": jac, "L": 1.0, "mu": 0.5,
        "method": "sharp", "tol": 1e-3, "maxiter": 30, "rng": 0, "record": True,
    }),
    "minimize, L unknown": (cz.minimize, {
        "fun": fun, "x0": np.ones(3), "jac": jac, "metric": None, "prox": cz.prox.L1(0.1),
        "tol": 1e-3, "maxiter": 30, "rng": 0, "record": True,
    }),
    "minimize, prox": (cz.minimize, {
        "fun": fun, "x0": np.ones(3), "jac": jac, "prox": cz.prox.L1(0.1), "L": 1.0, "mu": 0.5,
        "tol": 1e-3, "maxiter": 30, "rng": 0, "noise": None, "record": True,
    }),
    "minimize, mirror": (cz.minimize, {
        "fun": fun, "x0": np.full(3, 1.0 / 3.0), "jac": jac, "mirror": cz.mirror.Entropy(),
        "L": 1.0, "mu": None, "prox": None, "tol": 1e-3, "maxiter": 30, "rng": 0,
    }),
    "minimize, a regression": (cz.minimize, {
        "fun": cz.problems.LogisticRegression(X, SIGNS, 0.1), "x0": np.zeros(3), "metric": "gram",
        "method": "auto", "tol": 1e-3, "maxiter": 30, "rng": 0, "noise": None, "L": None,
    }),
    "CoordinateDescent": marked(
        cz.CoordinateDescent, sampling="sqrt", accelerated=True, start=None, blocks=None
    ),
    "CoordinateDescent, prox": marked(
        cz.CoordinateDescent, sampling="sqrt", accelerated=True, start=None, prox=cz.prox.L1(0.1)
    ),
    "DualCoordinate": marked(
        cz.DualCoordinate, sampling="sqrt", accelerated=True, start=None, heuristics=True
    ),
    "StochasticLeastSquares": marked(cz.StochasticLeastSquares, **ROWS),
    "Kaczmarz": marked(cz.Kaczmarz, **ROWS),
    "ensemble": (cz.ensemble, {
        "problem": P, "method": M, "x0": np.zeros(3), "runs": 3, "steps": 5, "times": None,
        "rng": 0, "noise": None, "keep": "all", "threads": None, "progress": False,
    }),
    "ensemble, z0": (cz.ensemble, {
        "problem": P, "method": M, "x0": np.zeros(3), "z0": np.ones(3), "runs": 3, "times": [1.0],
    }),
    "ensemble, prox": (cz.ensemble, {
        "problem": P, "method": M, "x0": np.zeros(3), "runs": 3, "steps": 5, "times": None,
        "rng": 0, "noise": None, "prox": cz.prox.Box(-1.0, 1.0), "mirror": None,
    }),
    "Continuized": (cz.Continuized, {"L": 2.0, "mu": 0.5, "start": None, "tau": 1.0}),
    "Continuized, tau": (cz.Continuized, {"L": 2.0, "mu": 0.0, "start": 1.0, "tau": 0.5}),
    "SharpContinuized": (cz.SharpContinuized, {"L": 2.0, "mu": 0.5}),
    "Nesterov": (cz.Nesterov, {"L": 2.0, "mu": 0.5}),
    "GradientDescent": (cz.GradientDescent, {"L": 2.0}),
    "CustomContinuized": (cz.CustomContinuized, {
        "eta": lambda t: 0.3, "eta_prime": lambda t: 0.3, "gamma": lambda t: 1.0,
        "gamma_prime": lambda t: 1.0, "L": 2.0, "mu": 0.5,
    }),
    "Problem": (cz.Problem, {
        "fun": fun, "grad": jac, "L": 1.0, "mu": 0.5, "x_star": np.zeros(3), "f_star": 0.0,
        "value_and_grad": False, "tau": 1.0,
    }),
    "Quadratic": (cz.problems.Quadratic, {"eigenvalues": [1.0, 2.0], "x_star": None, "mu": None}),
    "LeastSquares": (cz.problems.LeastSquares, REGRESSION),
    "LogisticRegression": (cz.problems.LogisticRegression, REGRESSION),
    "SoftmaxRegression": (
        cz.problems.SoftmaxRegression,
        REGRESSION | {"y": np.arange(20) % 3, "classes": 3},
    ),
    "PoissonRegression": (cz.problems.PoissonRegression, REGRESSION | {"y": np.arange(20) % 3}),
    "HuberRegression": (cz.problems.HuberRegression, REGRESSION | {"delta": 0.5}),
    "Poisson": (cz.clock.Poisson, {"rng": 0, "rate": 1.0, "marks": None}),
    "Unit": (cz.clock.Unit, {"rng": 0, "marks": None}),
    "Recorded": (cz.clock.Recorded, {"times": [1.0, 2.0], "gaps": None, "marks": None}),
    "Merged": (cz.clock.Merged, {"clocks": [cz.clock.Poisson(0), cz.clock.Poisson(1)]}),
    "Categorical": (cz.marks.Categorical, {"p": [0.5, 0.5]}),
    "Stratified": (cz.marks.Stratified, {"p": [0.5, 0.5]}),
    "Batches": (cz.marks.Batches, {"law": cz.marks.Categorical([0.5, 0.5]), "batch": 2}),
    "Gaussian": (cz.noise.Gaussian, {"variance": 1.0}),
    "Oracle": (cz.noise.Oracle, {"draw": lambda x, rng: x, "sigma2": 1.0, "check": False}),
    "Minibatch": (cz.noise.Minibatch, {
        "problem": cz.problems.LogisticRegression(X, SIGNS, 0.1), "batch": 2, "sigma2": None,
        "check": False,
    }),
    "noise_floor": (theory.noise_floor, {"method": M, "p": P, "sigma2": 0.1}),
    "noise_step": (theory.noise_step, {"p": P, "L": 4.0, "sigma2": 0.1}),
    "Diagonal": (cz.metric.Diagonal, {"entries": [1.0, 2.0]}),
    "Dense": (cz.metric.Dense, {"P": np.eye(2)}),
    "L1": (cz.prox.L1, {"weight": 0.1}),
    "ElasticNet": (cz.prox.ElasticNet, {"l1": 0.1, "l2": 0.2}),
    "NonNegative": (cz.prox.NonNegative, {"weight": 0.1}),
    "Separable": (cz.prox.Separable, {"l1": 0.1, "l2": 0.2, "low": 0.0, "high": 1.0}),
    "L1Ball": (cz.prox.L1Ball, {"radius": 0.1}),
    "L2Ball": (cz.prox.L2Ball, {"radius": 0.1}),
    "LInfBall": (cz.prox.LInfBall, {"radius": 0.1}),
    "Halfspace": (cz.prox.Halfspace, {"normal": [1.0, 2.0], "offset": 0.5}),
    "Hyperplane": (cz.prox.Hyperplane, {"normal": [1.0, 2.0], "offset": 0.5}),
    "GroupLasso": (cz.prox.GroupLasso, {"weight": 0.1, "groups": [0, 0, 1]}),
    "NuclearNorm": (cz.prox.NuclearNorm, {"weight": 0.1}),
    "Box": (cz.prox.Box, {"low": 0.0, "high": 1.0}),
    "Simplex": (cz.prox.Simplex, {"total": 1.0}),
    "PNorm": (cz.mirror.PNorm, {"p": 1.5}),
    "check_constants": (cz.parameters.check_constants, {"L": 2.0, "mu": 0.5}),
    "Result.at": (RUN.at, {"t": 1.0, "side": "right"}),
    "bound": (theory.bound, THEOREM),
    "log_bound, z0": (theory.log_bound, THEOREM | {"z0": np.ones(3)}),
    "log_bound": (theory.log_bound, THEOREM | {
        "prox": cz.prox.L1(0.1), "mirror": None, "x_star": [0.8, 0.9, 0.95],
    }),
    "bound, prox": (theory.bound, THEOREM | {
        "prox": cz.prox.L1(0.1), "mirror": None, "x_star": [0.8, 0.9, 0.95],
    }),
    "weight": (theory.weight, {"method": M, "t": 1.0}),
    "sharp_bound": (theory.sharp_bound, {
        "method": cz.Continuized(2.0, 0.1), "problem": WIDE, "x0": np.zeros(3), "t": 1.0, "k": None,
    }),
    "sharp_bound, B": (theory.sharp_bound, {
        "method": cz.SharpContinuized(2.0, 0.1), "problem": WIDE, "x0": np.zeros(3), "k": 3
    }),
    "path_bound": (theory.path_bound, {
        "method": cz.Continuized(2.0, 0.1), "problem": WIDE, "x0": np.zeros(3), "t": 1.0,
        "delta": 0.1,
    }),
    "quadratic_rate": (theory.quadratic_rate, {"method": M, "L": 1.0, "mu": 0.1}),
    "with_minimiser": (theory.with_minimiser, {"problem": P, "x0": np.ones(3)}),
    "bound, z0": (theory.bound, THEOREM | {"z0": np.ones(3)}),
    "moments, z0": (theory.moments, {
        "p": P, "method": M, "x0": np.zeros(3), "times": [1.0], "k": None, "z0": np.ones(3)
    }),
    "Charbonnier": (cz.problems.Charbonnier, {"tau": 0.5, "x_star": [1.0, 2.0], "l2": 0.1}),
    "SigmoidRegression": (cz.problems.SigmoidRegression, {
        "X": X, "x_star": np.ones(X.shape[1]), "leak": 0.1, "tau": 0.2
    }),
    "time_to": (theory.time_to, TO),
    "events_to": (theory.events_to, TO),
    "drift": (theory.drift, AT | {"sigma2": 0.0, "noise": None}),
    "supermartingale_gap": (theory.supermartingale_gap, AT | {
        "prox": cz.prox.L1(0.1), "mirror": None, "x_star": [0.8, 0.9, 0.95],
    }),
    "drift, prox": (theory.drift, AT | {
        "prox": cz.prox.L1(0.1), "mirror": None, "x_star": [0.8, 0.9, 0.95], "sigma2": 0.0,
    }),
    "drift of coordinates": (theory.drift, AT | {
        "method": cz.CoordinateDescent(prox=cz.prox.L1(0.1)), "x_star": [0.8, 0.9, 0.95],
    }),
    "lyapunov": (theory.lyapunov, {"r": RUN, "p": P}),
    "lyapunov, prox": (theory.lyapunov, {"r": PROX_RUN, "p": P, "x_star": [0.8, 0.9, 0.95]}),
    "moments": (theory.moments, {
        "p": P, "method": M, "x0": np.zeros(3), "times": [1.0], "k": None, "sigma2": 0.0,
        "progress": False,
    }),
    "moments at events": (theory.moments, {
        "p": P, "method": cz.Continuized(2.0), "x0": np.zeros(3), "k": [3], "sigma2": 0.0
    }),
    "moments, prox": (theory.moments, {
        "p": P, "method": cz.Continuized(2.0), "x0": np.zeros(3), "times": [1.0], "z0": None,
        "prox": cz.prox.Separable(l2=0.1), "sigma2": 0.0,
    }),
    "moments of gossip": (theory.moments, {
        "p": G, "method": network.Gossip(), "x0": np.arange(5.0), "times": [1.0]
    }),
    "moments of DADAO": (theory.moments, {
        "p": (network.Graph.of("path:2"), PAIR), "method": network.DADAO(), "x0": np.zeros((2, 3)),
        "times": [1.0],
    }),
    "log_weight": (theory.log_weight, {"method": M, "t": 1.0}),
    "expected_gradients": (theory.expected_gradients, {"t": 1.0}),
    "expected_scaling_distance": (theory.expected_scaling_distance, SCALING | {"p": P}),
    "scaling_distance": (theory.scaling_distance, SCALING | {"p": P, "runs": 2, "rng": 0}),
    "event_count_quantile": (theory.event_count_quantile, {"t": 3.0, "q": 0.5}),
    "event_time_quantile": (theory.event_time_quantile, {"k": 3, "q": 0.5}),
    "noise_tuned_L": (
        theory.noise_tuned_L, {"p": P, "x0": np.zeros(3), "sigma2": 0.1, "horizon": 10.0}
    ),
    "Observable": (theory.Observable, {
        "value": PHI.value, "gradient": PHI.gradient, "vectorized": False
    }),
    "decompose": (theory.decompose, {"phi": PHI, "r": RUN, "problem": P}),
    "generator": (theory.generator, {
        "phi": PHI, "method": M, "problem": P, "state": (1.0, np.ones(3), np.zeros(3))
    }),
    "prefactors": (theory.prefactors, {
        "L": 2.0, "mu": 0.5, "A": 1.0, "B": 0.25, "dA": 0.5, "dB": [0.1, 0.2], "eta": 0.5,
        "eta_prime": 0.5, "gamma": 0.5, "gamma_prime": 1.0,
    }),
    "lyapunov_function": (theory.lyapunov_function, {"method": M, "problem": P}),
    "Certificate": (theory.Certificate, {
        "parameters": (0.1, 0.1, 1, 10), "L": 1, "mu": 0.01, "rate": 0.1, "P": (0, 0, 0.005),
        "multipliers": {("*", "x"): 0.1, ("x", "x+"): 1},
    }),
    "certify": (theory.certify, {
        "method": cz.Continuized(1.0, 0.01), "L": None, "mu": None, "rate": 0.1,
    }),
    "scaling_limit": (theory.scaling_limit, {
        "p": P, "x0": np.zeros(3), "times": [1.0], "progress": False
    }),
    "scaling_limit, integrated": (theory.scaling_limit, {
        "p": cz.Problem(fun, jac, L=1.0), "x0": np.ones(3), "times": [1.0]
    }),
    "gossip_rate": (theory.gossip_rate, {
        "graph": G, "method": None, "tol": 1e-5, "progress": False
    }),
    "plot.convergence": (cz.plot.convergence, {
        "results": [RUN], "problem": P, "bounds": True, "scale": None, "ax": Figure().add_subplot(),
    }),
    "plot.path": (cz.plot.path, {
        "r": RUN, "problem": P, "coordinates": (0, 1), "ax": Figure().add_subplot(),
    }),
    "plot.animate": (cz.plot.animate, {
        "r": RUN, "out": GIF, "problem": None, "coordinates": (0, 1), "seconds": 0.5, "fps": 2.0,
    }),
    "plot.lyapunov": (cz.plot.lyapunov, {"r": RUN, "problem": P, "ax": Figure().add_subplot()}),
    "plot.ensemble": (cz.plot.ensemble, {
        "e": cz.ensemble(P, M, np.zeros(3), runs=3, times=[1.0, 2.0], rng=0), "problem": P,
        "bounds": True, "ax": Figure().add_subplot(),
    }),
    "plot.network": (cz.plot.network, {
        "outcome": network.simulate("path:3", [1.0, 0.0, 0.0], rng=0), "t": None,
        "ax": Figure().add_subplot(),
    }),
    "plot.rates": (cz.plot.rates, {"kappas": [2.0, 10.0], "ax": Figure().add_subplot()}),
    "Graph.of": (network.Graph.of, {"graph": "regular:2x5", "rates": None, "rng": 0}),
    "optimise_rates": (G.optimise_rates, {"tol": 0.1, "maxiter": 5}),
    "Dual": (network.Dual, {"accelerated": True}),
    "delay_limit": (network.delay_limit, {"graph": "path:3", "method": "accelerated"}),
    "share_limit": (network.share_limit, {"graph": "path:3", "method": "accelerated"}),
    "exchange_share": (network.exchange_share, {"graph": G, "delay": 1.0}),
    "too_stale": (network.too_stale, {
        "graph": G, "method": "accelerated", "staleness": 1.0, "share": None
    }),
    "Sharded": (shard, {"parts": HALVES, "transport": "local", "address": None, "threads": None}),
    "Sharded.read": (shard_files, {
        "paths": [ROWS_FILE], "loss": "ridge", "l2": 0.1, "intercept": False, "delta": 1.0,
        "transport": "local", "threads": None,
    }),
    "race": (network.race, {
        "graph": G, "problems": PARTS, "work": np.ones(5), "tol": 0.1, "events": 50, "rng": 0,
        "progress": False,
    }),
    "Gossip": (network.Gossip, {"accelerated": True, "damping": 0.9}),
    "A2CiD2": (network.A2CiD2, {
        "step": None, "batch": 1, "communications": 1.0, "accelerated": True
    }),
    "Faults": (network.Faults, {
        "delay": 0.0, "loss": 0.0, "duplication": 0.0, "skew": 0.0, "deaths": (), "joins": (),
        "timeout": None, "law": "exponential",
    }),
    "Ray": (network.Ray, {
        "address": None, "num_cpus": 1.0, "num_gpus": 0.0, "resources": {"site": 1.0},
        "scheduling_strategy": None, "runtime_env": {"env_vars": {"MARK": "1"}},
    }),
    "simulate": (network.simulate, {
        "graph": G, "values": np.arange(5.0), "method": "accelerated", "tol": 1e-3, "events": 50,
        "until": None, "rng": 0, "faults": None, "record": 10, "snapshots": (), "log": False,
        "progress": False, "every": 30.0, "resume": False,
    }),
    "network.minimize": (network.minimize, {
        "graph": G, "functions": PARTS, "method": "dual", "transport": "simulate", "L": None,
        "mu": None, "dim": None, "tol": 1e-3, "events": 50, "speeds": None, "rng": 0,
        "faults": None, "record": 10, "progress": False, "every": 30.0, "resume": False,
        "seconds": None, "processes": None, "speed": None, "port": None, "address": None,
        "restarts": None, "log": None, "log_file": None,
    }),
    "split": (network.split, {
        "problem": cz.problems.LeastSquares(X, Y, 0.1), "nodes": 4, "rng": 0
    }),
    "scipy_method": (scipy, {
        "fun": fun, "x0": np.ones(3), "jac": jac, "bounds": None, "tol": 1e-3, "maxiter": 30,
        "L": 1.0, "mu": 0.0, "rng": 0,
    }),
    "Ridge": (fit, {
        "kind": estimators.ContinuizedRidge, "X": X, "y": Y, "alpha": 1.0, "tol": 1e-3,
        "max_iter": 50, "fit_intercept": True, "random_state": 0,
    }),
    "Lasso": (fit, {
        "kind": estimators.ContinuizedLasso, "X": X, "y": Y, "alpha": 0.1, "tol": 1e-3,
        "max_iter": 50, "positive": False, "random_state": 0,
    }),
    "Elastic net": (fit, {
        "kind": estimators.ContinuizedElasticNet, "X": X, "y": Y, "alpha": 0.1, "l1_ratio": 0.5,
        "max_iter": 50, "fit_intercept": True, "random_state": 0, "warm_start": False,
    }),
    "Poisson regressor": (fit, {
        "kind": estimators.ContinuizedPoissonRegressor, "X": X, "y": np.abs(Y), "alpha": 1.0,
        "tol": 1e-3, "max_iter": 50, "verbose": 0, "random_state": 0,
    }),
    "Huber regressor": (fit, {
        "kind": estimators.ContinuizedHuberRegressor, "X": X, "y": Y, "alpha": 1.0,
        "epsilon": 1.35, "tol": 1e-3, "max_iter": 50, "random_state": 0,
    }),
    "Logistic": (fit, {
        "kind": estimators.ContinuizedLogisticRegression, "X": X, "y": SIGNS, "C": 1.0,
        "tol": 1e-3, "max_iter": 50, "random_state": 0, "class_weight": None, "l1_ratio": 0.0,
    }),
}  # fmt: skip

ODD = odd_values()


class TooLong(BaseException):
    """The time of a case is over."""


def interrupt(*_: Any) -> None:
    raise TooLong


def spoil(right: dict[str, Any], kept: set[str], rng: np.random.Generator) -> dict[str, Any]:
    """One or two of the arguments replaced by odd values."""
    names = [name for name in right if name not in kept]
    chosen = rng.choice(len(names), min(len(names), 1 + int(rng.random() < 0.3)), replace=False)
    odd = {names[i]: ODD[rng.integers(len(ODD))]() for i in chosen}
    return right | odd


OTHERS_WORDS = (
    "unsupported operand", "has no attribute", "not supported between", "broadcast",
    "setting an array element", "truth value", "cannot be interpreted", "must be real number, not",
    "is not iterable", "is not callable", "not subscriptable", "has no len", "unhashable",
    "Cannot cast", "cannot use operands", "out of bounds", "could not convert", "out of range",
)  # fmt: skip


def snapshot(values: dict[str, Any]) -> dict[str, bytes]:
    arrays = {name: v for name, v in values.items() if isinstance(v, np.ndarray)}
    return {name: v.tobytes() for name, v in arrays.items() if not v.dtype.hasobject}


def is_from_us(error: BaseException) -> bool:
    """Whether it came out of our code, and not of SciPy's around it."""
    names = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return any("continuized" in name for name in names) and "optimize" not in names[-1]


def complaints(call: Callable[..., Any], given: dict[str, Any]) -> list[str]:
    """What is wrong with the way in which a call was answered."""
    found = []
    before, state = snapshot(given), (random.getstate(), str(np.random.get_state()))  # noqa: NPY002
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WAITING)
        try:
            call(**given)
        except TooLong:
            found.append(f"took more than {SECONDS} s")
        except REFUSALS as error:
            text = str(error)
            if "\n" in text or not 10 < len(text) < LONGEST:
                found.append(f"is no sentence on one line: {text[:300]!r}")
            if is_from_us(error) and any(words in text for words in OTHERS_WORDS):
                found.append(f"is refused in the words of Python or NumPy: {text[:300]!r}")
        except Exception as error:
            if type(error) is not ArithmeticError:  # what was asked for cannot be computed
                found.append(f"raised {type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    found += [f"warned of {w.category.__name__}: {w.message}" for w in seen if is_foreign(w)]
    if snapshot(given) != before:
        found.append("changed an array")
    if (random.getstate(), str(np.random.get_state())) != state:  # noqa: NPY002
        found.append("drew from a global random state")
    return found


OURS_TO_GIVE = ("ConvergenceWarning", "OptimizeWarning", "DataConversionWarning")


def is_foreign(warning: warnings.WarningMessage) -> bool:
    own = warning.category.__module__.startswith("continuized")
    return not own and warning.category.__name__ not in OURS_TO_GIVE


NEEDS = {"certify": "cvxpy"}  # a library that the extra `test` does not bring


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="cases are ended by a signal")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.needs(NEEDS[name]) if name in NEEDS else ())
        for name in ENTRY_POINTS
    ],
)
def test_what_nobody_should_give(name: str, request: pytest.FixtureRequest) -> None:
    call, right = ENTRY_POINTS[name]
    for plain in ({}, {"accelerated": False} if "accelerated" in right else {}, in_float32(right)):
        call(**right | plain)  # which compiles
    cases = request.config.getoption("--cases")
    rng = np.random.default_rng([len(name), cases, *name.encode()])
    wrong = []
    previous = [signal.signal(s, interrupt) for s in (signal.SIGALRM, signal.SIGPROF)]
    try:
        assert complaints(call, right) == [], "the arguments are right"
        for _ in range(cases):
            given = spoil(right, KEPT_BY_ESTIMATORS if call is fit else KEPT, rng)
            odd = {n: given[n] for n in given if given[n] is not right[n]}
            wrong += [f"{describe(odd)} {what}" for what in complaints(call, given)]
    finally:
        signal.signal(signal.SIGALRM, previous[0])
        signal.signal(signal.SIGPROF, previous[1])
    assert not wrong, f"{len(wrong)} of {cases}:\n" + "\n".join(sorted(set(wrong))[:40])


def in_float32(right: dict[str, Any]) -> dict[str, Any]:
    """x0 as an array of float32, for which loops are compiled apart."""
    runs = {"runs", "maxiter"} & right.keys()
    return {"x0": right["x0"].astype(np.float32)} if runs and "x0" in right else {}


def describe(odd: dict[str, Any]) -> str:
    texts = []
    for name, value in odd.items():
        try:
            texts.append(f"{name}={value!r:.60}".replace("\n", " "))
        except Exception:
            texts.append(f"{name}=<{type(value).__name__}>")
    return f"({', '.join(texts)})"


NOT_SPOILT = {"checkpoint"}  # a path: odd ones have tests of their own, in tests/support


def test_every_argument_of_an_entry_point_is_spoilt() -> None:
    tried: dict[Callable[..., Any], set[str]] = {}
    for call, right in ENTRY_POINTS.values():
        tried.setdefault(call, set()).update(right)
    for call, names in tried.items():
        parameters = inspect.signature(call).parameters.values()
        named = {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        assert named - NOT_SPOILT <= names, call


def test_every_public_method_is_tried_here_and_on_every_problem() -> None:
    classes = {n: getattr(cz, n) for n in cz.__all__ if isinstance(getattr(cz, n), type)}
    public = {n for n, kind in classes.items() if issubclass(kind, cz.Method) and n != "Method"}
    assert public <= set(ENTRY_POINTS)
    assert public <= {type(make(1.0, 0.5)).__name__ for make in METHODS.values()}
