"""Estimators in scikit-learn manner: density and regression by kernel sums."""

from fourierkernels.estimators.base import UndefinedWarning
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.radius import RADIUS_RULES
from fourierkernels.estimators.regression import NadarayaWatson

__all__ = ["RADIUS_RULES", "KernelDensity", "NadarayaWatson", "UndefinedWarning"]
