"""Radii of linear smoothers: cross-validation and the corrected information criterion."""

from functools import partial

import numpy as np

from fourierkernels.estimators.design import FitDesign, Score, aicc_score, gcv_score, loo_score
from fourierkernels.estimators.radius.reference import normal_reference
from fourierkernels.estimators.radius.rule import Rule, minimise
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel

_RANGE = {1: (0.1, 32.0), 2: (0.2, 8.0)}  # radii tried, in normal-reference radii; D > 2: the next
_RANGE_BEYOND = (0.3, 4.0)
_STEP, _FINE = 0.2, 0.03


def loo(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    responses: FloatArray,
    fit_design: FitDesign,
    *,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return the radius that minimises the leave-one-out error, shape ``(dim,)``.

    In closed form from the diagonal of the hat matrix, one fit per radius tried; see
    :func:`~fourierkernels.estimators.loo_score`. A radius at which any prediction is undefined
    without its own sample is ruled out: with the Gaussian, whose tails vanish fast, one isolated
    sample can bound R from above, which :func:`gcv` does not suffer from. The minimum is global
    over one factor common to all dimensions (20 % apart, then 3 % about the better half of these),
    then local in each.
    Source: [hardle1985optimal]_.

    Raises
    ------
    ValueError
        If a column of X does not vary, or every radius tried is out; the message counts.
    """
    return _best(loo_score, "loo", points, weights, kernel, responses, fit_design, periods)


def gcv(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    responses: FloatArray,
    fit_design: FitDesign,
    *,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return the radius that minimises generalised cross-validation, shape ``(dim,)``.

    See :func:`~fourierkernels.estimators.gcv_score`; searched as :func:`loo`. Source:
    [craven1979smoothing]_.

    Raises
    ------
    ValueError
        If a column of X does not vary, or a prediction is undefined at every radius tried.
    """
    return _best(gcv_score, "gcv", points, weights, kernel, responses, fit_design, periods)


def aicc(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    responses: FloatArray,
    fit_design: FitDesign,
    *,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return the radius that minimises the corrected Akaike criterion, shape ``(dim,)``.

    See :func:`~fourierkernels.estimators.aicc_score`; searched as :func:`loo`. It penalises a
    large radius more than :func:`gcv` does, the more the nearer tr H is to n. Source:
    [hurvich1998smoothing]_.

    Raises
    ------
    ValueError
        If a column of X does not vary, or a prediction is undefined or tr H above n - 2 at every
        radius tried.
    """
    return _best(aicc_score, "aicc", points, weights, kernel, responses, fit_design, periods)


def _best(
    score: Score,
    rule: str,
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    responses: FloatArray,
    fit_design: FitDesign,
    periods: FloatArray | None,
) -> FloatArray:
    kept = weights > 0
    points, weights = points[kept], weights[kept]
    columns = np.asarray(responses, dtype=np.float64)[kept].reshape(len(points), -1)
    columns = columns / max(float(np.abs(columns).max()), np.finfo(float).tiny)
    start = normal_reference(points, weights, kernel, periods=periods)
    low, high = _RANGE.get(points.shape[1], _RANGE_BEYOND)

    def value(radius: FloatArray) -> float:
        return score(fit_design(points, weights, columns, kernel, radius))

    radius, least = minimise(value, start, low=low, high=high, step=_STEP, fine=_FINE)
    if np.isfinite(least):
        return radius
    lost = fit_design(points, weights, columns, kernel, low * start).lost
    raise ValueError(
        f"radius={rule!r} must find a radius at which every prediction is defined, got none from "
        f"{low:g} to {high:g} times the normal reference; at the smallest, {lost} of "
        f"{len(points)} are undefined (leaving one out); give radius as a number"
    )


_rule = partial(Rule, needs_responses=True, on_circles=True)

RULES = (
    _rule("loo", loo, "leave-one-out error", "hardle1985optimal"),
    _rule("gcv", gcv, "generalised cross-validation", "craven1979smoothing"),
    _rule("aicc", aicc, "corrected Akaike criterion", "hurvich1998smoothing"),
)
