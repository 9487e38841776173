"""Methods: gradient descent, Nesterov acceleration, and its continuized version.

All of them are one step with different numbers.  At event k, at time t, a `rule` gives
(a, b, gamma, gamma'), and

    mix:   y = x + a (z - x),        z = z + b (x - z)          (simultaneously)
    ask:   g = grad f(y, mark)
    jump:  x = y - gamma g,          z = z - gamma' g

For f + psi, and in other geometries, z is moved by a proximal or mirror step, and x follows it
(`composite_jump`).

A rule is a plain function of scalars (`coefficients`; `compiled` compiles it); a method is a rule,
its constants, and the rule of the flow between events.

`CustomContinuized` stands apart: its four parameters are any functions of t, so that its flow is
integrated, and its events run in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from continuized.process import clock as clocks
from continuized.process import coefficients
from continuized.process import flow as flows
from continuized.process.coefficients import FlowRule, Rule
from continuized.process.flow import integrate_weights, mix, no_flow
from continuized.process.parameters import (
    check_constants,
    default_start,
    least_composite_start,
)
from continuized.process.random_streams import Seed
from continuized.support import validation as check
from continuized.support.display import show_line

START_ROUNDING = 1e-12  # relative, of a start that is just large enough
Move = Callable[[Any, Any, float], Any]  # (z, g, gamma') -> z after the event
FINGERPRINT_EVENTS = ((1, 0.0, 0.7, 0.7), (2, 0.7, 1.9, 1.2))  # (k, t0, t, dt)


class State(NamedTuple):
    """What carries on from event to event.  `carry` is a rule's own scalar."""

    k: int
    t: float
    x: Any
    z: Any
    carry: float = 0.0


class Info(NamedTuple):
    """What is only reported: the point y where the gradient was asked, and the answer g."""

    y: Any
    g: Any


def jump(x: Any, z: Any, g: Any, gamma: float, gamma_prime: float) -> tuple[Any, Any]:
    """The gradient step of an event, x <- x - gamma g and z <- z - gamma' g."""
    return x - gamma * g, z - gamma_prime * g


def follow(x: Any, z: Any, z_plus: Any, eta: float) -> Any:
    """The step of x where z has gone to z_plus, not by -gamma' g: x + eta (z_plus - z)."""
    return x + eta * (z_plus - z)


def composite_jump(
    x: Any, z: Any, g: Any, gamma: float, gamma_prime: float, move: Move
) -> tuple[Any, Any]:
    """The step of an event where `move` takes z to z+, such as prox_{gamma' psi}(z - gamma' g).

    x follows by eta (z+ - z), with eta = gamma / gamma' at the event's own time: of the paper's
    parameters, eta gamma' = 1/L = gamma.  Where z+ = z - gamma' g this is `jump`.
    """
    z_plus = move(z, g, gamma_prime)
    return follow(x, z, z_plus, gamma / gamma_prime), z_plus


class Method:
    """A rule with its constants; `init` and `step` are the same for all.

    Compiled loops run `rule` and `flow_rule` in place of `coefficients` and `flow`; a method
    that overrides one of the latter two is run in Python.

    >>> from continuized.process.coefficients import gradient_descent_rule
    >>> class Careful(Method):
    ...     name, L = "careful", 10.0
    ...     rule = property(lambda self: gradient_descent_rule)
    >>> method = Careful()
    >>> state, info = method.step(method.init(1.0), clocks.Event(1, 1.0, 1.0), lambda x, mark: x)
    >>> state.x, info.g
    (0.9, 1.0)
    """

    name: ClassVar[str]
    L: float
    mu: float = 0.0

    @property
    def rule(self) -> Rule:
        """The coefficients of an event, a function of scalars that Numba can compile."""
        raise NotImplementedError(f"{type(self).__name__} has no rule")

    @property
    def flow_rule(self) -> FlowRule:
        """The mixing weights between events, likewise.  Discrete methods stand still."""
        return no_flow

    @property
    def constants(self) -> tuple[float, float, float]:
        """The three numbers that its rule takes: L, mu and start, but with tau < 1 one is tau."""
        return self.L, self.mu, 0.0

    @property
    def assumes_convexity(self) -> bool:
        """Whether its theorem needs a convex f, so that two gradients can contradict it."""
        return True

    def clock(self, rng: Seed = None) -> clocks.Clock:
        """The clock this method runs on when no other is given, with this seed."""
        return clocks.Unit()

    def coefficients(
        self, k: int, t0: float, t: float, dt: float, carry: float
    ) -> tuple[float, float, float, float, float]:
        """(a, b, gamma, gamma') of event k, at t, and the carry after it.

        t0 is the time of the event before, dt the gap as drawn, carry what that one gave.
        """
        return self.rule(k, t0, t, dt, carry, *self.constants)

    def flow(self, t0: float, t: float, dt: float) -> tuple[float, float]:
        """The mixing weights (a, b) over [t0, t] without an event, dt the gap as drawn."""
        return self.flow_rule(t0, t, dt, *self.constants)

    def fingerprint(self) -> list[tuple[float, ...]]:
        """What a checkpoint knows it by, whatever it is made of: its coefficients at two events."""
        carry = self.init(0.0).carry
        return [self.coefficients(*event, carry) for event in FINGERPRINT_EVENTS]

    def init(self, x0: Any) -> State:
        """The state before the first event: z_0 = x_0."""
        return State(0, 0.0, x0, x0)

    def step(
        self,
        state: State,
        event: clocks.Event,
        oracle: Callable[[Any, Any], Any],
        move: Move | None = None,
    ) -> tuple[State, Info]:
        """Go from the state after one event to that after the next, and change nothing given.

        oracle: (x, mark) -> the gradient at x that an event with this mark is served.  move: as for
        `composite_jump`.
        """
        k, t, dt, mark = event
        a, b, gamma_k, gamma_prime_k, carry = self.coefficients(k, state.t, t, dt, state.carry)
        y, z = mix(state.x, state.z, a, b)
        g = oracle(y, mark)
        if move is None:
            x, z = jump(y, z, g, gamma_k, gamma_prime_k)
        else:
            x, z = composite_jump(y, z, g, gamma_k, gamma_prime_k, move)
        return State(k, t, x, z, carry), Info(y, g)


@dataclass(frozen=True)
class GradientDescent(Method):
    """Gradient descent with step 1/L (Theorem 1): x_{k+1} = x_k - grad f(x_k) / L.

    L: the smoothness, finite and > 0; TypeError or ValueError otherwise.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> cz.minimize(p, [0.0, 0.0], method=cz.GradientDescent(p.L), tol=1e-6).success
    True
    """

    L: float
    name: ClassVar[str] = "gradient-descent"

    def __post_init__(self) -> None:
        L, _ = check_constants(self.L, 0.0)
        _freeze(self, L=L)

    @property
    def rule(self) -> Rule:
        return coefficients.gradient_descent_rule


@dataclass(frozen=True)
class Nesterov(Method):
    """Nesterov acceleration (Theorem 2), convex (mu = 0) or strongly convex (mu > 0).

    L: the smoothness, finite and > 0.  mu: the strong convexity, 0 <= mu <= L.  Raises TypeError
    or ValueError for others.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> cz.minimize(p, [0.0, 0.0], method=cz.Nesterov(p.L, p.mu), tol=1e-6).success
    True
    """

    L: float
    mu: float = 0.0
    name: ClassVar[str] = "nesterov"

    def __post_init__(self) -> None:
        L, mu = check_constants(self.L, self.mu)
        _freeze(self, L=L, mu=mu)

    @property
    def rule(self) -> Rule:
        return coefficients.nesterov_rule


@dataclass(frozen=True)
class Continuized(Method):
    """The continuized Nesterov acceleration (Theorem 3).

    `start` shifts the clock in the parameters: None is the paper's choice (0 when mu = 0,
    infinity when mu > 0; with `prox=` or `mirror=` 2 when mu = 0); start = 0 with mu > 0 is one
    algorithm for all mu >= 0.  L and mu: as for `Nesterov`, and so are the errors; ValueError, too,
    for start = inf with mu = 0.

    tau, 0 < tau <= 1, is for functions that are not convex, but (tau, mu)-quasar-convex:
    f* >= f(x) + <grad f(x), x* - x> / tau + mu/2 |x - x*|^2 for all x (docs/proofs/quasar.md).
    With tau < 1 and mu > 0, start must be infinite: the flow has no closed form otherwise.

    >>> Continuized(L=1.0, mu=0.01).start
    inf
    """

    L: float
    mu: float = 0.0
    start: float | None = None
    tau: float = 1.0
    start_is_given: bool = field(init=False, repr=False, compare=False, default=True)
    name: ClassVar[str] = "continuized"

    def __post_init__(self) -> None:
        L, mu = check_constants(self.L, self.mu)
        _freeze(self, start_is_given=self.start is not None)
        start = default_start(mu) if self.start is None else self.start
        start = check.real(start, "start", minimum=0.0, finite=False, other=("inf", "None"))
        if mu == 0.0 and start == math.inf:
            raise ValueError("start = inf needs mu > 0; in the convex case x would stand still")
        tau = check.real(self.tau, "tau", above=0.0, maximum=1.0)
        if tau < 1.0 and mu > 0.0 and start < math.inf:
            raise ValueError(
                f"tau = {tau:.6g} < 1 with mu > 0 needs start = inf, got {start:.6g}: the flow has "
                "no closed form otherwise"
            )
        _freeze(self, L=L, mu=mu, start=start, tau=tau)

    @property
    def parameters(self) -> tuple[float, float, float, float]:
        """(L, mu, start, tau), as the functions of `cz.parameters` take them."""
        assert self.start is not None
        return self.L, self.mu, self.start, self.tau

    @property
    def constants(self) -> tuple[float, float, float]:
        L, mu, start, tau = self.parameters
        if tau == 1.0:
            return L, mu, start
        return (L, tau, start) if mu == 0.0 else (L, mu, tau)

    @property
    def assumes_convexity(self) -> bool:
        return self.tau == 1.0

    @property
    def _rules(self) -> tuple[Rule, FlowRule]:
        if self.tau < 1.0 and self.mu == 0.0:
            return coefficients.quasar_convex_rule, flows.quasar_convex_flow
        if self.tau < 1.0:
            return coefficients.quasar_exponential_rule, flows.quasar_exponential_flow
        if self.mu == 0.0:
            return coefficients.convex_rule, flows.convex_flow
        if self.start == math.inf:
            return coefficients.exponential_rule, flows.exponential_flow
        return coefficients.hyperbolic_rule, flows.hyperbolic_flow

    @property
    def rule(self) -> Rule:
        return self._rules[0]

    @property
    def flow_rule(self) -> FlowRule:
        return self._rules[1]

    def clock(self, rng: Seed = None) -> clocks.Clock:
        return clocks.Poisson(rng)

    def for_composite(self, most: float = 1.0) -> Continuized:
        """Return it as it is run on f + psi, with the least start where mu = 0 and none was given.

        most: what eta may be at the start, where coordinates are marks their least probability.
        Raises ValueError where it is more: x could leave the domain of psi; and for tau < 1.

        >>> Continuized(1.0).for_composite().start, Continuized(1.0, 0.1).for_composite().start
        (2.0, inf)
        >>> Continuized(1.0, start=2.0).for_composite(most=0.25)
        Traceback (most recent call last):
            ...
        ValueError: start = 2 makes eta larger than 0.25 at the beginning, and x could leave the ...
        """
        if self.tau < 1.0:
            raise ValueError(
                f"tau = {self.tau:.6g} < 1 goes without prox= and mirror=: their theorem needs a "
                "convex f; use tau=1"
            )
        least = least_composite_start(self.L, self.mu, most)
        if not self.start_is_given and self.mu == 0.0:
            return replace(self, start=least)
        if self.start is not None and self.start < least * (1.0 - START_ROUNDING):
            raise ValueError(
                f"start = {self.start:.6g} makes eta larger than {most:.6g} at the beginning, and "
                f"x could leave the domain; use start >= {least:.6g}"
            )
        return self


@dataclass(frozen=True)
class SharpContinuized(Method):
    """The process with the constants of Theorem B (new here; docs/proofs/sharp.md), for mu > 0.

    With p = sqrt(2 mu / L), eta = p, eta' = p/2, gamma = 1/L and gamma' = 1/sqrt(2 mu L) + 2/(3L).
    From x_0 = z_0 and for L/mu >= 6.5, E f(x_t) - f* <= 3 (f_0 - f* + mu/2 |x_0 - x*|^2) e^{-pt}:
    the best guarantee that is proved here, against the exponents sqrt(mu/L) of Theorem 3 and
    4/3 sqrt(mu/L) of Theorem A for `Continuized`.  It is a better guarantee, not a quicker method:
    on most functions both take about as many gradients, and on quadratics the mean of this one
    falls more slowly than that of `Continuized` from L/mu = 100 on (`cz.theory.quadratic_rate`).

    L and mu: as for `Nesterov`, and so are the errors; ValueError, too, for mu = 0.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> cz.minimize(p, [0.0, 0.0], method="sharp", tol=1e-6, rng=0).success
    True
    """

    L: float
    mu: float
    name: ClassVar[str] = "sharp"

    def __post_init__(self) -> None:
        L, mu = check_constants(self.L, self.mu)
        if mu == 0.0:
            raise ValueError("SharpContinuized needs mu > 0, got mu = 0; use Continuized(L)")
        _freeze(self, L=L, mu=mu)

    @property
    def rule(self) -> Rule:
        return coefficients.sharp_rule

    @property
    def flow_rule(self) -> FlowRule:
        return flows.sharp_flow

    def clock(self, rng: Seed = None) -> clocks.Clock:
        return clocks.Poisson(rng)


def is_marked(method: Any) -> bool:
    """Tell whether it is a method whose events have marks; to import its class brings Numba."""
    return hasattr(method, "prepare") and not isinstance(method, type)


def check_method(method: Any) -> Method:
    """Return a Method; raise TypeError for anything else, also for a name."""
    what = "a method such as cz.Continuized(L, mu)"
    checked: Method = check.instance(method, "method", Method, what)
    return checked


def _freeze(method: Method, **values: float) -> None:
    for name, value in values.items():
        object.__setattr__(method, name, value)


FORMULAS = (jump, follow)
METHODS: dict[str, Callable[..., Method]] = {
    m.name: m for m in (Continuized, SharpContinuized, Nesterov, GradientDescent)
}


def is_sharp(name: Any) -> bool:
    """Tell whether the name that an optimiser of another library was given is that of
    SharpContinuized, and not that of Continuized; ValueError for other names."""
    return check.one_of(name, "method", (Continuized.name, SharpContinuized.name)) == "sharp"


class _Constant:
    """A function of t that is the same for all t."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __call__(self, t: float) -> float:
        return self._value

    def __repr__(self) -> str:
        return f"{self._value:.6g}"


@dataclass(frozen=True)
class CustomContinuized(Method):
    """The process with the user's own eta, eta', gamma, gamma': functions of t, or numbers.

    The flow is integrated numerically, to about 1e-13 where eta and eta' are smooth.  An
    infinite eta(0) means that x joins z at once, as with eta = 2/t.  No theorem is claimed for
    it.  L and mu, if given, are only watched for witnesses against them.  Raises TypeError where
    one of the four, eta, eta_prime, gamma and gamma_prime, is neither, ValueError where it is a
    number that is not finite.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> method = cz.CustomContinuized(
    ...     eta=lambda t: 0.3, eta_prime=0.3, gamma=1.0, gamma_prime=3.0
    ... )
    >>> cz.minimize(p, [0.0, 0.0], method=method, tol=1e-6, rng=0).success
    True
    >>> method.gamma_prime(5.0)
    3.0
    """

    __repr__ = show_line

    eta: Any
    eta_prime: Any
    gamma: Any
    gamma_prime: Any
    L: float = math.nan
    mu: float = 0.0
    name: ClassVar[str] = "custom"

    def __post_init__(self) -> None:
        for name in ("eta", "eta_prime", "gamma", "gamma_prime"):
            given = getattr(self, name)
            if check.is_real(given):
                object.__setattr__(self, name, _Constant(check.real(given, name)))
            else:
                check.function(given, name, "a function of t, or a number")
        L: Any = self.L  # whatever was given
        if not (isinstance(L, float) and math.isnan(L)):
            check_constants(self.L, self.mu)

    @property
    def is_constant(self) -> bool:
        """Whether all four were given as numbers."""
        four = self.eta, self.eta_prime, self.gamma, self.gamma_prime
        return all(isinstance(parameter, _Constant) for parameter in four)

    def clock(self, rng: Seed = None) -> clocks.Clock:
        return clocks.Poisson(rng)

    def coefficients(
        self, k: int, t0: float, t: float, dt: float, carry: float
    ) -> tuple[float, float, float, float, float]:
        a, b = self.flow(t0, t, dt)
        return a, b, float(self.gamma(t)), float(self.gamma_prime(t)), carry

    def flow(self, t0: float, t: float, dt: float) -> tuple[float, float]:
        return integrate_weights(self.eta, self.eta_prime, t0, dt)
