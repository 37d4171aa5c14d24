"""Error theory: exact MISE, optimal radii, rates."""

from fourierkernels.theory.ise import ise
from fourierkernels.theory.mise import Mise, Optimum, mise, optimal_radius, optimum
from fourierkernels.theory.rates import Rate, RateRow, paper_rate, rate_table, sharp_rate
from fourierkernels.theory.regression import (
    RegressionTerms,
    regression_asymptotics,
    regression_at_radius,
    regression_radius,
)

__all__ = [
    "Mise",
    "Optimum",
    "Rate",
    "RateRow",
    "RegressionTerms",
    "ise",
    "mise",
    "optimal_radius",
    "optimum",
    "paper_rate",
    "rate_table",
    "regression_asymptotics",
    "regression_at_radius",
    "regression_radius",
    "sharp_rate",
]
