"""The benchmark for benchopt: its solvers minimise its objective.

benchopt itself is not needed: its classes only say what to do with ours.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

FOLDER = Path(__file__).parents[2] / "benchmarks" / "benchopt"
SOLVERS = [
    ("continuized", {"method": "auto"}, "ridge"),
    ("sklearn", {"solver": "lsqr"}, "ridge"),
    ("continuized", {"method": "auto"}, "logistic"),
    ("continuized", {"method": "continuized"}, "ridge"),
    ("sklearn", {"solver": "lbfgs"}, "logistic"),
]
CASES = [
    pytest.param(*case, kind, marks=[] if number < 2 and kind == "dense" else pytest.mark.slow)
    for number, case in enumerate(SOLVERS)
    for kind in ("dense", "sparse")
]


class Base:
    """In the place of benchopt's classes, which set the parameters."""

    def __init__(self, **parameters: Any) -> None:
        self.__dict__.update(parameters)


@pytest.fixture(autouse=True)
def benchopt(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = SimpleNamespace(BaseObjective=Base, BaseSolver=Base, BaseDataset=Base)
    monkeypatch.setitem(sys.modules, "benchopt", stub)  # type: ignore[arg-type]
    rules = SimpleNamespace(SufficientProgressCriterion=dict)
    monkeypatch.setitem(sys.modules, "benchopt.stopping_criterion", rules)  # type: ignore[arg-type]
    peers = ModuleType("benchmark_utils.peers")
    vars(peers).update(runpy.run_path(str(FOLDER / "benchmark_utils" / "peers.py")))
    monkeypatch.setitem(sys.modules, "benchmark_utils", ModuleType("benchmark_utils"))
    monkeypatch.setitem(sys.modules, "benchmark_utils.peers", peers)


def made(file: str, name: str, **parameters: Any) -> Any:
    return runpy.run_path(str(FOLDER / file))[name](**parameters)


def objective_of(loss: str, kind: str = "dense") -> Any:
    labels = "labels" if loss == "logistic" else "values"
    data = made("datasets/simulated.py", "Dataset", kind=kind, n=60, d=10, y=labels).get_data()
    objective = made("objective.py", "Objective", loss=loss, lmbd=0.5)
    assert objective.skip(**data) == (False, None)
    objective.set_data(**data)
    return objective


@pytest.mark.parametrize(("file", "parameters", "loss", "kind"), CASES)
def test_a_solver_minimises_the_objective(
    file: str, parameters: dict[str, str], loss: str, kind: str
) -> None:
    objective = objective_of(loss, kind)
    best = minimize(
        lambda beta: objective.evaluate_result(beta)["value"],
        objective.get_one_result()["beta"],
        method="BFGS",
        options={"gtol": 1e-5},
    ).fun
    solver = made(f"solvers/{file}.py", "Solver", **parameters)
    given = objective.get_objective()
    if hasattr(solver, "skip"):
        assert solver.skip(**given) == (False, None)
    solver.set_objective(**given)
    solver.run(1e-6)
    assert objective.evaluate_result(**solver.get_result())["value"] <= best * (1.0 + 1e-6)


def test_labels_and_values_are_told_apart() -> None:
    for loss, y in (("ridge", [1.0, -1.0]), ("logistic", [0.5, 1.0])):
        objective = made("objective.py", "Objective", loss=loss, lmbd=1.0)
        assert objective.skip(np.eye(2), np.array(y))[0]


def test_a_solver_of_the_other_loss_is_skipped() -> None:
    given = objective_of("ridge").get_objective()
    assert made("solvers/sklearn.py", "Solver", solver="lbfgs").skip(**given)[0]
