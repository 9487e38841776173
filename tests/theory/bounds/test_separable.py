"""The theorem of coordinates with a separable psi: Lyapunov function, surrogate, bounds.

V = A (f(x) + psihat - F*) + B |z - x*|^2, where (psihat, zetahat) mix as (x, z) do, and at mark i
zetahat_i becomes psi_i(z_i+) and psihat_i moves by eta/p_i times what zetahat_i does.
"""

import math
from functools import cache

import numpy as np
import pytest

import continuized as cz
from continuized import parameters
from continuized.marked.kernels.entropy import entropy_step, logit
from continuized.process.compiled import coefficients
from continuized.process.flow import mix
from continuized.process.prox import entry_step, entry_value
from continuized.process.reference import proximal_coordinate_step
from continuized.support.statistics import SampleMoments
from continuized.theory import bound, drift
from continuized.theory.bounds.marked import minimise_penalised

STATES = 20_000
D = 4


@cache
def regression(l2=0.0, rows=9):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((rows, D)) * [2.0, 1.0, 0.7, 0.3]
    return cz.problems.LeastSquares(X, X @ [1.0, -2.0, 0.5, 2.0] + rng.standard_normal(rows), l2=l2)


WEIGHTED = [0.1, 0.4, 0.2, 0.3]
# name: problem and method; with 3 rows, mu = 0.
SETTINGS = {
    "lasso, mu = 0": (regression(rows=3), {"prox": cz.prox.L1(0.2)}),
    "lasso, weighted p": (regression(rows=3), {"prox": cz.prox.L1(0.2), "sampling": WEIGHTED}),
    "lasso": (regression(), {"prox": cz.prox.L1(0.2)}),
    "box, weighted p": (regression(), {"prox": cz.prox.Box(-0.5, 0.8), "sampling": WEIGHTED}),
    "box, mu = 0": (regression(rows=3), {"prox": cz.prox.Box(-0.5, 0.8)}),
    "box, start": (regression(), {"prox": cz.prox.Box(-0.5, 0.8), "start": 80.0}),
    "elastic net": (regression(rows=3), {"prox": cz.prox.ElasticNet(0.2, 0.1)}),
}  # fmt: skip

SOME = ("lasso, mu = 0", "box, weighted p", "elastic net")


class States:
    """Random states (t, x, z, psihat, zetahat), some with x or z much nearer to x* than the other:
    V falls slowest where x = x*."""

    def __init__(self, name, seed=0):
        self.problem, self.options = SETTINGS[name]
        method = cz.CoordinateDescent(**self.options)
        self.stepper = method.prepare(self.problem, np.zeros(D))
        self.star = minimise_penalised(method, self.problem, np.zeros(D))
        self.penalty = self.stepper.penalty
        rng = np.random.default_rng(seed)
        self.t = rng.uniform(0.0, 40.0, STATES)
        near = 10.0 ** rng.uniform(-6.0, 1.0, (2, STATES, 1)) * rng.standard_normal((2, STATES, D))
        self.x, self.z = np.clip(self.star + near, self.penalty.low, self.penalty.high)
        over = 10.0 ** rng.uniform(-6.0, 0.0, (2, STATES, D))
        self.psihat, self.zetahat = self.psi(self.x) + over[0], self.psi(self.z) + over[1]
        # Linear in psihat: half of the states have the least there can be.
        self.psihat[::2], self.zetahat[::2] = self.psi(self.x[::2]), self.psi(self.z[::2])

    def psi(self, x):
        """psi_i of each coordinate, without the l2 that f has."""
        return entry_value(x, self.penalty.l1, 0.0, self.penalty.low, self.penalty.high)

    def f(self, x):
        """f - f(x*) with the l2 of psi, from the difference: no digits are lost near x*."""
        g, H = self.gradient_and_hessian()
        u = x - self.star
        return u @ g + 0.5 * np.einsum("...i,ij,...j", u, H, u)

    def gradient_and_hessian(self):
        X, l2 = self.problem.X, self.problem.l2 + self.penalty.l2[0]
        H = X.T @ X / len(X) + l2 * np.eye(D)
        return self.problem.grad(self.star) + self.penalty.l2 * self.star, H

    def drift(self, kind=cz.CoordinateDescent):
        """Return what the library says, and the sizes of its terms, for rounding."""
        found = drift(kind(**self.options), self.problem, self.t, self.x, self.z, x_star=self.star)
        scale = np.abs(self.problem.values(self.x)) + 1.0
        return found, self.drift_by_definition()[1] + np.exp(self.log_A()) * scale

    def log_A(self):
        return np.array([parameters.log_A(t, *self.stepper.process.constants) for t in self.t])

    def drift_by_definition(self, mistake=""):
        """Compute the exact generator of V with its psihat and zetahat, and the terms' sizes."""
        constants = self.stepper.process.constants
        scalars = (parameters.eta, parameters.eta_prime, parameters.gamma_prime)
        eta, eta_prime, step_z = (
            np.array([s(t, *constants) for t in self.t.tolist()])[:, None] for s in scalars
        )
        A, B = (
            np.exp([log(t, *constants) for t in self.t.tolist()])
            for log in (parameters.log_A, parameters.log_B)
        )
        rate = eta
        if mistake == "eta at T_k":  # of the event before, on average at t - 1
            rate = np.array([parameters.eta(max(t - 1.0, 0.0), *constants) for t in self.t])[
                :, None
            ]
        x, z, psi_star = self.x, self.z, self.psi(self.star).sum()
        g_star, H = self.gradient_and_hessian()
        g = g_star + (x - self.star) @ H
        w = z - self.star

        def V(x, psihat, z):
            left = self.f(x) + psihat.sum(axis=1) - psi_star
            return A * left + B * ((z - self.star) ** 2).sum(axis=1)

        e, e_prime = eta[:, 0], eta_prime[:, 0]
        value = V(x, self.psihat, z)
        total = (
            e * A * (self.f(x) + self.zetahat.sum(axis=1) - psi_star + (g * (z - x)).sum(axis=1))
        )
        total += e_prime * B * ((w * w).sum(axis=1) + 2.0 * (w * (x - z)).sum(axis=1))
        size = np.abs(value) + A * (
            np.abs(self.psihat).sum(axis=1) + np.abs(g * (z - x)).sum(axis=1)
        )
        for i, p in enumerate(self.stepper.p):
            step = step_z[:, 0] / p
            share = rate[:, 0] / p
            l1, low, high = self.penalty.entries[i]
            after = entry_step(z[:, i] - step * g[:, i], step, l1, 0.0, low, high)
            x1, z1, psihat1 = x.copy(), z.copy(), self.psihat.copy()
            z1[:, i] = after
            x1[:, i] += share * (after - z[:, i])
            psihat1[:, i] += share * (self.psi(z1)[:, i] - self.zetahat[:, i])
            total += p * (V(x1, psihat1, z1) - value)
            size += A * np.abs(psihat1[:, i])
        return total, size


@pytest.mark.blas
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SOME else pytest.mark.slow) for name in SETTINGS],
)
def test_V_never_rises_in_20000_random_states(name):
    states = States(name)
    found, size = states.drift()
    assert np.max(found / size) <= 1e-12
    expected, near = states.drift_by_definition()  # psihat and zetahat are in it, and cancel
    assert np.max(expected / near) <= 1e-12
    np.testing.assert_allclose(found / size, expected / size, atol=1e-12)
    assert np.mean(found < -1e-6 * size) > 0.3  # and it says something


def test_the_drift_of_blocks_and_of_smooth_functions_is_not_positive():
    p, rng = regression(), np.random.default_rng(3)
    labels = cz.problems.LogisticRegression(p.X, np.sign(p.y), l2=0.1)
    x, z = rng.standard_normal((2, 300, D))
    t = rng.uniform(0.1, 20.0, 300)
    for problem, method in (
        (p, cz.CoordinateDescent(prox=cz.prox.GroupLasso(0.2, [0, 0, 1, 1]))),
        (p, cz.CoordinateDescent(blocks=2, prox=cz.prox.L1(0.2))),
        (p, cz.CoordinateDescent()),
        (labels, cz.CoordinateDescent(prox=cz.prox.L1(0.01))),
        (labels, cz.CoordinateDescent()),
    ):
        found = drift(method, problem, t, x, z)
        assert np.max(found) <= 1e-9 * np.max(np.abs(found))
        assert np.min(found) < 0.0
        one = drift(method, problem, t[0], x[0], z[0])
        assert float(one) == pytest.approx(found[0], rel=1e-6)  # x* is computed from another start


class ForgottenP(cz.CoordinateDescent):
    """gamma' in place of gamma'/p_i."""

    def prepare(self, problem, x0):
        stepper = super().prepare(problem, x0)
        stepper.weights = np.ones_like(stepper.weights)
        return stepper


class ForgottenPOfX(cz.CoordinateDescent):
    """eta in place of eta/p_i."""

    def prepare(self, problem, x0):
        stepper = super().prepare(problem, x0)
        stepper.steps = np.ones_like(stepper.steps)
        return stepper


# Where a step ends at a bound, V falls faster than it must, and eta is not seen.
@pytest.mark.parametrize(
    ("name", "mistake"), [("lasso, mu = 0", ForgottenP), ("box, mu = 0", ForgottenPOfX)]
)
def test_a_forgotten_p_makes_V_rise(name, mistake):
    found, size = States(name).drift(mistake)
    assert np.max(found / size) > 1e-6


def test_eta_of_an_earlier_event_makes_V_rise():
    found, size = States("lasso, mu = 0").drift_by_definition("eta at T_k")
    assert np.max(found / size) > 1e-6


def test_drifts_that_are_not_known_are_refused():
    p, x, prox = regression(), np.zeros(D), cz.prox.L1(0.1)
    with pytest.raises(ValueError, match="accelerated CoordinateDescent, got plain steps"):
        drift(cz.CoordinateDescent(accelerated=False), p, 1.0, x, x)
    with pytest.raises(ValueError, match="accelerated CoordinateDescent, got kaczmarz"):
        drift(cz.Kaczmarz(), p, 1.0, x, x)
    with pytest.raises(ValueError, match="give prox to CoordinateDescent itself"):
        drift(cz.CoordinateDescent(), p, 1.0, x, x, prox=prox)
    with pytest.raises(ValueError, match="x_star"):
        drift(cz.CoordinateDescent(prox=prox), p, 1.0, x, x, x_star=np.zeros(3))
    with pytest.raises(ValueError, match="eta is infinite at 0"):
        drift(cz.CoordinateDescent(), regression(rows=3), 0.0, x, x)


def run_with_surrogate(problem, method, start, seed):
    """Run the reference; return the least of psihat - psi(x) after and before every event."""
    x0 = np.array([-0.4, 0.7, 0.7, -0.4])
    stepper = cz.CoordinateDescent(**method).prepare(problem, x0)
    process = cz.Continuized(stepper.process.L, stepper.process.mu, start)
    penalty, prox = stepper.penalty, method["prox"]
    state = process.init(x0)
    psihat = zetahat = penalty.l1 * np.abs(x0)
    least = math.inf

    def value(x):  # of an x that is rounded to outside, too
        inside = np.clip(x, penalty.low, penalty.high)
        out = np.abs(x - inside)
        return np.where(out <= 1e-12, penalty.l1 * np.abs(x), math.inf)

    for event in cz.clock.Poisson(seed, marks=stepper.law).stream().draw(400).each():
        a, b = process.coefficients(event.k, state.t, event.t, event.dt, 0.0)[:2]
        psihat, zetahat = mix(psihat, zetahat, a, b)
        x, _ = mix(state.x, state.z, a, b)
        least = min(least, float((psihat - value(x)).sum()))
        state = proximal_coordinate_step(process, state, event, problem, prox, stepper.p)
        i = event.mark
        after = penalty.l1[i] * abs(state.z[i])
        share = parameters.eta(event.t, *process.constants) / stepper.p[i]
        psihat[i] += share * (after - zetahat[i])
        zetahat[i] = after
        least = min(least, float((psihat - value(state.x)).sum()))
    return least


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "elastic net"])
def test_the_surrogate_stays_above_psi_and_x_in_the_domain(name):
    problem, method = SETTINGS[name]
    start = cz.CoordinateDescent(**method).prepare(problem, np.zeros(D)).process.start
    for seed in range(5):
        assert run_with_surrogate(problem, method, start, seed) >= -1e-12


@pytest.mark.parametrize("name", ["lasso, mu = 0", "box, mu = 0"])
def test_a_start_of_0_breaks_that(name):
    assert min(run_with_surrogate(*SETTINGS[name], 0.0, seed) for seed in range(3)) < -1e-3


def mean_and_bound(problem, method, x0, times, runs, value):
    """The means of what is bounded over runs, with their standard errors, and the bounds."""
    found = np.empty((runs, times.size))
    for r in range(runs):
        stepper = method.prepare(problem, x0)
        events = cz.clock.Poisson(r, marks=stepper.law).stream().draw(int(times[-1] + 60.0))
        reached = np.searchsorted(events.t, times, side="right")
        first = 0
        for j, last in enumerate(reached.tolist()):
            part = events._replace(
                t=events.t[first:last], dt=events.dt[first:last], marks=events.marks[first:last],
                t0=events.t[first - 1] if first else 0.0, k0=first,
            )  # fmt: skip
            if last > first:
                stepper.take(part.marks, coefficients(stepper.process, part, 0.0))
            found[r, j] = value_at(stepper, value, events.t[last - 1] if last else 0.0, times[j])
            first = last
    moments = SampleMoments.of(found)
    return moments.mean, bound(method, problem, x0, t=times), found.std(axis=0) / math.sqrt(runs)


def value_at(stepper, value, t0, t):
    """The value at t, after the event at t0: x and z go on mixing."""
    before = stepper.scalars.copy()
    if stepper.accelerated:
        stepper.scalars[:] = mix(*before, *stepper.process.flow(t0, t, t - t0))
    found = value(stepper)
    stepper.scalars[:] = before
    return found


TIMES = np.array([3.0, 15.0, 60.0, 150.0])


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("name", ["lasso, mu = 0", "box, weighted p", "elastic net"])
def test_means_are_below_the_bounds(name, accelerated):
    """By 6 standard errors: false alarms are below 1e-8 each, for means near their bounds."""
    problem, options = SETTINGS[name]
    method = cz.CoordinateDescent(**options, accelerated=accelerated)
    star = minimise_penalised(method, problem, np.zeros(D))
    best = method.prepare(problem, np.zeros(D)).evaluate(star)
    mean, most, error = mean_and_bound(
        problem, method, np.zeros(D), TIMES, 200, lambda s: s.value() - best
    )
    assert np.all(mean + 6.0 * error <= most)
    assert np.all(mean >= 0.0)
    assert np.max(mean / most) > 0.05, "a bound this slack would test nothing"


def test_bounds_by_hand():
    p, x0 = regression(), np.full(D, 0.3)
    method = cz.CoordinateDescent(prox=cz.prox.ElasticNet(0.2, 0.1))
    L = (p.X**2).mean(axis=0) + 0.1
    S, mu = np.sqrt(L).sum() ** 2, np.linalg.eigvalsh(p.X.T @ p.X / 9)[0] + 0.1
    star = minimise_penalised(method, p, x0)

    def F(x):
        return p.fun(x) + 0.2 * np.abs(x).sum() + 0.05 * x @ x

    expected = F(x0) - F(star) + 0.5 * mu * np.sum((x0 - star) ** 2)
    t = np.array([0.0, 7.0])
    by_hand = expected * np.exp(-math.sqrt(mu / S) * t)
    np.testing.assert_allclose(bound(method, p, x0, t=t), by_hand, rtol=1e-7)
    np.testing.assert_allclose(bound(method, p, x0, k=[1, 5]), expected, rtol=1e-7)
    slow = cz.CoordinateDescent(prox=cz.prox.ElasticNet(0.2, 0.1), accelerated=False)
    rate = mu * np.min(np.sqrt(L) / np.sqrt(L).sum() / L)
    by_hand = (F(x0) - F(star)) * (1.0 - rate) ** 7
    np.testing.assert_allclose(bound(slow, p, x0, k=7), by_hand, rtol=1e-7)
    convex = regression(rows=3)
    method = cz.CoordinateDescent("uniform", prox=cz.prox.L1(0.2))
    L = (convex.X**2).mean(axis=0)
    star = minimise_penalised(method, convex, x0)
    left = convex.fun(x0) + 0.2 * np.abs(x0).sum() - convex.fun(star) - 0.2 * np.abs(star).sum()
    S, start = 16.0 * L.max(), 8.0
    top = start**2 * left + 2.0 * S * np.sum((x0 - star) ** 2)
    np.testing.assert_allclose(bound(method, convex, x0, t=9.0), top / 17.0**2, rtol=1e-6)


# The dual of logistic regression: f = l2/2 |w|^2 + 2/n |a|^2, psi = (H(a_i) - 2 a_i^2) / n.


@cache
def make_labelled():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((12, 3)) * np.geomspace(0.3, 2.0, 12)[:, None]
    return cz.problems.LogisticRegression(X, np.sign(rng.standard_normal(12)), l2=0.05)


def test_V_of_the_logistic_dual_never_rises():
    p, n = make_labelled(), 12
    stepper = cz.DualCoordinate(heuristics=False).prepare(p, np.zeros(3))
    S, mu = stepper.process.L, stepper.process.mu
    q, step_z = math.sqrt(mu / S), 1.0 / math.sqrt(mu * S)
    star = 1.0 / (1.0 + np.exp(p.y * (p.X @ p.x_star)))
    rows = p.y[:, None] * p.X
    H = rows @ rows.T / (p.l2 * n * n) + 4.0 / n * np.eye(n)
    assert np.max((np.diag(H)) / stepper.p**2) == pytest.approx(S)
    rng = np.random.default_rng(0)

    def psi(a):
        return (a * np.log(a) + (1.0 - a) * np.log1p(-a) - 2.0 * a * a) / n

    def V(a, psihat, z):
        u = a - star
        f = u @ H @ star + 0.5 * u @ H @ u
        return f + psihat.sum() - psi(star).sum() + 0.5 * mu * np.sum((z - star) ** 2)

    worst = {"none": -math.inf, "no p in x": -math.inf}
    for _ in range(500):
        shift = 10.0 ** rng.uniform(-4.0, 1.0, 2)[:, None] * rng.standard_normal((2, n))
        x, z = 1.0 / (1.0 + np.exp(-(np.log(star / (1.0 - star)) + shift)))
        psihat, zetahat, g, w = psi(x), psi(z), H @ x, z - star
        value = V(x, psihat, z)
        flow = q * ((x - star) @ H @ star + 0.5 * (x - star) @ H @ (x - star) + g @ (z - x))
        flow += q * (zetahat - psi(star)).sum() + q * mu / 2 * (w @ w + 2.0 * w @ (x - z))
        for name in worst:
            total = flow
            for i in range(n):
                step = step_z / stepper.p[i]
                # The kernels' own root of n g_i + (n / step) (v - z_i) + logit(v) - 4 v = 0.
                m = n / step - 4.0
                after = entropy_step(z[i], logit(z[i]), n * g[i] - 4.0 * z[i], m)
                residual = g[i] + (after - z[i]) / step + (logit(after) - 4.0 * after) / n
                assert abs(residual) <= 1e-8
                share = q / (stepper.p[i] if name == "none" else 1.0)
                x1, z1, psihat1 = x.copy(), z.copy(), psihat.copy()
                z1[i], x1[i] = after, x[i] + share * (after - z[i])
                psihat1[i] += share * (psi(after) - zetahat[i])
                total += stepper.p[i] * (V(x1, psihat1, z1) - value)
            worst[name] = max(worst[name], total / abs(value))
    assert worst["none"] <= 1e-9
    assert worst["no p in x"] > 1e-4


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_dual_bound_of_logistic_regression_holds(accelerated):
    p = make_labelled()
    method = cz.DualCoordinate(heuristics=False, accelerated=accelerated)
    mean, most, error = mean_and_bound(
        p, method, np.ones(3), TIMES, 200, lambda s: p.f_star - s.dual_value()
    )
    assert np.all(mean + 6.0 * error <= most)
    assert np.max(mean / most) > 0.05, "a bound this slack would test nothing"
    stepper = method.prepare(p, np.ones(3))
    star = 1.0 / (1.0 + np.exp(p.y * (p.X @ p.x_star)))
    start = p.f_star - stepper.dual_value()
    if accelerated:
        start += 0.5 * 4.0 / 12 * np.sum((stepper.coordinates() - star) ** 2)
    assert bound(method, p, np.ones(3), t=0.0) == pytest.approx(start, rel=1e-9)


def test_what_no_theorem_covers_is_refused():
    with pytest.raises(ValueError, match="heuristics=False"):
        bound(cz.DualCoordinate(), make_labelled(), np.zeros(3), t=1.0)
    active = cz.CoordinateDescent("active", prox=cz.prox.L1(0.1), accelerated=False)
    with pytest.raises(ValueError, match="active"):
        bound(active, regression(), np.zeros(D), t=1.0)
    prox = cz.CoordinateDescent(prox=cz.prox.L1(0.1))
    with pytest.raises(TypeError, match="drop prox="):
        cz.theory.moments(regression(), prox, np.zeros(D), [1.0])
    method = cz.DualCoordinate(heuristics=False)
    stepper = method.prepare(make_labelled(), np.zeros(3))
    assert isinstance(stepper.law.now, cz.marks.Categorical)
    assert not stepper.law_changes
