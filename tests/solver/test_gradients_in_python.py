"""Gradients in Python: what users may do with the points they are given, and where a block ends."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.solver.steppers import fixed
from continuized.support.jit import HAS_NUMBA
from tests.invariants.registry import same_bits

D, STEPS = 5, 40
SHAPES = ((D,), (1, D))
PROXES = {"f alone": None, "with psi": cz.prox.L1(0.01)}
HOW: dict[str, Any] = {"L": 2.0, "mu": 0.05, "maxiter": STEPS, "rng": 3}


def fun(x: Any) -> float:
    return 0.5 * float(np.sum(np.linspace(0.05, 2.0, D) * (x - 1.0) ** 2))


def jac(x: Any) -> Any:
    return np.linspace(0.05, 2.0, D) * (x - 1.0)


def point(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    return np.linspace(0.0, 3.0, D, dtype=dtype).reshape(shape)


def run(gradient: Callable[[Any], Any], shape: tuple[int, ...] = (D,), **options: Any) -> Any:
    return cz.minimize(fun, point(shape), gradient, **HOW | options)


# How a user may keep a point without a copy of it.
KEEPS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "a view": lambda x: x[..., 1:],
    "a view of a view": lambda x: x.reshape(-1)[::2][1:],
    "its memory": memoryview,
    "in an object": lambda x: {"x": (x,)},
}


def array_of(kept: Any) -> Any:
    return np.asarray(kept["x"][0] if isinstance(kept, dict) else kept)


@pytest.mark.parametrize("prox", PROXES.values(), ids=PROXES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("how", KEEPS)
def test_points_that_are_kept_do_not_change(how: str, every: int, shape: Any, prox: Any) -> None:
    kept, copies, calls = [], [], 0

    def keeping(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % every == 0:
            kept.append(KEEPS[how](x))
            copies.append(array_of(kept[-1]).copy())
        return jac(x)

    r = run(keeping, shape, prox=prox)
    assert len(kept) >= STEPS // every
    assert all(same_bits(array_of(a), b) for a, b in zip(kept, copies, strict=True))
    assert same_bits(r.x, run(jac, shape, prox=prox).x)


def into_the_point(x: Any) -> Any:
    """Answer in the memory of the point."""
    x -= 1.0
    x *= np.linspace(0.05, 2.0, D)
    return x


def spoiling(x: Any) -> Any:
    g = jac(x)
    x[...] = np.nan
    return g


def turning(x: Any) -> Any:
    """Change all that an array knows of itself."""
    assert x.shape in SHAPES
    assert x.dtype == np.float64
    assert x.flags.writeable
    g = jac(x)
    x.shape = (D, 1)
    x.dtype = np.int64
    x.flags.writeable = False
    return g


LAST: dict[str, Any] = {"point": lambda: None}


def remembering(x: Any) -> Any:
    """Answer as before where asked for the same object, to which there is no reference."""
    if LAST["point"]() is not x:
        LAST.update(point=weakref.ref(x), answer=jac(x))
    return LAST["answer"].copy()


BUFFER = np.empty(D)


def into_a_buffer(x: Any) -> Any:
    BUFFER[:] = jac(x).ravel()
    return BUFFER.reshape(x.shape)


@pytest.mark.parametrize("prox", PROXES.values(), ids=PROXES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize(
    "gradient", [into_the_point, spoiling, into_a_buffer, turning, remembering]
)
def test_users_may_do_with_a_point_what_they_like(
    gradient: Any, record: bool, shape: Any, prox: Any
) -> None:
    r = run(gradient, shape, record=record, prox=prox)
    assert same_bits(r.x, run(jac, shape, record=record, prox=prox).x)


@pytest.mark.skipif(not HAS_NUMBA, reason="without Numba, every point is a copy")
def test_a_point_that_nobody_keeps_is_lent_again() -> None:
    """To copy it for every event would take a tenth of the time."""
    owners = []

    def noting(x: Any) -> Any:
        owners.append(id(x.base))
        return jac(x)

    run(noting, record=False)
    assert id(None) not in owners[:STEPS]  # a copy has no base
    assert len(set(owners[:STEPS])) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("prox", PROXES.values(), ids=PROXES)
def test_blocks_are_not_seen(
    prox: Any, shape: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a block ends, x and z are put down, and read again."""
    start, paths = point(shape, dtype), []
    for block in (1, 7, 1024):
        monkeypatch.setattr(fixed, "BLOCK", block)
        r = cz.minimize(fun, start, jac, record="path", prox=prox, **HOW)
        short = cz.minimize(fun, start, jac, record=False, prox=prox, **HOW)
        assert same_bits(short.x, r.path.x[-1])
        paths.append(r.path)
    assert all(same_bits(path.x, paths[0].x) for path in paths)
    assert all(same_bits(path.z, paths[0].z) for path in paths)


class Own(cz.Continuized):
    """A method whose coefficients Python makes, and not compiled code."""

    def coefficients(self, *event: Any) -> Any:
        return super().coefficients(*event)


@pytest.mark.parametrize("record", [True, False])
def test_a_method_of_ones_own(record: bool) -> None:
    """Its coefficients are rows in memory, and those of ours columns."""
    how: Any = {"rng": 3, "maxiter": STEPS, "record": record}
    r = cz.minimize(fun, point((D,)), jac, method=Own(2.0, 0.05), **how)
    rounding = 4.0 * STEPS * np.finfo(float).eps  # exp of Python and of compiled code, every event
    np.testing.assert_allclose(r.x, run(jac, record=record).x, rtol=rounding)


@pytest.mark.parametrize("prox", PROXES.values(), ids=PROXES)
@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("bad", [1, 2, 6, 7, 8, 9, 14, 15])
def test_a_run_ends_before_a_gradient_that_is_not_finite(
    bad: int, record: bool, prox: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first event of a block of seven, within it, and at its last."""
    monkeypatch.setattr(fixed, "BLOCK", 7)
    calls = 0

    def failing(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return jac(x) * (np.nan if calls == bad else 1.0)

    r = run(failing, record=record, prox=prox)
    before = run(jac, record=record, prox=prox, maxiter=bad - 1)
    assert (r.status, r.nit) == (cz.Status.NOT_FINITE, bad - 1)
    assert same_bits(r.x, before.x)


@pytest.mark.parametrize("prox", PROXES.values(), ids=PROXES)
@pytest.mark.parametrize("bad", [1, 2, 6, 7, 8, 9, 14, 15])
def test_after_a_gradient_that_is_skipped_the_run_goes_on(
    bad: int, prox: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two in a row, wherever they are in blocks of seven: their jumps alone are missing."""
    paths = []
    for block in (7, 1024):
        monkeypatch.setattr(fixed, "BLOCK", block)
        calls = 0

        def failing(x: Any) -> Any:
            nonlocal calls
            calls += 1
            return jac(x) * (np.nan if calls in (bad, bad + 1) else 1.0)

        r = run(failing, prox=prox, record="path", nonfinite="skip")
        assert r.skipped == 2
        paths.append(r.path)
    assert same_bits(paths[0].x, paths[1].x)
    assert same_bits(paths[0].z, paths[1].z)
    method, path = cz.Continuized(2.0, 0.05), paths[0]
    for k in (bad, bad + 1):
        a, b = method.flow(path.t[k - 1], path.t[k], path.dt[k])
        x, z = path.x[k - 1], path.z[k - 1]
        np.testing.assert_allclose(path.x[k], x + a * (z - x), rtol=1e-13)
        np.testing.assert_allclose(path.z[k], z + b * (x - z), rtol=1e-13)


def test_a_small_gradient_ends_a_run_within_a_block() -> None:
    how = HOW | {"maxiter": 10_000}
    r = cz.minimize(fun, point((D,)), jac, tol=1e-3, record=False, **how)
    assert r.status is cz.Status.CONVERGED
    assert r.nit % fixed.BLOCK > 0
    exact = cz.minimize(fun, point((D,)), jac, record="path", **how | {"maxiter": r.nit})
    assert same_bits(r.x, exact.x)
