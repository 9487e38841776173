"""AsyncGossip: real processes on 127.0.0.1, and what it refuses."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from benchmarks.processes import World
from continuized.adapters.torch import AsyncGossip
from tests.helpers import gossip_workers
from tests.helpers.gossip_workers import MODELS


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_models_of_all_kinds_are_trained_and_end_at_the_mean(tmp_path: Path) -> None:
    """The mean of all moved by the programs alone; of half precision, that of the shadows."""
    with World(gossip_workers.train_models, 4, tmp_path) as world:
        for name in MODELS:
            told = [world.hear(rank) for rank in range(4)]
            for each in told:
                assert each[0] == name
                assert each[1], "no mean was taken"
                np.testing.assert_array_equal(each[2], told[0][2])  # all start from rank 0
                np.testing.assert_array_equal(each[4], told[0][4])  # and end at the mean
                assert each[5], "a frozen parameter moved"
                assert each[6] == told[0][6]
            wanted = told[0][2] + sum(each[3] for each in told) / 4.0
            half = name == "half"
            # Of the type to which the mean is rounded at the end, and of the steps on the way.
            rounding = 2e-2 if half else 1e-12 if name == "plain" else 1e-5
            assert np.abs(told[0][4] - wanted).max() < rounding
            assert np.abs(wanted - told[0][2]).max() > 2.0 * rounding  # else nothing was tested
            if half:
                np.testing.assert_array_equal(
                    torch.tensor(told[0][7]).to(torch.bfloat16).double(), told[0][4]
                )


@pytest.mark.slow
def test_workers_that_are_killed_or_raise_are_dropped_and_accounted_for(tmp_path: Path) -> None:
    with World(gossip_workers.lose_workers, 4, tmp_path) as world:
        for rank in range(4):
            assert world.hear(rank) == "began"
        time.sleep(0.05)
        os.kill(world.processes[2].pid, signal.SIGKILL)
        told = [world.hear(rank) for rank in (0, 1)]
        with pytest.raises(EOFError):
            world.hear(3)
        wanted = sum(began + moved + account for _, began, moved, _, account, _, _ in told) / 2.0
        for done, _, _, ended, _, dead, said in told:
            assert done
            assert dead == [2, 3]
            assert any("rank 2 is gone: its link closed; the others go on" in s for s in said)
            np.testing.assert_allclose(ended, wanted, rtol=0.0, atol=1e-11)
    assert [process.exitcode for process in world.processes] == [0, 0, -signal.SIGKILL, 1]


@pytest.mark.slow
def test_a_stopped_worker_delays_nobody_and_comes_back(tmp_path: Path) -> None:
    with World(gossip_workers.step_on, 4, tmp_path) as world:
        for rank in range(4):
            assert world.hear(rank) == "began"
        time.sleep(0.3)
        os.kill(world.processes[1].pid, signal.SIGSTOP)
        try:
            time.sleep(2.0)
        finally:
            os.kill(world.processes[1].pid, signal.SIGCONT)
        told = [world.hear(rank) for rank in range(4)]
        for done, steps, ended, dead, _ in told:
            assert done
            assert dead == ()
            np.testing.assert_array_equal(ended, told[0][2])
            assert steps > 50
        # It was stopped for two of its three seconds; others waited for its answers in vain.
        assert told[1][1] < 0.7 * min(told[i][1] for i in (0, 2, 3))
        assert told[0][4] + told[2][4] >= 1


def test_what_differs_between_ranks_is_named_and_who_does_not_come(tmp_path: Path) -> None:
    with World(gossip_workers.refuse, 2, tmp_path) as world:
        first, second = world.hear(0), world.hear(1)
    for said in (first, second):
        assert "rank 0 has weight of shape (2, 3) and type float32, where rank 1 has" in said[0]
        assert "communications=1.0, where rank 1 has communications=2.0" in said[1]
        assert "a cycle needs at least 3 nodes, got 2; use path:2" in said[2]
    assert "the ranks [1] of 2 made no AsyncGossip within 0.5 s" in first[3]
    assert second[3] == "None"


def test_it_needs_a_process_group() -> None:
    with pytest.raises(RuntimeError, match="needs a process group: call"):
        AsyncGossip(torch.nn.Linear(2, 1))


class Lazy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LazyLinear(2)


def make_complex() -> torch.nn.Module:
    model = torch.nn.Module()
    model.p = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    return model


def make_infinite() -> torch.nn.Module:
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.bias[0] = torch.inf
    return model


REFUSED = {
    "no model": (lambda: 3, {}, TypeError, "model must be a torch.nn.Module, got 3"),
    "frozen": (lambda: torch.nn.Linear(2, 1).requires_grad_(False), {}, ValueError, "no parameter"),
    "wrapped": (
        lambda: torch.nn.DataParallel(torch.nn.Linear(2, 1)),
        {},
        TypeError,
        "model.module",
    ),
    "lazy": (Lazy, {}, ValueError, "has no values yet: run the model once"),
    "complex": (make_complex, {}, TypeError, "parameters must be real"),
    "infinite": (make_infinite, {}, ValueError, "not all finite"),
    "rate": (None, {"communications": 0.0}, ValueError, "communications must be a"),
    "flag": (None, {"accelerated": "no"}, TypeError, "accelerated must be True or False"),
    "buffers": (None, {"buffers": 1}, TypeError, "buffers must be True or False"),
    "size": (None, {"graph": "cycle:5"}, ValueError, "has 5 nodes, and the world 1 ranks"),
    "graph": (None, {"graph": "circle"}, ValueError, "unknown graph 'circle'"),
    "host": (None, {"host": "192.0.2.1"}, OSError, "give host=, an address of this machine"),
    "hosts": (None, {"host": 1}, TypeError, "host must be the address of this machine, got 1"),
    "port": (None, {"port": 0}, ValueError, "port must be an integer from 1 to 65535 or None"),
    "timeout": (None, {"timeout": 0.0}, ValueError, "timeout must be a"),
    "rng": (None, {"rng": -1}, ValueError, "rng must be"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.usefixtures("alone")
def test_what_makes_no_sense_is_refused_in_a_sentence(what: str) -> None:
    make, options, kind, sentence = REFUSED[what]
    model = torch.nn.Linear(2, 1) if make is None else make()
    with pytest.raises(kind) as caught:
        AsyncGossip(model, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("alone")
def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is in use: give another port"):
            AsyncGossip(torch.nn.Linear(2, 1), port=port)


@pytest.mark.usefixtures("alone")
def test_parameters_are_never_written_while_autograd_runs() -> None:
    model = torch.nn.Linear(2, 1)
    gossip = AsyncGossip(model)
    model.weight.register_post_accumulate_grad_hook(lambda p: gossip.step())
    with pytest.raises(RuntimeError, match="called within backward"):
        model(torch.ones(2)).backward()
    version = model.weight._version
    time.sleep(0.05)
    assert model.weight._version == version
    gossip.step()
    assert model.weight._version > version
    gossip.finish()
    with pytest.raises(RuntimeError, match="has finished: make a new one"):
        gossip.step()


@pytest.mark.slow  # torch.compile takes seconds to import
@pytest.mark.usefixtures("alone")
def test_a_compiled_model_has_the_names_of_its_own() -> None:
    model = torch.nn.Linear(3, 2)
    compiled = torch.compile(model, backend="eager")
    gossip = AsyncGossip(compiled)
    assert gossip._tensors.named.keys() == {"weight", "bias"}
    before = compiled(torch.ones(3)).detach()
    gossip.finish()
    torch.testing.assert_close(compiled(torch.ones(3)).detach(), before)


@pytest.mark.usefixtures("alone")
def test_a_parameter_that_is_unfrozen_later_is_named() -> None:
    model = torch.nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    gossip = AsyncGossip(model)
    gossip.step()
    model.bias.requires_grad_(True)
    with pytest.raises(RuntimeError, match="the parameter bias was frozen"):
        gossip.step()
    gossip.finish(average=False)


@pytest.mark.usefixtures("alone")
def test_parameters_that_are_not_finite_are_left_as_they_are_and_counted() -> None:
    model = torch.nn.Linear(2, 1)
    gossip = AsyncGossip(model)
    gossip.step()
    with torch.no_grad():
        model.bias[0] = torch.nan
    gossip.step()
    assert model.bias.isnan().all()
    assert gossip.stats.nonfinite == 1
    assert all(torch.isfinite(t).all() for t in (gossip.state_dict()["x"],))
    with torch.no_grad():
        model.bias[0] = 0.25
    gossip.step()
    assert model.bias.item() == 0.25
    gossip.finish()


@pytest.mark.usefixtures("alone")
def test_a_state_is_loaded_before_the_first_step_and_only_its_own(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    gossip = AsyncGossip(model)
    gossip.step()
    torch.save(gossip.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    with pytest.raises(RuntimeError, match="before the first step"):
        gossip.load_state_dict(state)
    kept = model.weight.detach().clone()
    gossip.finish()
    with torch.no_grad():
        model.weight.zero_()
    other = AsyncGossip(model)
    for wrong, sentence in (
        ({}, "has no 'version'"),
        ({**state, "version": 9}, "version 9"),
        ({**state, "x": torch.zeros(7)}, "must be a tensor of 3 numbers"),
    ):
        with pytest.raises(ValueError, match=sentence):
            other.load_state_dict(wrong)
    other.load_state_dict(state)
    assert torch.equal(model.weight, kept)
    other.step()
    assert other.stats.steps == 2
    other.finish()
    with pytest.raises(RuntimeError, match="make AsyncGossip with ledger=True"):
        _ = other.account
