"""The optimizer for PyTorch: saving and loading, x and y, errors."""

from __future__ import annotations

import copy
import io
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from continuized.adapters import torch as adapter
from continuized.adapters.torch import Continuized
from tests.helpers.torch_steps import a_parameter, held, same, take_step


def saved(state: Any) -> Any:
    """Through a file as `torch.save` writes it, read without running code."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


# Saving and loading


def test_numbers_of_numpy_are_saved_as_plain_ones() -> None:
    """Reading without running code knows none of NumPy's."""
    p = a_parameter(torch.float64)
    numbers: dict[str, Any] = {"lr": np.float64(0.3), "mu": np.float32(0.05), "rng": np.int64(4)}
    optimizer = Continuized([p], **numbers, weight_decay=np.float64(0.0))
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: np.float64(0.9) ** k)
    for _ in range(3):
        take_step(optimizer, p)
        rates.step()
        state = saved(optimizer.state_dict())
        assert type(state["param_groups"][0]["lr"]) is float


def test_fractions_are_saved_as_floats() -> None:
    p, third = a_parameter(torch.float64), Fraction(1, 3)
    optimizer = Continuized([p], lr=third, mu=third, weight_decay=third, rng=0)
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, np.float64(0.5), total_steps=9, cycle_momentum=False
    )
    for _ in range(2):
        take_step(optimizer, p)
        rates.step()
        (group,) = saved(optimizer.state_dict())["param_groups"]
        assert {type(group[name]) for name in ("lr", "mu", "weight_decay", "max_lr")} == {float}
        optimizer.param_groups[0].update(lr=third, mu=third)


def test_a_rate_beyond_all_floats_is_refused() -> None:
    p = a_parameter(torch.float64)
    sentence = r"^lr must be a finite number >= 0, got 1000"
    with pytest.raises(ValueError, match=sentence):
        Continuized([p], lr=10**400)
    optimizer = Continuized([p], lr=0.3, rng=0)
    optimizer.param_groups[0]["lr"] = 10**400
    assert optimizer.state_dict()["param_groups"][0]["lr"] == 10**400
    with pytest.raises(ValueError, match=sentence):
        take_step(optimizer, p)


@pytest.mark.parametrize("seed", [4, None, 2**200 + 1])
@pytest.mark.parametrize("steps", [0, 1, adapter.BLOCK - 1, adapter.BLOCK, 700])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_saved_run_goes_on_bit_by_bit(steps: int, seed: int | None, dtype: torch.dtype) -> None:
    p, q = a_parameter(dtype), a_parameter(dtype)
    optimizer = Continuized([p], lr=0.3, mu=0.05, start=0.0, rng=seed)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    for _ in range(steps):
        take_step(optimizer, p)
        scheduler.step()
    state = saved({"p": p, "optimizer": optimizer.state_dict()})
    other = Continuized([q], lr=1.0, rng=99)
    for _ in range(3):  # of another run, which loading forgets
        take_step(other, q)
    q.data.copy_(state["p"])
    other.load_state_dict(state["optimizer"])
    for _ in range(20):
        take_step(optimizer, p)
        take_step(other, q)
    assert same(optimizer, other)
    other.add_param_group({"params": [a_parameter()]})  # with the clock that was loaded
    assert other.param_groups[1]["rng"] == optimizer.param_groups[0]["rng"]


def test_casts_leave_the_time_alone() -> None:
    p, q = a_parameter(torch.float64), a_parameter(torch.float16)
    optimizer, half = Continuized([p], lr=0.3), Continuized([q], lr=0.3)
    for _ in range(300):
        take_step(optimizer, p)
    half.load_state_dict(optimizer.state_dict())
    assert half.state[q]["z"].dtype == torch.float16
    time = half.param_groups[0]["time"]
    assert type(time) is float
    assert time == optimizer.param_groups[0]["time"]
    assert time != float(torch.tensor(time, dtype=torch.float16))  # a cast would show


@pytest.mark.parametrize("steps", [0, 5])
def test_a_copy_goes_on_as_the_original(steps: int) -> None:
    p = a_parameter()
    optimizer = Continuized([p], lr=0.3, rng=None)
    for _ in range(steps):
        take_step(optimizer, p)
    other = copy.deepcopy(optimizer)
    q = other.param_groups[0]["params"][0]
    assert q is not p
    for _ in range(5):
        take_step(optimizer, p)
        take_step(other, q)
    assert same(optimizer, other)


def test_a_fixed_seed_is_the_default_and_none_is_fresh() -> None:
    def seed(**options: Any) -> int:
        return Continuized([a_parameter()], **options).param_groups[0]["rng"]

    assert seed() == 0  # copies of a model on several machines must share the clock
    assert seed(rng=None) != seed(rng=None)


# x and y


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_swapping_twice_changes_nothing(dtype: torch.dtype) -> None:
    p, untouched = a_parameter(dtype), a_parameter(dtype)
    optimizer = Continuized([p, untouched], lr=0.3)
    for _ in range(4):
        take_step(optimizer, p)
    y, x = p.detach().clone(), optimizer.state[p]["x"].clone()
    optimizer.swap()
    assert torch.equal(p, x)
    with pytest.raises(RuntimeError, match="hold x: call swap"):
        optimizer.step()
    with optimizer.evaluating():
        assert torch.equal(p, x)
    assert torch.equal(p, x)
    optimizer.swap()
    assert torch.equal(p, y)
    assert torch.equal(optimizer.state[p]["x"], x)
    with pytest.raises(KeyError), optimizer.evaluating():
        raise KeyError
    assert torch.equal(p, y)
    with optimizer.evaluating():
        optimizer.swap()
    assert torch.equal(p, y)


def test_a_run_saved_while_it_holds_x() -> None:
    p, q = a_parameter(), a_parameter()
    optimizer, other = Continuized([p], lr=0.3), Continuized([q], lr=0.3)
    for _ in range(4):
        take_step(optimizer, p)
    with optimizer.evaluating():
        state = saved({"p": p, "optimizer": optimizer.state_dict()})
    q.data.copy_(state["p"])
    other.load_state_dict(state["optimizer"])
    other.swap()
    assert same(optimizer, other)


# What is refused

REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lr": -0.1}, ValueError, "lr must be a finite number >= 0, got -0.1"),
    ({"lr": math.nan}, ValueError, "lr must be a finite number"),
    ({"lr": "0.1"}, TypeError, "lr must be a finite number >= 0, got '0.1'"),
    ({"lr": torch.tensor(0.1, device="meta")}, ValueError, "must be on the CPU, got one on meta"),
    ({"lr": 0.5, "mu": 3.0}, ValueError, r"mu must not exceed L = 1/lr, got mu = 3.0 and lr = 0.5"),
    ({"mu": -1.0}, ValueError, "mu must be a finite number >= 0"),
    ({"start": -1.0}, ValueError, "start must be a number >= 0"),
    ({"start": math.inf}, ValueError, "start = inf needs mu > 0"),
    ({"method": "nesterov"}, ValueError, 'method must be "continuized" or "sharp"'),
    ({"method": "sharp"}, ValueError, "SharpContinuized needs mu > 0"),
    ({"method": "sharp", "mu": 0.1, "start": 1.0}, ValueError, "drop it"),
    ({"rng": -1}, ValueError, "rng must be an integer >= 0 or None, got -1"),
    ({"rng": np.random.default_rng(0)}, TypeError, "rng must be an integer >= 0 or None, got"),
    ({"weight_decay": math.inf}, ValueError, "weight_decay must be a finite number"),
    ({"nonfinite": "ignore"}, ValueError, 'nonfinite must be "raise" or "skip", got .ignore.'),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_options_that_make_no_sense(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Continuized([a_parameter()], **options)
    optimizer = Continuized([a_parameter()])
    with pytest.raises((error, ValueError), match=words if "rng" not in options else "rng must"):
        optimizer.add_param_group({"params": [a_parameter()], **options})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.float8_e4m3fn])
def test_parameters_of_another_type(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=f"float64, got {dtype}"):
        Continuized([torch.zeros(3, dtype=dtype)])


def test_groups_with_clocks_of_their_own() -> None:
    groups = [{"params": [a_parameter()], "rng": seed} for seed in (1, 2)]
    with pytest.raises(ValueError, match=r"rng must be the same in all groups, .* got 1 and 2"):
        Continuized(groups)


def test_a_step_that_is_refused_changes_nothing() -> None:
    p, q = a_parameter(), a_parameter()
    optimizer = Continuized([{"params": [p]}, {"params": [q]}], lr=0.3, mu=0.1)
    other = copy.deepcopy(optimizer)
    for _ in range(3):
        take_step(optimizer, p, q)
    before = copy.deepcopy(optimizer)
    q.grad = torch.zeros(3, dtype=torch.float64).to_sparse()
    with pytest.raises(RuntimeError, match="gradients must be dense, got one of layout"):
        optimizer.step()
    q.grad = None
    optimizer.param_groups[1]["lr"] = 100.0
    with pytest.raises(ValueError, match="mu must not exceed"):
        optimizer.step()
    optimizer.param_groups[1]["lr"] = 0.3
    assert same(optimizer, before)
    for _ in range(4):
        take_step(other, *(group["params"][0] for group in other.param_groups))
    take_step(optimizer, p, q)
    assert same(optimizer, other)


def test_a_closure_that_leaves_x_in_the_parameters() -> None:
    p = a_parameter()
    optimizer = Continuized([p], lr=0.3)
    take_step(optimizer, p)
    before = copy.deepcopy(optimizer)
    with pytest.raises(RuntimeError, match="the parameters hold x: call swap"):
        optimizer.step(optimizer.swap)
    optimizer.swap()
    assert same(optimizer, before)


@pytest.mark.parametrize("foreach", [False, True])
def test_a_model_that_is_converted_on_the_way(foreach: bool) -> None:
    """x and z in the type of before would be rounded without a word."""
    layer = torch.nn.Linear(3, 2)
    optimizer = Continuized(layer.parameters(), lr=0.1, foreach=foreach)

    def gradients(dtype: torch.dtype) -> None:
        layer.to(dtype)
        optimizer.zero_grad()
        layer(torch.ones(3, dtype=dtype)).square().sum().backward()

    gradients(torch.float32)
    optimizer.step()
    gradients(torch.float64)
    with pytest.raises(RuntimeError, match=r"but its x and z are of torch\.float32"):
        optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert {t.dtype for t in held(optimizer)} == {torch.float64}
    for p in layer.parameters():
        p.data, p.grad = p.data.to(torch.complex64), torch.ones_like(p, dtype=torch.complex64)
    with pytest.raises(TypeError, match="parameters must be real"):
        optimizer.step()


def test_a_state_of_another_optimizer() -> None:
    state = torch.optim.SGD([a_parameter()], lr=0.1).state_dict()
    with pytest.raises(ValueError, match="not one of Continuized: a group has no 'rng'"):
        Continuized([a_parameter()]).load_state_dict(state)
