"""Checkpoints: a run interrupted and resumed is the run that was never interrupted, bit by bit."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized import checkpoints, driver, files
from continuized import marked as marked_driver
from continuized.kernels import loop as kernel
from registry import METHODS, PAIRS, data, method, problem, same_bits, user_fun, user_grad, x0_of

NOISE = cz.noise.Gaussian(1e-3)
X, Y = data(30, 6)
LABELS = np.where(Y > 0.0, 1.0, -1.0)
RIDGE = cz.problems.LeastSquares(X, Y, l2=0.01)
LOGISTIC = cz.problems.LogisticRegression(X, LABELS, l2=0.01)
PLAIN = cz.problems.LeastSquares(X, X @ np.arange(6.0))
MARKED = {
    "coordinates": (RIDGE, cz.CoordinateDescent()),
    "coordinates, plain": (RIDGE, cz.CoordinateDescent(accelerated=False)),
    "coordinates, logistic": (LOGISTIC, cz.CoordinateDescent("uniform", start=0.3)),
    "dual": (RIDGE, cz.DualCoordinate()),
    "dual, plain": (RIDGE, cz.DualCoordinate(accelerated=False)),
    "dual, logistic": (LOGISTIC, cz.DualCoordinate()),
    "rows": (PLAIN, cz.StochasticLeastSquares()),
    "rows, plain": (PLAIN, cz.StochasticLeastSquares(accelerated=False)),
    "Kaczmarz": (PLAIN, cz.Kaczmarz()),
}


class Stop(Exception):
    """Interrupts a run, as an error of the user's own would."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.npz"


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """interrupt(n, error): fail in the n-th block from now, its events drawn already."""
    left, error = 0, Stop

    def at(n: int, what: type[BaseException] = Stop) -> None:
        nonlocal left, error
        left, error = n, what

    def interrupted(real: Any) -> Any:
        def block(self: Any, events: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise error
            return real(self, events)

        return block

    for kind in (driver.Run, marked_driver.Run):
        monkeypatch.setattr(kind, "_block", interrupted(kind._block))
    return at


def same(a: Any, b: Any) -> bool:
    """Whether two results are the same to the last bit, counters and all."""
    pairs = [(getattr(a.trace, c), getattr(b.trace, c)) for c in ("k", "t", "fun", "passes")]
    if a.path is not None:
        pairs += zip(a.path, b.path, strict=True)
    pairs += [(a[name], b[name]) for name in ("x", "fun", "jac", "nit", "nfev", "njev")]
    return all(same_bits(*pair) for pair in pairs) and (a.status is b.status)


def contents(path: Path) -> tuple[Any, ...]:
    """What a checkpoint holds, in a form that compares by bits."""
    header, arrays = checkpoints.load(path)
    return repr(header), {name: (a.shape, a.dtype, a.tobytes()) for name, a in arrays.items()}


def resumed_until_done(interrupt: Any, path: Path, blocks: int, p: Any, x0: Any, **how: Any) -> Any:
    """Interrupted again and again, at the block of this number of each attempt."""
    kinds = (Stop, KeyboardInterrupt)
    for attempt in range(100):
        interrupt(blocks, kinds[attempt % 2])
        try:
            r = cz.minimize(p, x0, **how, checkpoint=path, every=(0.0, 1e9)[attempt // 2 % 2],
                            resume=True)  # fmt: skip
        except kinds:
            continue
        interrupt(0)
        assert attempt > 0, "never interrupted"
        return r
    raise AssertionError("no end")


@pytest.mark.parametrize(("name", "on"), PAIRS)
def test_every_method_on_every_problem(name: str, on: str, path: Path, interrupt: Any) -> None:
    p = problem(on)
    how = {"method": method(name, p), "seed": 4, "maxiter": 60, "record": "path"}
    whole = cz.minimize(p, x0_of(p), **how)
    assert same(whole, resumed_until_done(interrupt, path, 5, p, x0_of(p), **how))


VARIATIONS: dict[str, dict[str, Any]] = {
    "values": {},
    "no record": {"record": False},
    "noise": {"noise": NOISE},
    "noise, path": {"noise": NOISE, "record": "path"},
    "tol": {"tol": 1e-5, "maxiter": 5000},
    "tol, no record": {"tol": 1e-5, "maxiter": 5000, "record": False},
    "callback": {"callback": lambda x: None, "record": False, "maxiter": 20},
    "no seed": {"seed": None},
    "Poisson clock": {"clock": cz.clock.Poisson(9, rate=2.0)},
    "recorded clock": {"clock": cz.clock.Recorded(np.arange(1.0, 50.0))},
    "merged clock": {"clock": cz.clock.Merged([cz.clock.Poisson(1), cz.clock.Poisson(2)])},
}


@pytest.mark.parametrize("on", ["quadratic", "user", "least squares, sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("variation", VARIATIONS)
def test_every_variation(variation: str, dtype: Any, on: str, path: Path, interrupt: Any) -> None:
    p = problem(on)
    how = {"seed": 4, "maxiter": 60, "method": cz.Continuized(p.L, p.mu)} | VARIATIONS[variation]
    whole = cz.minimize(p, x0_of(p, dtype), **how)
    r = resumed_until_done(interrupt, path, 3, p, x0_of(p, dtype), **how)
    if variation != "no seed":
        assert same(whole, r)
    else:  # fresh times: they go on from where they were
        times = cz.clock.Recorded(r.trace.t[1:], np.diff(r.trace.t))
        again = cz.minimize(p, x0_of(p, dtype), method=how["method"], clock=times, maxiter=60)
        assert np.all(np.diff(r.trace.t) > 0.0)
        np.testing.assert_allclose(again.x, r.x, rtol=1e-5)
    assert r.success == (variation != "recorded clock")


@pytest.mark.parametrize("case", MARKED)
@pytest.mark.parametrize(
    "given",
    [{"maxiter": 1000}, {"tol": 1e-4, "maxiter": 60_000}, {"record": False, "maxiter": 17_000}],
    ids=["values", "tol", "no record"],
)
def test_marked_methods(case: str, given: Any, path: Path, interrupt: Any) -> None:
    p, m = MARKED[case]
    whole = cz.minimize(p, np.zeros(6), method=m, seed=3, **given)
    blocks = max(3, len(whole.trace) // 5)
    how = {"method": m, "seed": 3} | given
    assert same(whole, resumed_until_done(interrupt, path, blocks, p, np.zeros(6), **how))


@pytest.mark.parametrize("case", [*MARKED, *METHODS])
def test_a_longer_run_is_that_run(case: str, path: Path) -> None:
    """Extended beyond maxiter, where blocks and tests fall elsewhere; and, once ended, again."""
    marked = case in MARKED
    p, m = MARKED[case] if marked else (problem("quadratic"), method(case, problem("quadratic")))
    x0 = np.zeros(p.dim)
    how = {"method": m, "seed": 3, "tol": 1e-4}
    most = 50_000 if marked else 5_000
    whole = cz.minimize(p, x0, **how, maxiter=most)
    assert whole.success
    # A pass is 6 or 30 events: that of the first run is cut short by maxiter.
    first = whole.nit // 90 * 30 + 7 if marked else max(1, whole.nit // 3)
    assert first < whole.nit
    cz.minimize(p, x0, **how, maxiter=first, checkpoint=path)
    for _ in range(2):
        r = cz.minimize(p, x0, **how, maxiter=most, checkpoint=path, resume=True)
        assert same(whole, r)
    finer = how | {"tol": 1e-5}  # a smaller tol goes on too
    r = cz.minimize(p, x0, **finer, maxiter=2 * most, checkpoint=path, resume=True)
    whole = cz.minimize(p, x0, **finer, maxiter=2 * most)
    assert r.success
    if marked:  # tol decides when it is tested, and so where it stops, but not the iterates
        n = min(len(r.trace), len(whole.trace))
        assert r.trace.k[n - 1] > first
        assert same_bits(r.trace.fun[:n], whole.trace.fun[:n])
    else:
        assert same(whole, r)


@pytest.mark.parametrize("case", [*MARKED, *METHODS])
@pytest.mark.parametrize("record", [True, False])
def test_a_run_that_has_ended_is_given_again(case: str, record: bool, path: Path) -> None:
    """After a last block that was whole, no event is left to do."""
    marked = case in MARKED
    p, m = MARKED[case] if marked else (problem("quadratic"), method(case, problem("quadratic")))
    events = 2 * marked_driver.SMALLEST_BLOCK if marked and not record else 120
    how = {"method": m, "seed": 3, "record": record, "maxiter": events}
    whole = cz.minimize(p, np.ones(p.dim), **how)
    for resume in (False, True, True):
        again = cz.minimize(p, np.ones(p.dim), **how, checkpoint=path, resume=resume)
        assert same(whole, again)


def test_an_error_in_the_middle_of_a_block(path: Path) -> None:
    """The state written is that of the block's start, though the block had begun to change it."""
    calls, last = 0, -1

    def grad(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == last:
            raise KeyboardInterrupt
        return user_grad(x)

    p = cz.Problem(user_fun, grad, L=1.5, mu=0.5)
    how = {"seed": 1, "maxiter": 60, "record": "path", "noise": NOISE}
    whole = cz.minimize(p, np.zeros(3), **how)
    for fatal in (2, 3, 7, 30):
        calls, last = 0, fatal
        with pytest.raises(KeyboardInterrupt):
            cz.minimize(p, np.zeros(3), **how, checkpoint=path, every=1e9)
        # One gradient was asked for the identity and one failed; blocks are of 1, 2, ... events.
        header, arrays = checkpoints.load(path)
        reached = header["state"]["k"]
        assert (fatal > 2) <= reached <= fatal - 2
        assert header["state"]["calls"] == arrays["watch"][kernel.STEPS] == reached
        last = -1
        assert same(whole, cz.minimize(p, np.zeros(3), **how, checkpoint=path, resume=True))
        path.unlink()


def test_a_callback_that_stops_is_a_pause(path: Path) -> None:
    p = problem("user")
    whole = cz.minimize(p, np.zeros(3), seed=1, maxiter=50)

    def stop(intermediate_result: Any) -> None:
        if intermediate_result.nit % 7 == 0:
            raise StopIteration

    for k in range(7, 50, 7):
        r = cz.minimize(p, np.zeros(3), seed=1, maxiter=50, callback=stop, checkpoint=path,
                        resume=True)  # fmt: skip
        assert r.nit == k
    r = cz.minimize(p, np.zeros(3), seed=1, maxiter=50, checkpoint=path, resume=True)
    assert same(whole, r)


# Planted mistakes: a part of the state that is not put back


def forget(monkeypatch: pytest.MonkeyPatch, kind: Any, part: str) -> None:
    real = kind.restore

    def restore(self: Any, state: Any) -> None:
        fresh = self.state()
        for new, old in zip(fresh, state, strict=True):
            if part in old:
                value = new[part]
                old[part] = value.joined() if isinstance(value, checkpoints.Rows) else value
        real(self, state)

    monkeypatch.setattr(kind, "restore", restore)


NESTEROV = {"method": cz.Nesterov(1.5), "clock": cz.clock.Poisson(1), "noise": NOISE}
FULL_PARTS = ("k", "t", "carry", "calls", "nfev", "stream", "noise", "work", "watch",
              "row_k", "row_t", "row_dt", "row_fun", "row_x", "row_z")  # fmt: skip
MARKED_PARTS = ("k", "t", "cost", "tested", "next_test", "stream", "scalars", "pairs",
                "image_pairs", "row_k", "row_t", "row_fun", "row_passes")  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "part"),
    [(driver.Run, p) for p in ("", *FULL_PARTS)]
    + [(marked_driver.Run, p) for p in ("", *MARKED_PARTS)],
)
def test_each_part_of_the_state_is_put_back(
    kind: Any, part: str, path: Path, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run resumed and interrupted at once leaves the checkpoint as it was."""
    full = kind is driver.Run
    p = problem("user") if full else RIDGE
    how = NESTEROV | {"record": "path"} if full else {"method": cz.CoordinateDescent()}
    how |= {"seed": 1, "tol": 1e-12, "maxiter": 1_000_000, "checkpoint": path}
    interrupt(6)
    with pytest.raises(Stop):
        cz.minimize(p, np.zeros(p.dim), **how)
    before = contents(path)
    plain, arrays = checkpoints.load(path)[0]["state"], checkpoints.load(path)[1]
    # compiled_calls has a test below; the carry of marked methods' processes is always 0.
    parts = set(FULL_PARTS if full else MARKED_PARTS)
    assert {*plain, *arrays} - {"compiled_calls" if full else "carry"} == parts
    if part:
        forget(monkeypatch, kind, part)
    interrupt(1)
    with pytest.raises(Stop):
        cz.minimize(p, np.zeros(p.dim), **how, resume=True)
    assert (contents(path) == before) == (not part)


@pytest.mark.filterwarnings("ignore::continuized.ConstantsWarning")
@pytest.mark.parametrize("part", ["carry", "noise", "stream", "work", "watch", "compiled_calls"])
def test_a_forgotten_part_changes_the_result(
    part: str, path: Path, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = problem("quadratic")
    how: dict[str, Any] = NESTEROV | {"seed": 1, "maxiter": 60}
    if part == "watch":  # it knows how large gradients were, and so what is divergence
        how |= {"method": cz.Continuized(0.5), "maxiter": 3000}
    whole = cz.minimize(p, np.ones(3), **how)
    assert same(whole, resumed_until_done(interrupt, path, 5, p, np.ones(3), **how))
    path.unlink()
    checkpoints.previous(path).unlink()
    forget(monkeypatch, driver.Run, part)
    assert not same(whole, resumed_until_done(interrupt, path, 5, p, np.ones(3), **how))


# Other runs are refused

RUN: dict[str, Any] = {"method": cz.Continuized(1.5, 0.5), "seed": 1, "maxiter": 30}
OTHERS: dict[str, dict[str, Any]] = {
    "x0": {"x0": np.array([0.0, 0.0, 1e-300])},
    "method": {"method": cz.Continuized(1.5, 0.4)},
    "noise": {"noise": NOISE},
    "clock": {"clock": cz.clock.Poisson(1)},
    "seed": {"seed": 2},
    "record": {"record": False},
    "tol": {"tol": 1e-3},
    "problem": {"fun": cz.Problem(user_fun, lambda x: 1.001 * user_grad(x))},
}


@pytest.mark.parametrize("part", OTHERS)
def test_another_run_is_refused(part: str, path: Path) -> None:
    given = {"fun": problem("user"), "x0": np.zeros(3)} | RUN
    cz.minimize(**given, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(cz.CheckpointError, match=f"is of another run: its {part} is ") as caught:
        cz.minimize(**given | OTHERS[part], checkpoint=path, resume=True)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"fun": RIDGE}, {"fun": cz.problems.LeastSquares(X, Y, l2=0.02)}),
        ({"fun": RIDGE}, {"fun": cz.problems.LeastSquares(X[::-1], Y, l2=0.01)}),
        ({"method": cz.CoordinateDescent()}, {"method": cz.CoordinateDescent("uniform")}),
        ({"clock": cz.clock.Recorded([1.0])}, {"clock": cz.clock.Recorded([1.5])}),
        ({"x0": np.zeros(6)}, {"x0": np.zeros(6, np.float32)}),
        ({"x0": np.zeros(6)}, {"x0": np.zeros((2, 3))}),
        ({"method": cz.CustomContinuized(*[lambda t: 0.1] * 4)},
         {"method": cz.CustomContinuized(*[lambda t: 0.2] * 4)}),
    ],
)  # fmt: skip
def test_likely_mistakes_are_refused(one: Any, other: Any, path: Path) -> None:
    given = {"fun": RIDGE, "x0": np.zeros(6), "method": cz.Nesterov(9.0), "seed": 0, "maxiter": 1}
    cz.minimize(**given | one, checkpoint=path)
    with pytest.raises(cz.CheckpointError, match="another run"):
        cz.minimize(**given | other, checkpoint=path, resume=True)


def test_fewer_events_than_there_are_is_refused(path: Path) -> None:
    for p, m in ((RIDGE, cz.Nesterov(9.0)), (RIDGE, cz.CoordinateDescent())):
        cz.minimize(p, np.zeros(6), method=m, maxiter=30, seed=0, checkpoint=path)
        with pytest.raises(cz.CheckpointError, match="has 30 events already"):
            cz.minimize(p, np.zeros(6), method=m, maxiter=3, seed=0, checkpoint=path, resume=True)


def test_an_unseeded_clock_without_a_state_is_refused(path: Path) -> None:
    def merged() -> Any:
        return cz.clock.Merged([cz.clock.Poisson(), cz.clock.Poisson()])

    cz.minimize(RIDGE, np.zeros(6), maxiter=9, clock=merged(), checkpoint=path)
    with pytest.raises(cz.CheckpointError, match="the clock is not that of the checkpoint"):
        cz.minimize(RIDGE, np.zeros(6), maxiter=99, clock=merged(), checkpoint=path, resume=True)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"checkpoint": 3}, TypeError),
        ({"checkpoint": ""}, TypeError),
        ({"resume": True}, ValueError),
        ({"checkpoint": "a", "resume": 1}, TypeError),
        ({"checkpoint": "a", "every": "1"}, TypeError),
        ({"checkpoint": "a", "every": -1.0}, ValueError),
        ({"checkpoint": "a", "every": float("nan")}, ValueError),
    ],
)
def test_arguments_that_make_no_sense(given: Any, error: Any) -> None:
    with pytest.raises(error, match=r"checkpoint|resume|every"):
        cz.minimize(problem("user"), np.zeros(3), maxiter=1, **given)


# When it is written, and when it cannot be


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The events done at each write; every block is one event, which takes one second."""
    done: list[int] = []
    real, seconds = checkpoints.save, iter(range(10**6))

    def save(path: Path, header: Any, arrays: Any, keep: bool = True) -> None:
        done.append(header["state"]["k"])
        real(path, header, arrays, keep)

    class Time:
        monotonic = staticmethod(lambda: next(seconds))

    monkeypatch.setattr(checkpoints, "save", save)
    monkeypatch.setattr(checkpoints, "time", Time)
    monkeypatch.setattr(driver, "BLOCK_SECONDS", -1.0)
    return done


def test_it_is_written_every_so_often(path: Path, writes: list[int]) -> None:
    for every, expected in ((0.0, [0, 1, 2, 3, 4, 5, 6, 7, 8]), (3.0, [0, 3, 6, 8]), (1e9, [0, 8])):
        cz.minimize(problem("user"), np.zeros(3), seed=0, maxiter=8, checkpoint=path, every=every)
        assert writes == expected
        writes.clear()


def test_a_full_disk_later_is_warned_of_once(
    path: Path, writes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"x0": np.zeros(3), "seed": 0, "maxiter": 20}
    real = os.fsync

    def fsync(file: int) -> None:
        if len(writes) > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    whole = cz.minimize(problem("user"), **given)
    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.warns(cz.CheckpointWarning, match="No space left") as warned:
        r = cz.minimize(problem("user"), **given, checkpoint=path, every=0.0)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert same(whole, r)
    monkeypatch.setattr(files.os, "fsync", real)
    assert checkpoints.load(path)[0]["state"]["k"] == 4
    assert sorted(p.name for p in path.parent.iterdir()) == ["run.npz", "run.npz.previous"]
    assert same(whole, cz.minimize(problem("user"), **given, checkpoint=path, resume=True))


LIMITED = """
import resource, sys, warnings
import numpy as np
import continuized as cz
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    r = cz.minimize(cz.problems.paper_convex(), np.zeros(100), maxiter=3000, seed=0, every=0.0,
                    checkpoint=sys.argv[1])
print(r.nit, [w.category.__name__ for w in warned])
"""


def test_a_file_that_may_not_grow(path: Path) -> None:
    """The operating system's own refusal: too large a file, at the start and later."""
    p = cz.problems.paper_convex()
    for limit in (100, 30_000):
        child = subprocess.run(
            [sys.executable, "-c", LIMITED, str(path), str(limit)], capture_output=True, text=True
        )
        if limit == 100:
            last = child.stderr.strip().splitlines()[-1]
            assert last.startswith("OSError: [Errno 27] the checkpoint cannot be written"), last
            assert not path.exists()
    assert child.stdout.strip() == "3000 ['CheckpointWarning']", child.stderr
    assert 0 < checkpoints.load(path)[0]["state"]["k"] < 3000
    given = {"x0": np.zeros(p.dim), "maxiter": 3000, "seed": 0}
    assert same(cz.minimize(p, **given), cz.minimize(p, **given, checkpoint=path, resume=True))


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("where", ["missing/run.npz", "file/run.npz"])
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, where: str, resume: bool) -> None:
    (tmp_path / "file").write_text("a file, not a folder")
    with pytest.raises(OSError, match="the checkpoint cannot be written") as caught:
        cz.minimize(problem("user"), np.zeros(3), maxiter=5, checkpoint=tmp_path / where,
                    resume=resume)  # fmt: skip
    assert "\n" not in str(caught.value)
    assert where in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.parametrize("what", ["run", "save"])
def test_sixty_kills(what: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed.py")
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.run(
        [sys.executable, str(script), what, str(tmp_path)],
        env=os.environ | one_thread, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
