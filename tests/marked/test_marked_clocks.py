"""Marked methods and their clocks: recorded, merged, and ended."""

import numpy as np
import pytest

import continuized as cz


def test_recorded_events_replay_with_their_marks():
    p = cz.problems.Quadratic(np.geomspace(1.0, 0.01, 5), np.ones(5))
    stepper = cz.CoordinateDescent().prepare(p, np.zeros(5))
    events = cz.clock.Poisson(4, marks=stepper.law).stream().draw(200)
    clock = cz.clock.Recorded(events.t, events.dt, events.marks)
    method = cz.CoordinateDescent()
    replayed = cz.minimize(p, np.zeros(5), method=method, clock=clock)
    again = cz.minimize(p, np.zeros(5), method=method, maxiter=200, rng=4)
    assert np.array_equal(replayed.x, again.x)


MERGED = {
    "a clock a coordinate": lambda p: [cz.clock.Poisson(i, rate) for i, rate in enumerate(p)],
    "marks of their own": lambda p: [
        cz.clock.Poisson(i, 0.5, cz.marks.Categorical(p)) for i in range(2)
    ],
}


@pytest.mark.parametrize("clocks", MERGED.values(), ids=MERGED)
def test_merged_clocks_drive_a_marked_method(clocks):
    p = cz.problems.Quadratic(np.geomspace(1.0, 0.01, 5), np.ones(5))
    method = cz.CoordinateDescent()
    law = method.prepare(p, np.zeros(5)).p
    merged = cz.clock.Merged(clocks(law))
    events = merged.stream().draw(3000)
    marks = events.marks[:, 0 if len(merged.clocks) == 5 else 1]
    # A count is binomial: five sigmas either way, five times twice, have probability 6e-6.
    spread = np.sqrt(3000 * law * (1.0 - law))
    assert np.all(np.abs(np.bincount(marks, minlength=5) - 3000 * law) <= 5.0 * spread)
    r = cz.minimize(p, np.zeros(5), method=method, clock=merged, tol=1e-6, maxiter=3000)
    assert r.success
    recorded = cz.clock.Recorded(events.t, events.dt, marks)
    again = cz.minimize(p, np.zeros(5), method=method, clock=recorded, tol=1e-6, maxiter=3000)
    assert np.array_equal(r.x, again.x)
    assert r.nit == again.nit


def test_merged_clocks_must_all_have_marks_or_none():
    p = cz.problems.Quadratic(np.ones(2))
    clocks = [cz.clock.Poisson(0, marks=cz.marks.Categorical([0.5, 0.5])), cz.clock.Poisson(1)]
    with pytest.raises(ValueError, match="give marks= to all"):
        cz.minimize(p, [1.0, 2.0], method=cz.CoordinateDescent(), clock=cz.clock.Merged(clocks))


def test_a_run_whose_clock_ends_is_judged_where_it_ended():
    """Also where the last stopping test was some passes before."""
    p = cz.problems.Quadratic(np.geomspace(1.0, 0.1, 5), np.ones(5))
    method = cz.CoordinateDescent()
    events = cz.clock.Poisson(0, marks=method.prepare(p, np.zeros(5)).law).stream().draw(200)
    seen = set()
    for n in range(5, 200, 5):
        clock = cz.clock.Recorded(events.t[:n], events.dt[:n], events.marks[:n])
        r = cz.minimize(p, np.zeros(5), method=method, clock=clock, tol=1e-3)
        small = np.linalg.norm(p.grad(r.x)) <= 1e-3
        assert r.status is (cz.Status.CONVERGED if small else cz.Status.CLOCK_ENDED)
        assert r.nit == n or small
        seen.add(r.status)
        all_taken = cz.minimize(p, np.zeros(5), method=method, clock=clock)
        assert (all_taken.status, all_taken.nit) == (cz.Status.COMPLETED, n)
    assert len(seen) == 2
