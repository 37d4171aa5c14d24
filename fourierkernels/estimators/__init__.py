"""Density and regression by kernel sums, as scikit-learn estimators."""

from fourierkernels.estimators.checks import UndefinedWarning
from fourierkernels.estimators.conditional import ConditionalDensity
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.design import DesignFit, gcv_score, loo_score
from fourierkernels.estimators.inference import Band
from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES, REGRESSION_RULES
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.smoother import LinearSmoother
from fourierkernels.estimators.streams.choice import samples_from

__all__ = [
    "GAUSSIAN_RULES",
    "RADIUS_RULES",
    "REGRESSION_RULES",
    "Band",
    "ConditionalDensity",
    "DesignFit",
    "KernelDensity",
    "LinearSmoother",
    "NadarayaWatson",
    "UndefinedWarning",
    "gcv_score",
    "loo_score",
    "samples_from",
]
