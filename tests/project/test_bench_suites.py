"""The suites at tiny sizes: every contestant does the work that it is timed for."""

import importlib.util
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

import continuized as cz
from benchmarks import (
    data,
    ensemble,
    gossip,
    gradient,
    logistic,
    logistic_peers,
    loop,
    loop_peers,
    peers,
    penalised,
    penalised_peers,
    race,
    softmax,
    task,
    timing,
)
from benchmarks.outcome import ABSENT, AT_LEAST, TIMED
from benchmarks.timing import NotRunError, StoppedError, WrongError
from continuized import network


def is_installed(name):
    """Whether the peer that a contestant is named after can be had."""
    peer = {"JAX": "jax", "jax.vmap": "jax"}.get(name, name.partition(",")[0])
    return peer not in peers.PEERS or importlib.util.find_spec(peers.PEERS[peer]) is not None


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """No threads spin that would disturb a test."""
    monkeypatch.setattr(timing, "PAUSE", 0.0)
    monkeypatch.setattr(timing, "TURN", 0.0)


def silent(words):
    """Progress that nobody sees."""


def check_entries(contest, done=(TIMED,)):
    for entry in contest.entries:
        wanted = done if is_installed(entry.name) else (ABSENT,)
        assert entry.status in wanted, entry


TASKS = {"quadratic": lambda: task.quadratic(6, 30), "logistic": lambda: task.logistic(50, 4, 30)}


@pytest.fixture(scope="module", params=TASKS)
def any_task(request):
    return TASKS[request.param]()


@pytest.mark.needs("jax")
def test_a_task_is_one_function_in_three_languages(any_task):
    jax, w = peers.load("jax"), np.linspace(-1.0, 2.0, any_task.problem.dim)
    in_jax = peers.in_doubles(lambda: jax.value_and_grad(any_task.in_jax(jax.numpy))(w))
    for value, slope in (any_task.problem.value_and_gradient(w), in_jax()):
        assert float(value) == pytest.approx(any_task.fun(w), rel=1e-12)
        np.testing.assert_allclose(slope, any_task.grad(w), rtol=1e-10, atol=1e-14)
    assert jax.numpy.zeros(1).dtype == np.float32, "JAX's own setting was changed"


def nesterov(any_task):
    """Gradient descent with constant momentum, as optax defines it: f after each gradient."""
    x, v, values, L = any_task.x0, any_task.x0, [], any_task.problem.L
    for _ in range(any_task.gradients):
        g = any_task.grad(x)
        v = g + any_task.momentum * v
        x = x - (g + any_task.momentum * v) / L
        values.append(any_task.fun(x))
    return values


def fista(any_task, steps):
    x = y = any_task.x0
    t, values = 1.0, []
    for _ in range(steps):
        new = y - any_task.grad(y) / any_task.problem.L
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        x, y, t = new, new + (t - 1.0) / following * (new - x), following
        values.append(any_task.fun(x))
    return values


IN_NUMPY = ("SciPy, L-BFGS-B", "copt, accelerated")
REFERENCES = {
    "optax, Nesterov": lambda t: nesterov(t),
    "optimistix, Nesterov of optax": lambda t: nesterov(t),
    "jaxopt, accelerated": lambda t: fista(t, t.gradients),
}


@pytest.mark.parametrize("name", [n for n in REFERENCES if is_installed(n)])
def test_a_peer_in_jax_takes_as_many_gradients_as_it_is_counted_for(name):
    given = TASKS["quadratic"]()
    values, answer = REFERENCES[name](given), loop_peers.MAKERS[name](given)()
    assert answer.gradients == given.gradients
    assert given.fun(answer.x) == pytest.approx(values[-1], rel=1e-6)
    assert abs(values[-1] - values[-2]) > 1e-5 * values[-1], "one gradient less must show"
    racer = loop.Racer(name, given, loop_peers.MAKERS[name])
    np.testing.assert_allclose(racer.values(), values, rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in ("jaxopt, accelerated",) if is_installed(n)])
def test_a_peer_that_ends_at_a_zero_gradient_is_counted_up_to_there(name):
    given = task.quadratic(3, 20_000, least=0.5)
    answer = loop_peers.MAKERS[name](given)()
    assert answer.gradients < given.gradients // 2
    assert given.above(answer.x) < 1e-25


@pytest.mark.filterwarnings("ignore:minimize_proximal_gradient did not reach")
@pytest.mark.parametrize("name", [n for n in IN_NUMPY if is_installed(n)])
def test_a_peer_in_numpy_is_counted(name):
    given, calls = TASKS["quadratic"](), []

    def grad(x):
        calls.append(x)
        return given.grad(x)

    answer = loop_peers.MAKERS[name](replace(given, grad=grad))()
    assert answer.gradients == len(calls) <= given.gradients + 1


@pytest.fixture
def few_makers(monkeypatch):
    """One of each kind: each in JAX compiles for a second or two."""
    few = ("optax, Nesterov", *IN_NUMPY)
    monkeypatch.setattr(loop_peers, "MAKERS", {name: loop_peers.MAKERS[name] for name in few})


def test_the_loop_has_every_contestant_and_its_curve(few_makers):
    size = loop.Size(
        dim=5, rows=40, gradients=40, repeats=1, dims=(7,), numbers=7_000, dims_in_numpy=(6,)
    )
    suite = loop.run(size, silent)
    titles = [contest.title.partition(", quadratic, ") for contest in suite.contests]
    assert [which for *_, which in titles] == ["d = 5", "", "d = 7", "d = 7, float32", "d = 6"]
    for contest in suite.contests:
        check_entries(contest)
    timed = [e.name for e in suite.contests[0].entries if e.status == TIMED]
    assert [c.name for c in suite.panels[0].curves] == timed
    assert suite.panels[0].note == ""
    by_steps, by_seconds = (panel.curves[0] for panel in suite.panels[:2])
    cost = suite.contests[0].entries[0].amount
    np.testing.assert_allclose(by_seconds.along, by_steps.along * cost)


@pytest.mark.parametrize("name", [n for n in loop.COMPILED if is_installed(n)])
def test_in_float32_every_compiled_step_is(name):
    given = task.quadratic(7, 400, least=loop.FLAT, dtype=np.float32)
    answer = loop.COMPILED[name](given)()
    assert answer.x.dtype == np.float32
    assert given.above(answer.x) < 0.1


def test_an_answer_above_gradient_descents_is_wrong():
    given = TASKS["quadratic"]()
    with pytest.raises(WrongError, match="gradient descent"):
        loop.below_gradient_descent(given, task.Run(given.x0, 30))


def test_a_curve_that_cannot_be_made_is_named(few_makers, monkeypatch):
    given = TASKS["quadratic"]()
    contest = loop.compete("work", loop_contestants(given), repeats=1)
    monkeypatch.setattr(loop.Racer, "values", lambda self: 1 // 0)
    panels = loop.convergence(given, contest, silent)
    assert "No curve of continuized: ZeroDivisionError" in panels[0].note


def loop_contestants(given):
    return [loop.Contestant(r.name, r.prepare) for r in loop.contestants(given)]


@pytest.mark.needs("jax")
def test_numpy_and_jax_run_the_process_of_the_ensemble():
    p = cz.problems.paper_convex()
    gaps = np.random.default_rng(1).standard_exponential((3, 40))
    f = ensemble.in_numpy(p, gaps)
    for run, row in zip(gaps, f, strict=True):
        times = cz.clock.Recorded(np.cumsum(run))
        r = cz.minimize(p, np.zeros(p.dim), clock=times, maxiter=40, method=cz.Continuized(p.L))
        np.testing.assert_allclose(row, r.trace.fun, rtol=1e-9)
    np.testing.assert_allclose(ensemble._vmap(p, gaps)(), f, rtol=1e-9)


def test_the_ensemble_suite():
    (contest,) = ensemble.run(ensemble.Size(runs=100, steps=20, repeats=1), silent).contests
    check_entries(contest)
    with pytest.raises(WrongError, match="shape"):
        ensemble._same_law(np.ones((2, 3)), ensemble.Size(2, 3, 1), 1.0)
    with pytest.raises(WrongError, match="median"):
        ensemble._same_law(np.ones((2, 4)), ensemble.Size(2, 3, 1), 1e-3)


def test_the_gradient_suite_checks_every_answer():
    suite = gradient.run(gradient.Size(dense=((60, 5),), sparse=(60, 30), repeats=1), silent)
    whats = [contest.title.partition(",")[0] for contest in suite.contests]
    assert whats == ["gradient", "loss and gradient", "loss and gradient"]
    for contest in suite.contests:
        check_entries(contest)
    expected = 1.0, np.ones(3)
    for right in ((1.0, np.ones(3)), (None, np.ones(3)), None):
        assert gradient._agrees(expected, right) == 1.0
    for wrong in (
        (1.0 + 1e-8, np.ones(3)),
        (None, np.ones(3) / 2),
        (1.0, np.array([1.0, 1.0, 1.0 + 1e-6])),
    ):
        with pytest.raises(WrongError):
            gradient._agrees(expected, wrong)


def test_the_gradient_in_numpy_is_the_problems():
    X, y = data.sparse(40, 20, per_row=5)
    given = gradient.Data(X, y, np.linspace(-1.0, 1.0, 20))
    p = cz.problems.LogisticRegression(X, y, gradient.L2)
    value, slope = gradient.in_numpy(given)
    assert value == pytest.approx(p.fun(given.w), rel=1e-12)
    np.testing.assert_allclose(slope, p.grad(given.w), rtol=1e-9, atol=1e-14)


def test_data_are_the_same_at_every_call_and_of_two_labels():
    for make in (lambda: data.dense(30, 4, True), lambda: data.sparse(30, 40)):
        (X, y), (again, labels) = make(), make()
        assert abs(X - again).max() == 0.0
        np.testing.assert_array_equal(y, labels)
        assert set(y) == {-1.0, 1.0}
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1.0)


@pytest.fixture
def few_solvers(monkeypatch):
    """Those of skglm compile for many seconds."""
    few = ("scikit-learn, lbfgs", "scikit-learn, newton-cg", "cyanure")
    solvers = {name: logistic_peers.SOLVERS[name] for name in few}
    monkeypatch.setattr(logistic, "SOLVERS", solvers)


def test_the_logistic_suite_reaches_the_precision(few_solvers, tmp_path):
    file = tmp_path / "small.svm"
    file.write_text("".join(f"{7 - 2 * (i % 3 > 0)} 1:{i % 5} 2:{i % 7}\n" for i in range(60)))
    size = logistic.Size(
        dense=(80, 4), sparse=(80, 60), repeats=1, most=1e3, factors=(1.0,), file=file,
        kinds=("rotated", "sparse"),
    )  # fmt: skip
    suite = logistic.run(size, silent)
    titles = [contest.title.partition(", ")[2] for contest in suite.contests]
    assert titles[0].startswith("small.svm 60 x 2")
    assert len(titles) == 3
    for contest, panel in zip(suite.contests, suite.panels, strict=True):
        check_entries(contest, (TIMED, AT_LEAST))
        assert contest.entries[0].status == TIMED
        for entry, curve in zip(contest.entries, panel.curves, strict=False):
            if entry.status == TIMED:
                assert curve.above[-1] <= 1e-6


def test_every_solver_minimises_the_same_function():
    X, y = data.dense(200, 5, rotated=True)
    p = cz.problems.LogisticRegression(X, y, l2=0.01)
    best = cz.minimize(p, np.zeros(5), method="auto", tol=1e-14, rng=0)
    for name, solve in logistic_peers.SOLVERS.items():
        if is_installed(name) and not name.startswith("skglm"):
            np.testing.assert_allclose(solve(p, 1e-9), best.x, atol=1e-4, err_msg=name)


def test_a_solver_that_never_gets_there_is_given_up():
    X, y = data.dense(80, 4, rotated=False)
    p = cz.problems.LogisticRegression(X, y, l2=0.01)
    lasting = race.Race(p, 10.0, lambda p, tol: p.x_star, {})
    with pytest.raises(StoppedError, match="tightest tolerance"):
        lasting.prepare("lazy", lambda p, tol: np.zeros(p.dim))
    assert len(lasting.trials["lazy"]) == len(race.TOLERANCES)


def test_the_softmax_suite_reaches_both_precisions(monkeypatch):
    few = ("scikit-learn, lbfgs", "scikit-learn, newton-cholesky")
    monkeypatch.setattr(softmax, "SOLVERS", {name: softmax.SOLVERS[name] for name in few})
    size = softmax.Size(synthetic=((90, 4, 3),), repeats=1, most=1e3, digits=False)
    suite = softmax.run(size, silent)
    assert [c.title.partition(",")[0] for c in suite.contests] == ["time to 1e-06", "time to 1e-08"]
    for contest in suite.contests:
        check_entries(contest, (TIMED, AT_LEAST))
    assert all(curve.above[-1] <= 1e-8 for curve in suite.panels[0].curves)


def test_every_softmax_solver_minimises_the_same_function():
    X, labels = data.dense_classes(200, 4, 3)
    p = cz.problems.SoftmaxRegression(X, labels, 1.0 / 200, intercept=True)
    W = softmax.ours(p, 1e-11)
    for name, solve in softmax.SOLVERS.items():
        np.testing.assert_allclose(solve(p, 1e-9), W, atol=1e-4, err_msg=name)


def test_every_penalised_solver_minimises_the_same_function():
    for X in (data.dense(200, 6, rotated=False)[0], data.sparse(200, 30, 8)[0]):
        X, y = data.planted(X)
        ridge = cz.problems.LeastSquares(X, y, 1.0 / 200)
        lasso = penalised_peers.Lasso(cz.problems.LeastSquares(X, y), cz.prox.L1(0.002))
        for p, ours, solvers in (
            (ridge, penalised.our_ridge, penalised_peers.RIDGE),
            (lasso, penalised.our_lasso, penalised_peers.LASSO),
        ):
            best = p.fun(ours(p, 1e-11))
            for name, solve in solvers.items():
                if is_installed(name) and not name.startswith("skglm"):
                    assert p.fun(solve(p, 1e-8)) == pytest.approx(best, rel=1e-6), name


def test_the_penalised_suite_names_who_is_absent(monkeypatch):
    monkeypatch.setitem(peers.PEERS, "celer", "no_such_module")
    few = {name: penalised_peers.LASSO[name] for name in ("scikit-learn", "celer")}
    monkeypatch.setattr(penalised_peers, "LASSO", few)
    monkeypatch.setattr(penalised_peers, "RIDGE", {})
    size = penalised.Size(dense=((80, 5),), sparse=(80, 20, 4), repeats=1, most=1e3)
    for contest in penalised.run(size, silent).contests:
        assert contest.entries[0].status == TIMED
        for entry in contest.entries[2:]:
            assert (entry.status, entry.words) == (ABSENT, "celer is not installed")


def test_a_hessian_that_would_not_fit_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(logistic_peers, "LARGEST_HESSIAN", 3)
    X, y = data.dense(20, 4, rotated=False)
    p = cz.problems.LogisticRegression(X, y, l2=0.01)
    with pytest.raises(NotRunError, match="4 columns"):
        logistic_peers.sklearn("newton-cholesky")(p, 0.1)


def test_gossip_in_python_is_the_process():
    """Against matrix exponentials of dx = theta (z - x), dz = theta (x - z) and the jumps."""
    graph, events = network.Graph.of("path:3"), 25
    values = np.array([1.0, -2.0, 0.5])
    answer = gossip.in_python(graph, values, events)
    rng = np.random.default_rng(0)
    edges = graph.edges[rng.choice(len(graph.P), events, p=graph.P)]
    gaps = rng.standard_exponential(events)
    theta, gamma, gamma_prime = network.Gossip().constants(graph)
    generator = theta * np.kron([[-1.0, 1.0], [1.0, -1.0]], np.eye(3))
    state = np.concatenate([values, values])
    for (i, j), gap in zip(edges, gaps, strict=True):
        state = expm(gap * generator) @ state
        e = np.eye(3)[i] - np.eye(3)[j]
        d = e @ state[:3]
        state = state - np.concatenate([gamma * d * e, gamma_prime * d * e])
    np.testing.assert_allclose(np.concatenate([answer.x, answer.z]), state, atol=1e-12)


def test_the_gossip_suite():
    suite = gossip.run(gossip.Size("cycle:10", 500, ("cycle:20",), repeats=1), silent)
    timed, counted = suite.contests
    check_entries(timed)
    assert [entry.name for entry in counted.entries] == ["accelerated gossip", "plain gossip"]
    assert counted.ratio(counted.entries[1]) > 1.0  # Theta(sqrt(nodes)) at a fixed seed
    start = np.array([1.0, -1.0])
    for x, says in ((start, "no nearer"), (start + 1e-3, "sum of x and z")):
        with pytest.raises(WrongError, match=says):
            gossip._averages(gossip.Averaged(x, start, 1), start)
