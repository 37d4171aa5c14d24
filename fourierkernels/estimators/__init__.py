"""Density and regression by kernel sums, as scikit-learn estimators."""

from fourierkernels.estimators.adaptive.density import AdaptiveDensity
from fourierkernels.estimators.adaptive.regression import AdaptiveRegression
from fourierkernels.estimators.adaptive.rules import ADAPTIVE_RULES
from fourierkernels.estimators.checks import UndefinedWarning
from fourierkernels.estimators.conditional import ConditionalDensity
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.design import DesignFit, aicc_score, gcv_score, loo_score
from fourierkernels.estimators.gridded import Gridded
from fourierkernels.estimators.inference import Band
from fourierkernels.estimators.local_polynomial import LocalPolynomial
from fourierkernels.estimators.mixed.density import MixedDensity
from fourierkernels.estimators.mixed.regression import MixedRegression
from fourierkernels.estimators.proper import ProperDensity
from fourierkernels.estimators.radius import (
    CONDITIONAL_RULES,
    GAUSSIAN_RULES,
    RADIUS_RULES,
    REGRESSION_RULES,
    TiedDataWarning,
)
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.smoother import LinearSmoother
from fourierkernels.estimators.streams.choice import samples_from

__all__ = [
    "ADAPTIVE_RULES",
    "CONDITIONAL_RULES",
    "GAUSSIAN_RULES",
    "RADIUS_RULES",
    "REGRESSION_RULES",
    "AdaptiveDensity",
    "AdaptiveRegression",
    "Band",
    "ConditionalDensity",
    "DesignFit",
    "Gridded",
    "KernelDensity",
    "LinearSmoother",
    "LocalPolynomial",
    "MixedDensity",
    "MixedRegression",
    "NadarayaWatson",
    "ProperDensity",
    "TiedDataWarning",
    "UndefinedWarning",
    "aicc_score",
    "gcv_score",
    "loo_score",
    "samples_from",
]
