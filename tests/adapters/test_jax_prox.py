"""Proximal steps in JAX: those of `cz.prox`, and what is refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import continuized as cz
from continuized.adapters import _jax_prox
from continuized.adapters.jax import minimize

NORMAL = np.array([1.0, -2.0, 0.5, 3.0])
OPERATORS = [
    cz.prox.Separable(l1=[0.1, 0.0, 2.0, 1.0], l2=0.5, low=-0.4),
    cz.prox.L1(0.7),
    cz.prox.ElasticNet(0.3, 2.0),
    cz.prox.Box(-0.5, [0.1, 0.2, 0.3, np.inf]),
    cz.prox.NonNegative(0.2),
    cz.prox.LInfBall(0.4),
    cz.prox.Simplex(1.5),
    cz.prox.L1Ball(0.8),
    cz.prox.L2Ball(0.9),
    cz.prox.Hyperplane(NORMAL, 0.5),
    cz.prox.Halfspace(NORMAL, -0.5),
    cz.prox.GroupLasso(0.7, ["b", "a", "b", "c"]),
    cz.prox.GroupLasso([0.9, 0.0], [[3, 3], [1, 1]]),
    cz.prox.GroupLasso(0.6),
    cz.prox.NuclearNorm(0.8),
]
MATRICES = OPERATORS[-3:]
NAMES = [type(operator).__name__ for operator in OPERATORS]


@pytest.mark.parametrize("operator", OPERATORS, ids=NAMES)
def test_the_operators_are_those_of_numpy(operator: Any) -> None:
    rng, shape = np.random.default_rng(0), (2, 2) if operator in MATRICES else (4,)
    points = [*rng.normal(size=(40, 4)), np.zeros(4), 1e6 * rng.normal(size=4)]
    for dtype in (np.float64, np.float32):
        with jax.enable_x64(dtype is np.float64):
            own, constants = _jax_prox.check_prox(operator, (), jnp.zeros(shape))
            assert own is not None
            step = jax.jit(lambda v, own=own, constants=constants: own.apply(v, 0.6, constants))
            for point in points:
                v = point.astype(dtype).reshape(shape)
                x = step(v)
                assert x.dtype == dtype
                # Differences of numbers as large as v are rounded.
                atol = 32 * float(np.finfo(dtype).eps) * max(1.0, np.abs(v).max())
                exact = operator(v.astype(np.float64), 0.6)
                np.testing.assert_allclose(x, exact, rtol=0.0, atol=atol)
                if np.isfinite(operator.value(exact)):
                    value = float(own.evaluate(jnp.asarray(exact, dtype), constants))
                    assert value == pytest.approx(operator.value(exact), rel=1e-5)


def test_every_operator_is_in_the_table() -> None:
    """So that a new one of cz.prox is decided about."""
    every = {getattr(cz.prox, name) for name in cz.prox.__all__} - {cz.prox.Prox}
    assert {kind for kind in every if isinstance(kind, type)} == set(_jax_prox.OPERATORS)


@pytest.mark.parametrize(
    ("kind", "groups"),
    [(cz.prox.GroupLasso, ("a", "b", "a", "c", "c", "b")), (cz.prox.NuclearNorm, None)],
)
def test_derivatives_of_groups_and_singular_values(kind: Any, groups: Any) -> None:
    """In v and in the weight, beside differences of the operator of NumPy; some of it is zero."""
    rng, h = np.random.default_rng(2), 1e-6
    shape, rest = ((2, 3), ()) if groups is None else ((6,), (groups,))
    v, direction = rng.normal(size=(2, *shape))
    with jax.enable_x64(True):
        own, constants = _jax_prox.check_prox(kind, (0.9, *rest), jnp.asarray(v))
        assert own is not None
        step = lambda v, weight: own.apply(v, 0.7, (weight, *constants[1:]))  # noqa: E731
        _, derivative = jax.jvp(step, (v, 0.9), (direction, 0.5))
    high, low = (kind(0.9 + e * 0.5, *rest)(v + e * direction, 0.7) for e in (h, -h))
    np.testing.assert_allclose(derivative, (high - low) / (2.0 * h), rtol=0.0, atol=1e-8)
    assert np.linalg.norm(derivative) > 0.1


def f(x: Any) -> Any:
    return sum(0.5 * jnp.sum((leaf - 1.0) ** 2) for leaf in jax.tree.leaves(x))


X0 = np.zeros(3, np.float32)


def test_functions_of_jax_on_trees_and_other_numbers_without_compiling_again() -> None:
    def shrink(v: Any, step: Any, weights: Any) -> Any:
        return {name: leaf / (1.0 + step * weights[name]) for name, leaf in v.items()}

    def run(weights: Any) -> Any:
        x0 = {"a": jnp.zeros(2), "b": jnp.zeros(())}
        return minimize(f, x0, prox=shrink, prox_args=(weights,), tol=1e-5)

    r = run({"a": jnp.array([1.0, 0.0]), "b": 3.0})
    np.testing.assert_allclose(r.x["a"], [0.5, 1.0], atol=1e-5)
    np.testing.assert_allclose(r.x["b"], 0.25, atol=1e-5)
    from continuized.adapters import jax as adapter

    before = adapter._solve._cache_size()
    np.testing.assert_allclose(run({"a": jnp.zeros(2), "b": 1.0}).x["b"], 0.5, atol=1e-5)
    assert adapter._solve._cache_size() == before


def test_the_message_names_what_tol_is_compared_with() -> None:
    def f(x: Any) -> Any:
        return 0.5 * jnp.sum((x - 1.0) ** 2)

    for prox, words in ((None, "gradient norm"), (cz.prox.L1(0.1), "norm of the gradient mapping")):
        for L in (None, 1.0):
            r = minimize(f, jnp.zeros(2), prox=prox, L=L, tol=1e-3)
            assert r.message == f"The {words} is at most tol."
        r = jax.jit(lambda x, prox=prox: minimize(f, x, prox=prox, L=2.0, tol=0.0, maxiter=2))(
            jnp.zeros(2)
        )
        assert r.message == (
            f"The limit of steps, maxiter, was reached before the {words} fell to tol."
        )


def test_entries_of_a_tree() -> None:
    r = minimize(f, [jnp.zeros(2), jnp.zeros(1)], prox=cz.prox.L1(0.25), tol=1e-5)
    np.testing.assert_allclose(jnp.concatenate(r.x), np.full(3, 0.75), atol=1e-5)
    np.testing.assert_allclose(r.fun, 3 * (0.5 * 0.25**2 + 0.25 * 0.75), rtol=1e-5)


TREE = {"a": X0}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"prox": 3}, TypeError, "prox must be None, one of cz.prox such as"),
        ({"prox_args": (1.0,)}, ValueError, "prox_args are given without prox"),
        ({"args": jnp.sin}, TypeError, "args must be arrays, what fun takes after x, got a func"),
        ({"prox": cz.prox.GroupLasso(1.0)}, ValueError, "are the rows of a matrix, but x has shap"),
        ({"prox": cz.prox.NuclearNorm, "prox_args": 1.0}, ValueError, "NuclearNorm is for matri"),
        ({"prox": cz.prox.L1(1.0), "prox_args": 1.0}, ValueError, "L1 has its constants already"),
        ({"prox": cz.prox.L1}, ValueError, r"prox_args must be \(weight\) for cz.prox.L1, got 0"),
        (
            {"prox": cz.prox.L1, "prox_args": -1.0},
            ValueError,
            "weight must be a finite number >= 0",
        ),
        ({"prox": cz.prox.L1([1.0, 2.0])}, ValueError, r"the weights of cz.prox.L1 have shape"),
        ({"x0": TREE, "prox": cz.prox.L2Ball(1.0)}, ValueError, "cz.prox.L2Ball is for x0 that is"),
        ({"x0": TREE, "prox": cz.prox.L1(X0)}, ValueError, "L1 with arrays is for x0 that is one"),
        ({"prox": lambda v, s: v[:2]}, ValueError, "what prox returns must have the shape of x"),
        ({"prox": lambda v, s: (v, v)}, ValueError, "what prox returns must have the structure"),
        ({"prox": lambda v, s: 1j * v}, TypeError, "what prox returns must be real"),
    ],
)
def test_bad_prox(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        minimize(f, **({"x0": X0} | options))
