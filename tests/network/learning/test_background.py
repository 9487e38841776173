"""Nodes that learn with real links on 127.0.0.1, as threads of this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from continuized.network import A2CiD2
from continuized.network.learning.stats import read_stats
from continuized.network.protocol.transitions import REFUSE, REQUEST, Message
from continuized.network.workers import doorkeeper
from tests.helpers.learning_nodes import Program, programs

WITHIN = 30.0  # seconds, for what takes a few milliseconds
VALUES = np.random.default_rng(0).standard_normal((4, 5))


def work(running: list[Program], steps: int, size: float = 0.1, pause: float = 0.001) -> None:
    """Let all programs take steps, in this thread, one after the other."""
    random = np.random.default_rng(2)
    for _ in range(steps):
        for program in running:
            program.step(size * random.standard_normal(program.parameters.size))
        time.sleep(pause)


def wait_for(condition: Callable[[], bool], running: list[Program]) -> None:
    limit = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < limit, "it did not come to pass"
        work(running, 1)


def finish(running: list[Program], average: bool = True, seconds: float = WITHIN) -> None:
    threads = [
        threading.Thread(target=p.background.finish, args=(average, seconds)) for p in running
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2.0 * WITHIN)
        assert not thread.is_alive()


def exchanges(running: list[Program]) -> int:
    return sum(p.background.node.counts.exchanges for p in running)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_mean_is_moved_by_the_programs_alone_and_all_get_it(dtype: type) -> None:
    values = VALUES.astype(dtype)
    with programs("cycle:4", values, buffers=1) as running:
        wait_for(lambda: exchanges(running) > 100, running)
        finish(running)
        wanted = values.mean(axis=0, dtype=np.float64) + np.mean([p.moved for p in running], axis=0)
        for program in running:
            assert program.background.final_mean.taken
            x = program.background.node.model.x
            np.testing.assert_array_equal(x, running[0].background.node.model.x)
            np.testing.assert_allclose(x[:-1], wanted, rtol=0.0, atol=1e3 * np.finfo(dtype).eps)
            assert program.background.failure is None


def test_one_that_dies_is_dropped_said_and_accounted_for() -> None:
    """Rank 2 of a path dies; rank 3 is cut off, and the others know it."""
    with programs("path:4", VALUES, ledger=True) as running:
        wait_for(lambda: exchanges(running) > 100, running)
        victim = running[2].background
        victim._loop.call_soon_threadsafe(
            lambda: [link.transport.abort() for link in list(victim.links.values())]
        )
        victim.close()
        others = [running[i] for i in (0, 1, 3)]
        wait_for(lambda: all(p.background.membership.dead == [2] for p in others), others)
        wait_for(lambda: exchanges(others) > 150, others)
        notices = running[0].background.take_notices()
        assert any("rank 2 is gone" in notice for notice in notices)
        assert any("no longer reaches [3]" in notice for notice in notices)
        assert read_stats(running[0].background, 0).cut_off == (3,)
        for program in others:  # those of what is left of the graph
            known = program.background
            assert known.node.model.constants == known.membership.constants()
        pair, starts = [running[0], running[1]], VALUES[:2]
        finish(others)
        end = sum(p.middle for p in pair)
        moved = sum(p.moved for p in pair)
        of_dead = 0.5 * running[1].background.node.of_dead  # what it had got from the dead
        np.testing.assert_allclose(end, starts.sum(axis=0) + moved + of_dead, atol=1e-11)
        assert np.abs(of_dead).max() > 1e-3  # else nothing was tested
        np.testing.assert_array_equal(pair[0].middle, pair[1].middle)
        assert running[3].background.final_mean.taken  # with itself


def test_one_that_leaves_is_no_death() -> None:
    with programs("cycle:4", VALUES) as running:
        wait_for(lambda: exchanges(running) > 30, running)
        finish(running[3:], average=False)
        others = running[:3]
        wait_for(lambda: all(p.background.membership.left == [3] for p in others), others)
        assert [p.background.take_notices() for p in others] == [[], [], []]
        finish(others)
        middles = [p.middle for p in others]
        moved = sum(p.moved for p in running)
        total = VALUES.sum(axis=0) + moved
        np.testing.assert_allclose(sum(middles) + running[3].middle, total, atol=1e-11)
        assert not running[3].background.final_mean.taken


def test_one_that_leaves_refuses_to_the_end() -> None:
    """Else a neighbour would pay it what it no longer gets."""
    with programs("path:2", VALUES[:2]) as running:
        leaving = running[0].background
        running[0].step()
        leaving._announced = True  # so that it stays in the moment before it goes
        leaving._call(leaving._begin_to_finish, False, WITHIN)
        wait_for(lambda: leaving.node.quiet, running[1:])
        (reply,) = leaving.node.receive(Message(REQUEST, 1, 0, 10**6), leaving._now())
        assert reply.kind == REFUSE


def test_one_that_leaves_ends_in_the_middle() -> None:
    """A transfer that came last has parted x~ from x again."""
    with programs("path:2", VALUES[:2]) as running:
        leaving = running[0].background
        leaving.node.model.D[:] = 1.0
        middle = running[0].middle
        leaving._leaving = True
        leaving._call(leaving._announce)
        assert leaving._ended.wait(WITHIN)
        np.testing.assert_allclose(leaving.node.model.state(), [middle, middle], rtol=1e-15)


def test_parameters_that_are_not_finite_are_kept_from_the_others() -> None:
    with programs("cycle:4", VALUES) as running:
        wait_for(lambda: exchanges(running) > 30, running)
        bad = running[1]
        kept = bad.parameters.copy()
        assert not bad.step(np.array([np.nan, 0.0, 0.0, 0.0, 0.0]))
        others = [running[0], running[2], running[3]]
        before = bad.background.node.counts.exchanges + bad.background.node.counts.ages
        bad.moved[:] = 0.0
        count = exchanges(others)
        wait_for(lambda: exchanges(others) > count + 20, others)
        after = bad.background.node.counts.exchanges + bad.background.node.counts.ages
        assert after - before <= 1  # one may have been under way
        assert all(np.isfinite(p.parameters).all() for p in others)
        assert read_stats(bad.background, 0).nonfinite == 1
        bad.parameters = kept  # as from a checkpoint
        assert bad.step()
        count = exchanges(running)
        wait_for(lambda: exchanges([bad]) > 0 and exchanges(running) > count + 30, running)


def test_those_that_have_not_finished_in_time_are_left_behind() -> None:
    with programs("cycle:4", VALUES) as running:
        wait_for(lambda: exchanges(running) > 30, running)
        finish(running[:3], seconds=0.5)
        for program in running[:3]:
            assert program.background.final_mean.taken
            np.testing.assert_array_equal(program.middle, running[0].middle)
        said = [n for p in running[:3] for n in p.background.take_notices()]
        assert any("the ranks [3] had not finished after 0.5 s" in notice for notice in said)


def test_a_stranger_is_shown_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorkeeper, "PROVE_WITHIN", 0.2)
    with programs("path:2", VALUES[:2]) as running:
        node = running[0].background
        address = node._listening.getsockname()
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(60), bytes([255] * 4)):
            with socket.create_connection(address, timeout=WITHIN) as stranger:
                stranger.sendall(data)
                assert stranger.recv(1) == b""
        forged = running[1].background.codec.encode(Message(0, 1, 0, 9))  # right, but no HELLO
        with socket.create_connection(address, timeout=WITHIN) as stranger:
            stranger.sendall(bytes(forged))
            assert stranger.recv(1) == b""
        wait_for(lambda: exchanges(running) > 20, running)
        assert node.failure is None


def test_the_thread_ends_with_its_owner() -> None:
    with programs("cycle:4", VALUES, method=A2CiD2(accelerated=False)) as running:
        wait_for(lambda: exchanges(running) > 20, running)
        assert all(p.background.node.model.D.size == 0 for p in running)
        threads = [p.background._thread for p in running]
    assert not any(thread.is_alive() for thread in threads)
