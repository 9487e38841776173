"""Ensembles: every run is the run that `minimize` makes with its seed."""

import numba
import numpy as np
import pytest

import continuized as cz
from tests.helpers.interrupts import assert_interrupted

QUADRATIC = cz.problems.Quadratic([1.0, 0.3, 0.01], [1.0, -1.0, 2.0])
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 3)), np.where(RNG.random(12) < 0.5, -1.0, 1.0)


@numba.njit
def numba_grad(x, out):
    for i in range(x.size):
        out[i] = x[i] - 1.0


@numba.njit
def numba_fun(x):
    return 0.5 * ((x - 1.0) ** 2).sum()


PROBLEMS = {
    "quadratic": QUADRATIC,
    "least squares": cz.problems.LeastSquares(X, Y),
    "logistic": cz.problems.LogisticRegression(X, Y, l2=0.01),
    "user, compiled": cz.Problem(numba_fun, numba_grad, L=1.0, mu=0.0, x_star=np.ones(3)),
    "quadratic, d = 40": cz.problems.Quadratic(np.geomspace(0.01, 1.0, 40), RNG.random(40)),
    "logistic, d = 200": cz.problems.LogisticRegression(
        RNG.standard_normal((300, 200)), np.sign(RNG.standard_normal(300)), l2=0.01
    ),
    "user, Python": cz.Problem(QUADRATIC.fun, QUADRATIC.grad, L=1.0, mu=0.01),
}
METHODS = {
    "gradient descent": lambda p: cz.GradientDescent(p.L),
    "nesterov": lambda p: cz.Nesterov(p.L),
    "convex": lambda p: cz.Continuized(p.L),
    "strongly convex": lambda p: cz.Continuized(p.L, p.mu),
    "start": lambda p: cz.Continuized(p.L, p.mu, start=0.0 if p.mu else 0.7),
}
NOISES = {"exact": None, "noisy": cz.noise.Gaussian(1e-2)}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_each_run_is_that_of_minimize(problem, method, noise):
    method, x0 = method(problem), np.resize([0.5, 0.0, -0.5], problem.dim or 3)
    e = cz.ensemble(problem, method, x0, runs=3, steps=40, rng=7, noise=noise)
    for i in range(3):
        r = cz.minimize(problem, x0, method=method, maxiter=40, rng=e.seed(i), noise=noise)
        assert np.array_equal(e.t[i], r.trace.t)
        np.testing.assert_allclose(e.fun[i], r.trace.fun, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("problem", [PROBLEMS["quadratic"], PROBLEMS["user, Python"]])
def test_values_at_fixed_times_are_those_of_the_path(problem, method, noise):
    method, x0, times = method(problem), np.array([0.5, 0.0, -0.5]), [0.0, 0.3, 2.0, 2.0, 9.5]
    e = cz.ensemble(problem, method, x0, runs=3, times=times, rng=8, noise=noise)
    assert e.t.tolist() == times
    for i in range(3):
        r = cz.minimize(
            problem, x0, method=method, maxiter=60, rng=e.seed(i), noise=noise, record="path"
        )
        expected = [problem.fun(r.at(t)[0]) for t in times]
        np.testing.assert_allclose(e.fun[i], expected, rtol=1e-10, atol=1e-14)


class OwnClock:
    """Gaps uniform on [0, 2], from NumPy's own generator of a seed."""

    def __init__(self, rng):
        self.rng = rng

    def stream(self):
        rng = np.random.default_rng(self.rng)
        return cz.clock.Stream(lambda n: rng.uniform(0.0, 2.0, n))


CLOCKS = {
    "of another rate": lambda rng: cz.clock.Poisson(rng, rate=3.0),
    "of another seed": lambda rng: cz.clock.Poisson(5),
    "of the user's own": OwnClock,
}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_each_run_is_that_of_minimize_on_any_clock_of_the_method(clock):
    class Timed(cz.Continuized):
        def clock(self, rng=None):
            return clock(rng)

    method, x0 = Timed(1.0, 0.01), np.zeros(3)
    e = cz.ensemble(QUADRATIC, method, x0, runs=3, steps=20, rng=7)
    for i in range(3):
        r = cz.minimize(QUADRATIC, x0, method=method, maxiter=20, rng=e.seed(i))
        assert np.array_equal(e.t[i], r.trace.t)
        np.testing.assert_allclose(e.fun[i], r.trace.fun, rtol=1e-10, atol=1e-14)


def test_runs_are_different_and_seeds_repeat():
    method = cz.Continuized(1.0, 0.01)

    def t(seed):
        return cz.ensemble(QUADRATIC, method, np.zeros(3), runs=200, steps=5, rng=seed).t

    assert np.array_equal(t(1), t(1))
    assert not np.array_equal(t(1), t(2))
    assert np.unique(t(1)[:, 1]).size == 200


@pytest.mark.parametrize("method", [cz.Continuized(1.0, 0.01), cz.Nesterov(1.0)], ids=repr)
def test_the_result_does_not_depend_on_threads_or_chunks(monkeypatch, method):
    arguments = {"runs": 150, "steps": 30, "rng": 3, "noise": cz.noise.Gaussian(1e-3)}
    one = cz.ensemble(QUADRATIC, method, np.zeros(3), threads=1, **arguments)
    many = cz.ensemble(QUADRATIC, method, np.zeros(3), threads=5, **arguments)
    assert np.array_equal(one.fun, many.fun)
    monkeypatch.setattr("continuized.solver.ensemble.CHUNK", 7)
    monkeypatch.setattr("continuized.solver.ensemble.CHUNK_NUMBERS", 100)  # cuts a run into blocks
    cut = cz.ensemble(QUADRATIC, method, np.zeros(3), threads=2, **arguments)
    assert np.array_equal(one.fun, cut.fun)
    assert np.array_equal(one.t, cut.t)


@pytest.mark.parametrize("what", [{"steps": 20}, {"times": [1.0, 7.0]}])
def test_keep_mean_keeps_the_moments_and_no_run(what):
    method = cz.Continuized(1.0, 0.01)
    every = cz.ensemble(QUADRATIC, method, np.zeros(3), runs=300, rng=4, **what)
    mean = cz.ensemble(QUADRATIC, method, np.zeros(3), runs=300, rng=4, keep="mean", **what)
    assert mean.fun is None
    assert np.array_equal(mean.mean(), every.mean())
    assert np.array_equal(mean.interval(0.1)[1], every.interval(0.1)[1])
    np.testing.assert_allclose(every.mean(), every.fun.mean(axis=0), rtol=1e-12)
    with pytest.raises(ValueError, match='keep="all"'):
        mean.quantile(0.5)


def test_quantiles_and_intervals():
    e = cz.ensemble(QUADRATIC, cz.Continuized(1.0), np.zeros(3), runs=400, times=[5.0], rng=5)
    low, high = e.interval(0.05)
    assert low < e.mean() < high
    expected = 1.959963984540054 * e.fun.std(ddof=1) / 20.0
    np.testing.assert_allclose((high - low) / 2.0, expected, rtol=1e-10)
    np.testing.assert_array_equal(e.quantile([0.1, 0.9]), np.quantile(e.fun, [0.1, 0.9], axis=0))


def test_float32_and_the_given_array():
    x0 = np.zeros(3, np.float32)
    e = cz.ensemble(QUADRATIC, cz.Continuized(1.0), x0, runs=2, steps=10, rng=6)
    r = cz.minimize(QUADRATIC, x0, method=cz.Continuized(1.0), maxiter=10, rng=e.seed(1))
    np.testing.assert_allclose(e.fun[1], r.trace.fun, rtol=1e-5)
    assert not x0.any()


def test_a_custom_method_runs_in_python():
    closed = cz.Continuized(1.0, 0.01)
    eta = closed.constants[1] ** 0.5
    custom = cz.CustomContinuized(lambda t: eta, lambda t: eta, lambda t: 1.0, lambda t: 1.0 / eta)
    arguments = {"runs": 2, "times": [0.5, 3.0], "rng": 9}
    e = cz.ensemble(QUADRATIC, custom, np.zeros(3), **arguments)
    expected = cz.ensemble(QUADRATIC, closed, np.zeros(3), **arguments)
    np.testing.assert_allclose(e.fun, expected.fun, rtol=1e-10)


def test_progress_is_shown_on_standard_error(capsys):
    cz.ensemble(QUADRATIC, cz.Continuized(1.0), np.zeros(3), runs=70, steps=2, progress=True)
    out, err = capsys.readouterr()
    assert not out
    assert "70/70" in err


BAD = {
    "runs": (
        {"runs": 0},
        ValueError,
        "runs must be an integer from 1 to 9223372036854775807, got 0",
    ),
    "steps": (
        {"steps": -3},
        ValueError,
        "steps must be an integer from 1 to 9223372036854775807, got -3",
    ),
    "not an integer": ({"runs": 2.5}, TypeError, "runs must be an integer"),
    "neither": ({"steps": None}, ValueError, "either steps= .* or times="),
    "both": ({"times": [1.0]}, ValueError, "either steps= .* or times="),
    "negative": (
        {"steps": None, "times": [-1.0]},
        ValueError,
        r"finite and >= 0, but times\[0\] is -1.0",
    ),
    "unsorted": ({"steps": None, "times": [2.0, 1.0]}, ValueError, "increasing"),
    "no times": ({"steps": None, "times": []}, ValueError, "times must be one or more, got none"),
    "keep": ({"keep": "some"}, ValueError, 'keep must be "all" or "mean"'),
    "threads": (
        {"threads": 0},
        ValueError,
        "threads must be an integer from 1 to 9223372036854775807, got 0",
    ),
    "runs too many": (
        {"runs": 10**400},
        ValueError,
        "runs must be an integer from 1 to 9223372036854775807, got 1000",
    ),
    "threads not whole": (
        {"threads": 1.5},
        TypeError,
        "threads must be an integer from 1 to 9223372036854775807, got 1.5",
    ),
    "keep an array": ({"keep": np.ones(9)}, TypeError, 'keep must be "all" or "mean", got array'),
    "times ragged": ({"steps": None, "times": [[1], [1, 2]]}, ValueError, "times must be"),
    "times complex": ({"steps": None, "times": [1j]}, TypeError, "times must be"),
    "memory of the mean": (
        {"runs": 1, "steps": 10**11, "keep": "mean"},
        MemoryError,
        r"1600\.0 GB.*fewer steps",
    ),
    "memory": ({"runs": 10**9, "steps": 10**6}, MemoryError, r"16000016\.0 GB"),
    "x0": ({"x0": np.zeros(4)}, ValueError, "x0 has 4 entries"),
    "noise": ({"noise": 0.1}, TypeError, "noise model"),
    "rng": ({"rng": -1}, ValueError, "rng"),
    "method": ({"method": "continuized"}, TypeError, "method must be a method"),
    "problem": ({"problem": abs}, TypeError, "problem must be a Problem"),
}


@pytest.mark.parametrize(("change", "error", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_sentence(change, error, words):
    arguments = {
        "problem": QUADRATIC,
        "method": cz.Continuized(1.0),
        "x0": np.zeros(3),
        "runs": 2,
        "steps": 5,
    }
    arguments |= change
    three = [arguments.pop(name) for name in ("problem", "method", "x0")]
    with pytest.raises(error, match=words) as caught:
        cz.ensemble(*three, **arguments)
    assert "\n" not in str(caught.value)


def test_a_failing_problem_lets_its_error_through():
    def grad(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        cz.ensemble(
            cz.Problem(QUADRATIC.fun, grad), cz.Continuized(1.0), np.zeros(3), runs=2, steps=2
        )


def test_a_subclass_with_coefficients_of_its_own_is_not_run_by_the_compiled_rule():
    class Slower(cz.Continuized):
        def coefficients(self, k, t0, t, dt, carry):
            a, b, gamma, gamma_prime, carry = super().coefficients(k, t0, t, dt, carry)
            return a, b, gamma / 2.0, gamma_prime, carry

    arguments = {"runs": 1, "steps": 5, "rng": 1}
    slower = cz.ensemble(QUADRATIC, Slower(1.0), np.zeros(3), **arguments)
    usual = cz.ensemble(QUADRATIC, cz.Continuized(1.0), np.zeros(3), **arguments)
    assert np.all(np.abs(slower.fun - usual.fun)[0, 1:] > 1e-6)


def test_a_subclass_with_a_flow_of_its_own_is_not_run_by_the_compiled_one():
    class Still(cz.Continuized):
        def flow(self, t0, t, dt):
            return 0.0, 0.0

    arguments = {"runs": 3, "times": [0.5, 2.5], "rng": 1}
    still = cz.ensemble(QUADRATIC, Still(1.0), np.zeros(3), **arguments)
    r = cz.minimize(
        QUADRATIC, np.zeros(3), method=Still(1.0), maxiter=30, rng=still.seed(1), record="path"
    )
    assert still.fun[1].tolist() == [QUADRATIC.fun(r.at(t)[0]) for t in (0.5, 2.5)]


@numba.njit
def longer(gamma):
    return 2.0 * gamma


def own_rule(k, t0, t, dt, carry, L, mu, start):
    return 0.25, 0.5, 0.5 / L, longer(0.5 / L), carry + 1.0


def own_flow(t0, t, dt, L, mu, start):
    return 0.5, 0.0


class Own(cz.GradientDescent):
    """A method of a user's own, all in its rules."""

    @property
    def rule(self):
        return own_rule

    @property
    def flow_rule(self):
        return own_flow


@pytest.mark.parametrize("what", [{"steps": 6}, {"times": [0.5, 3.5]}])
def test_a_rule_and_a_flow_of_the_users_own_run_compiled(what):
    class Python(Own):
        def coefficients(self, k, t0, t, dt, carry):
            return super().coefficients(k, t0, t, dt, carry)

    from continuized.process.compiled import runs_compiled

    assert runs_compiled(Own(1.0))
    assert not runs_compiled(Python(1.0))
    values = [
        cz.ensemble(QUADRATIC, method, np.zeros(3), runs=2, **what).fun
        for method in (Own(1.0), Python(1.0), cz.GradientDescent(1.0))
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)
    assert np.all(np.abs(values[0] - values[2])[:, 1:] > 1e-3)


def test_each_part_is_compiled_once_however_many_threads(monkeypatch):
    from continuized.process import compiled
    from continuized.solver.kernels import ensemble

    made = []
    for module in (ensemble, compiled):
        jit = module.jit
        monkeypatch.setattr(
            module, "jit", lambda f, *a, jit=jit, **o: made.append(f) or jit(f, *a, **o)
        )
    for part in (ensemble.compile_steps, compiled.compile_fill):
        part.cache_clear()
    cz.ensemble(QUADRATIC, cz.Nesterov(1.0), np.zeros(3), runs=500, steps=2, threads=4)
    assert sorted(f.__name__ for f in made) == ["fill", "take_steps"]


def test_an_ensemble_that_would_not_end_is_refused_with_how_long_it_would_take():
    p = cz.problems.paper_strongly_convex()
    sentence = r"^1 runs up to t = 1e\+12 are about 1e\+12 events, which take 21 hours or more; ask"
    with pytest.raises(ValueError, match=sentence):
        cz.ensemble(p, cz.Continuized(p.L, p.mu), [0, 0, 0], runs=1, times=[1e12])


def test_a_run_that_fails_has_no_values_after_its_end():
    def fun(x):
        return QUADRATIC.fun(x) if QUADRATIC.fun(x) > 0.5 * QUADRATIC.fun(np.zeros(3)) else np.nan

    p = cz.Problem(fun, QUADRATIC.grad, L=1.0)
    e = cz.ensemble(p, cz.Continuized(1.0), np.zeros(3), runs=3, steps=50, rng=0)
    for i in range(3):
        r = cz.minimize(p, np.zeros(3), maxiter=50, rng=e.seed(i))
        assert r.status is cz.Status.NOT_FINITE
        assert e.fun[i, : r.nit + 1].tolist() == r.trace.fun.tolist()
        assert np.all(np.isnan(e.fun[i, r.nit + 1 :]))
        assert np.all(np.isnan(e.t[i, r.nit + 1 :]))


def test_an_oracle_is_tested_once_for_all_runs():
    counts = []
    for runs in (1, 2, 3):
        asked = []

        def draw(x, rng, asked=asked):
            asked.append(x)
            return QUADRATIC.grad(x) + 0.1 * rng.standard_normal(3)

        noise = cz.noise.Oracle(draw, sigma2=0.03, check=True)
        cz.ensemble(QUADRATIC, cz.Continuized(1.0), np.zeros(3), runs=runs, steps=4, noise=noise)
        counts.append(len(asked))
    assert counts[0] > 2000
    assert np.diff(counts).tolist() == [4, 4]


def test_the_memory_of_a_mean_does_not_grow_with_the_runs(monkeypatch):
    monkeypatch.setattr("continuized.support.files.memory", lambda: 1e6)
    how = {"runs": 20_000, "steps": 5, "rng": 0, "threads": 1}
    with pytest.raises(MemoryError, match='ask for keep="mean", fewer runs or fewer steps'):
        cz.ensemble(QUADRATIC, cz.Continuized(1.0), np.zeros(3), **how)
    e = cz.ensemble(QUADRATIC, cz.Continuized(1.0), np.zeros(3), keep="mean", **how)
    assert e.runs == 20_000


def test_ctrl_c_ends_an_ensemble():
    p = cz.problems.paper_strongly_convex()
    method, x0 = cz.Continuized(p.L, p.mu), [0, 0, 0]
    cz.ensemble(p, method, x0, runs=1, times=[1.0])  # compiles
    assert_interrupted(lambda: cz.ensemble(p, method, x0, runs=3, times=[1e11]))


@pytest.mark.parametrize("size", [1e-24, 1e20])
def test_values_of_single_precision_runs_are_doubles(size):
    p, method = cz.problems.Quadratic([0.5, 1.0]), cz.Continuized(1.0, 0.5)
    x0 = np.full(2, size, np.float32)
    fun = cz.ensemble(p, method, x0, runs=1, steps=2, rng=0).fun[0]
    assert fun[0] == pytest.approx(0.75 * size**2, rel=1e-6)  # which no single can be
    assert np.all((fun[1:] > 0.0) & (fun[1:] < fun[0]))


@pytest.mark.parametrize("how", [{"steps": 10}, {"times": [1.0, 5.0]}])
@pytest.mark.parametrize("events", [1, 3])
def test_a_clock_that_ends_is_refused(events, how):
    class Short(cz.Continuized):
        def clock(self, rng=None):
            return cz.clock.Recorded(np.arange(1.0, events + 1.0) / 10.0)

    p = cz.problems.paper_strongly_convex()
    with pytest.raises(ValueError, match=f"the clock of run 0 has {events} events, but"):
        cz.ensemble(p, Short(p.L, p.mu), np.zeros(3), runs=4, rng=0, **how)
