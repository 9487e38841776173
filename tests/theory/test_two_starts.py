"""z_0 apart from x_0: runs, ensembles, bounds, exact means and phi."""

import math

import numpy as np
import pytest

import continuized as cz
from continuized.theory import bound, lyapunov, moments

P = cz.problems.Quadratic([0.04, 1.0, 2.0], [1.0, -2.0, 3.0])
X0, Z0 = np.array([0.5, 0.0, 1.0]), np.array([3.0, -1.0, 0.0])
L, MU, Q = 2.0, 0.04, math.sqrt(0.02)
METHODS = [
    cz.Continuized(L),
    cz.Continuized(L, 0.0, 0.7),
    cz.Continuized(L, MU),
    cz.Continuized(L, MU, 0.0),
    cz.Continuized(L, MU, 0.7),
    cz.Continuized(L, 0.0, 0.7, 0.5),
    cz.SharpContinuized(L, MU),
    cz.Nesterov(L),
    cz.Nesterov(L, MU),
]
CONTINUIZED = [m for m in METHODS if isinstance(m, cz.Continuized)]


def plain_states(method, events):
    state = method.init(X0)._replace(z=Z0)
    for event in events.each():
        state, _ = method.step(state, event, lambda x, mark: P.grad(x))
        yield state


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_runs_are_the_steps_from_both_points(method):
    for problem in (P, cz.Problem(P.fun, P.grad)):
        r = cz.minimize(problem, X0, z0=Z0, method=method, maxiter=25, rng=4, record="path")
        clock = cz.clock.Recorded(r.path.t[1:], r.path.dt[1:])
        states = list(plain_states(method, clock.stream().draw(25)))
        np.testing.assert_allclose(r.path.x[1:], [s.x for s in states], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(r.path.z[1:], [s.z for s in states], rtol=1e-12, atol=1e-13)
        assert (r.path.x[0].tolist(), r.path.z[0].tolist()) == (X0.tolist(), Z0.tolist())
        e = cz.ensemble(problem, method, X0, z0=Z0, runs=3, steps=25, rng=9)
        again = cz.minimize(problem, X0, z0=Z0, method=method, maxiter=25, rng=e.seed(2))
        np.testing.assert_allclose(e.fun[2], again.trace.fun, rtol=1e-11)
        one = cz.minimize(problem, X0, z0=X0, method=method, maxiter=5, rng=4)
        assert (
            one.x.tobytes() == cz.minimize(problem, X0, method=method, maxiter=5, rng=4).x.tobytes()
        )


def test_what_is_given_stays_and_checkpoints_know_it(tmp_path):
    z0 = Z0.copy()
    how = {"method": METHODS[2], "maxiter": 40, "rng": 0, "checkpoint": tmp_path / "c"}
    whole = cz.minimize(P, X0, z0=z0, **how)
    assert z0.tolist() == Z0.tolist()
    again = cz.minimize(P, X0, z0=z0, resume=True, **how)
    assert again.x.tobytes() == whole.x.tobytes()
    with pytest.raises(cz.CheckpointError):
        cz.minimize(P, X0, resume=True, **how)


@pytest.mark.parametrize("method", CONTINUIZED, ids=repr)
def test_exact_means_are_below_the_bounds(method):
    t = np.array([0.2, 1.0, 10.0, 80.0])
    exact = moments(P, method, X0, t, z0=Z0).fun
    assert np.all(exact <= bound(method, P, X0, t=t, z0=Z0))
    if method.start == 0.0:  # x joins z at once: f(x_0) plays no part
        np.testing.assert_allclose(exact, moments(P, method, Z0, t).fun, rtol=1e-7)
        assert bound(method, P, X0, t=1.0, z0=Z0) == bound(method, P, Z0, t=1.0)
    assert moments(P, method, X0, [0.0], z0=Z0).fun[0] == P.fun(X0)


def test_the_bounds_are_the_papers():
    R2 = float(((Z0 - P.x_star) ** 2).sum())
    f0 = P.fun(X0)
    t, k = np.array([1.0, 9.0]), np.array([1, 9])
    np.testing.assert_allclose(bound(METHODS[0], P, X0, t=t, z0=Z0), 2 * L * R2 / t**2)
    strong = f0 + MU / 2 * R2
    np.testing.assert_allclose(bound(METHODS[2], P, X0, t=t, z0=Z0), strong * np.exp(-Q * t))
    np.testing.assert_allclose(bound(METHODS[2], P, X0, k=k, z0=Z0), strong)
    np.testing.assert_allclose(bound(cz.Nesterov(L), P, X0, k=k, z0=Z0), 2 * L * R2 / k**2)
    np.testing.assert_allclose(
        bound(cz.Nesterov(L, MU), P, X0, k=k, z0=Z0), strong * (1 - Q) ** k.astype(float)
    )


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_means_at_events_are_those_of_a_product_rule(method):
    """The gaps by 40 Gauss-Laguerre points each; a graded grid near 0 where start is small."""
    if isinstance(method, cz.Nesterov):
        r = cz.minimize(P, X0, z0=Z0, method=method, maxiter=2)
        assert moments(P, method, X0, k=2, z0=Z0).fun[0] == pytest.approx(r.fun, rel=1e-12)
        return
    nodes, shares = np.polynomial.laguerre.laggauss(40)
    total = 0.0
    for d1, w1 in zip(nodes.tolist(), shares, strict=True):
        for d2, w2 in zip(nodes.tolist(), shares, strict=True):
            state = method.init(X0)._replace(z=Z0)
            for event in (cz.clock.Event(1, d1, d1), cz.clock.Event(2, d1 + d2, d2)):
                state, _ = method.step(state, event, lambda x, mark: P.grad(x))
            total += w1 * w2 * P.fun(state.x)
    found = moments(P, method, X0, k=2, z0=Z0).fun[0]
    assert found == pytest.approx(total, rel=2e-2 if getattr(method, "start", 1.0) == 0.7 else 1e-3)


def test_phi_begins_with_both():
    method = METHODS[2]
    r = cz.minimize(P, X0, z0=Z0, method=method, maxiter=5, rng=0, record="path")
    phi_0 = P.fun(X0) + MU / 2 * float(((Z0 - P.x_star) ** 2).sum())
    assert lyapunov(r, P).phi[0] == pytest.approx(phi_0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cz.minimize(P, X0, z0=Z0[:2], L=L), "z0 must have the shape"),
        (lambda: cz.minimize(P, X0, z0=Z0 * np.nan, L=L), "z0 must be finite"),
        (lambda: cz.minimize(P.fun, X0, P.grad, z0=Z0), "z0= goes with known constants only"),
        (lambda: cz.minimize(P, X0, z0=Z0, L=L, prox=cz.prox.L1(0.1)), "without prox= and mirror="),
        (lambda: cz.minimize(P, X0, z0=Z0, method=cz.CoordinateDescent()), "takes no z0="),
        (lambda: cz.minimize(P, X0, z0=Z0, method="gradient-descent"), "takes no z0="),
        (lambda: cz.ensemble(P, cz.GradientDescent(L), X0, z0=Z0, runs=2, steps=2), "takes no z0="),
        (lambda: bound(cz.GradientDescent(L), P, X0, k=2, z0=Z0), "drop z0="),
        (lambda: bound(METHODS[2], P, X0, t=1.0, z0=Z0, prox=cz.prox.L1(0.1)), "without prox="),
        (lambda: moments(P, cz.CoordinateDescent(), X0, [1.0], z0=Z0), "full gradients"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()
