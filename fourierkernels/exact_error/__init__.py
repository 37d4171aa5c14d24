"""Exact error of estimates: MISE, ISE, the error of regression, and the radii that minimise it."""

from fourierkernels.exact_error.ise import IseCurve, ise
from fourierkernels.exact_error.mise import mise, mise_error
from fourierkernels.exact_error.mise_parts import Mise
from fourierkernels.exact_error.normal import (
    FullOptimum,
    full_covariance_mise,
    full_covariance_optimum,
)
from fourierkernels.exact_error.optimum import Optimum, optimal_radius, optimum
from fourierkernels.exact_error.regression_asymptotics import regression_asymptotics
from fourierkernels.exact_error.regression_error import (
    RegressionTerms,
    regression_at_radius,
    regression_radius,
)
from fourierkernels.exact_error.regression_next_order import regression_next_order

__all__ = [
    "FullOptimum",
    "IseCurve",
    "Mise",
    "Optimum",
    "RegressionTerms",
    "full_covariance_mise",
    "full_covariance_optimum",
    "ise",
    "mise",
    "mise_error",
    "optimal_radius",
    "optimum",
    "regression_asymptotics",
    "regression_at_radius",
    "regression_next_order",
    "regression_radius",
]
