"""The paper's parameters, written a second time, as literally as Python allows.

Everywhere else in this library a formula stands once.  Here it stands twice on purpose: a check
that takes its numbers from what it checks agrees with any mistake in them.  So nothing here is
imported from the library's own formulas, and nothing outside `verify` imports this.  Digits are of
no concern: these are compared at moderate constants and times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array


class Parameters(NamedTuple):
    """eta, eta', gamma and gamma' of the process at a time."""

    eta: float
    eta_prime: float
    gamma: float
    gamma_prime: float


def process_parameters(t: float, L: float, mu: float, start: float) -> Parameters:
    """Return the parameters of Theorem 3 (start = 0 where mu = 0, start = inf where mu > 0), and
    appendix B's others."""
    if mu == 0.0:
        eta = 2.0 / (t + start) if t + start > 0.0 else math.inf
        return Parameters(eta, 0.0, 1.0 / L, (t + start) / (2.0 * L))
    q = math.sqrt(mu / L)
    if start == math.inf:
        return Parameters(q, q, 1.0 / L, 1.0 / math.sqrt(mu * L))
    tanh = math.tanh(0.5 * q * (t + start))
    eta = q / tanh if tanh > 0.0 else math.inf
    return Parameters(eta, q * tanh, 1.0 / L, tanh / math.sqrt(mu * L))


def lyapunov_weights(t: float, L: float, mu: float, start: float) -> tuple[float, float]:
    """Return A_t and B_t of appendix B."""
    if mu == 0.0:
        return (t + start) ** 2 / (2.0 * L), 1.0
    q = math.sqrt(mu / L)
    if start == math.inf:
        return math.exp(q * t), 0.5 * mu * math.exp(q * t)
    u = 0.5 * q * (t + start)
    return 2.0 * math.sinh(u) ** 2 / mu, math.cosh(u) ** 2


def iterate(
    grad: Callable[[Array], Array], x0: Array, times: Array, L: float, mu: float
) -> Iterator[tuple[Array, Array]]:
    """Yield (x_k, z_k), k = 1, 2, ..., by the iteration of Theorem 4, its gamma' at T_{k+1}."""
    x = z = x0
    last, q = 0.0, math.sqrt(mu / L)
    for t in times.tolist():
        if mu == 0.0:
            tau, tau_prime, step = 1.0 - (last / t) ** 2, 0.0, t / (2.0 * L)
        else:
            tau = 0.5 * (1.0 - math.exp(-2.0 * q * (t - last)))
            tau_prime, step = math.tanh(q * (t - last)), 1.0 / math.sqrt(mu * L)
        y = x + tau * (z - x)
        g = grad(y)
        x, z, last = y - g / L, z + tau_prime * (y - z) - step * g, t
        yield x, z


def sharp_parameters(L: float, mu: float) -> Parameters:
    """Return the parameters of Theorem B."""
    p = math.sqrt(2.0 * mu / L)
    return Parameters(p, p / 2.0, 1.0 / L, 1.0 / math.sqrt(2.0 * mu * L) + 2.0 / (3.0 * L))


def quasar_parameters(t: float, L: float, mu: float, start: float, tau: float) -> Parameters:
    """Return the parameters for functions that are tau-quasar-convex: mu = 0, or start = inf."""
    if mu == 0.0:
        s = tau * (t + start)
        return Parameters(2.0 / s if s > 0.0 else math.inf, 0.0, 1.0 / L, s / (2.0 * L))
    q = math.sqrt(mu / L)
    return Parameters(q, tau * q, 1.0 / L, 1.0 / math.sqrt(mu * L))


def iterate_parameters(
    grad: Callable[[Array], Array], x: Array, z: Array, times: Array,
    at: Callable[[float], Parameters],
) -> Iterator[tuple[Array, Array]]:  # fmt: skip
    """Yield (x_k, z_k), k = 1, 2, ..., where parameters are constant, or eta = c/(t + s) and eta' =
    0.

    The flow is the exponential of the matrix of its rates, with the mean of eta over the gap.
    """
    from scipy.linalg import expm

    last = 0.0
    for t in times.tolist():
        now, before = at(t), at(last)
        eta = now.eta * (t - last)
        if math.isinf(before.eta):
            x, eta = z, 0.0  # x joins z at once
        elif before.eta != now.eta:  # c (log(t + s) - log(last + s)), with c = eta (t + s)
            eta = math.log(before.eta / now.eta) * (t - last) / (1.0 / now.eta - 1.0 / before.eta)
        eta_prime = now.eta_prime * (t - last)
        mixed = expm(np.array([[-eta, eta], [eta_prime, -eta_prime]]))
        x, z = mixed[0, 0] * x + mixed[0, 1] * z, mixed[1, 0] * x + mixed[1, 1] * z
        g = grad(x)
        x, z, last = x - now.gamma * g, z - now.gamma_prime * g, t
        yield x, z


def composite_iterate(
    grad: Callable[[Array], Array], move: Callable[[Array, Array, float], Array], x0: Array,
    times: Array, L: float, mu: float, start: float,
) -> Iterator[tuple[Array, Array]]:  # fmt: skip
    """Yield (x_k, z_k), k = 1, 2, ..., where `move` takes z to z+ and x follows by eta (z+ - z).

    The flow over a gap is integrated numerically where start is finite and mu > 0.
    """
    x = z = x0
    last, q = 0.0, math.sqrt(mu / L)
    for t in times.tolist():
        if mu == 0.0:
            a, b = 1.0 - ((last + start) / (t + start)) ** 2, 0.0
        elif start == math.inf:
            a = b = 0.5 * (1.0 - math.exp(-2.0 * q * (t - last)))
        else:
            a, b = _integrate_flow(0.5 * q * (last + start), 0.5 * q * (t + start))
        now = process_parameters(t, L, mu, start)
        x, z = x + a * (z - x), z + b * (x - z)
        z_plus = move(z, grad(x), now.gamma_prime)
        x, z, last = x + now.eta * (z_plus - z), z_plus, t
        yield x, z


def _integrate_flow(u: float, v: float) -> tuple[float, float]:
    """Return a and b for eta = q coth, eta' = q tanh: S^2 times the integrals of 2 coth / sinh^2 2s
    and 2 tanh / sinh^2 2s over s from u to v, S = sinh 2u."""
    from scipy.integrate import quad

    S2 = math.sinh(2.0 * u) ** 2
    exact: Any = {"epsabs": 0.0, "epsrel": 1e-13}
    a = quad(lambda s: 2.0 / math.tanh(s) / math.sinh(2.0 * s) ** 2, u, v, **exact)[0]
    b = quad(lambda s: 2.0 * math.tanh(s) / math.sinh(2.0 * s) ** 2, u, v, **exact)[0]
    return S2 * a, S2 * b


def nesterov_steps(k: int, L: float, mu: float) -> tuple[float, float, float, float]:
    """Return (tau, tau', gamma, gamma') of the iteration from k to k + 1, Theorem 2."""
    if mu > 0.0:
        q = math.sqrt(mu / L)
        return q / (1.0 + q), q, 1.0 / L, 1.0 / math.sqrt(mu * L)
    A = after = 0.0
    for _ in range(k + 1):
        A, after = after, after + 0.5 * (1.0 + math.sqrt(4.0 * after + 1.0))
    return 1.0 - A / after, 0.0, 1.0 / L, (after - A) / L


def row_constants(a: Array, p: Array) -> tuple[float, float, float]:
    """Return R2, kappa and the smallest eigenvalue of H, of rows drawn with these probabilities."""
    H = (a.T * p) @ a
    inverse = np.linalg.inv(H)

    def largest(weights: Array) -> float:
        return float(np.linalg.eigvals(inverse @ ((a.T * (p * weights)) @ a)).real.max())

    squares, scaled = (a * a).sum(axis=1), ((a @ inverse) * a).sum(axis=1)
    return largest(squares), largest(scaled), float(np.linalg.eigvalsh(H)[0])


def graph_constants(nodes: int, edges: Array, P: Array) -> tuple[float, float]:
    """Return mu_g and R: the gap of Lambda, and the largest resistance of an edge."""
    one = np.eye(nodes)
    b = one[edges[:, 0]] - one[edges[:, 1]]
    Lambda = (b.T * P) @ b
    resistances = ((b @ np.linalg.pinv(Lambda)) * b).sum(axis=1)
    return float(np.linalg.eigvalsh(Lambda)[1]), float(resistances.max())


def exchange_path(
    w: Callable[[int, Array], Array], y: Array, events: Any, end: float,
    theta: float, gamma: float, gamma_prime: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Return (y, z) of nodes that exchange w_i(y_i) at events (t, i, j), from z = y, mixed to the
    end."""
    y, z = y.copy(), y.copy()
    last = np.zeros(len(y))

    def mix(i: int, t: float) -> None:
        a = 0.5 * (1.0 - math.exp(-2.0 * theta * (t - last[i])))
        y[i], z[i], last[i] = y[i] + a * (z[i] - y[i]), z[i] + a * (y[i] - z[i]), t

    for t, i, j in events:
        mix(i, t)
        mix(j, t)
        G = w(i, y[i]) - w(j, y[j])
        for node, sign in ((i, 1.0), (j, -1.0)):
            y[node] -= sign * gamma * G
            z[node] -= sign * gamma_prime * G
    for i in range(len(y)):
        mix(i, end)
    return y, z


def dadao_path(
    grad: Callable[[int, Array], Array], shape: tuple[int, int], events: Any, end: float,
    L: float, mu: float, chi_1: float,
) -> Array:  # fmt: skip
    """Return x of DADAO's nodes at the end, from 0; events are (t, i, j), and (t, i, -1) of
    gradients."""
    from scipy.linalg import expm

    nu = mu / 2.0
    s = math.sqrt(nu / L)
    alpha, alpha_tilde, theta = s / 4.0, s / 8.0, 1.0 / (2.0 * s)
    F = np.zeros((6, 6))  # of x, x~, y, y~, z, z~
    F[0, :2], F[1, :2] = (-s / 8.0, s / 8.0), (s / 8.0, -s / 8.0)
    F[2, 2:4], F[3, [1, 2, 4]] = (-alpha, alpha), (-theta * nu, -theta, -theta)
    F[4, 4:], F[5, 4:] = (-alpha, alpha), (alpha_tilde, -alpha_tilde)
    u, last = np.zeros((shape[0], 6, shape[1])), np.zeros(shape[0])

    def flow(i: int, t: float) -> None:
        u[i], last[i] = expm((t - last[i]) * F) @ u[i], t

    for t, i, j in events:
        flow(i, t)
        if j < 0:
            g = grad(i, u[i, 0]) - nu * u[i, 0] - u[i, 3]
            u[i, 0] -= g / (4.0 * L)
            u[i, 1] -= g / (4.0 * math.sqrt(L * nu))
            u[i, 3] += (s / 4.0 + 1.0) * g
            continue
        flow(j, t)
        d = u[i, 2] + u[i, 4] - u[j, 2] - u[j, 4]
        for node, sign in ((i, 1.0), (j, -1.0)):
            u[node, 4] -= sign * d / 2.0
            u[node, 5] -= sign * (2.0 * chi_1 / s) * d
    for i in range(shape[0]):
        flow(i, end)
    return u[:, 0]
