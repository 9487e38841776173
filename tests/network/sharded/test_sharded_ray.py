"""Shards as actors of Ray, on one small cluster for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.network import Ray, Sharded
from tests.helpers.shards import Batches, cut, fail
from tests.helpers.weighted_regressions import data, make

WHOLE = make("logistic", "dense", False, False, l2=0.01, n=300)


pytestmark = pytest.mark.needs("ray")


@pytest.fixture(scope="module")
def sharded() -> Iterator[Any]:
    with Sharded(cut(WHOLE, 100), "ray") as p:
        yield p
    assert not import_ray().is_initialized()


def import_ray() -> Any:
    import ray  # not before the transport has told it to stay on this machine

    return ray


def test_an_actor_that_dies_is_started_again_and_the_run_is_the_same(sharded: Any) -> None:
    events: list[int] = []

    def kill(intermediate_result: Any) -> None:
        events.append(intermediate_result.nit)
        if len(events) == 2:
            import_ray().kill(sharded._pool._links[1]._actor)

    how: Any = {"metric": "diag", "tol": 1e-10, "rng": 0}
    undisturbed, disturbed = (
        cz.minimize(sharded, np.zeros(5), callback=callback, **how) for callback in (None, kill)
    )
    assert sharded.restarts == 1
    assert np.array_equal(disturbed.x, undisturbed.x)
    assert WHOLE.f_star is not None
    assert undisturbed.fun - WHOLE.f_star <= 1e-10


def test_what_an_actor_raises_is_one_sentence(sharded: Any) -> None:
    with pytest.raises(RuntimeError) as caught:
        sharded.sum_over_rows(fail)
    assert str(caught.value) == "the worker of parts[0] raised KeyError: 'what is not there'"


@pytest.mark.usefixtures("sharded")  # in the Ray that is there
def test_actors_read_datasets_and_take_the_options_of_ray() -> None:
    X, y, _ = data("squared")
    parts = [Batches(X[:10], y[:10]), Batches(X[10:], y[10:])]
    options = Ray(runtime_env={"env_vars": {"SHARDS": "2"}}, num_cpus=0.1)
    with Sharded.read(parts, options, loss="ridge", l2=0.1, label="y") as p:
        whole = cz.problems.LeastSquares(X, y, l2=0.1)
        w = np.arange(5.0)
        np.testing.assert_allclose(p.grad(w), whole.grad(w), rtol=1e-12)
    with pytest.raises(ValueError, match="2 entries for 1 processes"):
        Sharded(cut(WHOLE), Ray(resources=[{"a": 1}, {"b": 1}]))
    assert import_ray().is_initialized()  # it is another's
