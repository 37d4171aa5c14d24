"""Error theory without simulation: exact MISE and ISE, optimal radii, rates; `theory.symbolic`."""

from importlib import import_module
from typing import Any

from fourierkernels.foundation.lazy import at_its_new_home
from fourierkernels.theory.density_error import mise, mise_error
from fourierkernels.theory.frequency_integrals import Mise
from fourierkernels.theory.ise import IseCurve, ise
from fourierkernels.theory.normal import FullOptimum, full_covariance_mise, full_covariance_optimum
from fourierkernels.theory.optimum import Optimum, optimal_radius, optimum
from fourierkernels.theory.rates import Rate, RateRow, sharp_rate, sharp_regression_rate
from fourierkernels.theory.regression_asymptotics import regression_asymptotics
from fourierkernels.theory.regression_error import (
    RegressionTerms,
    regression_at_radius,
    regression_next_order,
    regression_radius,
)
from fourierkernels.theory.slopes import LimitSlope, Slope, fit_slope, limit_slope, local_slopes

__all__ = [
    "FullOptimum",
    "IseCurve",
    "LimitSlope",
    "Mise",
    "Optimum",
    "Rate",
    "RateRow",
    "RegressionTerms",
    "Slope",
    "fit_slope",
    "full_covariance_mise",
    "full_covariance_optimum",
    "ise",
    "limit_slope",
    "local_slopes",
    "mise",
    "mise_error",
    "optimal_radius",
    "optimum",
    "regression_asymptotics",
    "regression_at_radius",
    "regression_next_order",
    "regression_radius",
    "sharp_rate",
    "sharp_regression_rate",
]


def __getattr__(name: str) -> Any:
    if name == "symbolic":  # loaded on first use: it needs SymPy
        return import_module(f"{__name__}.symbolic")
    return at_its_new_home(__name__, name)
