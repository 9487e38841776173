"""The operators of `cz.prox`: each against a solver that knows nothing of its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import continuized as cz
from continuized.process import prox
from continuized.process.prox import (
    L1,
    Box,
    ElasticNet,
    GroupLasso,
    Halfspace,
    Hyperplane,
    L1Ball,
    L2Ball,
    LInfBall,
    NonNegative,
    NuclearNorm,
    Separable,
    Simplex,
)
from continuized.support.jit import compile_formulas, jit

WEIGHTS = np.array([0.0, 0.3, 1.0, 2.5, 0.7, 0.1])
SEPARABLE: dict[str, tuple[Any, tuple[Any, Any, Any, Any]]] = {
    "L1": (L1(0.7), (0.7, 0.0, -math.inf, math.inf)),
    "L1, weights": (L1(WEIGHTS), (WEIGHTS, 0.0, -math.inf, math.inf)),
    "ElasticNet": (ElasticNet(0.7, 1.3), (0.7, 1.3, -math.inf, math.inf)),
    "ElasticNet, weights": (
        ElasticNet(WEIGHTS, WEIGHTS[::-1]), (WEIGHTS, WEIGHTS[::-1], -math.inf, math.inf)
    ),
    "Box": (Box(-0.5, 0.25), (0.0, 0.0, -0.5, 0.25)),
    "NonNegative": (NonNegative(), (0.0, 0.0, 0.0, math.inf)),
    "NonNegative, weights": (NonNegative(WEIGHTS), (WEIGHTS, 0.0, 0.0, math.inf)),
    "Separable": (Separable(WEIGHTS, 0.4, -1.0, WEIGHTS), (WEIGHTS, 0.4, -1.0, WEIGHTS)),
}  # fmt: skip


def find_zero(slope: Any, low: float, high: float) -> float:
    """By bisection, where an increasing function goes from negative to positive."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0.0 else (middle, high)
    return 0.5 * (low + high)


def minimise_entry(v: float, step: float, l1: float, l2: float, low: float, high: float) -> float:
    """The zero of the slope of l1 |x| + l2/2 x^2 + (x - v)^2 / (2 step), looked for in [low, high].

    The slope jumps at 0, from negative to positive where 0 is the minimiser.
    """

    def slope(x: float) -> float:
        return math.copysign(l1, x) + l2 * x + (x - v) / step

    reach = abs(v) + 1.0
    return find_zero(slope, max(low, -reach), min(high, reach))


@pytest.mark.parametrize("name", SEPARABLE)
@pytest.mark.parametrize("step", [0.1, 1.0, 7.0])
def test_separable_steps(name: str, step: float) -> None:
    operator, constants = SEPARABLE[name]
    each = np.broadcast_arrays(*constants, np.zeros(6))[:4]
    rng = np.random.default_rng(0)
    for v in 3.0 * rng.standard_normal((20, 6)):
        expected = [minimise_entry(*entry) for entry in zip(v, [step] * 6, *each, strict=True)]
        np.testing.assert_allclose(operator(v, step), expected, rtol=0.0, atol=1e-14)


def test_values_of_separable_operators() -> None:
    x = np.array([1.0, -2.0, 3.0])
    weights = np.array([1.0, 0.5, 0.0])
    assert L1(weights).value(x) == 2.0
    assert ElasticNet(weights, 2.0).value(x) == 2.0 + 14.0
    assert NonNegative(weights).value(np.abs(x)) == 2.0
    assert NonNegative(weights).value(x) == math.inf
    assert Separable(1.0, 2.0, -2.0, 3.0).value(x) == 6.0 + 14.0
    assert Separable(1.0, 2.0, -2.0, 2.9).value(x) == math.inf
    assert ElasticNet(0.0, 1.0).value(np.array([1e200])) == math.inf  # too large, and no warning


def test_one_entry_is_compiled_from_the_same_formulas() -> None:
    compile_formulas(*prox.FORMULAS)
    step_of, value_of = jit(lambda *a: prox.entry_step(*a)), jit(lambda *a: prox.entry_value(*a))
    rng = np.random.default_rng(0)
    for operator, constants in SEPARABLE.values():
        v = 3.0 * rng.standard_normal(6)
        each = list(zip(*np.broadcast_arrays(*constants, v)[:4], strict=True))
        x = operator(v, 0.3)
        alone = [float(step_of(v[i], 0.3, *each[i])) for i in range(6)]
        np.testing.assert_allclose(alone, x, rtol=1e-14)  # products may be fused there
        total = sum(float(value_of(x[i], *each[i])) for i in range(6))
        assert operator.value(x) == pytest.approx(total, rel=1e-14)


# The whole of x

NORMAL = np.array([1.0, -2.0, 0.5, 0.0, 3.0, 0.25])
GROUPS = np.array([4, 4, -1, 7, 7, 7])
WHOLE: dict[str, Any] = {
    "Simplex": Simplex(1.5),
    "L1Ball": L1Ball(1.5),
    "L2Ball": L2Ball(0.8),
    "LInfBall": LInfBall(0.4),
    "Halfspace": Halfspace(NORMAL, -0.7),
    "Hyperplane": Hyperplane(NORMAL, 0.7),
    "GroupLasso": GroupLasso(0.6, GROUPS),
    "GroupLasso, weights": GroupLasso([1.0, 0.0, math.sqrt(3.0)], GROUPS),
}
OPERATORS = {name: operator for name, (operator, _) in SEPARABLE.items()} | WHOLE
MATRICES: dict[str, Any] = {"rows": GroupLasso(0.6), "NuclearNorm": NuclearNorm(0.6)}
ALL = OPERATORS | MATRICES


def points(name: str, count: int = 20, scale: float = 2.0) -> np.ndarray:
    """Random points, of a shape that the operator takes."""
    shape = (2, 3) if name in MATRICES else (6,)
    return scale * np.random.default_rng(1).standard_normal((count, *shape))


def slsqp(v: np.ndarray, constraints: list[dict[str, Any]], bounds: Any = None) -> np.ndarray:
    """The nearest point to v, by SciPy's sequential quadratic programming."""
    r = optimize.minimize(
        lambda x: 0.5 * ((x - v) ** 2).sum(), np.zeros_like(v), jac=lambda x: x - v,
        method="SLSQP", constraints=constraints, bounds=bounds,
        options={"ftol": 1e-12, "maxiter": 1000},
    )  # fmt: skip
    return np.asarray(r.x)  # it may say that the last digits gave it no direction


def linear(a: np.ndarray, b: float, kind: str = "ineq") -> dict[str, Any]:
    """<a, x> <= b, or = b."""
    return {"type": kind, "fun": lambda x: b - a @ x, "jac": lambda x: -a}


def in_ball(index: Any, radius: float) -> dict[str, Any]:
    """|x_index| <= radius."""

    def slope(x: np.ndarray) -> np.ndarray:
        g = np.zeros_like(x)
        g[index] = -2.0 * x[index]
        return g

    return {"type": "ineq", "fun": lambda x: radius**2 - x[index] @ x[index], "jac": slope}


def project_onto_l1_ball(v: np.ndarray, radius: float) -> np.ndarray:
    """By its parts p - q with p, q >= 0, which makes the constraint linear."""
    d = v.size

    def fun(u: np.ndarray) -> float:
        return 0.5 * float(((u[:d] - u[d:] - v) ** 2).sum())

    def slope(u: np.ndarray) -> np.ndarray:
        g = u[:d] - u[d:] - v
        return np.concatenate([g, -g])

    r = optimize.minimize(
        fun, np.zeros(2 * d), jac=slope, method="SLSQP", bounds=[(0.0, None)] * (2 * d),
        constraints=[linear(np.ones(2 * d), radius)], options={"ftol": 1e-12, "maxiter": 1000},
    )  # fmt: skip
    return np.asarray(r.x[:d] - r.x[d:])


def shrink_groups(v: np.ndarray, weights: list[float]) -> np.ndarray:
    """v less the nearest point in the dual ball, where each group has a norm <= its weight."""
    labels = [-1, 4, 7]
    balls = [in_ball(label == GROUPS, w) for label, w in zip(labels, weights, strict=True) if w]
    fixed = {label for label, w in zip(labels, weights, strict=True) if not w}
    bounds = [(0.0, 0.0) if label in fixed else (None, None) for label in GROUPS]
    return v - slsqp(v, balls, bounds)


SOLVERS: dict[str, Any] = {
    "Simplex": lambda v: slsqp(v, [linear(np.ones(6), 1.5, "eq")], [(0.0, None)] * 6),
    "L1Ball": lambda v: project_onto_l1_ball(v, 1.5),
    "L2Ball": lambda v: slsqp(v, [in_ball(slice(None), 0.8)]),
    "LInfBall": lambda v: slsqp(v, [], [(-0.4, 0.4)] * 6),
    "Halfspace": lambda v: slsqp(v, [linear(NORMAL, -0.7)]),
    "Hyperplane": lambda v: slsqp(v, [linear(NORMAL, 0.7, "eq")]),
    "GroupLasso": lambda v: shrink_groups(v, [0.3, 0.3, 0.3]),
    "GroupLasso, weights": lambda v: shrink_groups(v, [0.5, 0.0, 0.5 * math.sqrt(3.0)]),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_steps_against_a_generic_solver(name: str) -> None:
    """ftol leaves the root of 1e-12, times a few, in x."""
    for v in np.concatenate([points(name, 8), points(name, 4, 0.05)]):
        np.testing.assert_allclose(WHOLE[name](v, 0.5), SOLVERS[name](v), atol=1e-5)


def test_the_nuclear_norm_against_a_generic_solver() -> None:
    """|x|_* is the least (|a|^2 + |b|^2) / 2 over x = a b^T, which has no other local minima."""
    weight, step = 0.6, 0.5
    for v in points("NuclearNorm", 4):

        def fun(u: np.ndarray, v: np.ndarray = v) -> tuple[float, np.ndarray]:
            a, b = u[:4].reshape(2, 2), u[4:].reshape(3, 2)
            off = a @ b.T - v
            value = 0.5 * weight * float(u @ u) + 0.5 * float((off**2).sum()) / step
            slope = np.concatenate([(off @ b).ravel(), (off.T @ a).ravel()]) / step
            return value, slope + weight * u

        start = np.random.default_rng(0).standard_normal(10)
        r = optimize.minimize(fun, start, jac=True, method="BFGS", options={"gtol": 1e-9})
        expected = r.x[:4].reshape(2, 2) @ r.x[4:].reshape(3, 2).T
        found = NuclearNorm(weight)(v, step)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        value = NuclearNorm(weight).value(found) + 0.5 * float(((found - v) ** 2).sum()) / step
        assert value == pytest.approx(r.fun, rel=1e-12)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("step", [0.2, 3.0])
def test_optimality(name: str, step: float) -> None:
    """x is the step from v if and only if h(y) >= h(x) + <(v - x)/step, y - x> for all y."""
    operator = ALL[name]
    rng = np.random.default_rng(0)
    for v in points(name):
        x = operator(v, step)
        h = operator.value(x)
        assert math.isfinite(h)
        others = np.concatenate([points(name), x + 0.1 * points(name)])
        for y in [operator(u, s) for u in others for s in (1e-9, 1.0)]:  # in the domain, too
            # A value forgives a relative 1e-9, so that its y may be as far outside.
            assert operator.value(y) >= h + ((v - x) / step * (y - x)).sum() - 1e-7
        assert operator.value(x + rng.standard_normal(x.shape)) >= 0.0


@pytest.mark.parametrize("name", ALL)
def test_steps_are_firmly_non_expansive(name: str) -> None:
    u, v = points(name), points(name, scale=0.7)[::-1]
    for one, two in zip(u, v, strict=True):
        p, q = ALL[name](one, 0.5), ALL[name](two, 0.5)
        assert ((p - q) ** 2).sum() <= ((p - q) * (one - two)).sum() + 1e-14


@pytest.mark.parametrize(
    ("norm", "ball"),
    [
        (L1(0.7), LInfBall(0.7)),
        (L1(WEIGHTS + 0.1), LInfBall(WEIGHTS + 0.1)),
        (GroupLasso(0.7, [1] * 6), L2Ball(0.7)),
    ],
)
def test_moreau(norm: Any, ball: Any) -> None:
    """v is the step of a norm and the projection onto its dual ball, whose radius is scaled."""
    for v in points("L1"):
        for step in (0.2, 3.0):
            np.testing.assert_allclose(norm(v, step) + step * ball(v / step, 1.0), v, atol=1e-14)


def test_moreau_for_matrices() -> None:
    """What the step takes off has a spectral norm of at most weight step, and is all of it where
    something is left: the conditions of the projection onto the dual ball."""
    for v in points("NuclearNorm", 50, 0.5):
        x = NuclearNorm(0.6)(v, 0.5)
        u = (v - x) / 0.3
        assert np.linalg.norm(u, 2) <= 1.0 + 1e-13
        assert (u * x).sum() == pytest.approx(NuclearNorm(1.0).value(x), abs=1e-13)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_single_precision_and_shapes_are_kept(name: str, scale: float) -> None:
    for v in points(name, 5, scale):
        narrow = v.astype(np.float32)
        given = narrow.copy()
        x = ALL[name](narrow, 0.5)
        assert (x.dtype, x.shape) == (np.float32, v.shape)
        assert np.array_equal(narrow, given)
        assert not np.shares_memory(x, narrow)
        assert math.isfinite(ALL[name].value(x))
        np.testing.assert_allclose(x, ALL[name](v, 0.5), rtol=1e-5, atol=3e-7 * scale)
        strided = np.repeat(v, 2, axis=-1)[..., ::2]
        assert np.array_equal(ALL[name](strided, 0.5), ALL[name](v, 0.5))


@pytest.mark.parametrize("name", OPERATORS)
def test_other_shapes(name: str) -> None:
    """x may have any shape: constants for each entry have that of x."""
    reshaped: dict[str, Any] = {
        "Halfspace": Halfspace(NORMAL.reshape(2, 3), -0.7),
        "Hyperplane": Hyperplane(NORMAL.reshape(2, 3), 0.7),
        "GroupLasso": GroupLasso(0.6, GROUPS.reshape(2, 3)),
        "GroupLasso, weights": GroupLasso([1.0, 0.0, math.sqrt(3.0)], GROUPS.reshape(2, 3)),
    }
    operator = reshaped.get(name, OPERATORS[name])
    if isinstance(operator, Separable):
        constants = [np.broadcast_to(c, 6).reshape(2, 3) for c in operator.constants]
        operator = Separable(*constants)
    for v in points(name, 5):
        x = operator(v.reshape(2, 3), 0.5)
        np.testing.assert_array_equal(x.ravel(), OPERATORS[name](v, 0.5))
        assert operator.value(x) == pytest.approx(OPERATORS[name].value(x.ravel()), rel=1e-14)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("scale", [1e17, 1e250])
def test_points_far_away(name: str, scale: float) -> None:
    """No square or sum overflows, and what is far away does not hide the constants."""
    with np.errstate(all="raise", under="ignore"):
        for v in points(name, 5):
            x = WHOLE[name](scale * v, 0.5)
            assert np.all(np.isfinite(x))
            assert math.isfinite(WHOLE[name].value(x))


def test_projections_of_points_far_away() -> None:
    """They are on the surface, to rounding of what is near."""
    v = np.array([2e307, -8e307, 8e307, 1e300, 0.0, 1.0])
    assert Simplex(1.5)(v, 1.0).tolist() == [0.0, 0.0, 1.5, 0.0, 0.0, 0.0]
    assert L1Ball(1.5)(v, 1.0).tolist() == [0.0, -0.75, 0.75, 0.0, 0.0, 0.0]
    assert np.linalg.norm(L2Ball(0.8)(v, 1.0)) == pytest.approx(0.8, rel=1e-14)
    for kind in (Halfspace, Hyperplane):
        assert NORMAL @ kind(NORMAL, 0.7)(1e17 * NORMAL, 1.0) == pytest.approx(0.7, rel=1e-12)


def test_integers_are_not_cut_off() -> None:
    assert L1(0.5)(np.array([3, -1]), 1.0).tolist() == [2.5, -0.5]
    assert L2Ball(2.5)(np.array([3, 4]), 1.0).tolist() == [1.5, 2.0]


@pytest.mark.parametrize("name", ALL)
def test_minimising(name: str) -> None:
    """The end is a fixed point of the proximal gradient step, of any length."""
    rng = np.random.default_rng(2)
    shape = points(name, 1)[0].shape
    A = rng.standard_normal((12, 6)) + 2.0 * np.eye(12, 6)
    y = A @ np.array([1.0, -1.0, 0.0, 2.0, 0.0, 0.5]) + 0.1 * rng.standard_normal(12)
    p = cz.problems.LeastSquares(A, y)
    r = cz.minimize(p, np.zeros(shape), prox=ALL[name], tol=1e-11, rng=0)
    assert r.success
    x = r.x
    for step in (0.1, 1.0):
        np.testing.assert_allclose(ALL[name](x - step * p.grad(x), step), x, atol=1e-9)
    assert r.fun == pytest.approx(p.fun(x) + ALL[name].value(x), rel=1e-12)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ElasticNet(-1.0, 0.0), ValueError, "^l1 must be a finite number >= 0, got -1.0"),
        (
            lambda: ElasticNet(0.0, [1.0, math.inf]),
            ValueError,
            r"^l2 must be .* but l2\[1\] is inf",
        ),
        (lambda: ElasticNet([1.0] * 2, [1.0] * 3), ValueError, r"ElasticNet must have one shape, "),
        (lambda: L1([[1.0], [-2.0]]), ValueError, r"^weight must be .* but weight\[1, 0\] is -2.0"),
        (lambda: NonNegative(None), TypeError, "^weight must be a finite number >= 0, got None"),
        (lambda: LInfBall(0.0), ValueError, "^radius must be a finite number > 0, got 0.0"),
        (lambda: L1Ball(-1.0), ValueError, "^radius must be a finite number > 0, got -1.0"),
        (lambda: L2Ball([1.0]), TypeError, r"^radius must be a finite number > 0, got \[1.0\]"),
        (lambda: Halfspace([0.0, 0.0], 1.0), ValueError, "^normal must be long enough to divide"),
        (lambda: Halfspace([1e-300], 1e300), ValueError, "^normal must be long enough to divide"),
        (lambda: Hyperplane([1.0, math.nan]), ValueError, r"^normal must be finite, but normal\[1"),
        (lambda: Hyperplane([1.0], "b"), TypeError, "^offset must be a finite number, got 'b'"),
        (
            lambda: GroupLasso(1.0, [0.5, 1.0]),
            TypeError,
            "^groups must be None, or an array of int",
        ),
        (lambda: GroupLasso([1.0] * 3, [1, 1, 2]), ValueError, r"shape \(2,\), one for each group"),
        (lambda: NuclearNorm("a"), TypeError, "^weight must be a finite number >= 0, got 'a'"),
    ],
)
def test_bad_operators(make: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (L1([1.0, 2.0]), r"^the weights of cz.prox.L1 have shape \(2,\), but x has shape \(3,\)"),
        (ElasticNet(1.0, [1.0] * 4), "^the weights of cz.prox.ElasticNet have shape"),
        (Halfspace([1.0, 2.0]), r"^normal of cz.prox.Halfspace must have the shape of x, \(3,\)"),
        (GroupLasso(1.0, [0, 1]), "^groups of cz.prox.GroupLasso must have the shape of x"),
        (GroupLasso(1.0), "^the groups of cz.prox.GroupLasso are the rows of a matrix"),
        (NuclearNorm(1.0), "^cz.prox.NuclearNorm is for matrices, but x has shape"),
    ],
)
def test_a_wrong_shape_is_refused_before_the_first_step(operator: Any, words: str) -> None:
    asked: list[Any] = []
    with pytest.raises(ValueError, match=words):
        cz.minimize(lambda x: asked.append(x), np.ones(3), lambda x: x, prox=operator)
    assert not asked
    for call in (lambda: operator(np.ones(3), 1.0), lambda: operator.value(np.ones(3))):
        if not isinstance(operator, Separable):
            with pytest.raises(ValueError, match=words):
                call()


def test_short_reprs() -> None:
    assert repr(L1(0.1)) == "L1(weight=0.1)"
    assert repr(ElasticNet(0.1, 0.2)) == "ElasticNet(l1=0.1, l2=0.2)"
    assert repr(Box(0.0, 1.0)) == "Box(low=0.0, high=1.0)"
    assert repr(LInfBall(2.0)) == "LInfBall(radius=2.0)"
    assert len(repr(L1(np.ones(1000)))) < 80
