"""Continuized Nesterov acceleration: the exact process, its theory, and a solver.

    import continuized as cz

Names are loaded when first used, so that importing the package is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from continuized import (
        clock,
        marks,
        metric,
        network,
        noise,
        parameters,
        problems,
        prox,
        theory,
    )
    from continuized.adapters.scipy import scipy_method
    from continuized.checkpoints import CheckpointError, CheckpointWarning
    from continuized.coordinate import CoordinateDescent
    from continuized.custom import CustomContinuized
    from continuized.dual import DualCoordinate
    from continuized.ensembles import Ensemble, ensemble
    from continuized.methods import Continuized, GradientDescent, Nesterov
    from continuized.minimizer import minimize
    from continuized.problems import Problem
    from continuized.result import ConstantsWarning, Result, Status
    from continuized.rows import Kaczmarz, StochasticLeastSquares

_HOME = {
    "CheckpointError": "checkpoints",
    "CheckpointWarning": "checkpoints",
    "ConstantsWarning": "result",
    "CoordinateDescent": "coordinate",
    "DualCoordinate": "dual",
    "Kaczmarz": "rows",
    "StochasticLeastSquares": "rows",
    "Continuized": "methods",
    "CustomContinuized": "custom",
    "Ensemble": "ensembles",
    "GradientDescent": "methods",
    "Nesterov": "methods",
    "Problem": "problems",
    "Result": "result",
    "Status": "result",
    "ensemble": "ensembles",
    "minimize": "minimizer",
    "scipy_method": "adapters.scipy",
}
_ROOMS = (
    "clock",
    "marks",
    "metric",
    "network",
    "noise",
    "parameters",
    "problems",
    "prox",
    "theory",
)

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
    "Nesterov",
    "Problem",
    "Result",
    "Status",
    "StochasticLeastSquares",
    "clock",
    "ensemble",
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
    if name in _HOME:
        return getattr(importlib.import_module(f"continuized.{_HOME[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"continuized.{name}")
    raise AttributeError(f"module 'continuized' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
