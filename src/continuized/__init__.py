"""Continuized Nesterov acceleration: the exact process, its theory, a solver, and networks.

    import continuized as cz

Names are loaded when first used, so that importing the package is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from continuized import network, problems, theory
    from continuized.adapters.scipy import scipy_method
    from continuized.marked.coordinate import CoordinateDescent
    from continuized.marked.dual import DualCoordinate
    from continuized.marked.rows import Kaczmarz, StochasticLeastSquares
    from continuized.problems import Problem
    from continuized.process import clock, flow, marks, noise, parameters, prox
    from continuized.process.methods import (
        Continuized,
        CustomContinuized,
        GradientDescent,
        Method,
        Nesterov,
    )
    from continuized.process.stepper import Status
    from continuized.solver import metric
    from continuized.solver.ensemble import Ensemble, ensemble
    from continuized.solver.minimize import minimize
    from continuized.solver.result import ConstantsWarning, Result
    from continuized.support.checkpoints.checkpointer import CheckpointWarning
    from continuized.support.checkpoints.files import CheckpointError

# The public classes and functions, and the public modules, with their homes in this package.
_HOMES = {
    "CheckpointError": "support.checkpoints.files",
    "CheckpointWarning": "support.checkpoints.checkpointer",
    "ConstantsWarning": "solver.result",
    "Continuized": "process.methods",
    "CoordinateDescent": "marked.coordinate",
    "CustomContinuized": "process.methods",
    "DualCoordinate": "marked.dual",
    "Ensemble": "solver.ensemble",
    "GradientDescent": "process.methods",
    "Kaczmarz": "marked.rows",
    "Method": "process.methods",
    "Nesterov": "process.methods",
    "Problem": "problems",
    "Result": "solver.result",
    "Status": "process.stepper",
    "StochasticLeastSquares": "marked.rows",
    "ensemble": "solver.ensemble",
    "minimize": "solver.minimize",
    "scipy_method": "adapters.scipy",
}
_MODULES = {
    "clock": "process.clock",
    "flow": "process.flow",
    "marks": "process.marks",
    "metric": "solver.metric",
    "network": "network",
    "noise": "process.noise",
    "parameters": "process.parameters",
    "problems": "problems",
    "prox": "process.prox",
    "theory": "theory",
}

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "ConstantsWarning",
    "Continuized",
    "CoordinateDescent",
    "CustomContinuized",
    "DualCoordinate",
    "Ensemble",
    "GradientDescent",
    "Kaczmarz",
    "Method",
    "Nesterov",
    "Problem",
    "Result",
    "Status",
    "StochasticLeastSquares",
    "clock",
    "ensemble",
    "flow",
    "marks",
    "metric",
    "minimize",
    "network",
    "noise",
    "parameters",
    "problems",
    "prox",
    "scipy_method",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"continuized.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"continuized.{_MODULES[name]}")
    raise AttributeError(f"module 'continuized' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
