"""`cz.scipy_method` as SciPy calls it, beside SciPy's own methods."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.optimize import LinearConstraint, OptimizeWarning

import continuized as cz
from continuized.adapters.scipy import PASSED_ON, FiniteDifferences
from tests.helpers.scipy_functions import FUNCTIONS, booth, booth_grad, run


@pytest.mark.blas
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("theirs", ["L-BFGS-B", "BFGS"])
def test_the_minimum_is_that_of_scipys_methods(name: str, theirs: str) -> None:
    fun, grad, x0 = FUNCTIONS[name]
    r = run(fun, x0, jac=grad, tol=1e-9)
    options = {"gtol": 1e-9, **({"ftol": 0.0} if theirs == "L-BFGS-B" else {})}
    expected = optimize.minimize(fun, x0, jac=grad, method=theirs, options=options)
    assert r.success
    assert r.status == 0
    assert r.fun == pytest.approx(expected.fun, abs=1e-12)
    assert np.allclose(r.x, expected.x, rtol=0.0, atol=1e-6)
    assert r.fun == fun(r.x)
    assert np.linalg.norm(r.jac) <= 1e-9
    assert np.array_equal(r.jac, grad(r.x))
    assert isinstance(r, optimize.OptimizeResult)


@pytest.mark.parametrize("options", [{}, {"L": 10.0}, {"L": 20.0, "mu": 1.0, "start": 2.0}])
def test_the_run_is_that_of_minimize(options: dict[str, Any]) -> None:
    L, mu, start = (options.get(name) for name in ("L", "mu", "start"))
    constants = {"L": L} if start is None else {"method": cz.Continuized(L, mu, start)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cz.ConstantsWarning)  # L = 10 is too small
        r = run(booth, [0.0, 0.0], jac=booth_grad, options=options)
        expected = cz.minimize(booth, [0.0, 0.0], booth_grad, rng=0, tol=1e-6, **constants)
    assert np.array_equal(r.x, expected.x)
    assert np.array_equal(r.trace.t, expected.trace.t)
    assert (r.nit, r.nfev, r.njev) == (expected.nit, expected.nfev, expected.njev)
    assert r.message == expected.message


@pytest.mark.parametrize("options", [{}, {"L": 2.0}])
def test_in_one_variable_x0_and_the_gradient_may_be_numbers(options: dict[str, Any]) -> None:
    r = run(lambda x: (x - 1.0) ** 2, 3.0, jac=lambda x: 2.0 * (x[0] - 1.0), options=options)
    assert r.success
    assert r.x.shape == r.jac.shape == (1,)
    assert np.allclose(r.x, 1.0)


@pytest.mark.parametrize("args", [(3.0, 2.0), 3.0])
@pytest.mark.parametrize("jac", ["function", True])
def test_args_go_to_fun_and_jac(args: Any, jac: Any) -> None:
    def fun(x: Any, centre: float, scale: float = 1.0) -> Any:
        value = scale * np.sum((x - centre) ** 2)
        return (value, slope(x, centre, scale)) if jac is True else value

    def slope(x: Any, centre: float, scale: float = 1.0) -> Any:
        return 2.0 * scale * (x - centre)

    r = run(fun, [0.0, 1.0], jac=jac if jac is True else slope, args=args)
    assert np.allclose(r.x, 3.0, atol=1e-6)
    direct = cz.scipy_method(fun, [0.0, 1.0], args, jac if jac is True else slope, rng=0)
    assert np.array_equal(direct.x, r.x)


def test_value_and_gradient_at_a_point_take_one_call() -> None:
    points: list[tuple[float, ...]] = []

    def both(x: Any) -> Any:
        points.append(tuple(x))
        return booth(x), booth_grad(x)

    r = run(both, [0.0, 0.0], jac=True)
    assert r.success
    assert len(points) == len(set(points)) == r.nfev == r.njev


@pytest.mark.parametrize("scheme", ["2-point", "3-point", "cs"])
@pytest.mark.parametrize("options", [{}, {"L": 20.0}, {"L": 20.0, "record": False}])
def test_finite_differences_are_counted_and_warned_of(scheme: str, options: Any) -> None:
    calls = 0

    def fun(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return booth(x)

    cost = 4 if scheme == "3-point" else 2
    with pytest.warns(OptimizeWarning, match=f"takes {cost} further values of fun") as seen:
        r = run(fun, [0.0, 0.0], options={**options, "finite_differences": scheme})
    assert len(seen) == 1
    assert seen[0].filename == run.__code__.co_filename  # the line that called SciPy
    assert r.success
    assert np.allclose(r.x, [1.0, 3.0], atol=1e-6)
    assert r.nfev == calls
    gradients, values = cost * r.njev, calls - cost * r.njev
    assert gradients > 0
    assert values <= r.njev + r.nit + 1


def test_finite_differences_by_the_name_that_jac_has() -> None:
    with pytest.warns(OptimizeWarning, match="3-point"):
        r = cz.scipy_method(booth, [0.0, 0.0], jac="3-point", rng=0)
    assert np.allclose(r.x, [1.0, 3.0], atol=1e-6)
    with pytest.raises(ValueError, match='must be "2-point", "3-point" or "cs", got \'4-point\''):
        run(booth, [0.0, 0.0], options={"finite_differences": "4-point"})


def test_a_relative_step_is_that_of_the_differences() -> None:
    """With a step of x/100, a forward difference of (x - 1)^2 is 2 (x - 1) + x/100."""
    with pytest.warns(OptimizeWarning, match="2-point"):
        r = run(lambda x: (x[0] - 1.0) ** 2, [2.0], options={"finite_diff_rel_step": 1e-2})
    assert r.x[0] == pytest.approx(2.0 / 2.01, abs=1e-6)


def test_tol_and_maxiter() -> None:
    loose, tight = (run(booth, [0.0, 0.0], jac=booth_grad, tol=tol) for tol in (1e-2, 1e-8))
    assert loose.nit < tight.nit
    assert 1e-8 < np.linalg.norm(loose.jac) <= 1e-2
    own = run(booth, [0.0, 0.0], jac=booth_grad, tol=1e-2, options={"tol": 1e-8})
    assert own.nit == tight.nit
    ended = run(booth, [0.0, 0.0], jac=booth_grad, options={"maxiter": 3})
    assert (ended.success, ended.status, ended.nit) == (False, 1, 3)
    early = run(booth, [0.0, 0.0], jac=booth_grad, options={"maxiter": 10_000})
    assert early.success
    assert early.nit < 1000


@pytest.mark.parametrize("bounds", [None, [(0.0, 0.5), (None, None)]])
def test_both_kinds_of_callback(bounds: Any) -> None:
    points: list[Any] = []
    results: list[Any] = []

    def with_result(intermediate_result: Any) -> None:
        results.append(intermediate_result)
        if len(results) == 5:
            raise StopIteration

    r = run(booth, [0.0, 0.0], jac=booth_grad, bounds=bounds, callback=points.append)
    assert len(points) in (r.nit, r.nit - 1)
    assert all(type(x) is np.ndarray for x in points)
    stopped = run(booth, [0.0, 0.0], jac=booth_grad, bounds=bounds, callback=with_result)
    assert (stopped.nit, stopped.success, stopped.status) == (5, False, 99)
    assert np.array_equal([s.x for s in results], points[:5])
    assert [s.nit for s in results] == [1, 2, 3, 4, 5]


def test_what_is_not_used_is_warned_of() -> None:
    with pytest.warns(OptimizeWarning, match="not known: gtol, eps") as seen:
        run(booth, [0.0, 0.0], jac=booth_grad, options={"gtol": 1.0, "eps": 2.0})
    assert seen[0].filename == run.__code__.co_filename
    with pytest.warns(RuntimeWarning, match="no use of hess$"):
        run(booth, [0.0, 0.0], jac=booth_grad, hess=lambda x: np.eye(2))
    with pytest.warns(RuntimeWarning, match="no use of hessp$"):
        run(booth, [0.0, 0.0], jac=booth_grad, hessp=lambda x, p: p)


@pytest.mark.parametrize(
    ("error", "sentence", "given"),
    [
        (ValueError, "one for each of the 2 entries of x0", {"bounds": [(0.0, 1.0)] * 3}),
        (ValueError, "low <= high", {"bounds": [(1.0, 0.0)] * 2}),
        (TypeError, "pairs .low, high. of numbers or None", {"bounds": [0.0, 1.0]}),
        (TypeError, "pairs .low, high. of numbers or None", {"bounds": [("a", 1.0)] * 2}),
        (ValueError, "constraints are not supported", {"constraints": {"type": "eq"}}),
        (ValueError, "constraints are not supported", {"constraints": [{"type": "eq"}]}),
        (
            ValueError,
            "constraints are not supported",
            {"constraints": LinearConstraint(np.eye(2), 0.0, 1.0)},
        ),
        (ValueError, "start= needs L=", {"options": {"start": 1.0}}),
        (ValueError, 'method="sharp" needs L=', {"options": {"method": "sharp"}}),
        (ValueError, "SharpContinuized needs mu > 0", {"options": {"method": "sharp", "L": 18.0}}),
        (
            ValueError,
            'method="sharp" has no start=',
            {"options": {"method": "sharp", "L": 18.0, "mu": 1.0, "start": 1.0}},
        ),
        (
            ValueError,
            "start= needs L=",
            {"options": {"start": 1.0, "L": 18.0}, "bounds": [(0.0, 1.0)] * 2},
        ),
        (ValueError, 'nonfinite must be "stop", "raise" or', {"options": {"nonfinite": "ignore"}}),
        (TypeError, "callback must be callable", {"callback": 3}),
        (ValueError, "metric= and prox= do not go together",
         {"options": {"metric": [1.0, 1.0]}, "bounds": [(0.0, 1.0)] * 2}),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(error: Any, sentence: str, given: Any) -> None:
    with pytest.raises(error, match=sentence) as caught:
        run(booth, [0.0, 0.0], jac=booth_grad, **given)
    assert "\n" not in str(caught.value)


def test_a_problem_is_no_function() -> None:
    with pytest.raises(TypeError, match=r"got .*Quadratic.*; of a Problem p, give p.fun"):
        run(cz.problems.Quadratic([1.0, 2.0]), [0.0, 0.0])


@pytest.mark.parametrize("constraints", [(), [], None, {}])
def test_no_constraints_are_no_constraints(constraints: Any) -> None:
    assert cz.scipy_method(
        booth, [0.0, 0.0], jac=booth_grad, constraints=constraints, rng=0
    ).success


def test_a_metric_is_an_option() -> None:
    weights = np.array([1.0, 1e4])
    options = {"metric": weights, "L": 1.0, "mu": 1.0}
    r = run(lambda x: 0.5 * weights @ (x - 1.0) ** 2, [0.0, 0.0],
            jac=lambda x: weights * (x - 1.0), options=options)  # fmt: skip
    assert r.success
    assert r.nit < 100
    assert np.allclose(r.x, 1.0)


def test_gradients_that_are_not_finite() -> None:
    def nan(x: Any) -> Any:
        return np.full(2, np.nan)

    r = run(booth, [0.0, 0.0], jac=nan, options={"L": 18.0})
    assert (r.success, r.status) == (False, 3)
    with pytest.raises(FloatingPointError, match="not finite"):
        run(booth, [0.0, 0.0], jac=nan, options={"L": 18.0, "nonfinite": "raise"})
    r = run(booth, [0.0, 0.0], jac=nan, options={"L": 18.0, "nonfinite": "skip", "maxiter": 5})
    assert (r.success, r.status, r.skipped, r.x.tolist()) == (False, 1, 5, [0.0, 0.0])


def test_every_status_has_its_number() -> None:
    codes = [status.code for status in cz.Status if not status.success]
    page = (Path(__file__).parents[2] / "docs" / "adapters" / "scipy.md").read_text()
    numbers = page.partition("`r.status` is a number")[2].partition("`r.trace`")[0]
    assert [code for code in codes if not re.search(rf"\b{code}\b", numbers)] == []
    assert len(set(codes)) == len(codes)
    wrong = run(lambda x: float(x @ x), [1.0, 1.0], jac=lambda x: -2.0 * x)
    assert wrong.status == cz.Status.WRONG_GRADIENT.code


def test_disp_prints_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    r = run(booth, [0.0, 0.0], jac=booth_grad, options={"disp": True})
    assert capsys.readouterr().out == f"{r.message}\n"


def test_nothing_of_the_users_is_changed() -> None:
    x0, options = np.zeros(2), {"rng": 0, "maxiter": 50}
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    optimize.minimize(booth, x0, jac=booth_grad, method=cz.scipy_method, tol=1e-3, options=options)
    assert x0.tolist() == [0.0, 0.0]
    assert options == {"rng": 0, "maxiter": 50}
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_every_option_of_minimize_can_be_given_through_scipy() -> None:
    ours = set(inspect.signature(cz.minimize).parameters)
    scipys = set(inspect.signature(cz.scipy_method).parameters) | set(PASSED_ON)
    # Bounds are a prox.
    assert ours - scipys == {"unknown", "prox", "noise"}


@pytest.mark.parametrize(("scheme", "more"), [("2-point", 3), ("3-point", 6), ("cs", 3)])
def test_differences_do_not_ask_again_where_f_is_known(scheme: str, more: int) -> None:
    differences = FiniteDifferences(lambda x: (x * x).sum(), scheme, None)
    x = np.arange(3.0)
    differences.fun(x)
    assert np.allclose(differences.grad(x), 2.0 * x)
    assert differences.calls == 1 + more
    differences.grad(x + 1.0)
    assert differences.calls == 2 + 2 * more
