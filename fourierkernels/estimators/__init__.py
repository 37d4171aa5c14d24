"""Estimators in scikit-learn manner: density and regression by kernel sums."""

from fourierkernels.estimators.base import UndefinedWarning
from fourierkernels.estimators.conditional import ConditionalDensity
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.inference import Band
from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES, REGRESSION_RULES
from fourierkernels.estimators.regression import NadarayaWatson

__all__ = [
    "GAUSSIAN_RULES",
    "RADIUS_RULES",
    "REGRESSION_RULES",
    "Band",
    "ConditionalDensity",
    "KernelDensity",
    "NadarayaWatson",
    "UndefinedWarning",
]
