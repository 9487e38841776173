"""What objects look like: short, without arrays and addresses, and as tables in notebooks."""

from __future__ import annotations

import importlib
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized import network, theory
from continuized.network.logs.entries import Log
from continuized.network.result import OptimisationTrace, Trace
from continuized.network.sharded import pool
from continuized.support.table import Table
from tests.helpers.shards import HereLink

HOSTILE = '<script>alert("&")</script>'
MODULES = (
    *("clock", "flow", "marks", "metric", "network", "noise", "parameters", "problems"),
    *("prox", "theory"),
)
X, Y = np.random.default_rng(0).normal(size=(60, 20)), np.arange(60.0)


def name_oddly(x: Any) -> float:
    return 0.5 * float(x @ x)


name_oddly.__name__ = HOSTILE


@cache
def make_objects() -> dict[str, Any]:
    """One of each public class that a user holds, large where there are arrays in it."""
    p, many = cz.problems.Quadratic(np.ones(500), np.ones(500)), np.linspace(0.1, 1.0, 50)
    method = cz.Continuized(1.0, 0.1)
    weak = cz.problems.paper_strongly_convex()
    run = cz.minimize(weak, np.zeros(3), maxiter=50, rng=0, record="path")
    graph = network.Graph.of([(0, 1), (1, 2)])
    object.__setattr__(graph, "name", HOSTILE)
    least_squares = cz.problems.LeastSquares(X, Y, l2=0.1)
    parts = network.split(least_squares, 5)
    t, end = np.arange(40.0), {"x": np.ones((40, 9)), "t": 39.0, "messages": 39, "tol": 0.0}
    end |= {"reached": False, "error": 0.5, "message": "It ended."}
    left = [(1.0, k, "killed") for k in range(30)]
    spent, trace = Trace(t, np.arange(40), t), OptimisationTrace(t, np.arange(40), *[t] * 4)
    mine = [cz.clock.Poisson(0), cz.clock.Unit()]
    shares = np.full(50, 0.02)
    strong = cz.Continuized(weak.L, weak.mu)
    phi = theory.lyapunov_function(strong, weak)
    one, third = Fraction(1), Fraction(10**30, 3 * 10**30 + 1)
    with patch.object(pool, "LocalLink", HereLink):  # no processes
        rows_apart = network.Sharded([least_squares, least_squares])
    return {
        "a user's function": cz.Problem(name_oddly, lambda x: x, L=1.0, x_star=np.zeros(500)),
        "Quadratic": p,
        "LeastSquares": least_squares,
        "LogisticRegression": cz.problems.LogisticRegression(
            sparse.csr_array(X), np.sign(Y - 30.5), l2=0.1, intercept=True
        ),
        "SoftmaxRegression": cz.problems.SoftmaxRegression(X, Y % 3, weights=Y + 1.0),
        "PoissonRegression": cz.problems.PoissonRegression(X, Y),
        "HuberRegression": cz.problems.HuberRegression(X, Y),
        "Sharded": rows_apart,
        "Data": cz.problems.Data(X, Y),
        "Result": cz.minimize(p, np.zeros(500), maxiter=50, rng=0),
        "Result of a path": run,
        "Result of a regression": cz.minimize(least_squares, np.zeros(20), method="auto", rng=0),
        "Trace": run.trace,
        "Path": run.path,
        "Ensemble": cz.ensemble(weak, method, np.zeros(3), runs=20, steps=30, rng=0),
        "Ensemble of means": cz.ensemble(
            weak, method, np.zeros(3), runs=20, steps=30, keep="mean", rng=0
        ),
        "Graph": graph,
        "Outcome": network.Outcome(
            **end, method="plain", z=np.ones((40, 9)), trace=spent, deaths=left, log=Log(*[t] * 5)
        ),
        "Decentralized": network.Decentralized(
            **end, method="dual", x_star=t, gradients=3, trace=trace, rate_theory=0.1, agreed=t
        ),
        "Objective": parts,
        "Optimised": network.Graph.of("grid:3x3").optimise_rates(),
        "Racer": network.Racer("dual", 3.0, 40, True, t, t),
        "Faults": network.Faults(deaths=[(1.0, k) for k in range(30)]),
        "Gossip": network.Gossip(),
        "Lyapunov": theory.lyapunov(run, weak),
        "Moments": theory.moments(weak, method, np.zeros(3), many),
        "Gap": theory.supermartingale_gap(method, weak, 1.0, np.zeros(3), np.ones(3)),
        "ScalingDistance": theory.expected_scaling_distance(
            cz.problems.Quadratic([1.0], [0.0], mu=0.0), [1.0], 3.0, [1e4, 1e6]
        ),
        "Charbonnier": cz.problems.Charbonnier(0.5, np.zeros(500)),
        "SigmoidRegression": cz.problems.SigmoidRegression(X, np.ones(20)),
        "Oracle": cz.noise.Oracle(lambda x, rng: x, 0.1),
        "Minibatch": cz.noise.Minibatch(least_squares, 3, sigma2=1.0),
        "Observable": phi,
        "Decomposition": theory.decompose(phi, run, weak),
        "Prefactors": theory.prefactors(
            1.0,
            0.0,
            A=many,
            B=many,
            dA=many,
            dB=many,
            eta=many,
            eta_prime=many,
            gamma=many,
            gamma_prime=many,
        ),
        "SharpBound": theory.sharp_bound(strong, weak, np.zeros(3), t=many),
        "NoiseStep": theory.noise_step(weak, L=10.0, sigma2=0.01),
        "Certificate": theory.Certificate(
            theory.ConstantParameters(*[third] * 4),
            one,
            third,
            third,
            (third, third, third),
            {("*", "x"): third},
        ),
        "CustomContinuized": cz.CustomContinuized(*[lambda t: 0.3] * 4),
        "CoordinateDescent": cz.CoordinateDescent(sampling=shares),
        "Events": cz.clock.Poisson(0).stream().draw(50),
        "Stream": cz.clock.Unit().stream(),
        "a Poisson stream": cz.clock.Poisson(0).stream(),
        "Recorded": cz.clock.Recorded(many, marks=np.arange(50)),
        "Merged": cz.clock.Merged(mine * 50),
        "Poisson": cz.clock.Poisson(np.random.default_rng(0), marks=cz.marks.Categorical(shares)),
        "Categorical": cz.marks.Categorical(shares),
        "Stratified": cz.marks.Stratified(shares),
        "Batches": cz.marks.Batches(cz.marks.Categorical(shares), 3),
        "Changing": cz.marks.Changing(cz.marks.Categorical(shares)),
        "Identity": cz.metric.Identity(),
        "Diagonal": cz.metric.Diagonal(many),
        "Dense": cz.metric.Dense(np.eye(50)),
        "LowRank": cz.metric.LowRank(np.eye(50)[:, :2], np.ones(2), 1.0),
        "Blocks": cz.metric.Blocks(np.eye(2), [cz.metric.Diagonal(many)] * 2),
        "Separable": cz.prox.Separable(l1=many, low=-many),
        "Box": cz.prox.Box(-many, many),
        "Hyperplane": cz.prox.Hyperplane(many),
        "Halfspace": cz.prox.Halfspace(many),
        "GroupLasso": cz.prox.GroupLasso(1.0, np.arange(50)),
    }


# Dataclasses of a few numbers and strings, whose own repr is short; and what is no object to hold.
PLAIN = {
    *("A2CiD2", "Continuized", "DADAO", "Dual", "DualCoordinate", "ElasticNet", "Event"),
    *("Gaussian", "GradientDescent", "Kaczmarz", "L1", "L1Ball", "L2Ball", "LInfBall", "Nesterov"),
    *("NodeModelSpec", "NonNegative", "NuclearNorm", "Simplex", "StochasticLeastSquares", "Unit"),
    *("ConstantParameters", "Ray", "SharpContinuized"),
}
ABSTRACT = {"Clock", "Finite", "Law", "Method", "Metric", "NodeModel", "Noise", "Prox", "Status"}


def test_every_public_class_is_shown_here() -> None:
    """So that a new one is looked at."""
    public = {cls.__name__ for cls in (getattr(cz, name) for name in cz.__all__) if _is_kind(cls)}
    for name in MODULES:
        module = getattr(cz, name)
        public |= {each for each in module.__all__ if _is_kind(getattr(module, each))}
    shown = {type(each).__name__ for each in make_objects().values()}
    assert public - shown == PLAIN | ABSTRACT


def _is_kind(value: Any) -> bool:
    return isinstance(value, type) and not issubclass(value, BaseException)


def test_each_fits_a_screen_and_has_no_arrays_in_it() -> None:
    for name, shown in make_objects().items():
        text = repr(shown)
        assert len(text.splitlines()) <= 20, name
        assert max(map(len, text.splitlines())) <= 160, name
        for bad in ("object at 0x", "<function", "array([", "\n\n"):
            assert bad not in text, name


HTML = (
    *("a user's function", "Quadratic", "LeastSquares", "LogisticRegression", "Data"),
    *("SoftmaxRegression", "PoissonRegression", "HuberRegression"),
    *("Result", "Result of a path", "Result of a regression", "Trace"),
    *("Ensemble", "Ensemble of means", "Graph", "Outcome", "Decentralized", "Objective"),
    *("Lyapunov", "Moments"),
)


class Parser(HTMLParser):
    """Refuses tags that are not those of a table, and counts what is open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in ("table", "caption", "tr", "th", "td")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", HTML)
def test_in_notebooks_it_is_a_small_table(name: str) -> None:
    html, parser = make_objects()[name]._repr_html_(), Parser()
    parser.feed(html)
    assert parser.open == []
    assert html.startswith("<table>")
    assert html.count("<tr>") <= 20
    for bad in ("object at 0x", "array([", "\n"):
        assert bad not in parser.text


def test_text_of_the_users_is_escaped() -> None:
    for name in ("a user's function", "Graph"):
        html = make_objects()[name]._repr_html_()
        assert "<script>" not in html
        assert "&lt;script&gt;alert(&quot;&amp;&quot;)" in html


def test_the_reason_of_a_failure_is_shown_whole() -> None:
    r = cz.minimize(name_oddly, np.ones(3), lambda x: -x, rng=0)
    assert not r.success
    assert len(r.message) > 78  # it takes more than a line
    lines = repr(r).splitlines()
    assert max(map(len, lines)) <= 80
    assert r.message in " ".join(repr(r).split())


def test_what_is_shown_is_what_is_there() -> None:
    r = make_objects()["Result of a path"]
    lines = [line.strip() for line in repr(r).splitlines()]
    assert lines[0] == "Result"
    assert f"fun: {r.fun:.6g}" in lines
    assert "nit: 50" in lines
    assert f"x: [{r.x[0]:.6g}, {r.x[1]:.6g}, 1.0]" in lines
    assert "method: Continuized(L=1.0, mu=0.01, start=inf, tau=1.0)" in lines
    assert repr(make_objects()["Quadratic"]) == "Quadratic(dim=500, L=1.0, mu=1.0, f_star=0.0)"
    assert repr(cz.problems.LeastSquares(X, Y)) == "LeastSquares(rows=60, columns=20, l2=0.0)"


def test_to_look_at_a_regression_or_a_graph_computes_nothing() -> None:
    p, graph = cz.problems.LeastSquares(X, Y, l2=0.1), network.Graph.of("path:4")
    for shown, name, constant in ((p, "spectrum", "L"), (graph, "mu_g_range", "mu_g")):
        assert f"{constant}=" not in repr(shown)
        assert f"<th>{constant}" not in shown._repr_html_()
        assert name not in vars(shown)
        value = getattr(shown, constant)
        assert f"{constant}={value:.6g}" in repr(shown)


def test_a_result_is_still_a_dict() -> None:
    r = make_objects()["Result"]
    assert isinstance(r, dict)
    assert r["x"] is r.x
    assert {"x", "fun", "jac", "nit", "success", "message", "trace"} <= set(r)
    assert repr(cz.Result(x=1.0)).split() == ["Result", "x:", "1.0"]  # as SciPy's own may be made


# Tables


def test_a_trace_goes_over_named_rows_of_plain_numbers() -> None:
    """What pandas.DataFrame asks of what is neither a dict nor a sequence: list(trace), and the
    names from the first row."""
    outcome = make_objects()["Outcome"]
    for trace in (make_objects()["Trace"], outcome.trace, make_objects()["Decentralized"].trace):
        assert isinstance(trace, Table)
        rows = list(trace)
        assert len(rows) == len(trace) == len(trace.t)
        assert all(row._fields == trace.names for row in rows)
        for name, column in trace.columns.items():
            assert [getattr(row, name) for row in rows] == column.tolist()
        assert trace[-1] == rows[-1]
        assert {type(value) for row in rows for value in row} <= {int, float}
    with pytest.raises(IndexError):
        outcome.trace[10**6]


# What dir shows


@pytest.mark.parametrize("name", ["", *MODULES])
def test_dir_shows_public_names_only(name: str) -> None:
    module = importlib.import_module("continuized") if not name else getattr(cz, name)
    public = set(module.__all__) | ({"__version__"} if not name else set())
    assert set(dir(module)) == public
    assert all(hasattr(module, each) for each in public)
