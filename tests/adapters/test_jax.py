"""`adapters.jax.minimize`: the same runs as `cz.minimize`, compiled; and what it says of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import continuized as cz
from continuized import Status
from continuized.adapters import jax as adapter
from continuized.adapters._jax_process import Time, time_at
from continuized.adapters.jax import gaps, minimize

EIGENVALUES = np.array([0.1, 1.0, 2.0])
L, MU = 2.0, 0.1


def f(x: Any, eigenvalues: Any) -> Any:
    return 0.5 * jnp.sum(eigenvalues * (x - 1.0) ** 2)


X0, ARGS = np.zeros(3, np.float32), (EIGENVALUES.astype(np.float32),)


def run(**options: Any) -> adapter.Result:
    return minimize(f, X0, ARGS, **({"L": L, "mu": MU} | options))


def recorded(key: Any, n: int) -> cz.clock.Recorded:
    drawn = np.asarray(gaps(key, n), float)
    return cz.clock.Recorded(np.cumsum(drawn), drawn)


def test_it_stops_where_minimize_does() -> None:
    p = cz.problems.Quadratic(EIGENVALUES, np.ones(3))
    for key in range(3):
        r = run(key=key, tol=1e-3)
        expected = cz.minimize(p, X0, clock=recorded(key, 500), tol=1e-3)
        assert (int(r.nit), r.message) == (expected.nit, expected.message)
        assert bool(r.success)
        np.testing.assert_allclose(r.x, expected.x, rtol=1e-5)
        np.testing.assert_allclose(r.t, expected.trace.t[-1], rtol=1e-6)
        np.testing.assert_allclose(r.fun, expected.fun, rtol=1e-3)
        np.testing.assert_allclose(r.jac, EIGENVALUES * (r.x - 1.0), atol=1e-6)
        assert float(jnp.linalg.norm(r.jac)) <= 1e-3
        assert int(r.njev) == r.nit + 1


def test_keys_at_once_are_the_keys_one_by_one() -> None:
    many = jax.vmap(lambda key: run(key=key, tol=1e-3))(jnp.arange(3))
    for key in range(3):
        one = run(key=key, tol=1e-3)
        assert (int(many.nit[key]), int(many.status[key])) == (int(one.nit), int(one.status))
        np.testing.assert_allclose(many.x[key], one.x, rtol=1e-6)
    assert len(set(many.nit.tolist())) > 1  # each stops by itself


def test_nothing_is_compiled_again_for_other_numbers() -> None:
    run(tol=1e-3)
    before = adapter._solve._cache_size()
    run(L=3.0, mu=0.2, key=jax.random.key(5), tol=1e-2, maxiter=7)
    minimize(f, X0 + 1.0, (ARGS[0] * 0.5,), L=L, mu=MU)
    assert adapter._solve._cache_size() == before


def test_how_a_run_ends() -> None:
    ended = {
        Status.CONVERGED: run(tol=1e-3),
        Status.COMPLETED: run(maxiter=4),
        Status.MAXITER: run(maxiter=4, tol=1e-9),
        Status.CLOCK_ENDED: run(clock=recorded(0, 4), tol=1e-9),
        Status.NOT_FINITE: minimize(f, X0, (jnp.array([1.0, jnp.nan, 1.0]),), L=L, mu=MU),
    }
    for status, r in ended.items():
        assert r.message == status.value
        assert bool(r.success) is status.success
        assert np.all(np.isfinite(r.x))
    assert [int(r.nit) for r in ended.values()][1:] == [4, 4, 4, 0]
    assert int(run(clock=recorded(0, 4)).nit) == 4
    assert run(maxiter=0).x.tolist() == X0.tolist()


def test_a_run_that_overflows_ends_at_the_last_good_point() -> None:
    r = run(L=MU, maxiter=1000)  # twenty times too small
    assert r.message == Status.NOT_FINITE.value
    assert 0 < int(r.nit) < 1000
    assert np.all(np.isfinite(r.x))


def test_a_small_gradient_is_asked_for_again_at_x() -> None:
    """L is so small that a step makes the gradient three times larger."""
    x0, tol = np.array([1.0, 1.0, 1.001], np.float32), 0.003
    assert np.linalg.norm(EIGENVALUES * (x0 - 1.0)) < tol
    r = minimize(f, x0, ARGS, L=0.5, maxiter=1, tol=tol)
    assert r.message == Status.MAXITER.value
    assert float(r.jac[2]) == pytest.approx(-0.006, rel=1e-3)


def test_a_tree_keeps_its_structure_and_dtypes() -> None:
    def g(x: Any) -> Any:
        return f(x["a"], ARGS[0]) + 0.5 * (x["b"][0] - 2.0) ** 2

    r = minimize(g, {"a": X0, "b": [np.float16(0.0)]}, L=L, mu=MU, maxiter=60)
    assert jax.tree.structure(r.x) == jax.tree.structure({"a": 0, "b": [0]})
    assert (r.x["a"].dtype, r.x["b"][0].dtype) == (np.float32, np.float16)
    np.testing.assert_allclose(r.x["a"], np.ones(3), atol=0.05)
    np.testing.assert_allclose(r.x["b"][0], 2.0, atol=0.01)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"L": None, "mu": 0.1}, ValueError, "mu or start without L: give L= too"),
        ({"L": None, "mu": 0.0, "start": 1.0}, ValueError, "mu or start without L"),
        ({"L": None, "method": "sharp"}, ValueError, 'method="sharp" needs L= and mu='),
        ({"method": "sharp", "mu": 0.0}, ValueError, "SharpContinuized needs mu > 0"),
        ({"method": "nesterov"}, ValueError, 'method must be "continuized" or "sharp"'),
        ({"L": -1.0}, ValueError, "L must be a finite number > 0, got -1.0"),
        ({"mu": 5.0}, ValueError, "mu must not exceed L"),
        ({"tol": -1.0}, ValueError, "tol must be a number >= 0 or None, got -1.0"),
        (
            {"maxiter": 2.5},
            TypeError,
            "maxiter must be an integer from 0 to 2147483646 or None, got",
        ),
        ({"key": "a"}, TypeError, "key must be an integer or one key of jax.random, got 'a'"),
        ({"clock": 3}, TypeError, "clock must be cz.clock.Recorded"),
        ({"rng": 0}, TypeError, "minimize has no option rng=; use key="),
        ({"jac": f}, TypeError, "minimize has no option jac=; leave it out"),
        ({"record": True}, TypeError, "minimize has no option record=; cz.minimize has it"),
        ({"max_iter": 3}, TypeError, "minimize has no option max_iter=; did you mean maxiter="),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run(**options)


def test_bad_functions_and_starts() -> None:
    with pytest.raises(TypeError, match="fun must be a function of x, got 3"):
        minimize(3, X0, L=1.0)  # type: ignore[arg-type]
    for x0 in (np.zeros(3, int), np.zeros(3, complex)):
        with pytest.raises(TypeError, match="x0 must be arrays of real floats, got one of dtype"):
            minimize(f, x0, ARGS, L=L)


# The clock


def test_the_gaps_are_exponential_and_do_not_depend_on_how_many_are_drawn() -> None:
    """A false alarm has probability 1e-6, at a fixed seed."""
    drawn = np.asarray(gaps(12, 20_000))
    assert stats.kstest(drawn, "expon").pvalue > 0.5e-6
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < stats.norm.isf(0.25e-6) / 20_000**0.5
    # The same numbers up to the compiler's choice of instructions.
    np.testing.assert_allclose(gaps(12, 5), drawn[:5], rtol=1e-6)
    assert not np.array_equal(gaps(13, 5), drawn[:5])


def test_keys_of_every_kind() -> None:
    expected = gaps(3, 4)
    for key in (jax.random.key(3), jax.random.PRNGKey(3), np.int64(3), jnp.asarray(3)):
        np.testing.assert_array_equal(gaps(key, 4), expected)
    for key in (True, 3.0, jax.random.split(jax.random.key(3)), None):
        with pytest.raises(TypeError, match="key must be an integer or one key"):
            gaps(key, 4)
    with pytest.raises(ValueError, match="key must fit into 64 bits, got 1208"):
        gaps(2**80, 4)


def test_time_in_float32_after_a_hundred_million_events() -> None:
    drawn = np.random.default_rng(0).exponential(size=100_000).astype(np.float32)
    begin = time_at(1e8)
    assert begin.hi.dtype == np.float32

    def add(t: Time, gap: Any) -> tuple[Time, None]:
        return t.after(gap), None

    end, _ = jax.jit(lambda t: jax.lax.scan(add, t, drawn))(begin)
    exact = 1e8 + drawn.astype(np.float64).sum()
    # An addition of pairs errs by less than 2^-46 of its value, 1e5 of them by less than 1.5e-9;
    # a plain sum stands still at gaps below 4.
    assert float(end.hi) + float(end.lo) == pytest.approx(exact, rel=1.5e-9)
    assert end.hi == np.float32(exact)
    assert np.cumsum(np.append(np.float32(1e8), drawn))[-1] < 1e8 + 0.9 * drawn.sum()


def test_gradients_whose_squares_are_nothing_or_infinite() -> None:
    """In float32 both happen within the numbers that there are."""
    for scale in (1e-30, 1e25):

        def scaled(x: Any, eigenvalues: Any, scale: float = scale) -> Any:
            return scale * f(x, eigenvalues)

        r = minimize(scaled, X0, ARGS, L=scale * L, mu=scale * MU, tol=1e-3 * scale)
        assert (int(r.nit), r.message) == (int(run(tol=1e-3).nit), Status.CONVERGED.value)


def test_L_may_be_traced_and_what_chooses_the_loop_may_not() -> None:
    many = jax.vmap(lambda L: minimize(f, X0, ARGS, L=L, mu=MU, maxiter=20).x)(jnp.array([2.0, 3]))
    for L, x in zip((2.0, 3.0), many, strict=True):
        np.testing.assert_allclose(x, run(L=L, maxiter=20).x, rtol=1e-5)
    for name in ("mu", "start"):
        with pytest.raises(TypeError, match=f"{name} must not be traced"):
            jax.jit(lambda v, name=name: run(**{name: v}).x)(0.1)


def test_one_argument_need_not_be_in_a_tuple() -> None:
    same = minimize(f, X0, ARGS[0], L=L, mu=MU, maxiter=5)
    np.testing.assert_array_equal(same.x, run(maxiter=5).x)


def spiky(x: Any) -> Any:
    """A gradient that is not finite in a band that the run passes through."""
    value = 0.5 * jnp.sum(x * x)
    return value + jnp.where(jnp.abs(x[0] - 2.0) < 0.2, jnp.nan, 0.0) * x[0]


def test_gradients_that_are_not_finite_are_skipped_as_in_minimize() -> None:
    clock, x0 = recorded(0, 40), np.array([4.0, 1.0])
    r = minimize(spiky, x0.astype(np.float32), L=8.0, clock=clock, nonfinite="skip")

    def grad(x: np.ndarray) -> np.ndarray:
        return x * (np.nan if abs(x[0] - 2.0) < 0.2 else 1.0)

    same = cz.minimize(
        lambda x: 0.5 * x @ x, x0, grad, L=8.0, clock=clock, nonfinite="skip", record=False
    )
    assert int(r.skipped) == same.skipped > 0
    np.testing.assert_allclose(r.x, same.x, rtol=1e-4)
    stopped = minimize(spiky, x0.astype(np.float32), L=8.0, clock=clock)
    assert stopped.message == Status.NOT_FINITE.value
    assert np.all(np.isfinite(stopped.x))


def test_raise_raises_where_it_can_and_says_where_it_cannot() -> None:
    def broken(x: Any) -> Any:
        return jnp.nan * jnp.sum(x)

    with pytest.raises(FloatingPointError, match="after 0 events"):
        minimize(broken, X0, L=1.0, nonfinite="raise")
    with pytest.raises(ValueError, match="inside jit or vmap"):
        jax.vmap(lambda key: minimize(broken, X0, L=1.0, key=key, nonfinite="raise"))(jnp.arange(2))
    with pytest.raises(ValueError, match='nonfinite must be "stop", "raise" or "skip"'):
        minimize(broken, X0, L=1.0, nonfinite="ignore")


def test_a_derivative_through_the_plain_minimize_is_told_of_this_one() -> None:
    def end(a: Any) -> Any:
        r = cz.minimize(
            lambda x: jnp.sum((x - a) ** 2), jnp.zeros(2), lambda x: x, L=2.0, maxiter=1
        )
        return r.x.sum()

    with pytest.raises(TypeError, match=r"one real number, got .*use continuized\.adapters\.jax"):
        jax.grad(end)(1.0)
