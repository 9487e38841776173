"""`cz.minimize` on arrays of other libraries: the same runs as in NumPy, on their own device.

That the points are the same is tested in test_adapters_agree.py.
"""

from __future__ import annotations

import math
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch

import continuized as cz
from continuized.solver.array_api import norm
from continuized.solver.steppers import fixed

LIBRARIES = {"torch": torch, "array-api-strict": array_api_strict}
CENTRE, WEIGHTS = np.array([1.0, -2.0, 0.5]), np.array([0.05, 0.5, 2.0])
L, MU = 2.0, 0.05


def functions(xp: Any, dtype: str = "float64", bad: int | None = None) -> tuple[Any, Any]:
    """fun and jac; of the latter's answers, number `bad` is NaN."""
    centre, weights = (xp.asarray(array.astype(dtype)) for array in (CENTRE, WEIGHTS))
    calls = 0

    def fun(x: Any) -> Any:
        return 0.5 * xp.sum(weights * (x - centre) ** 2)

    def jac(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return weights * (x - centre) * (math.nan if calls == bad else 1.0)

    return fun, jac


def run(xp: Any, dtype: str = "float64", bad: int | None = None, **options: Any) -> Any:
    fun, jac = functions(xp, dtype, bad)
    return cz.minimize(fun, xp.asarray(np.zeros(3, dtype)), jac, **{"rng": 3, **options})


def close(a: Any, b: Any, tolerance: float = 1e-12) -> bool:
    return bool(np.allclose(np.from_dlpack(a), np.from_dlpack(b), rtol=0.0, atol=tolerance))


def stop_at_four(intermediate_result: Any) -> None:
    if intermediate_result.nit == 4:
        raise StopIteration


RUNS: dict[str, dict[str, Any]] = {
    "converged": {"L": L, "mu": MU, "tol": 1e-6},
    "converged, without a record": {"L": L, "tol": 1e-6, "record": False},
    "completed": {"L": L, "maxiter": 30},
    "completed, without a record": {"L": L, "maxiter": 30, "record": False},
    "no step": {"L": L, "maxiter": 0},
    "maxiter": {"L": L, "maxiter": 30, "tol": 1e-12},
    "the clock ends": {"L": L, "clock": cz.clock.Recorded([0.5, 2.0]), "tol": 1e-6},
    "a callback stops": {"L": L, "callback": stop_at_four},
    "a callback stops, without a record": {"L": L, "callback": stop_at_four, "record": False},
    "a NaN": {"L": L, "bad": 4},
    "a NaN is skipped": {"L": L, "bad": 4, "nonfinite": "skip", "maxiter": 30},
    "Nesterov": {"L": L, "method": "nesterov", "maxiter": 30},
    "Nesterov, mu > 0": {"L": L, "mu": MU, "method": "nesterov", "maxiter": 30},
    "gradient descent": {"L": L, "method": "gradient-descent", "maxiter": 30},
    "start": {"method": cz.Continuized(L, MU, 0.5), "maxiter": 30},
    "L unknown": {"tol": 1e-6},
    "L unknown, maxiter": {"maxiter": 40},
    "L unknown, a NaN": {"bad": 6, "tol": 1e-6},
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", RUNS)
def test_the_run_is_that_of_numpy(library: str, name: str) -> None:
    xp = LIBRARIES[library]
    r, expected = run(xp, **RUNS[name]), run(np, **RUNS[name])
    assert (r.status, r.message) == (expected.status, expected.message)
    assert (r.nit, r.nfev, r.njev) == (expected.nit, expected.nfev, expected.njev)
    assert r.get("skipped") == expected.get("skipped")
    assert type(r.x) is type(r.jac) is type(xp.asarray([0.0]))
    assert close(r.x, expected.x)
    assert close(r.jac, expected.jac)
    assert r.fun == pytest.approx(expected.fun, abs=1e-12)
    assert np.array_equal(r.trace.k, expected.trace.k)
    assert np.array_equal(r.trace.t, expected.trace.t)
    assert np.allclose(r.trace.fun, expected.trace.fun, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("constants", "sentence"),
    [({"L": 0.5}, "L = 0.5 is too small"), ({"L": L, "mu": 0.5}, "mu = 0.5 is too large")],
)
def test_wrong_constants_are_seen(library: str, constants: Any, sentence: str) -> None:
    found = []
    for xp in (np, LIBRARIES[library]):
        with pytest.warns(cz.ConstantsWarning, match=sentence) as seen:
            found.append(run(xp, maxiter=400, **constants))
        assert len(seen) == 1
        assert seen[0].filename == __file__
    assert found[0].status is found[1].status
    assert found[0].nit == found[1].nit


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_value_that_is_not_finite_ends_a_run(library: str) -> None:
    def ended(xp: Any, record: bool) -> Any:
        _, jac = functions(xp)

        def fun(x: Any) -> float:
            return math.inf if float(x[2]) > 0.3 else 1.0

        return cz.minimize(fun, xp.zeros(3, dtype=xp.float64), jac, L=L, rng=3, record=record)

    for record in (True, False):
        r, expected = ended(LIBRARIES[library], record), ended(np, record)
        assert r.status is expected.status is cz.Status.NOT_FINITE
        assert r.nit == expected.nit
        assert close(r.x, expected.x)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("constants", [{"L": L, "mu": MU}, {}])
def test_dtype_shape_and_device_are_kept(library: str, dtype: str, constants: Any) -> None:
    xp = LIBRARIES[library]
    device = {"torch": "cpu", "array-api-strict": array_api_strict.Device("device1")}[library]
    x0 = xp.asarray(np.zeros((2, 3), dtype), device=device)
    centre = xp.asarray(np.arange(6, dtype=dtype).reshape(2, 3), device=device)
    r = cz.minimize(
        lambda x: xp.sum((x - centre) ** 2),
        x0,
        lambda x: 2.0 * (x - centre),
        tol=1e-3,
        **constants,
    )
    assert r.success
    for array in (r.x, r.jac):
        assert array.dtype == x0.dtype
        assert tuple(array.shape) == (2, 3)
        assert array.device == x0.device
    assert float(xp.max(xp.abs(r.x - centre))) <= 1e-3
    assert float(xp.max(xp.abs(x0))) == 0.0


def test_the_path_may_be_asked_at_any_time() -> None:
    r, expected = (run(xp, L=L, mu=MU, maxiter=20, record="path") for xp in (torch, np))
    for t in (0.0, 0.3, float(expected.path.t[7]), 9.9):
        for side in ("left", "right"):
            for ours, theirs in zip(r.at(t, side), expected.at(t, side), strict=True):
                assert close(ours, theirs)


def test_blocks_do_not_change_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"L": L, "method": "nesterov", "maxiter": 30}  # a method that carries a number on
    expected = run(torch, **options)
    monkeypatch.setattr(fixed, "BLOCK", 7)
    assert torch.equal(run(torch, **options).x, expected.x)


def test_jax_arrays_stay_what_they_are() -> None:
    import jax
    import jax.numpy as jnp

    fun, _ = functions(jnp, "float32")
    r = cz.minimize(fun, jnp.zeros(3), jax.jit(jax.grad(fun)), L=L, mu=MU, rng=3, maxiter=30)
    assert isinstance(r.x, jax.Array)
    assert r.x.dtype == r.jac.dtype == jnp.float32
    expected = run(np, "float32", L=L, mu=MU, maxiter=30)
    assert np.allclose(r.x, expected.x, rtol=0.0, atol=1e-5)


# Torch's graphs


@pytest.mark.parametrize("constants", [{"L": L}, {}])
@pytest.mark.parametrize("both", [False, True])
def test_no_graph_is_built_through_the_iteration(constants: Any, both: bool) -> None:
    """The gradient by autograd, at the very tensor that jac is given."""
    fun, _ = functions(torch)
    x0 = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    seen: list[Any] = []

    def value_and_grad(x: torch.Tensor) -> Any:
        value = fun(x.requires_grad_())
        value.backward()
        return value, x.grad

    def jac(x: torch.Tensor) -> Any:
        g = value_and_grad(x)[1].requires_grad_()
        return g * torch.ones((), dtype=torch.float64, requires_grad=True)

    given = (value_and_grad, x0, True) if both else (lambda x: fun(x) * x0.sum().exp(), x0, jac)
    options = {"rng": 3, "maxiter": 30, "callback": seen.append, **constants}
    r = cz.minimize(*given, **options)
    assert not any(x.requires_grad for x in [r.x, r.jac, *seen])
    assert x0.requires_grad
    assert x0.grad is None
    assert x0.tolist() == [0.0, 0.0, 0.0]
    assert close(r.x, run(np, maxiter=30, **constants).x)


def test_parameters_and_other_kinds_of_tensors_are_tensors() -> None:
    class Mine(torch.Tensor):
        pass

    fun, jac = functions(torch)
    zeros = torch.zeros(3, dtype=torch.float64)
    expected = run(torch, L=L, maxiter=10).x
    for x0 in (torch.nn.Parameter(zeros), zeros.as_subclass(Mine)):
        r = cz.minimize(fun, x0, jac, L=L, rng=3, maxiter=10)
        assert torch.equal(r.x.as_subclass(torch.Tensor), expected)


@pytest.mark.parametrize("constants", [{"L": L}, {}])
def test_the_users_arrays_are_theirs(constants: Any) -> None:
    """The functions may write into what they are given, and answer in one buffer."""
    _, jac = functions(torch)
    buffer = torch.empty(3, dtype=torch.float64)

    def fun(x: torch.Tensor) -> Any:
        value = functions(torch)[0](x)
        x.fill_(math.nan)
        return value

    def into_buffer(x: torch.Tensor) -> torch.Tensor:
        buffer.copy_(jac(x))
        x.fill_(math.nan)
        return buffer

    def callback(x: torch.Tensor) -> None:
        x.fill_(math.nan)

    x0 = torch.zeros(3, dtype=torch.float64)
    r = cz.minimize(fun, x0, into_buffer, rng=3, maxiter=30, callback=callback, **constants)
    buffer.fill_(math.nan)
    assert close(r.x, run(np, maxiter=30, **constants).x)
    assert bool(torch.isfinite(r.jac).all())
    assert r.x is not x0


# The user's constants


@pytest.mark.parametrize("library", LIBRARIES)
def test_constants_may_be_arrays_of_no_dimension(library: str) -> None:
    xp = LIBRARIES[library]
    given = {name: xp.asarray(value) for name, value in (("L", L), ("mu", MU), ("tol", 1e-3))}
    assert close(run(xp, **given).x, run(xp, L=L, mu=float(given["mu"]), tol=1e-3).x, 1e-6)
    with pytest.raises(TypeError, match="L must be a finite number > 0, got"):
        run(xp, L=xp.asarray([L]))


def test_a_problem_of_the_users_own_brings_its_constants() -> None:
    fun, jac = functions(torch)
    p = cz.Problem(fun, jac, L=L, mu=MU)
    r = cz.minimize(p, torch.zeros(3, dtype=torch.float64), rng=3, maxiter=30)
    assert r.method == cz.Continuized(L, MU)
    assert torch.equal(r.x, run(torch, L=L, mu=MU, maxiter=30).x)


@pytest.mark.parametrize("xp", [np, torch])
def test_a_norm_is_finite_where_its_square_is_not(xp: Any) -> None:
    assert norm(xp.asarray([3e200, 4e200], dtype=xp.float64)) == pytest.approx(5e200)
    assert norm(xp.asarray([math.inf, 1.0], dtype=xp.float64)) == math.inf
    assert math.isnan(norm(xp.asarray([math.nan, 1e200], dtype=xp.float64)))
