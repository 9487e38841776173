"""What a problem is: a function, its gradient, and the constants known of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuized.support import validation as check
from continuized.support.checkpoints.state import probe
from continuized.support.display import show_html, show_line
from continuized.support.validation import short_repr

Array = NDArray[Any]

# For np.errstate: far away f is infinite or NaN, without a warning; those who ask look at it.
NOT_FINITE: dict[str, Any] = {"over": "ignore", "invalid": "ignore"}


class Compiled(NamedTuple):
    """A problem as compiled loops see it.

    grad(x, out, size, data) and fun(x, size, data) -> float are given addresses: of vectors of
    `size` numbers, and of the `table`, which says where the `data` are; fun may be None.  `data` is
    always a tuple of the same types (see `pack`), so that one compiled loop serves every problem of
    a kind, one of the `QUESTIONS` of `problems.kernels`: loops have its gradient written into them.
    Regressions, and a user's own, have no kind: loops call the gradient by its address.

    Both are compiled when they are first asked for: most runs ask for one of them, or for none.
    """

    compile_grad: Callable[[], Any]
    compile_fun: Callable[[], Any] | None
    data: tuple[Array, ...]
    table: Array
    kind: str = ""

    @property
    def grad(self) -> Any:
        return self.compile_grad()

    @property
    def fun(self) -> Any:
        return None if self.compile_fun is None else self.compile_fun()

    def value(self, x: Array) -> float:
        """Return f(x)."""
        return float(self.fun(x.ctypes.data, x.size, self.table.ctypes.data))

    def write_gradient(self, x: Array, out: Array) -> None:
        """Write the gradient at x into out."""
        self.grad(x.ctypes.data, out.ctypes.data, x.size, self.table.ctypes.data)


def pack(
    matrix: Array | None = None,
    vector: Array | None = None,
    ints: Array | None = None,
    dtype: Any = np.float64,
) -> tuple[Array, ...]:
    """Return the data of a compiled problem, in three arrays: `kernels.make_table` says where."""
    return (
        np.require(np.zeros((0, 0)) if matrix is None else matrix, dtype, ("C", "A")),
        np.require(np.zeros(0) if vector is None else vector, dtype, ("C", "A")),
        np.require(np.zeros(0) if ints is None else ints, np.int32, ("C", "A")),
    )


def is_numba(function: Any) -> bool:
    """Whether a function was compiled by Numba, told without importing Numba."""
    return type(function).__module__.partition(".")[0] == "numba"


def writes_into_out(grad: Any) -> bool:
    """Whether a gradient is a Numba function g(x, out)."""
    python = getattr(grad, "py_func", None)  # a ufunc made by Numba has none
    return is_numba(grad) and python is not None and len(inspect.signature(python).parameters) == 2


def float_type(given: np.dtype[Any]) -> Any:
    """Return the dtype to compute in: float32 is kept, integers and other floats become float64."""
    return np.float32 if given == np.float32 else np.float64


def flat(x: ArrayLike, dim: int) -> Array:
    """Return x as a contiguous vector of dim numbers: compiled code tests no length."""
    x = np.asarray(x)
    if x.size != dim:
        raise ValueError(f"x has {x.size} entries, but the problem has dimension {dim}")
    dtype = float_type(x.dtype)
    if x.ndim != 1 or x.dtype != dtype:
        x = np.ascontiguousarray(x.ravel(), dtype)
    return x if x.flags.carray else x.copy()  # compiled code has other types for read-only arrays


def _pair(answer: Any) -> tuple[Any, Any]:
    if not (isinstance(answer, tuple | list) and len(answer) == 2):
        raise TypeError(f"fun must return the pair (value, gradient), got {short_repr(answer)}")
    return answer[0], answer[1]


def _one_number(value: Any) -> float:
    if hasattr(value, "detach"):  # torch warns where it is still part of a graph
        value = value.detach()
    if isinstance(value, np.ndarray) and value.size == 1:  # as SciPy allows
        value = value.item()
    try:
        return check.as_float(value)
    except (TypeError, ValueError, RuntimeError) as error:  # torch has the last for complex ones
        # What JAX has in place of numbers where it differentiates or compiles what calls this.
        is_traced = type(value).__module__.partition(".")[0] == "jax" and np.size(value) == 1
        advice = "; in code of JAX, use continuized.adapters.jax.minimize" if is_traced else ""
        raise TypeError(
            f"fun must return one real number, got {short_repr(value)}{advice}"
        ) from error


class Problem:
    """A smooth convex function of the user's own.

    Parameters
    ----------
    fun : callable
        x -> f(x).
    grad : callable
        x -> the gradient, or a Numba function g(x, out) that writes it into `out`; the latter
        runs wholly compiled.
    L, mu : float, optional
        The smoothness and strong convexity constants.
    x_star, f_star : array, float, optional
        The minimiser and the minimum, where known; f_star is f(x_star) where only that is given.
    value_and_grad : bool
        Whether fun returns both, and grad is not given.
    tau : float
        1 for a convex function; 0 < tau < 1 for one that is only tau-quasar-convex about x*, which
        runs and bounds then use.

    Raises TypeError where fun or grad is not callable.

    >>> p = Problem(lambda x: 0.5 * (x @ x), lambda x: x, L=1.0, mu=1.0, x_star=[0.0, 0.0])
    >>> p.dim, p.f_star
    (2, 0.0)
    """

    # The user's own function, where `grad` only passes x on to it: loops call it directly.
    plain_grad: Callable[..., Any] | None = None

    # Whether it may be asked anywhere, as a user's own function may not.  At 0, where most runs
    # start, our problems would hide much of what they are.
    is_defined_everywhere: bool = False

    # What f is known to be: convex where tau is 1, and tau-quasar-convex where it is less.
    tau: float = 1.0

    # Whether `grad` is a Numba function g(x, out).
    _into_out: bool = False

    # Whether `grad` runs on all threads, and so is quicker than a compiled loop on one.
    threaded: bool = False

    def __init__(
        self,
        fun: Callable[[Array], Any],
        grad: Callable[..., Any] | None = None,
        *,
        L: float | None = None,
        mu: float | None = None,
        x_star: ArrayLike | None = None,
        f_star: float | None = None,
        value_and_grad: bool = False,
        tau: float = 1.0,
    ) -> None:
        check.function(fun, "fun")
        if not check.flag(value_and_grad, "value_and_grad"):
            check.function(grad, "grad")
        self._fun, self._grad, self._both = fun, grad, value_and_grad
        self._into_out = writes_into_out(grad)
        if not (value_and_grad or self._into_out) and type(self).grad is Problem.grad:
            self.plain_grad = grad
        self.L = None if L is None else check.real(L, "L", minimum=0.0, other="None")
        self.mu = None if mu is None else check.real(mu, "mu", minimum=0.0, other="None")
        if check.real(tau, "tau", above=0.0, maximum=1.0) < 1.0:
            self.tau = float(tau)
        self.x_star = None
        if x_star is not None:
            self.x_star = check.array(x_star, "x_star", dtype=np.float64, finite=True)
        self.f_star = None if f_star is None else check.real(f_star, "f_star", other="None")
        if f_star is None and self.x_star is not None:
            self.f_star = self.fun(self.x_star.copy())

    @property
    def dim(self) -> int | None:
        """The number of variables, where known."""
        return None if self.x_star is None else int(self.x_star.size)

    def _facts(self) -> dict[str, Any]:
        """Tell what is shown of it: what is known by now."""
        own = {"fun": getattr(self, "_fun", None), "dim": self.dim}
        return {name: value for name, value in own.items() if value is not None} | self._known()

    def _known(self) -> dict[str, Any]:
        """Return those of the constants that took no work, or were asked for already."""
        known = {name: vars(self).get(name) for name in ("L", "mu", "tau", "f_star")}
        return {name: value for name, value in known.items() if value is not None}

    __repr__ = show_line
    _repr_html_ = show_html

    def fun(self, x: Array) -> float:
        """Return f(x)."""
        value = self._fun(x)
        return _one_number(_pair(value)[0] if self._both else value)

    def grad(self, x: Array) -> Array:
        """Return the gradient of f at x."""
        if self._into_out:
            out = np.empty(x.shape, x.dtype)
            self._grad(x.ravel(), out.ravel())  # type: ignore[misc]
            return out
        return _pair(self._fun(x))[1] if self._both else self._grad(x)  # type: ignore[misc, no-any-return]

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """Return f(x) and its gradient; one call where fun returns both."""
        if not self._both:
            return self.fun(x.copy()), self.grad(x.copy())
        return self._value_and_gradient(x.copy())

    def _value_and_gradient(self, x: Any) -> tuple[float, Any]:
        """Return what a fun that returns both gave, checked."""
        value, gradient = _pair(self._fun(x))
        return _one_number(value), gradient

    def values(self, points: Array) -> Array:
        """Return f at each of points[0], points[1], ..."""
        # Copies: the user may keep what the function was given, or write into it.
        return np.array([self.fun(np.array(x)) for x in points], dtype=np.float64)

    def grads(self, points: Array) -> Array:
        """Return the gradient at each of points[0], points[1], ..."""
        return np.array([self.grad(np.array(x)) for x in points], dtype=np.float64)

    def fingerprint(self, x0: Array) -> str:
        """Tell what a checkpoint knows the problem by: its kind, and f and |grad f| at a point."""
        point = x0 + probe(x0) if self.is_defined_everywhere else x0
        with np.errstate(all="ignore"):
            value = self.fun(point.copy())
            slope = float(np.linalg.norm(check_gradient(self.grad(point.copy()), x0.shape)[0]))
        return f"{type(self).__qualname__} with f = {value:.9g} and |grad f| = {slope:.9g}"

    def proves(self, L: float, mu: float) -> bool:
        """Tell whether what is known of f proves that it is L-smooth and mu-strongly convex.

        Then no two gradients can contradict these constants, and runs need not compare any.
        """
        return False

    def __getstate__(self) -> dict[str, Any]:
        """Leave out of copies what was compiled: it knows its data by their addresses."""
        return {**self.__dict__, "_compiled": {}}

    def compile(self, dtype: Any = np.float64) -> Compiled | None:
        """Return the problem for compiled loops, on one thread; None where the gradient is Python.

        It is made once for each dtype: a user's own functions take 0.1 s.
        """
        known: dict[str, Compiled | None] = self.__dict__.setdefault("_compiled", {})
        char = np.dtype(dtype).char
        if char not in known:
            known[char] = self._compile(np.dtype(char))
        return known[char]

    def _compile(self, dtype: Any) -> Compiled | None:
        """Make what `compile` returns."""
        if not self._into_out:
            return None
        from continuized.problems.kernels import compile_user

        fun = self._fun if is_numba(self._fun) else None
        return compile_user(self._grad, fun, dtype)


def check_gradient(g: Any, shape: tuple[int, ...]) -> tuple[Array, float]:
    """Return what the user's function gave as an array, and its rounding (0: integers)."""
    array = check.array(g, "the gradient")
    check.shape(array, "the gradient", shape, like="x")
    return array, float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0


def check_problem(problem: Any) -> Problem:
    """Return a Problem; raise TypeError for anything else."""
    checked: Problem = check.instance(problem, "problem", Problem, "a Problem")
    return checked


def check_second_start(z0: Any, x0: Array) -> Array:
    """Return z0 as a fresh array of the shape and dtype of x0, or say what is wrong."""
    z = check.array(z0, "z0", dtype=x0.dtype, finite=True)
    check.shape(z, "z0", x0.shape, like="x0")
    return z


def check_start(x0: Any, problem: Problem) -> Array:
    """Return x0 as a fresh, finite, real array, or say in a sentence what is wrong."""
    given = check.array(x0, "x0")
    x = check.array(given, "x0", dtype=float_type(given.dtype), finite=True)
    if problem.dim is not None and x.size != problem.dim:
        raise ValueError(f"x0 has {x.size} entries, but the problem has dimension {problem.dim}")
    return x


SEPARATED = (
    " x separates the data: without l2, f has no minimum, and the norm of x grows for ever; "
    "give l2 > 0."
)


def can_be_separated(problem: Any) -> bool:
    """Tell whether it is a regression without a penalty, that separable data leave without a
    minimum."""
    return hasattr(problem, "is_separated_by") and not problem.l2 > 0.0


def separates(problem: Any, x: Array) -> bool:
    """Tell whether x separates the data of such a regression."""
    return can_be_separated(problem) and bool(problem.is_separated_by(x))
