"""Error theory: exact MISE, optimal radii, rates, theorems; formulas in `theory.symbolic`."""

from importlib import import_module
from types import ModuleType

from fourierkernels.theory import theorems
from fourierkernels.theory.ise import IseCurve, ise
from fourierkernels.theory.mise import mise, mise_error
from fourierkernels.theory.normal import (
    FullOptimum,
    full_covariance_mise,
    full_covariance_optimum,
)
from fourierkernels.theory.optimum import Optimum, optimal_radius, optimum
from fourierkernels.theory.parts import Mise
from fourierkernels.theory.rate import Rate, sharp_rate, sharp_regression_rate
from fourierkernels.theory.rates import RateRow, paper_rate, rate_table
from fourierkernels.theory.ratio import regression_next_order
from fourierkernels.theory.regression import (
    RegressionTerms,
    regression_asymptotics,
    regression_at_radius,
    regression_radius,
)
from fourierkernels.theory.slopes import Slope, fit_slope, limit_slope, local_slopes

__all__ = [
    "FullOptimum",
    "IseCurve",
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
    "paper_rate",
    "rate_table",
    "regression_asymptotics",
    "regression_at_radius",
    "regression_next_order",
    "regression_radius",
    "sharp_rate",
    "sharp_regression_rate",
    "theorems",
]


def __getattr__(name: str) -> ModuleType:
    if name == "symbolic":  # loaded on first use: it needs SymPy
        return import_module(f"{__name__}.symbolic")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
