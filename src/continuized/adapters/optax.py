"""The continuized acceleration as an optax optimiser.

The parameters of the model are y, the point where the coming event asks for a gradient; the state
holds x, the iterate of the paper (`continuized_eval_params`), and z.  A call of `update` is an
event: the jump with the gradient given, then the flow up to the next event.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Rational
from typing import Any, NamedTuple

from continuized.adapters import _jax_process as process
from continuized.adapters._jax_process import Tree, gaps, in_jax, jax, jnp, real_dtype
from continuized.process import clock as clocks
from continuized.process import flow, methods, parameters
from continuized.solver.steppers.adaptive import MOST_L
from continuized.support import validation as check
from continuized.support.validation import short_repr

try:
    import optax
except ImportError as error:
    raise ImportError(
        'the optimiser needs optax: run pip install "continuized[jax]"', name="optax"
    ) from error

__all__ = ["ContinuizedState", "continuized", "continuized_eval_params", "gaps"]

NOT_FINITE = (
    "a gradient, or the step made of it, is not finite, and no step was taken: give a smaller "
    'learning_rate, or nonfinite="skip" to leave such gradients out'
)


class ContinuizedState(NamedTuple):
    """Between two events.

    `tau` is the time of the coming event on the clock of L = 1 (`parameters.unit_time`), which
    carries (sqrt A, sqrt B) through changes of the learning rate; `z` is mixed up to that time,
    `x` is the iterate after the last event.  `count`: the events taken; `skipped`: the gradients
    left out for not being finite; `key`: the data of the key, plain integers.

    >>> state = continuized(1.0).init(jnp.zeros(2))
    >>> int(state.count), int(state.skipped), state.x.tolist(), state.z.tolist()
    (0, 0, [0.0, 0.0], [0.0, 0.0])
    """

    count: Any
    skipped: Any
    key: Any
    tau: process.Time
    x: Tree
    z: Tree


def continuized(
    learning_rate: float | Any | Callable[[Any], Any],
    mu: float | Any = 0.0,
    start: float | Any | None = None,
    key: int | Any = 0,
    *,
    clock: clocks.Recorded | jax.Array | None = None,
    nonfinite: str = "raise",
    method: str = "continuized",
) -> optax.GradientTransformationExtraArgs:
    """The continuized Nesterov acceleration (Theorem 3) for optax.

    Give the model y (the parameters that optax updates) to compute gradients, and
    `continuized_eval_params(state, params)` to evaluate it.  In a chain it stands last: what
    comes before it makes the gradient, and what it gives back is the change of y.

    Parameters
    ----------
    learning_rate : float, array, or schedule (a function of the count of events)
        1/L.  Where it changes, (sqrt A, sqrt B) are carried on.
    mu : float or array
        Strong convexity, at most L.  Should not change: no theorem covers that.
    start : float or None
        Shift of the clock in the parameters, as in `cz.Continuized`; None is the paper's choice,
        0 if mu = 0 and infinity if mu > 0.
    key : integer or key of jax.random
        Of the event times.  The k-th gap depends on the key and k only; see `gaps`.
    clock : cz.clock.Recorded, JAX array of gaps, or None
        Recorded event times in place of random ones.  After the last of them y is x, and further
        updates change nothing.
    nonfinite : "raise" or "skip"
        On a gradient that is not finite (or makes a step that overflows), raise
        FloatingPointError; inside jit, JAX makes it a JaxRuntimeError that ends in the same
        sentence, raised when results are waited for.  Or skip it: the update is zero and the
        state stays bit for bit as it was, but for `skipped`, which counts these.
    method : "continuized", or "sharp" for the constants of `cz.SharpContinuized`
        The latter needs mu > 0, and has no start.

    Returns pure functions of arrays, for jit, scan and vmap.  Raises TypeError or ValueError for
    arguments that make no sense; what is traced by JAX is not looked at.

    >>> f = lambda w: 0.5 * jnp.sum(jnp.array([0.1, 1.0]) * (w - 1.0) ** 2)
    >>> optimiser, w = continuized(1.0, mu=0.1, key=0), jnp.zeros(2)
    >>> state = optimiser.init(w)
    >>> for _ in range(60):
    ...     updates, state = optimiser.update(jax.grad(f)(w), state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> continuized_eval_params(state, w).round(3).tolist()
    [1.0, 1.0]
    """
    _check(learning_rate, mu, start, nonfinite, method)
    mu, start = (check.as_float(v) if isinstance(v, Rational) else v for v in (mu, start))
    start = in_jax(parameters.default_start)(mu) if start is None else start
    key, recorded = process.key_of(key), process.recorded_gaps(clock)
    optimiser = _Optimiser(learning_rate, mu, start, key, recorded, nonfinite, method == "sharp")
    return optax.GradientTransformationExtraArgs(optimiser.init, optimiser.update)


class _Optimiser(NamedTuple):
    learning_rate: Any
    mu: Any
    start: Any
    key: Any
    recorded: Any
    nonfinite: str
    is_sharp: bool

    def init(self, params: Tree) -> ContinuizedState:
        # No two arrays of the state are one: their memory may be donated.
        count, skipped = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
        data = jnp.array(jax.random.key_data(self.key))
        L = self._L(count)
        tau, _ = in_jax(parameters.unit_start)(self.start, L)
        first = in_jax(parameters.unit_time)(self._gap(1, data), L)
        x, z = (process.copy_checked(params, "params") for _ in range(2))
        tau = process.time_at(tau).after(first)
        return ContinuizedState(count, skipped, data, tau, x, z)

    def update(
        self, updates: Tree, state: ContinuizedState, params: Tree | None = None, **extra: Any
    ) -> tuple[Tree, ContinuizedState]:
        if params is None:
            raise ValueError("params is missing: call update(gradients, state, params)")
        process.check_gradients(updates, params)
        y = process.widen(params)
        y_next, after = self._event(process.cast_like(updates, y), state, y)
        change = process.cast_like(jax.tree.map(jnp.subtract, y_next, y), params)
        finite = process.all_finite(after.x, after.z, change)
        if self.nonfinite == "raise":
            _raise_unless(finite)
            if self.recorded is None:
                return change, after
        taken = finite
        if self.recorded is not None:
            taken &= state.count < self.recorded.size
        kept = state._replace(skipped=state.skipped + ~finite)
        change = process.where(taken, change, optax.tree.zeros_like(change))
        return change, process.where(taken, after, kept)

    def _event(self, g: Tree, state: ContinuizedState, y: Tree) -> tuple[Tree, ContinuizedState]:
        """The jump at y, and the flow to the next event: its y, and the state there."""
        L, count = self._L(state.count), optax.safe_increment(state.count)
        _, start = in_jax(parameters.unit_start)(self.start, L)
        gamma = in_jax(parameters.gamma)(L)
        if self.is_sharp:
            gamma_prime = in_jax(parameters.sharp_gamma_prime)(L, self.mu)
        else:
            gamma_prime = in_jax(parameters.carried_gamma_prime)(state.tau.hi, L, self.mu, start)
        x, z = process.jump(y, process.widen(state.z), g, gamma, gamma_prime)
        dtau = in_jax(parameters.unit_time)(self._gap(count + 1, state.key), L)
        tau = state.tau.after(dtau)
        weights = flow.sharp_flow if self.is_sharp else flow.weights
        a, b = in_jax(weights)(state.tau.hi, tau.hi, dtau, 1.0, self.mu, start)
        y, z = process.mix(x, z, a, b)
        x, z = process.cast_like(x, state.x), process.cast_like(z, state.z)
        return y, state._replace(count=count, tau=tau, x=x, z=z)

    def _L(self, count: Any) -> Any:
        rate = self.learning_rate
        if callable(rate):
            rate = rate(count)
            if isinstance(rate, Rational):
                what = "what learning_rate gives"
                rate = check.real(rate, what, minimum=0.0, maximum=MOST_L)
            rate = jnp.asarray(rate)
        # A plain number stays one, so that what depends on it alone is computed once; an array
        # may be 0, and L infinite: then nothing moves.
        return 1.0 / (rate.astype(real_dtype()) if isinstance(rate, jax.Array) else rate)

    def _gap(self, event: Any, data: Any) -> Any:
        key = jax.random.wrap_key_data(data, impl=jax.random.key_impl(self.key))
        return process.find_gap(key, self.recorded, event)


def continuized_eval_params(state: Any, params: Tree) -> Tree:
    """x, the iterate of the paper, where the theorems bound f.

    Parameters
    ----------
    state : ContinuizedState, or the state of a wrapper (chain, inject_hyperparams, MultiSteps, ...)
    params : tree
        The parameters of the model, y.  Those that no `continuized` looks after (with
        optax.masked or optax.partition) are given back as they are.

    Raises ValueError if no ContinuizedState is in the state.

    >>> optimiser, w = optax.chain(optax.clip(1.0), continuized(1.0)), jnp.zeros(2)
    >>> updates, state = optimiser.update(jnp.array([-0.5, -3.0]), optimiser.init(w), w)
    >>> continuized_eval_params(state, optax.apply_updates(w, updates)).tolist()
    [0.5, 1.0]
    """
    found = [node for node in jax.tree.leaves(state, is_leaf=_is_ours) if _is_ours(node)]
    if not found:
        raise ValueError(f"no ContinuizedState in the state given, {short_repr(state)}")
    for ours in found:
        params = jax.tree.map(
            lambda x, p: p if _is_masked(x) else x, ours.x, params, is_leaf=_is_masked
        )
    return params


def _is_ours(node: Any) -> bool:
    return isinstance(node, ContinuizedState)


def _is_masked(node: Any) -> bool:
    return isinstance(node, optax.MaskedNode)


def _check(learning_rate: Any, mu: Any, start: Any, nonfinite: Any, method: Any) -> None:
    """What is known now; arrays of JAX may be traced, and are not looked at."""
    if methods.is_sharp(method) and start is not None:
        raise ValueError('method="sharp" has no start=; drop it')
    check.one_of(nonfinite, "nonfinite", ("raise", "skip"))
    L = MOST_L
    if not (callable(learning_rate) or isinstance(learning_rate, jax.Array)):
        least, most = 1.0 / MOST_L, MOST_L
        L = 1.0 / check.real(learning_rate, "learning_rate", minimum=least, maximum=most)
    for name, value in (("learning_rate", learning_rate), ("mu", mu), ("start", start)):
        if isinstance(value, jax.Array) and value.shape != ():
            raise TypeError(f"{name} must be one number, got an array of shape {value.shape}")
    mu, start = (None if isinstance(v, jax.Array) else v for v in (mu, start))
    known = 0.5 * L if mu is None else mu
    if method == "sharp":
        methods.SharpContinuized(L, known)
    else:
        methods.Continuized(L, known, start)


def _raise_unless(finite: Any) -> None:
    if isinstance(finite, jax.core.Tracer):
        # In a branch, so that the host is called for a failure only (under vmap, always).
        jax.lax.cond(finite, lambda: None, lambda: jax.debug.callback(_raise_unless, finite))
    elif not finite:
        raise FloatingPointError(NOT_FINITE)


def __dir__() -> list[str]:
    return sorted(__all__)
