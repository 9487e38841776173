"""The optimizer for PyTorch: the process, its clock, what it is given and what it leaves alone."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import continuized as cz
from continuized.adapters import torch as adapter
from continuized.adapters.torch import Continuized
from continuized.process.clock import Event
from tests.helpers.torch_steps import EIGENVALUES, X0, a_parameter, take_step, x_of

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


# The process


@pytest.mark.parametrize("mu", [0.0, 0.1])
@pytest.mark.parametrize("start", [0.5, math.inf])
def test_changes_of_lr_carry_on_from_the_same_pair(mu: float, start: float) -> None:
    """Against the differential equations of sqrt A, sqrt B, x and z themselves.

    The change comes at the event: the gap before it was mixed with the old lr.
    """
    if mu == 0.0 and start == math.inf:
        start = 3.0
    rates = [0.5, 0.5, 0.2, 0.2, 0.0, 0.0, 0.4, 0.1, 0.5, 0.0, 0.3, 0.3]
    gaps = [e.dt for e in cz.clock.Poisson(3).stream().draw(len(rates)).each()]
    p = a_parameter()
    optimizer = Continuized([p], lr=rates[0], mu=mu, start=start, rng=3)
    state = np.array([*pair(1.0 / rates[0], mu, start), *X0, *X0])
    for k, (lr, gap) in enumerate(zip(rates, gaps, strict=True)):
        if rates[k - 1 if k else 0] > 0.0:
            state = flowed(state, gap, 1.0 / rates[k - 1 if k else 0], mu)
        root_a, root_b, x, z = state[0], state[1], state[2:5], state[5:]
        g = EIGENVALUES.numpy() * x
        state[2:5], state[5:] = x - lr * g, z - math.sqrt(lr / 2.0) * root_a / root_b * g
        optimizer.param_groups[0]["lr"] = lr
        take_step(optimizer, p)
        np.testing.assert_allclose(x_of(optimizer, p).numpy(), state[2:5], rtol=1e-9, atol=1e-10)


def pair(L: float, mu: float, start: float) -> tuple[float, float]:
    """(sqrt A, sqrt B) at time 0, up to a common factor."""
    if mu == 0.0:
        return start / math.sqrt(2.0 * L), 1.0
    if start == math.inf:
        return 1.0, math.sqrt(mu / 2.0)
    u = 0.5 * math.sqrt(mu / L) * start
    return math.sqrt(2.0 / mu) * math.sinh(u), math.cosh(u)


def flowed(state: np.ndarray, gap: float, L: float, mu: float) -> np.ndarray:
    def slopes(t: float, s: np.ndarray) -> np.ndarray:
        root_a, root_b, x, z = s[0], s[1], s[2:5], s[5:]
        eta = math.sqrt(2.0 / L) * root_b / root_a
        eta_prime = mu * root_a / root_b / math.sqrt(2.0 * L)
        roots = [root_b / math.sqrt(2.0 * L), mu * root_a / math.sqrt(8.0 * L)]
        return np.concatenate([roots, eta * (z - x), eta_prime * (x - z)])

    return np.asarray(solve_ivp(slopes, (0.0, gap), state, rtol=1e-12, atol=1e-13).y[:, -1])


def test_the_times_are_those_of_the_poisson_clock() -> None:
    n = 2 * adapter.BLOCK + 3
    expected = cz.clock.Poisson(5).stream().draw(n + 1).t
    p = a_parameter()
    optimizer = Continuized([p], lr=0.5, rng=5)
    for k in range(1, n + 1):
        take_step(optimizer, p)
        group = optimizer.param_groups[0]
        assert (group["k"], group["time"]) == (k, expected[k])  # y is just before event k + 1


def test_groups_share_the_clock_and_run_as_if_alone() -> None:
    p, q, alone = a_parameter(), a_parameter(), a_parameter()
    groups = [{"params": [p], "lr": 0.4}, {"params": [q], "mu": 0.1, "maximize": False}]
    both, one = Continuized(groups, lr=0.5, rng=2), Continuized([alone], lr=0.5, mu=0.1, rng=2)
    for _ in range(30):
        take_step(both, p, q)
        take_step(one, alone)
    assert torch.equal(q, alone)
    assert not torch.equal(p, q)


def test_a_group_that_is_added_later_starts_its_own_time() -> None:
    late_from, n = 7, 20
    gaps = [e.dt for e in cz.clock.Poisson(2).stream().draw(n).each()][late_from:]
    p, late = a_parameter(), a_parameter()
    optimizer = Continuized([p], lr=0.4, rng=2)
    for _ in range(late_from):
        take_step(optimizer, p)
    optimizer.add_param_group({"params": [late], "lr": 0.5, "mu": 0.1, "start": 1.0})
    method = cz.Continuized(2.0, 0.1, 1.0)
    state, t = method.init(np.array(X0)), 0.0
    for k, dt in enumerate(gaps, 1):
        take_step(optimizer, p, late)
        t += dt
        state, _ = method.step(state, Event(k, t, dt), lambda x, mark: EIGENVALUES.numpy() * x)
        np.testing.assert_allclose(x_of(optimizer, late).numpy(), state.x, rtol=1e-12, atol=1e-14)


def test_a_parameter_without_a_gradient_is_left_alone() -> None:
    p, q = a_parameter(), a_parameter()
    optimizer = Continuized([p, q], lr=0.4, weight_decay=0.1)
    for _ in range(3):
        take_step(optimizer, p, q)
    before = q.detach().clone(), copy.deepcopy(optimizer.state[q])
    q.grad = None
    take_step(optimizer, p)
    assert torch.equal(q, before[0])
    assert all(torch.equal(optimizer.state[q][name], before[1][name]) for name in "xz")


def test_weight_decay_and_maximize_are_another_function() -> None:
    p, q = a_parameter(), a_parameter()
    decayed = Continuized([p], lr=0.4, weight_decay=0.1, maximize=True)
    plain = Continuized([q], lr=0.4)
    for _ in range(20):
        p.grad = -EIGENVALUES * p.detach()
        decayed.step()
        q.grad = (EIGENVALUES + 0.1) * q.detach()
        plain.step()
    torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-13)


def test_a_closure_gives_the_gradient_and_the_loss() -> None:
    p, q = a_parameter(), a_parameter()
    one, other = Continuized([p], lr=0.4), Continuized([q], lr=0.4)

    def closure() -> torch.Tensor:
        one.zero_grad()
        loss = 0.5 * (EIGENVALUES * p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        losses = [one.step(closure) for _ in range(5)]
    for _ in range(5):
        take_step(other, q)
    assert torch.equal(p, q)
    assert losses[4] < losses[0] == 0.5 * (EIGENVALUES * torch.tensor(X0) ** 2).sum()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_floating_type_is_kept_and_converges(dtype: torch.dtype) -> None:
    p = a_parameter(dtype)
    optimizer = Continuized([p], lr=0.5, mu=0.1)
    for _ in range(100):
        take_step(optimizer, p)
    assert {p.dtype, *(t.dtype for t in optimizer.state[p].values())} == {dtype}
    # |x| is 2.3 at first, and falls about as exp(-sqrt(mu / L) t / 2), 1e-5 after 100 events;
    # the roundings of bfloat16, 2^-9 of an entry each, are far below the bound too.
    assert x_of(optimizer, p).abs().max() < 0.01


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"mu": 0.1}, {"weight_decay": 0.1, "maximize": True}])
def test_foreach_is_the_loop_to_the_last_bit(dtype: torch.dtype, options: dict[str, Any]) -> None:
    shapes = [(3,), (2, 5), (), (0, 4), (2, 3, 4, 4)]
    results = []
    for foreach in (False, True):
        rng = torch.Generator().manual_seed(0)
        ps = [torch.randn(s, generator=rng).to(dtype).requires_grad_() for s in shapes]
        ps.append(torch.randn(7, generator=rng).double().requires_grad_())  # another type
        ps[4].data = ps[4].data.to(memory_format=torch.channels_last)
        optimizer = Continuized(ps, lr=0.3, foreach=foreach, **options)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        for _ in range(20):
            for p in ps:
                p.grad = torch.randn(p.shape, generator=rng).to(p.dtype)
            optimizer.step()
            scheduler.step()
        results.append([t for p in ps for t in (p, *optimizer.state[p].values())])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert all(torch.isfinite(t).all() for t in results[0])


@pytest.mark.parametrize("foreach", [False, True])
def test_no_step_waits_for_the_device(foreach: bool) -> None:
    """A tensor on the meta device has no values: to read one is an error."""
    p = torch.zeros(3, device="meta", requires_grad=True)
    optimizer = Continuized([p], lr=0.5, foreach=foreach)
    for _ in range(adapter.LOOK_EVERY - 1):
        p.grad = torch.zeros(3, device="meta")
        optimizer.step()
    with pytest.raises(RuntimeError, match="meta"):
        optimizer.skipped  # noqa: B018


def test_gradients_and_random_states_are_left_alone() -> None:
    p = a_parameter()
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    optimizer = Continuized([p], lr=0.4, weight_decay=0.1, maximize=True, rng=None)
    p.grad = given = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    optimizer.step()
    assert p.grad is given
    assert given.tolist() == [1.0, 2.0, 3.0]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 5, 0.5),
    "warm-up from 0": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda k: min(1.0, k / 10)),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o, 0.5, total_steps=60, cycle_momentum=False
    ),
    "warm restarts": lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 7),
}


@pytest.mark.parametrize("tensor_lr", [False, True])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name: str, tensor_lr: bool) -> None:
    """A number and a tensor for lr take the same steps, and go down."""
    p = a_parameter()
    lr = torch.tensor(0.5, dtype=torch.float64) if tensor_lr else 0.5
    optimizer = Continuized([p], lr=lr)
    scheduler = SCHEDULERS[name](optimizer)
    rates = []
    for _ in range(50):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        take_step(optimizer, p)
        scheduler.step()
    x = x_of(optimizer, p)
    assert (EIGENVALUES * x * x).sum() < 0.1 * (EIGENVALUES * torch.tensor(X0) ** 2).sum()
    q = a_parameter()
    by_hand = Continuized([q], lr=rates[0])
    for rate in rates:
        by_hand.param_groups[0]["lr"] = rate
        take_step(by_hand, q)
    torch.testing.assert_close(x, x_of(by_hand, q), rtol=1e-12, atol=1e-14)
