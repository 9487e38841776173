"""The picture of the certified rate: what it marks is what it says."""

import runpy
from pathlib import Path

import matplotlib
import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "certified_rate.py"


@pytest.mark.needs("cvxpy")
def test_the_marks_and_the_ridge(tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.setattr("sys.argv", [str(SCRIPT), str(tmp_path), "2"])
    made = runpy.run_path(str(SCRIPT), run_name="__main__")
    assert (tmp_path / "certified_rate.png").stat().st_size > 1000
    assert 1.35 < made["reached"]["the paper"] < made["reached"]["Theorem B"] < 1.45
    assert np.isnan(made["rates"]).any()
    assert np.nanmax(made["rates"]) < 1.5
