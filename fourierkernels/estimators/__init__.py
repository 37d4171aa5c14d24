"""Density and regression by kernel sums, as scikit-learn estimators."""

from fourierkernels.estimators.checks import UndefinedWarning
from fourierkernels.estimators.conditional import ConditionalDensity
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.design import DesignFit, gcv_score, loo_score
from fourierkernels.estimators.inference import Band
from fourierkernels.estimators.local_polynomial import LocalPolynomial
from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES, REGRESSION_RULES
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.smoother import LinearSmoother

__all__ = [
    "GAUSSIAN_RULES",
    "RADIUS_RULES",
    "REGRESSION_RULES",
    "Band",
    "ConditionalDensity",
    "DesignFit",
    "KernelDensity",
    "LinearSmoother",
    "LocalPolynomial",
    "NadarayaWatson",
    "UndefinedWarning",
    "gcv_score",
    "loo_score",
]
