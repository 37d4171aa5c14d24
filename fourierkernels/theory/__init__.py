"""Error theory: exact MISE, optimal radii, rates."""

from fourierkernels.theory.ise import IseCurve, ise
from fourierkernels.theory.mise import mise, mise_error
from fourierkernels.theory.normal import (
    FullOptimum,
    full_covariance_mise,
    full_covariance_optimum,
)
from fourierkernels.theory.optimum import Optimum, optimal_radius, optimum
from fourierkernels.theory.parts import Mise
from fourierkernels.theory.rates import Rate, RateRow, paper_rate, rate_table, sharp_rate
from fourierkernels.theory.regression import (
    RegressionTerms,
    regression_asymptotics,
    regression_at_radius,
    regression_radius,
)

__all__ = [
    "FullOptimum",
    "IseCurve",
    "Mise",
    "Optimum",
    "Rate",
    "RateRow",
    "RegressionTerms",
    "full_covariance_mise",
    "full_covariance_optimum",
    "ise",
    "mise",
    "mise_error",
    "optimal_radius",
    "optimum",
    "paper_rate",
    "rate_table",
    "regression_asymptotics",
    "regression_at_radius",
    "regression_radius",
    "sharp_rate",
]
