"""Continuized Nesterov acceleration: the exact process, its theory, a solver, and networks.

    import continuized as cz

Names are loaded when first used, so that importing the package is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuized.support.lazy import load_lazily

__version__ = "0.2.0"

if TYPE_CHECKING:  # the same names once more, for type checkers
    from continuized import network as network
    from continuized import plot as plot
    from continuized import problems as problems
    from continuized import theory as theory
    from continuized.adapters.scipy import scipy_method as scipy_method
    from continuized.marked.coordinate import CoordinateDescent as CoordinateDescent
    from continuized.marked.dual import DualCoordinate as DualCoordinate
    from continuized.marked.rows import Kaczmarz as Kaczmarz
    from continuized.marked.rows import StochasticLeastSquares as StochasticLeastSquares
    from continuized.problems import Problem as Problem
    from continuized.process import clock as clock
    from continuized.process import flow as flow
    from continuized.process import marks as marks
    from continuized.process import mirror as mirror
    from continuized.process import noise as noise
    from continuized.process import parameters as parameters
    from continuized.process import prox as prox
    from continuized.process.methods import Continuized as Continuized
    from continuized.process.methods import CustomContinuized as CustomContinuized
    from continuized.process.methods import GradientDescent as GradientDescent
    from continuized.process.methods import Method as Method
    from continuized.process.methods import Nesterov as Nesterov
    from continuized.process.methods import SharpContinuized as SharpContinuized
    from continuized.process.stepper import Status as Status
    from continuized.solver import metric as metric
    from continuized.solver.ensemble import Ensemble as Ensemble
    from continuized.solver.ensemble import ensemble as ensemble
    from continuized.solver.minimize import minimize as minimize
    from continuized.solver.result import ConstantsWarning as ConstantsWarning
    from continuized.solver.result import Result as Result
    from continuized.support.checkpoints.checkpointer import CheckpointError as CheckpointError
    from continuized.support.checkpoints.checkpointer import CheckpointWarning as CheckpointWarning

if not TYPE_CHECKING:
    # The public classes and functions by their homes in this package, and the public modules.
    __getattr__, _list_names, __all__ = load_lazily(
        __name__,
        {
            "adapters.scipy": "scipy_method",
            "marked.coordinate": "CoordinateDescent",
            "marked.dual": "DualCoordinate",
            "marked.rows": "Kaczmarz StochasticLeastSquares",
            "problems": "Problem",
            "process.methods": "Continuized CustomContinuized GradientDescent Method Nesterov "
            "SharpContinuized",
            "process.stepper": "Status",
            "solver.ensemble": "Ensemble ensemble",
            "solver.minimize": "minimize",
            "solver.result": "ConstantsWarning Result",
            "support.checkpoints.checkpointer": "CheckpointError CheckpointWarning",
        },
        {
            "clock": "process.clock",
            "flow": "process.flow",
            "marks": "process.marks",
            "metric": "solver.metric",
            "mirror": "process.mirror",
            "network": "network",
            "noise": "process.noise",
            "parameters": "process.parameters",
            "plot": "plot",
            "problems": "problems",
            "prox": "process.prox",
            "theory": "theory",
        },
    )

    def __dir__() -> list[str]:
        return ["__version__", *_list_names()]
