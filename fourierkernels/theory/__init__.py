"""Error theory: exact MISE, optimal radii, rates, theorems; formulas in `theory.symbolic`."""

from importlib import import_module
from types import ModuleType

from fourierkernels.exact_error import (
    FullOptimum,
    IseCurve,
    Mise,
    Optimum,
    RegressionTerms,
    full_covariance_mise,
    full_covariance_optimum,
    ise,
    mise,
    mise_error,
    optimal_radius,
    optimum,
    regression_asymptotics,
    regression_at_radius,
    regression_next_order,
    regression_radius,
)
from fourierkernels.theory import theorems
from fourierkernels.theory.rate_table import RateRow, paper_rate, rate_table
from fourierkernels.theory.rates import Rate, sharp_rate, sharp_regression_rate
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
