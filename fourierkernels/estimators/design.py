"""A linear smoother at its own design points, and the cross-validation scores that need no more.

`H` is the hat matrix at the design points: f̂(x_j) = Σ_i H_ji y_i.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.weights import left_out
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.kernels.periodic import kernels_along
from fourierkernels.sums import SampleSum

DIGITS = 1e3  # a denominator counts as known if it is so many times its error
LEFT = 1e-9  # share of the own term that the others must have, or a difference has too few digits
_OWN_FIT = 1e-9  # 1 - H_jj below which a sample is its own fit


@dataclass(frozen=True)
class DesignFit:
    """The regression at its design points: distinct rows of positive weight.

    Attributes
    ----------
    residuals : array of shape (n, k)
    leverage : array of shape (n,)
        H_jj: the share in the prediction at x_j of what is left out there, one copy of sample j
        or all of it (`fourierkernels.estimators.weights`).
    weights : array of shape (n,)
    copies : array of shape (n,)
        How many samples each stands for; their sum is the number of samples.
    undefined, undefined_without : boolean arrays of shape (n,)
        Where there is no prediction; where there is none without that copy.
    """

    residuals: FloatArray
    leverage: FloatArray
    weights: FloatArray
    copies: FloatArray
    undefined: NDArray[np.bool_]
    undefined_without: NDArray[np.bool_]

    @property
    def lost(self) -> int:
        """Number of predictions that are undefined, themselves or without their own sample."""
        return int((self.undefined | self.undefined_without).sum())


#: (points, weights, responses (n, k), kernel, radius) to the fit with that radius.
FitDesign = Callable[[FloatArray, FloatArray, FloatArray, Kernel, FloatArray], DesignFit]
#: The same with the keyword `weighting`, the meaning of the weights of distinct rows.
FitRows = Callable[..., DesignFit]
#: What a rule minimises over the radius.
Score = Callable[[DesignFit], float]


def loo_score(fit: DesignFit) -> float:
    """Return Σ w_j e_j² / Σ w_j, e_j = (y_j - f̂(x_j))/(1 - H_jj) the leave-one-out residual.

    Infinite if any prediction is undefined without its own sample.
    """
    if fit.lost:
        return np.inf
    residuals = fit.residuals / (1.0 - fit.leverage)[:, None]
    return float(fit.weights @ np.square(residuals).sum(axis=1) / fit.weights.sum())


def gcv_score(fit: DesignFit) -> float:
    """Return (Σ w_j (y_j - f̂(x_j))² / Σ w_j) / (1 - tr H/n)².

    tr H/n is the weighted mean of the leverages. Infinite if any prediction is undefined, or tr H
    is not between 0 and n: a kernel with negative lobes can make it negative, which would reward
    a fit for its poles.
    """
    error, share = _error(fit), _mean_leverage(fit)
    return error / (1.0 - share) ** 2 if 0.0 <= share < 1.0 - _OWN_FIT else np.inf


def aicc_score(fit: DesignFit) -> float:
    """Return log(Σ w_j (y_j - f̂(x_j))² / Σ w_j) + (1 + tr H/n) / (1 - (tr H + 2)/n).

    Infinite if any prediction is undefined, or tr H is not between 0 and n - 2. Source:
    [hurvich1998smoothing]_.
    """
    error, share = _error(fit), _mean_leverage(fit)
    left = 1.0 - share - 2.0 / float(fit.copies.sum())
    if np.isinf(error) or not (share >= 0.0 and left > _OWN_FIT):
        return np.inf
    return float(np.log(max(error, np.finfo(float).tiny)) + (1.0 + share) / left)


def _error(fit: DesignFit) -> float:
    """Return the weighted mean square of the residuals; infinite if one is undefined."""
    if fit.undefined.any():
        return np.inf
    return float(fit.weights @ np.square(fit.residuals).sum(axis=1) / fit.weights.sum())


def _mean_leverage(fit: DesignFit) -> float:
    return float(fit.copies @ fit.leverage / fit.copies.sum())


def sample_counts(weights: FloatArray, weighting: str) -> FloatArray:
    """Return how many samples distinct rows stand for; a row of any precision is one."""
    return np.ones(len(weights)) if weighting == "precision" else weights


def peak_of(kernel: Kernel, radius: FloatArray, periods: FloatArray | None) -> float:
    """Return ∏_d shape(0), on a circle of the sum over images."""
    along = kernels_along(kernel, radius, periods)
    return math.prod(float(each.value(0.0)) * each.constant for each in along)


def nadaraya_watson_design(
    points: FloatArray,
    weights: FloatArray,
    responses: FloatArray,
    kernel: Kernel,
    radius: FloatArray,
    *,
    weighting: str = "frequency",
    periods: FloatArray | None = None,
) -> DesignFit:
    """Fit the kernel regression at its design points by one sum; all weights are positive."""
    sums = SampleSum(
        points, kernel=kernel, radius=radius, weights=weights, responses=responses, periods=periods
    ).at(points, refine=False)
    peak = peak_of(kernel, radius, periods)
    left_terms = np.ldexp(peak * left_out(weights, weighting), -sums.exponent)
    with np.errstate(divide="ignore"):
        leverage = left_terms / sums.denominator
    known = DIGITS * sums.error
    return DesignFit(
        responses - sums.ratios(),
        leverage,
        weights,
        sample_counts(weights, weighting),
        ~(np.abs(sums.denominator) > known),
        ~(np.abs(sums.denominator - left_terms) > np.maximum(known, LEFT * np.abs(left_terms))),
    )


def design_fit_of(
    fit: FloatArray,
    diagonal: FloatArray,
    responses: FloatArray,
    weights: FloatArray,
    *,
    weighting: str = "frequency",
) -> DesignFit:
    """Return the design fit from the fit ``(n, k)`` and the diagonal of H, NaN where undefined.

    H_jj is of the sample with its whole weight, however many copies that counts.
    """
    used = weights > 0
    fit, diagonal, responses, weights = fit[used], diagonal[used], responses[used], weights[used]
    leverage = diagonal * (left_out(weights, weighting) / weights)
    undefined = np.isnan(leverage) | np.isnan(fit).any(axis=1)
    alone = ~(np.abs(1.0 - leverage) > _OWN_FIT)
    counts = sample_counts(weights, weighting)
    return DesignFit(responses - fit, leverage, weights, counts, undefined, undefined | alone)
