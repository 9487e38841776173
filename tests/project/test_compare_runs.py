"""What tools/compare_runs.py calls a difference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.repository_tools import load_tool

TOOL = load_tool("compare_runs")
A = np.array([1.0, np.nan, -0.0])


@pytest.mark.parametrize(
    ("name", "raised", "code"),
    [
        ("known/a", None, 0),
        ("options/nonfinite-raise", ["FloatingPointError", "not finite"], 0),
        ("known/a", ["TypeError", "no such argument"], 1),
    ],
)
def test_a_case_that_both_trees_refuse_compares_nothing(name, raised, code, capsys):
    about = {name: {"raised": raised, "seconds": 1.0}}
    assert TOOL.report([], (about, about), as_json=False) == code
    assert TOOL.report([], (about, about), as_json=True) == code
    assert (name in capsys.readouterr().out) == (raised is not None)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (A.copy(), None),
        (None, "missing"),
        (A.astype(np.float32), "float64[3] -> float32[3]"),
        (A[:2], "float64[3] -> float64[2]"),
        (np.array([1.0, 2.0, -0.0]), "1 of 3"),
        (np.array([np.nextafter(1.0, 2.0), np.nan, 0.0]), "2 of 3"),
    ],
)
def test_bits_are_compared(other, what):
    found = TOOL.compare("a", "x", A, other)
    assert (found and found.what) == what
