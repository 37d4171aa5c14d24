"""Density and regression by kernel sums, as scikit-learn estimators."""

from fourierkernels.estimators.checks import UndefinedWarning
from fourierkernels.estimators.conditional import ConditionalDensity
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.design import DesignFit, aicc_score, gcv_score, loo_score
from fourierkernels.estimators.inference import Band
from fourierkernels.estimators.radius import (
    CONDITIONAL_RULES,
    GAUSSIAN_RULES,
    RADIUS_RULES,
    REGRESSION_RULES,
    TiedDataWarning,
)
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.smoother import LinearSmoother

__all__ = [
    "CONDITIONAL_RULES",
    "GAUSSIAN_RULES",
    "RADIUS_RULES",
    "REGRESSION_RULES",
    "Band",
    "ConditionalDensity",
    "DesignFit",
    "KernelDensity",
    "LinearSmoother",
    "NadarayaWatson",
    "TiedDataWarning",
    "UndefinedWarning",
    "aicc_score",
    "gcv_score",
    "loo_score",
]
