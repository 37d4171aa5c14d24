"""Error theory without simulation: exact MISE and ISE, optimal radii, rates; `theory.symbolic`."""

from fourierkernels.foundation.lazy import loaded_on_first_use
from fourierkernels.theory.circle import CircleOptimum, circle_mise, circle_optimum
from fourierkernels.theory.density_error import mise, mise_error
from fourierkernels.theory.frequency_integrals import Mise
from fourierkernels.theory.ise import IseCurve, ise
from fourierkernels.theory.normal import FullOptimum, full_covariance_mise, full_covariance_optimum
from fourierkernels.theory.optimum import Optimum, optimal_radius, optimum
from fourierkernels.theory.rates import (
    RadiusLaw,
    Rate,
    RateRow,
    sharp_radius,
    sharp_rate,
    sharp_regression_rate,
)
from fourierkernels.theory.regression_asymptotics import regression_asymptotics
from fourierkernels.theory.regression_error import (
    RegressionTerms,
    regression_at_radius,
    regression_next_order,
    regression_radius,
)
from fourierkernels.theory.slopes import LimitSlope, Slope, fit_slope, limit_slope, local_slopes

__all__ = [
    "CircleOptimum",
    "FullOptimum",
    "IseCurve",
    "LimitSlope",
    "Mise",
    "Optimum",
    "RadiusLaw",
    "Rate",
    "RateRow",
    "RegressionTerms",
    "Slope",
    "circle_mise",
    "circle_optimum",
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
    "sharp_radius",
    "sharp_rate",
    "sharp_regression_rate",
]

# It needs SymPy.
__getattr__, __dir__ = loaded_on_first_use(__name__, {}, modules=["fourierkernels.theory.symbolic"])
