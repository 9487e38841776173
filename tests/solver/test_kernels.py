"""The compiled loops: a problem that is written into one runs as a user's compiled gradient does.

Both make the same operations in the same order on every entry, and so give the same bits, but for
noise, which one of them may add in the same operation as it multiplies.
"""

from __future__ import annotations

import platform
import re
import warnings
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from numba.core.serialize import dumps

import continuized as cz
from continuized.problems.kernels import (
    IN_REGISTERS,
    QUESTIONS,
    compile_user,
    quadratic_slope,
    questions,
)
from continuized.process.compiled import EVENTS_AT_ONCE
from continuized.process.composite import Composite
from continuized.process.stepper import Limits, Status
from continuized.solver.constant_checks import L_SEEN
from continuized.solver.kernels import loop as kernel
from continuized.solver.kernels.ensemble import make_steps, make_times
from continuized.solver.kernels.loop import (
    compile_loop,
    make_block_loop,
    make_entrywise_loop,
    make_loop,
    make_small_entrywise_loop,
    make_small_loop,
)
from continuized.solver.loop import Loop
from continuized.solver.steppers import fixed
from continuized.solver.steppers.composite import CompositeStepper
from continuized.support.jit import UNCOUNTED, array_at, jit
from tests.invariants.registry import same_bits

SIZES = [3, 40, 200]


def as_users_own(p: cz.problems.Quadratic, dtype: Any) -> cz.Problem:
    eigenvalues, x_star = p.eigenvalues.astype(dtype), p.x_star.astype(dtype)

    @numba.njit
    def grad(x: Any, out: Any) -> None:
        for c in range(x.size):
            out[c] = eigenvalues[c] * (x[c] - x_star[c])

    return cz.Problem(p.fun, grad, L=p.L, mu=p.mu)


def quadratic(d: int) -> cz.problems.Quadratic:
    return cz.problems.Quadratic(np.linspace(0.01, 1.0, d), np.linspace(-1.0, 1.0, d))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise", [None, cz.noise.Gaussian(1e-4)], ids=["exact", "noisy"])
@pytest.mark.parametrize("d", SIZES)
def test_a_sum_over_entries_runs_as_a_users_gradient_does(d: int, noise: Any, dtype: Any) -> None:
    p, x0 = quadratic(d), np.zeros(d, dtype)
    how: Any = {"maxiter": 1500, "rng": 3, "noise": noise, "record": "path"}
    ours = cz.minimize(p, x0, **how)
    users = cz.minimize(as_users_own(p, dtype), x0, **how)
    assert ours.x.dtype == dtype
    for t in ours.trace.t[[0, 1, 700, 1500]].tolist():
        for own, other in zip(ours.at(t), users.at(t), strict=True):
            if noise is None:
                assert same_bits(own, other)
            else:  # the process contracts: rounding errors do not add up
                np.testing.assert_allclose(own, other, atol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("L", "mu", "proved"),
    [(1.0, 0.01, True), (2.0, 0.0, True), (0.5, 0.01, False), (1.0, 0.011, False)],
)
def test_gradients_are_compared_unless_the_eigenvalues_prove_the_constants(
    L: float, mu: float, proved: bool
) -> None:
    """Where they prove nothing, a contradiction is found as on a user's own gradient."""
    p, x0 = quadratic(40), np.zeros(40)
    assert p.proves(L, mu) is proved
    sentences = []
    for problem in (p, as_users_own(p, np.float64)):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            cz.minimize(problem, x0, L=L, mu=mu, maxiter=2000, rng=1)
        sentences.append([str(warning.message) for warning in warned])
    assert sentences[0] == sentences[1]
    assert bool(sentences[0]) is not proved


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("method", [cz.Continuized(0.05, 0.01), cz.Nesterov(0.05)], ids=repr)
def test_a_step_that_is_forbidden_is_not_taken(d: int, method: Any, record: bool) -> None:
    """L is too small.  The one pass has taken the step when its checks are known, and goes back."""
    p, x0 = quadratic(d), np.zeros(d)
    how: Any = {"method": method, "maxiter": 5000, "rng": 1, "record": record}
    with pytest.warns(cz.ConstantsWarning) as warned:
        ours = cz.minimize(p, x0, **how)
    with pytest.warns(cz.ConstantsWarning) as others:
        users = cz.minimize(as_users_own(p, np.float64), x0, **how)
    assert ours.status is users.status is Status.DIVERGED
    assert 1 < ours.nit == users.nit < 5000
    assert same_bits(ours.x, users.x)
    assert ours.njev == users.njev
    assert str(warned[0].message) == str(others[0].message)
    with pytest.warns(cz.ConstantsWarning):
        r = cz.minimize(with_gradient_in_python(p), x0, **how)
    assert (r.status, r.nit) == (ours.status, ours.nit)
    # Each event multiplies what rounding does by as much as the steps themselves.
    np.testing.assert_allclose(ours.x, r.x, rtol=1e-9)


# The second carries a number from event to event.
LONG_RUNS = [cz.Continuized(1.0, 0.01), cz.Nesterov(1.0)]


def with_gradient_in_python(p: cz.problems.Quadratic) -> cz.Problem:
    return cz.Problem(p.fun, p.grad, L=p.L, mu=p.mu)


@pytest.mark.parametrize("noise", [None, cz.noise.Gaussian(1e-4)], ids=["exact", "noisy"])
@pytest.mark.parametrize("method", LONG_RUNS, ids=["continuized", "nesterov"])
@pytest.mark.parametrize("d", SIZES)
def test_every_state_of_a_long_block_is_that_of_a_gradient_in_python(
    d: int, method: Any, noise: Any
) -> None:
    """Compiled loops make the coefficients of some events at a time; Python, of a whole block."""
    p, x0, n = quadratic(d), np.zeros(d), 3 * EVENTS_AT_ONCE + 17
    how: Any = {"method": method, "maxiter": n, "rng": 5, "noise": noise, "record": "path"}
    expected = cz.minimize(with_gradient_in_python(p), x0, **how)
    for problem in (p, as_users_own(p, np.float64)):
        r = cz.minimize(problem, x0, **how)
        for t in expected.trace.t:
            np.testing.assert_allclose(r.at(t), expected.at(t), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("method", LONG_RUNS, ids=["continuized", "nesterov"])
def test_a_run_goes_on_after_a_small_gradient_that_is_not_confirmed(method: Any) -> None:
    """With noise a gradient may be smaller than tol at y, while it is larger at x without."""
    p, x0 = quadratic(3), np.zeros(3)
    how: Any = {"method": method, "tol": 1e-3, "maxiter": 3000, "rng": 3}
    how["noise"] = cz.noise.Gaussian(1e-5)
    ours = cz.minimize(p, x0, **how)
    expected = cz.minimize(with_gradient_in_python(p), x0, **how)
    assert ours.njev == expected.njev > ours.nit + 1  # a gradient more for each that was small
    assert ours.nit == expected.nit
    np.testing.assert_allclose(ours.x, expected.x, rtol=1e-9)


@pytest.mark.parametrize("method", LONG_RUNS, ids=["continuized", "nesterov"])
@pytest.mark.parametrize("d", SIZES)
def test_events_whose_gradients_are_not_finite_are_skipped(d: int, method: Any) -> None:
    """Noise that is infinite now and then; the events before it stay as they were."""

    class Rare:
        def draw(self, rng: Any, n: int, dim: int) -> Any:
            noise = 1e-3 * rng.standard_normal((n, dim))
            noise[rng.random(n) < 0.02, 0] = np.inf
            return noise

        def sigma2(self, dim: int) -> float:
            return 1e-6 * dim

    p, x0 = quadratic(d), np.zeros(d)
    how: Any = {
        "method": method, "maxiter": 2000, "rng": 5, "noise": Rare(), "nonfinite": "skip",
    }  # fmt: skip
    ours = cz.minimize(p, x0, **how)
    for other in (as_users_own(p, np.float64), with_gradient_in_python(p)):
        r = cz.minimize(other, x0, **how)
        assert ours.skipped == r.skipped > 10
        # Nesterov's steps grow, and with them what rounding does.
        np.testing.assert_allclose(ours.x, r.x, rtol=1e-9, atol=1e3 * np.finfo(np.float64).eps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("is_own", [False, True], ids=["ours", "own"])
@pytest.mark.parametrize("L", [1.0, 0.6], ids=["proved", "doubted"])
@pytest.mark.parametrize("d", [1, 10, IN_REGISTERS, IN_REGISTERS + 1])
def test_vectors_in_registers_are_those_in_memory(
    d: int, L: float, is_own: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones stay in registers where nothing is recorded; blocks put them down in between."""
    monkeypatch.setattr(fixed, "GROWTH", 1)
    monkeypatch.setattr(fixed.FixedStepper, "_warn_of_witnesses", lambda self: None)
    method = cz.Continuized(L if d > 1 else 0.01 * L, 0.005)
    problem = as_users_own(quadratic(d), dtype) if is_own else quadratic(d)
    steppers = []
    for record, block in ((True, 1024), (False, 1024), (False, 7)):
        monkeypatch.setattr(fixed, "BLOCK", block)
        start, z0 = np.ones(d, dtype), np.linspace(2.0, 3.0, d, dtype=dtype)
        stepper = fixed.FixedStepper(method, problem, start, None, record=record, z0=z0)
        Loop(stepper, method.clock(2).stream(), Limits(None, 300)).run()
        steppers.append(stepper)
    expected = steppers[0]
    assert bool(expected.watch[L_SEEN] > 0.0) is (L < 1.0)
    kept = [kernel.X, kernel.Z, kernel.LAST + kernel.Y, kernel.LAST + kernel.G]
    for stepper in steppers[1:]:
        assert same_bits(stepper.work[kept], expected.work[kept])
        # Sums are added in another order, and so are those that witnesses are found by.
        rtol = 1e-9 if dtype is np.float64 else 1e-4
        np.testing.assert_allclose(stepper.watch, expected.watch, rtol=rtol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 10, 40, 100])
@pytest.mark.parametrize("record", [False, "path"])
@pytest.mark.parametrize("noise", [None, cz.noise.Gaussian(1e-4)], ids=["exact", "noisy"])
@pytest.mark.parametrize("who", ["ours", "compiled", "python", "prox"])
def test_what_vectors_have_beyond_their_entries_stays_zero(
    who: str, noise: Any, record: bool | str, d: int, dtype: Any
) -> None:
    """It takes part in the passes: anything else there would be in the sums of the checks."""
    problem: Any = quadratic(d)
    if who == "compiled":
        problem = as_users_own(problem, dtype)
    elif who == "python":
        problem = cz.Problem(problem.fun, problem.grad, L=problem.L, mu=problem.mu)
    method, start = cz.Continuized(problem.L, 0.0), np.ones(d, dtype)
    how: Any = {"record": record, "noise": noise, "rng": np.random.default_rng(1)}
    make: Any = fixed.FixedStepper
    if who == "prox":
        make = partial(CompositeStepper, composite=Composite(cz.prox.L1(0.1), (d,)))
    stepper = make(method, problem, start, None, **how)
    Loop(stepper, method.clock(2).stream(), Limits(None, 300)).run()
    assert stepper.k == 300
    assert stepper.work.shape[1] > d
    assert not stepper.work[:, d:].any()


@pytest.mark.parametrize("y", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("eigenvalue", [0.0, 1e-300, 1.0])
def test_a_slope_is_not_finite_where_y_is_not(eigenvalue: float, y: float) -> None:
    """So loops that compare no gradients need not look at y."""
    matrix = np.array([[eigenvalue], [1.0], [0.5 * eigenvalue]])
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(quadratic_slope(0, y, (matrix,)))


@pytest.mark.parametrize("d", SIZES)
def test_a_point_that_overflows_ends_a_run_at_the_event_before(d: int) -> None:
    """x and z are so far apart that their difference is infinite."""
    x0 = np.full(d, 3e38, np.float32)
    stepper = fixed.FixedStepper(
        cz.Continuized(1.0, 0.01), quadratic(d), x0, None, record=False, z0=-x0
    )
    loop = Loop(stepper, stepper.method.clock(2).stream(), Limits(None, 300))
    assert loop.run() is Status.NOT_FINITE
    assert np.isfinite(stepper.fun)  # it was not the start that failed
    assert same_bits(stepper.x, x0)


def test_a_gradient_that_changes_between_calls_leaves_a_state_of_the_run() -> None:
    """Events before a forbidden one are taken again; where one of them now fails, it ends there."""
    p, x0, calls = quadratic(40), np.zeros(40), np.zeros(1, np.int64)
    eigenvalues, x_star = p.eigenvalues, p.x_star
    count = np.uintp(calls.ctypes.data)  # compiled code takes a global array for a constant

    @numba.njit
    def grad(x: Any, out: Any) -> None:
        called = array_at(count, (1,), np.int64)
        called[0] += 1
        for c in range(x.size):
            out[c] = eigenvalues[c] * (x[c] - x_star[c])
        if called[0] == 10 or called[0] == 15:
            out[0] = np.nan

    how: Any = {"maxiter": 100, "rng": 1, "record": False}
    r = cz.minimize(cz.Problem(p.fun, grad, L=p.L, mu=p.mu), x0, **how)
    assert r.status is Status.NOT_FINITE
    assert 0 < r.nit < 9
    assert same_bits(r.x, cz.minimize(p, x0, **how | {"maxiter": r.nit}).x)


@pytest.mark.parametrize("witnessing", [False, True])
@pytest.mark.parametrize(("dtype", "packed"), [(np.float64, "pd"), (np.float32, "ps")])
def test_the_loop_of_a_sum_over_entries_runs_in_vector_registers(
    dtype: Any, packed: str, witnessing: bool
) -> None:
    """Its one pass is what makes it quick: LLVM must not give up on it.  The longest vectors are
    for long loops."""
    loop = compile_loop(np.dtype(dtype), "quadratic", False, witnessing)
    signature = loop.nopython_signatures[0]
    for make in (make_entrywise_loop, make_small_entrywise_loop):
        is_small = make is make_small_entrywise_loop
        made = make_whole(make, questions("quadratic"), witnessing)
        loop = jit(made, signature, cached=False, **UNCOUNTED)  # from disk: without assembly
        (assembly,) = loop.inspect_asm().values()
        if platform.machine() in ("x86_64", "AMD64"):
            products = re.findall(rf"\tv?(?:mul|fmadd\d+){packed}\t(.*)", assembly)
            assert products
            has_longest = llvm.get_host_cpu_features().get("avx512f", False)
            assert any("zmm" in each for each in products) is (has_longest and not is_small)


def test_a_users_gradient_is_written_into_what_the_loops_call() -> None:
    """A call with two arrays takes 2 to 4 ns, as long as the sums of 100 entries."""

    @numba.njit
    def shift(y: Any) -> Any:
        return y - 1.0

    @numba.njit
    def fill(y: Any, out: Any, first: int, last: int) -> None:
        if last - first == 1:
            out[first] = shift(y[first])
        else:
            middle = (first + last) // 2
            fill(y, out, first, middle)
            fill(y, out, middle, last)

    @numba.njit
    def straight(y: Any, out: Any) -> None:
        for c in range(y.size):
            out[c] = shift(y[c])

    @numba.njit
    def recursive(y: Any, out: Any) -> None:
        fill(y, out, 0, y.size)

    @numba.njit
    def failing(y: Any, out: Any) -> None:
        straight(y, out)
        if y[0] > 0.25:
            raise ArithmeticError("far enough")

    for grad in (straight, recursive):
        made = compile_user(grad, None, np.float64).grad
        (only,) = made.overloads.values()
        named = [each for each in only.library.get_defined_functions() if "grad" in each.name]
        assert named
        assert not any(grad.py_func.__name__ in each.name for each in named)
        p = cz.Problem(lambda x: 0.5 * np.sum((x - 1.0) ** 2), grad, L=1.0, mu=1.0)
        assert cz.minimize(p, np.zeros(20), maxiter=50, rng=0).fun < 1e-12
    p = cz.Problem(lambda x: 0.5 * np.sum((x - 1.0) ** 2), failing, L=4.0, mu=0.5)
    with pytest.raises(ArithmeticError, match="far enough"):
        cz.minimize(p, np.zeros(20), maxiter=50, rng=0)


def closure_as_kept(function: Any) -> bytes:
    """What Numba's index on the disk knows a closure by, beside its code."""
    return dumps(tuple(cell.cell_contents for cell in function.__closure__))


def make_whole(make: Any, asked: Any, witnessing: bool) -> Any:
    """Make the loop over blocks, as `compile_loop` does."""
    is_small = make in (make_small_loop, make_small_entrywise_loop)
    return make_block_loop(make(asked, witnessing), is_small)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_loop_made_again_is_found_on_the_disk(kind: str) -> None:
    """As by the next process; and it is not that of another kind, which has the same name there."""
    asked = questions(kind)
    loops = [make_loop, make_small_loop]
    if asked.is_entrywise:
        loops = [make_entrywise_loop, make_small_entrywise_loop]
    makers = [partial(make_steps, kind), partial(make_times, kind)]
    makers += [partial(make_whole, make, asked, w) for make in loops for w in (False, True)]
    kept = [closure_as_kept(make()) for make in makers]
    assert kept == [closure_as_kept(make()) for make in makers]
    assert kept[2] != kept[3]
    others = [make_steps(other) for other in QUESTIONS if other != kind]
    assert closure_as_kept(make_steps(kind)) not in map(closure_as_kept, others)
