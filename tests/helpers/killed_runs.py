"""Run by test_checkpoints_written: a process that forks children and kills them at random moments.

    python killed_runs.py run FOLDER      a run, killed 60 times and resumed as often
    python killed_runs.py save FOLDER     a child that does nothing but save, killed 60 times

Children are forked, for a kill to cost milliseconds and not the imports; each is killed by the
process that started it, by its own number.  A child tells through a pipe how far it is, so that
kills come at every stage however slow the machine.  Exit code 0 if all is well.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import continuized as cz
from continuized.support.checkpoints import checkpointer as checkpoints

KILLS = 60
MOST = 40  # gradients a child may ask for before it is killed
EVENTS = KILLS * MOST + 100  # more than all of them together: the last child has work left


def killed_child(work: Callable[[Callable[[], None]], None], steps: int) -> None:
    """Fork; kill the child soon after it has told `steps` times of a step."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            work(lambda: os.write(writes, b"."))
        finally:
            os._exit(1)  # not reached unless the work fails or ends
    os.close(writes)
    for _ in range(steps):
        assert os.read(reads, 1), "the child ended by itself"
    time.sleep(random.uniform(0.0, 0.002))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(reads)
    assert os.WIFSIGNALED(status), "the child ended by itself"


def minimize(tell: Callable[[], None], most: float = math.inf, **options: object) -> cz.Result:
    scale = np.linspace(0.01, 1.0, 20)
    calls = 0

    def grad(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        tell()
        calls += 1
        while calls > most:
            time.sleep(1.0)  # until the kill
        return scale * (x - 1.0)

    problem = cz.Problem(lambda x: 0.5 * float(scale @ (x - 1.0) ** 2), grad, L=1.0, mu=0.01)
    noise = cz.noise.Gaussian(1e-4)
    return cz.minimize(
        problem, np.zeros(20), noise=noise, rng=5, maxiter=EVENTS, record="path", **options
    )


def kill_a_run(path: Path) -> None:
    reference = minimize(lambda: None)
    seen = []
    for _ in range(KILLS):
        steps = random.randint(3, MOST)  # the first is of the identity, the second an event
        killed_child(
            lambda tell: minimize(tell, MOST, checkpoint=path, every=0.0, resume=True), steps
        )
        whole = path if path.exists() else checkpoints.previous(path)
        seen.append(checkpoints.load(whole)[0]["state"]["stepper"]["k"])
    assert seen == sorted(seen), seen
    assert 0 < seen[0] < seen[-1] < EVENTS, seen
    last = minimize(lambda: None, checkpoint=path, resume=True)
    for name in ("x", "jac"):
        assert np.array_equal(reference[name], last[name]), name
    for name in ("fun", "nit", "nfev", "njev", "message"):
        assert reference[name] == last[name], name
    for mine, theirs in zip(reference.path, last.path, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert reference.trace.fun.tobytes() == last.trace.fun.tobytes()
    assert len(list(path.parent.iterdir())) <= 3  # no litter but one temporary file at most


def kill_a_save(path: Path) -> None:
    def work(tell: Callable[[], None]) -> None:
        number = 0 if not path.exists() else checkpoints.load(path)[0]["number"]
        while True:
            number += 1
            checkpoints.save(path, {"number": number}, {"a": np.full(50_000, float(number))})
            tell()

    known = 0
    for _ in range(KILLS):
        steps = random.randint(1, 4)
        killed_child(work, steps)
        whole = path if path.exists() else checkpoints.previous(path)
        header, arrays = checkpoints.load(whole)
        assert header["number"] >= known + (steps if whole == path else steps - 1)
        assert np.all(arrays["a"] == header["number"])
        known = header["number"]
        if whole != path:  # as a checkpointer would, once it goes on from the previous one
            checkpoints.save(path, header, arrays, keep=False)


if __name__ == "__main__":
    random.seed(0)
    {"run": kill_a_run, "save": kill_a_save}[sys.argv[1]](Path(sys.argv[2]) / "run.npz")
