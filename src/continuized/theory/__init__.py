"""Theorems as functions: bounds, the Lyapunov function, exact expectations, scaling limits.

SciPy is imported inside the functions that need it.
"""

from continuized.theory.bounds import bound, log_bound, log_weight, weight
from continuized.theory.bounds.sharp import SharpBound, path_bound, sharp_bound
from continuized.theory.certificate_search import NoCertificateError, certify
from continuized.theory.certificates import Certificate
from continuized.theory.composite import with_minimiser
from continuized.theory.corollaries import (
    event_count_quantile,
    event_time_quantile,
    events_to,
    expected_gradients,
    time_to,
)
from continuized.theory.gossip_rate import gossip_rate
from continuized.theory.ito import Decomposition, decompose, generator
from continuized.theory.lyapunov import Gap, Lyapunov, drift, lyapunov, supermartingale_gap
from continuized.theory.moments import Moments, moments
from continuized.theory.noise import NoiseStep, noise_floor, noise_step, noise_tuned_L
from continuized.theory.observable import Observable, lyapunov_function
from continuized.theory.prefactors import Prefactors, prefactors
from continuized.theory.proofs import ConstantParameters
from continuized.theory.quadratic_rate import quadratic_rate
from continuized.theory.scaling import (
    ScalingDistance,
    expected_scaling_distance,
    scaling_distance,
    scaling_limit,
)

__all__ = [
    "Certificate",
    "ConstantParameters",
    "Decomposition",
    "Gap",
    "Lyapunov",
    "Moments",
    "NoCertificateError",
    "NoiseStep",
    "Observable",
    "Prefactors",
    "ScalingDistance",
    "SharpBound",
    "bound",
    "certify",
    "decompose",
    "drift",
    "event_count_quantile",
    "event_time_quantile",
    "events_to",
    "expected_gradients",
    "expected_scaling_distance",
    "generator",
    "gossip_rate",
    "log_bound",
    "log_weight",
    "lyapunov",
    "lyapunov_function",
    "moments",
    "noise_floor",
    "noise_step",
    "noise_tuned_L",
    "path_bound",
    "prefactors",
    "quadratic_rate",
    "scaling_distance",
    "scaling_limit",
    "sharp_bound",
    "supermartingale_gap",
    "time_to",
    "weight",
    "with_minimiser",
]


def __dir__() -> list[str]:
    return sorted(__all__)
