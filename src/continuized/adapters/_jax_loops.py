"""The two compiled loops of `adapters.jax.minimize`: L is known, or found on the way.

They are the runs of `solver.steppers.fixed` and `solver.steppers.adaptive` on a tree of arrays,
with their formulas and constants; a test holds them to be the same, event by event.  With prox and
a known L they are not: here both x and z step by the gradient mapping, where `fixed` takes
`composite_jump`, whose theorem does not cover this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from continuized.adapters import _jax_process as process
from continuized.adapters._jax_process import Tree, in_jax, jax, jnp, lax, real_dtype
from continuized.adapters._jax_prox import Operator
from continuized.process import parameters
from continuized.process.coefficients import Rule
from continuized.process.flow import convex_flow
from continuized.process.prox import LENGTHEN, ROUNDED
from continuized.process.stepper import Status
from continuized.solver.steppers import adaptive, evaluations
from continuized.solver.stopping import find_farthest

STATUSES = (
    Status.CONVERGED,
    Status.COMPLETED,
    Status.MAXITER,
    Status.CLOCK_ENDED,
    Status.NOT_FINITE,
    Status.NO_DESCENT,  # this and the next: without L only
    Status.NO_MINIMUM,
)
UNDECIDED = -1  # in place of the number of a status: the run goes on
FLOAT32_L = 1e-30, 1e30  # the least and the largest L, in place of those of float64


class Inputs(NamedTuple):
    """What a compiled run is given: arrays, which may change without compiling again."""

    args: tuple[Any, ...]
    prox_args: tuple[Any, ...]
    constants: tuple[Any, ...]  # (L, mu, start) of a rule; none where L is not known
    key: Any
    recorded: Any
    tol: Any  # negative: no test
    maxiter: Any

    @property
    def limit(self) -> Any:
        """The largest number of events."""
        if self.recorded is None:
            return self.maxiter
        return jnp.minimum(self.maxiter, self.recorded.size)


class End(NamedTuple):
    """Where a run ended: x, f + psi and the gradient of f there, L, and what is told of the run.

    error: what tol is compared with.  nit, njev: events and gradients; skipped: events without one.
    """

    x: Tree
    fun: Any
    jac: Tree
    L: Any
    error: Any
    nit: Any
    njev: Any
    t: Any
    status: Any
    skipped: Any


class Objective(NamedTuple):
    """f + psi, with their arguments."""

    fun: Callable[..., Any]
    operator: Operator | None
    args: tuple[Any, ...]
    prox_args: tuple[Any, ...]

    def gradient(self, x: Tree) -> Tree:
        """The gradient of f."""
        return jax.grad(self.fun)(x, *self.args)

    def value_and_gradient(self, x: Tree) -> tuple[Any, Tree]:
        """f and its gradient."""
        return jax.value_and_grad(self.fun)(x, *self.args)

    def add_psi(self, f: Any, x: Tree) -> Any:
        """f + psi at x, where psi is known; its dtype is that of f."""
        if self.operator is None:
            return f
        return f + jnp.asarray(self.operator.evaluate(x, self.prox_args), f.dtype)

    def step(self, y: Tree, g: Tree, gamma: Any) -> tuple[Tree, Tree]:
        """x after a step of length gamma from y, and the gradient, or the gradient mapping."""
        x = process.subtract(y, g, gamma)
        if self.operator is None:
            return x, g
        x = self.operator.apply(x, gamma, self.prox_args)
        zero = jax.tree.map(jnp.zeros_like, y)
        return x, process.subtract(zero, process.subtract(x, y), 1.0 / gamma)

    def find_error(self, y: Tree, g: Tree, x: Tree, gamma: Any) -> Any:
        """What tol is compared with, as in `solver.stopping.Criterion`; a step led from y to x."""
        slope = process.norm(g)
        if self.operator is None:
            return slope
        visible = ROUNDED * process.eps_of(y) * process.norm(y)
        longest = jnp.where(slope > 0.0, visible / slope, 0.0)

        def is_hidden(step: tuple[Any, Any]) -> Any:
            gamma, moved = step
            return (gamma < longest) & jnp.isfinite(longest) & (moved < visible)

        def lengthen(step: tuple[Any, Any]) -> tuple[Any, Any]:
            gamma = jnp.minimum(LENGTHEN * step[0], longest)
            return gamma, process.norm(process.subtract(y, self.step(y, g, gamma)[0]))

        begin = jnp.asarray(gamma, real_dtype()), process.norm(process.subtract(y, x))
        gamma, moved = lax.while_loop(is_hidden, lengthen, begin)
        return moved / gamma


def find_status(failed: Any, converged: Any, k: Any, run: Inputs) -> Any:
    """Return the number in STATUSES of the first that applies."""
    cases = {
        Status.NOT_FINITE: failed,
        Status.CONVERGED: converged,
        Status.CLOCK_ENDED: k < run.maxiter,
        Status.COMPLETED: run.tol < 0.0,
    }
    numbers = [number(status) for status in cases]
    return jnp.select(list(cases.values()), numbers, number(Status.MAXITER))


def number(status: Status) -> Any:
    """Return the number of a status in STATUSES."""
    return jnp.asarray(STATUSES.index(status), jnp.int32)


# L is known


class _State(NamedTuple):
    k: Any
    t: process.Time
    x: Tree
    z: Tree
    small: Any  # what tol is compared with was, at the last event
    failed: Any  # the coming event would have made a number that is not finite
    skipped: Any  # events without a jump


class _Look(NamedTuple):
    """Where a run may end."""

    at: _State
    jac: Tree
    error: Any
    done: Any
    asked: Any  # how many gradients at x


def run_fixed(f: Objective, rule: Rule, skipping: bool, x0: Tree, run: Inputs) -> End:
    """Take events with the coefficients of a rule, until the error at x is at most tol."""
    gamma = in_jax(parameters.gamma)(run.constants[0])

    def goes_on(c: _State) -> Any:
        return (c.k < run.limit) & ~c.failed

    def event(c: _State) -> _State:
        k = c.k + 1
        dt = process.find_gap(run.key, run.recorded, k)
        t = c.t.after(dt)
        a, b, *steps, _ = in_jax(rule)(k, c.t.hi, t.hi, dt, 0.0, *run.constants)
        y, z = process.mix(c.x, c.z, a, b)
        g = f.gradient(y)
        x, direction = f.step(y, g, steps[0])
        z_after = process.subtract(z, direction, steps[1])
        small = f.find_error(y, g, x, steps[0]) <= run.tol
        after = _State(k, t, x, z_after, small, c.failed, c.skipped)
        if skipping:
            otherwise = _State(k, t, y, z, false, c.failed, c.skipped + 1)
        else:
            otherwise = c._replace(failed=~false)
        finite = process.all_finite(after.x, after.z)
        return _State(*process.where(finite, after, otherwise))

    def try_to_stop(look: _Look) -> _Look:
        """Events until an error is small, or the last; then is the error at x small, too?"""
        c = look.at._replace(small=false)
        c = lax.while_loop(lambda c: goes_on(c) & ~c.small, event, c)
        g = f.gradient(c.x)
        error = f.find_error(c.x, g, f.step(c.x, g, gamma)[0], gamma)
        return _Look(c, g, error, (error <= run.tol) | ~goes_on(c), look.asked + 1)

    false, zero = jnp.asarray(False), jnp.zeros((), jnp.int32)
    infinite = jnp.asarray(jnp.inf, real_dtype())
    first = _State(zero, process.time_at(0.0), x0, x0, false, false, zero)
    begin = _Look(first, x0, infinite, false, zero)
    c, g, error, _, asked = lax.while_loop(lambda look: ~look.done, try_to_stop, begin)
    value = f.fun(c.x, *f.args)
    failed = c.failed | ~process.all_finite(value, g)
    status = find_status(failed, error <= run.tol, c.k, run)
    njev, L = c.k + c.failed + asked, jnp.asarray(run.constants[0], real_dtype())
    return End(c.x, f.add_psi(value, c.x), g, L, error, c.k, njev, c.t.hi, status, c.skipped)


# L is found on the way


class _Evaluation(NamedTuple):
    """f and its gradient at y, and |g|^2; f is infinite where one of them is not finite."""

    y: Tree
    f: Any
    g: Tree
    square: Any


class _Adaptive(NamedTuple):
    """As in `AdaptiveStepper`: between two events, s on the clock of the parameters."""

    k: Any
    t: process.Time
    x: Tree
    z: Tree
    L: Any
    s: Any
    shrink: Any
    anchor: Any  # f where the momentum began, above which no event may go
    last: _Evaluation
    best: _Evaluation
    shown: Tree  # with prox: x after the step from best
    error: Any  # at best
    largest: Any  # |g|^2 so far
    in_a_row: Any  # rejected events
    asked: Any  # gradients beside those of events
    lost: Any  # the last event was rejected for what was not finite there
    status: Any


def run_adaptive(f: Objective, x0: Tree, run: Inputs) -> End:
    """Take events with the parameters of mu = 0 and an L that each event adapts.

    Restarts stand in for mu, as in `AdaptiveStepper`, whose way this is; but the gradient is that
    of JAX, and is not doubted.
    """
    eps, start = process.eps_of(x0), process.norm(x0)
    least_L, most_L = (adaptive.LEAST_L, adaptive.MOST_L)
    if process.eps_of(start) > 1e-10:
        least_L, most_L = FLOAT32_L
    find_gamma, find_gamma_prime = map(in_jax, (parameters.gamma, parameters.convex_gamma_prime))

    def evaluate(y: Tree) -> _Evaluation:
        value, g = f.value_and_gradient(y)
        square = process.inner(g, g)
        finite = jnp.isfinite(value) & jnp.isfinite(square)
        return _Evaluation(y, jnp.where(finite, value, jnp.inf).astype(real_dtype()), g, square)

    def find_least_L(one: _Evaluation, two: _Evaluation, largest: Any) -> Any:
        dg, dy = process.subtract(two.g, one.g), process.subtract(two.y, one.y)
        change, along = process.inner(dg, dg), process.inner(dg, dy)
        size = jnp.maximum(jnp.abs(one.f), jnp.abs(two.f))
        bends = find_bends(one, two)
        return in_jax(evaluations.find_least_L)(change, along, *bends, size, largest, eps)

    def find_bends(one: _Evaluation, two: _Evaluation) -> tuple[Any, Any]:
        dy = process.subtract(two.y, one.y)
        up = two.f - one.f - process.inner(one.g, dy)
        return up, one.f - two.f + process.inner(two.g, dy)

    def find_first_L(at: _Evaluation) -> Any:
        slope = process.norm(at.g)
        step = in_jax(evaluations.find_probe_step)(start, jnp.where(slope > 0.0, slope, 1.0))
        probe = evaluate(process.subtract(at.y, at.g, step))
        seen = find_least_L(at, probe, jnp.maximum(at.square, probe.square))
        seen = jnp.where(jnp.isfinite(probe.f) & (seen > 0.0), seen, 1.0 / step)
        return jnp.clip(jnp.where(slope > 0.0, seen, 1.0), least_L, most_L)

    def event(c: _Adaptive) -> _Adaptive:
        dt = process.find_gap(run.key, run.recorded, c.k + 1)
        s = c.s + dt
        a, b = in_jax(convex_flow)(c.s, s, dt, c.L, 0.0, 0.0)
        y, z = process.mix(c.x, c.z, a, b)
        at = lax.cond(c.k > 0, evaluate, lambda y: c.last, y)  # the first is at the start
        finite = jnp.isfinite(at.f)
        largest = jnp.where(finite, jnp.maximum(c.largest, at.square), c.largest)
        now = c._replace(k=c.k + 1, t=c.t.after(dt), s=s, lost=~finite, largest=largest)
        slack = evaluations.ROUNDING * eps * jnp.abs(at.f)
        rises = (at.f > c.anchor + slack) & (f.operator is None)
        after: _Adaptive = lax.cond(finite & ~rises, accept, reject, now, at, z, slack)
        away = is_away(after)
        undecided = after.status == UNDECIDED
        return after._replace(
            status=jnp.where(undecided & away, number(Status.NO_MINIMUM), after.status)
        )

    def accept(c: _Adaptive, at: _Evaluation, z: Tree, slack: Any) -> _Adaptive:
        seen, falls = find_least_L(c.last, at, c.largest), at.f < c.last.f - slack
        L, shrink = in_jax(adaptive.adapt_L)(c.L, c.shrink, seen, falls)
        L, s = in_jax(adaptive.carry_on)(c.s, c.L, L, least_L, most_L)
        anchor = jnp.where(jnp.isinf(c.anchor), at.f, c.anchor)
        gamma, gamma_prime = find_gamma(L), find_gamma_prime(s, L, 0.0)
        x, direction = f.step(at.y, at.g, gamma)
        error = f.find_error(at.y, at.g, x, gamma)
        small = error <= run.tol
        if f.operator is not None:
            small, c = lax.cond(
                small, confirm, lambda c, at, x: (small, c), c._replace(L=L, s=s), at, x
            )
            L, s = c.L, c.s
        better = small | (at.f < c.best.f) | (f.operator is not None)
        best, shown, error = process.where(better, (at, x, error), (c.best, c.shown, c.error))
        against = process.inner(direction, process.subtract(x, c.x)) > 0.0
        moved = process.where(against, x, process.subtract(z, direction, gamma_prime))
        after = c._replace(
            x=x, z=moved, L=L, shrink=shrink, last=at, best=best, shown=shown, error=error,
            s=jnp.where(against, 0.0, s), anchor=jnp.where(against, jnp.inf, anchor),
            in_a_row=jnp.zeros_like(c.in_a_row),
            status=jnp.where(small, number(Status.CONVERGED), UNDECIDED),
        )  # fmt: skip
        if f.operator is None:
            return after
        otherwise = c._replace(status=number(Status.NOT_FINITE))  # of a prox that goes very far
        return _Adaptive(*process.where(process.all_finite(x), after, otherwise))

    def confirm(c: _Adaptive, at: _Evaluation, x: Tree) -> tuple[Any, _Adaptive]:
        """Tell whether f bends as little between a point and x as L says, and raise L otherwise."""
        end, step = evaluate(x), process.subtract(x, at.y)
        square, bend = process.inner(step, step), jnp.maximum(*find_bends(at, end))
        rounding = evaluations.ROUNDING * eps * jnp.maximum(jnp.abs(at.f), jnp.abs(end.f))
        moved = (square > 0.0) & jnp.isfinite(square)
        fits = ~moved | (bend <= 0.5 * c.L * square + rounding)
        seen = 2.0 * bend / jnp.where(moved, square, 1.0)
        L, s = in_jax(adaptive.carry_on)(c.s, c.L, seen, least_L, most_L)
        grown = c._replace(L=L, s=s, largest=jnp.maximum(at.square, end.square))
        after = _Adaptive(*process.where(fits, c, grown))
        return fits, after._replace(asked=c.asked + moved)

    def reject(c: _Adaptive, at: _Evaluation, z: Tree, slack: Any) -> _Adaptive:
        """Go on from the best point, with a larger L."""
        factor = jnp.where(c.lost, adaptive.GROW**2, adaptive.GROW)
        L, _ = in_jax(adaptive.carry_on)(c.s, c.L, factor * c.L, least_L, most_L)
        x, _ = f.step(c.best.y, c.best.g, find_gamma(L))
        in_a_row = c.in_a_row + 1
        reason = jnp.where(c.lost, number(Status.NOT_FINITE), number(Status.NO_DESCENT))
        hopeless = in_a_row >= adaptive.MOST_REJECTED
        return c._replace(
            x=x, z=x, L=L, s=jnp.zeros_like(c.s), last=c.best, anchor=c.best.f,
            in_a_row=in_a_row, status=jnp.where(hopeless, reason, UNDECIDED),
        )  # fmt: skip

    def is_away(c: _Adaptive) -> Any:
        """Whether x has gone away, while the gradient stayed."""
        farthest = find_farthest(eps, start)

        def look() -> Any:
            return (process.norm(c.last.y) > farthest) & (process.norm(c.last.g) > 0.5 * slope)

        return lax.cond(c.k % adaptive.LOOK_EVERY == 0, look, lambda: jnp.asarray(False))

    def goes_on(c: _Adaptive) -> Any:
        return (c.k < run.limit) & (c.status == UNDECIDED)

    zero = jnp.zeros((), jnp.int32)
    first = evaluate(x0)
    slope, begins = process.norm(first.g), jnp.isfinite(first.f)
    infinite = jnp.asarray(jnp.inf, real_dtype())
    c = _Adaptive(
        k=zero, t=process.time_at(0.0), x=x0, z=x0, L=find_first_L(first),
        s=jnp.zeros_like(infinite), shrink=jnp.asarray(adaptive.SHRINK, real_dtype()),
        anchor=infinite, last=first, best=first, shown=x0,
        error=slope if f.operator is None else infinite,
        largest=jnp.where(begins, first.square, 0.0), in_a_row=zero, asked=zero,
        lost=jnp.asarray(False),
        status=jnp.where(begins, UNDECIDED, number(Status.NOT_FINITE)),
    )  # fmt: skip
    c = lax.while_loop(goes_on, event, c)
    x, g, value = c.best.y, c.best.g, c.best.f
    njev = (
        jnp.maximum(c.k - 1, 0) + 2 + c.asked
    )  # at the first event there is the gradient of the start
    lost = c.lost & (run.tol < 0.0)  # no step was made at the end
    if f.operator is not None:
        end = evaluate(c.shown)
        njev, lost = njev + 1, lost | ~jnp.isfinite(end.f)
        x, g, value = process.where(jnp.isfinite(end.f), (c.shown, end.g, end.f), (x, g, value))
    status = jnp.where(
        c.status == UNDECIDED, find_status(lost, c.error <= run.tol, c.k, run), c.status
    )
    return End(x, f.add_psi(value, x), g, c.L, c.error, c.k, njev, c.t.hi, status, zero)
