"""The examples for PEPit: a second program finds the theorems' rates, and where they are tight, no
better ones."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

import continuized as cz

pytestmark = [
    pytest.mark.needs("PEPit", "cvxpy"),
    pytest.mark.filterwarnings("ignore"),  # of the libraries below PEPit
]

FOLDER = Path(__file__).parents[2] / "examples" / "pepit"
OPTIONS = {"solver": "CLARABEL", "verbose": -1}
WITHIN = 1e-5  # what the solver promises, relative to numbers of order 1


def example(name: str) -> Callable[..., tuple[float, float]]:
    found: Callable[..., tuple[float, float]]
    found = runpy.run_path(str(FOLDER / f"continuized_acceleration_{name}.py"))[
        f"wc_continuized_acceleration_{name}"
    ]
    return found


@pytest.mark.parametrize("ratio", [10.0, 100.0])
def test_theorem_a_is_tight(ratio: float) -> None:
    found, theory = example("strongly_convex")(mu=1.0 / ratio, L=1.0, psd=False, **OPTIONS)
    assert found == pytest.approx(theory, abs=WITHIN)


@pytest.mark.parametrize("ratio", [10.0, 100.0])
def test_the_paper_s_function_has_at_least_its_rate(ratio: float) -> None:
    """And less than the best certificate of any quadratic form, which is the library's own."""
    found, theory = example("strongly_convex")(mu=1.0 / ratio, L=1.0, **OPTIONS)
    best = float(cz.theory.certify(cz.Continuized(1.0, 1.0 / ratio), 1.0, 1.0 / ratio).rate)
    assert -best - WITHIN <= found <= theory + WITHIN


@pytest.mark.parametrize("t", [0.5, 3.4, 50.0])
def test_the_convex_case_is_a_supermartingale(t: float) -> None:
    found, theory = example("convex")(t=t, L=1.0, **OPTIONS)
    assert found == pytest.approx(theory, abs=WITHIN)
