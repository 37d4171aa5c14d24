"""Radii of regressions: leave-one-out and generalised cross-validation."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fourierkernels.arrays import FloatArray
from fourierkernels.estimators.radius.reference import normal_reference
from fourierkernels.estimators.radius.sample import counts_repetitions
from fourierkernels.estimators.radius.search import minimise
from fourierkernels.kernels import Kernel
from fourierkernels.sums import kernel_sum

_RANGE = {1: (0.1, 32.0), 2: (0.2, 8.0)}  # radii tried, in normal-reference radii; D > 2: the next
_RANGE_BEYOND = (0.3, 4.0)
_STEP = 0.2
_DIGITS = 1e3  # a denominator counts as known if it is so many times its error


@dataclass(frozen=True)
class DesignFit:
    """The regression at its own design points, for one radius.

    Attributes
    ----------
    residuals : array of shape (n, k)
    leverage : array of shape (n,)
        H_jj: the share that one copy of sample j has in the prediction at x_j.
    copies : array of shape (n,)
        How often each sample counts: its weight if all weights are whole numbers, else once.
    undefined, undefined_without : boolean arrays of shape (n,)
        Where there is no prediction; where there is none without that copy.
    """

    residuals: FloatArray
    leverage: FloatArray
    copies: FloatArray
    undefined: NDArray[np.bool_]
    undefined_without: NDArray[np.bool_]


def fit_design(
    points: FloatArray,
    weights: FloatArray,
    responses: FloatArray,
    kernel: Kernel,
    radius: FloatArray,
) -> DesignFit:
    """Fit at the design points; all weights positive, responses of shape ``(n, k)``."""
    sums = kernel_sum(
        points,
        points,
        kernel=kernel,
        radius=radius,
        weights=weights,
        responses=responses,
        refine=False,
    )
    repeated = counts_repetitions(weights)
    peak = (float(kernel.value(0.0)) * kernel.constant) ** points.shape[1]
    own = np.ldexp(np.full(len(points), peak) if repeated else peak * weights, -sums.exponent)
    with np.errstate(divide="ignore"):
        leverage = own / sums.denominator
    known = _DIGITS * sums.error
    return DesignFit(
        responses - sums.ratios(),
        leverage,
        weights if repeated else np.ones(len(points)),
        ~(np.abs(sums.denominator) > known),
        ~(np.abs(sums.denominator - own) > known),
    )


def loo_score(fit: DesignFit, weights: FloatArray) -> float:
    """Return Σ w_j e_j² / Σ w_j, e_j = (y_j - f̂(x_j))/(1 - H_jj) the leave-one-out residual.

    Infinite if any prediction is undefined without its own sample.
    """
    if (fit.undefined | fit.undefined_without).any():
        return np.inf
    residuals = fit.residuals / (1.0 - fit.leverage)[:, None]
    return float(weights @ np.square(residuals).sum(axis=1) / weights.sum())


def gcv_score(fit: DesignFit, weights: FloatArray) -> float:
    """Return (Σ w_j (y_j - f̂(x_j))² / Σ w_j) / (1 - tr H/n)².

    Infinite if any prediction is undefined, or tr H is not below n.
    """
    if fit.undefined.any():
        return np.inf
    share = float(fit.copies @ fit.leverage / fit.copies.sum())
    error = float(weights @ np.square(fit.residuals).sum(axis=1) / weights.sum())
    return error / (1.0 - share) ** 2 if share < 1.0 - 1e-9 else np.inf


def loo(
    points: FloatArray, weights: FloatArray, kernel: Kernel, responses: FloatArray
) -> FloatArray:
    """Return the radius that minimises the leave-one-out error, shape ``(dim,)``.

    In closed form from the diagonal of the hat matrix, one kernel sum per radius tried; see
    :func:`loo_score`. A radius at which any prediction is undefined without its own sample is
    out: with the Gaussian, whose tails vanish fast, one isolated sample can bound R from above,
    which :func:`gcv` does not suffer from. The minimum is global over one factor common to all
    dimensions (20 % apart), then local in each.
    Whole-number weights count repetitions, of which one is left out. Source:
    [hardle1985optimal]_.

    Raises
    ------
    ValueError
        If a column of X does not vary, or every radius tried is out; the message counts.
    """
    return _best(loo_score, "loo", points, weights, kernel, responses)


def gcv(
    points: FloatArray, weights: FloatArray, kernel: Kernel, responses: FloatArray
) -> FloatArray:
    """Return the radius that minimises generalised cross-validation, shape ``(dim,)``.

    See :func:`gcv_score`; searched as :func:`loo`. Source: [craven1979smoothing]_.

    Raises
    ------
    ValueError
        If a column of X does not vary, or a prediction is undefined at every radius tried.
    """
    return _best(gcv_score, "gcv", points, weights, kernel, responses)


def _best(
    score: Callable[[DesignFit, FloatArray], float],
    rule: str,
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    responses: FloatArray,
) -> FloatArray:
    kept = weights > 0
    points, weights = points[kept], weights[kept]
    columns = np.asarray(responses, dtype=np.float64)[kept].reshape(len(points), -1)
    columns = columns / max(float(np.abs(columns).max()), np.finfo(float).tiny)
    start = normal_reference(points, weights, kernel)
    low, high = _RANGE.get(points.shape[1], _RANGE_BEYOND)

    def value(radius: FloatArray) -> float:
        return score(fit_design(points, weights, columns, kernel, radius), weights)

    radius, least = minimise(value, start, low=low, high=high, step=_STEP)
    if np.isfinite(least):
        return radius
    fit = fit_design(points, weights, columns, kernel, low * start)
    lost = int((fit.undefined | fit.undefined_without).sum())
    raise ValueError(
        f"radius={rule!r} must find a radius at which every prediction is defined, got none from "
        f"{low:g} to {high:g} times the normal reference; at the smallest, {lost} of "
        f"{len(points)} are undefined (leaving one out); give radius as a number"
    )
