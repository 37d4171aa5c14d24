"""R of an estimate with a radius of each sample, by cross-validation of that estimate itself.

The factors stay as they are: a common factor on R changes none of them. So the rule that chooses R
for one radius gives the start, and its ratios between columns; here one common factor is found.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fourierkernels.estimators.checks import TiedDataWarning, UndefinedWarning, silenced
from fourierkernels.estimators.design import Score, aicc_score, gcv_score, loo_score
from fourierkernels.estimators.gridded import LENGTHS, meeting_places
from fourierkernels.estimators.kept import Kept
from fourierkernels.estimators.radius.rule import minimise
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.ladder import decayed

_LOWEST, _STEP = 1.0 / 32.0, 0.35
_TAIL = 1e-6  # over its share in the sample: the share of the square of a kernel that may be missed
_MOST = 2**23  # places
_TOL = 1e-8  # of sums, whose small values do not matter to a score


@dataclass(frozen=True)
class AdaptiveScore:
    """What is minimised over R.

    Attributes
    ----------
    function : callable
        An estimator, fitted, to its score.
    highest : float
        The largest factor tried on the radius for one radius.
    """

    function: Callable[[Any], float]
    highest: float


def lscv_score(model: Any) -> float:
    """Return ∫ p̂² - 2 Σ_j p_j p̂_{-j}(x_j) of a density, with the factors of the whole sample.

    The integral by the trapezoidal rule, which is exact for band-limited functions, up to where a
    kernel with the share p_j has lost all but 10⁻⁶/p_j of its square, at most a hundredth. Source:
    [bowman1984alternative]_.

    Raises
    ------
    ValueError
        In more than three dimensions, and for more than 2^23 places.
    """
    rows, weights, total = model.sample_rows(), model.weights_, model.weights_.sum()
    left_terms = rows.left_share * rows.over_copies(model.own_densities())
    with np.errstate(divide="ignore", invalid="ignore"):
        others = (total * model.density(model.points_) - left_terms) / (total - rows.left)
    return _integral_of_square(model) - 2.0 * float(weights @ others / total)


def _integral_of_square(model: Any) -> float:
    axes = _axes(model)
    total = np.square(model.density(meeting_places(axes))).reshape(*map(len, axes))
    for axis in reversed(axes):
        total = np.trapezoid(total, axis)
    return float(total)


def _axes(model: Any) -> list[FloatArray]:
    """Return axes as fine as the square of the estimate takes, around the samples."""
    dim, used = len(model.radius_), model.weights_ > 0
    squared, factor = model.kernel_.squared
    size, points = model.sample_rows().size, model.points_[used]
    reach = decayed(squared, min(_TAIL * size, 1e-2)) / (factor * model.radius_)
    reach = reach / model.factors_[used, None]  # (n, dim)
    low = np.maximum((points - reach).min(axis=0), model.bounds_[0])
    high = np.minimum((points + reach).max(axis=0), model.bounds_[1])
    counts = 2.0 + (high - low) * model.kernel_.cutoff * model.largest_radius / math.pi
    if dim not in LENGTHS or not counts.prod() < _MOST:
        raise ValueError(
            f"X must have at most 3 columns, and a range that {_MOST:,} places resolve, for "
            f"radius='lscv' with a radius of each sample, got {dim} columns and "
            f"{counts.prod():.1e} places; give radius as a number"
        )
    each = zip(low, high, counts, strict=True)
    return [np.linspace(start, stop, math.ceil(n)) for start, stop, n in each]


def _of_design(score: Score) -> AdaptiveScore:
    return AdaptiveScore(lambda model: score(model.design_fit()), 8.0)


#: Scores by the name of the rule that gives the start.
DENSITY_SCORES = {"lscv": AdaptiveScore(lscv_score, 2.0)}
REGRESSION_SCORES = {
    "loo": _of_design(loo_score),
    "gcv": _of_design(gcv_score),
    "aicc": _of_design(aicc_score),
}


def best_multiple(model: Any, score: AdaptiveScore) -> FloatArray:
    """Return the multiple of the fitted radius with the least score, shape ``(dim,)``.

    Raises
    ------
    ValueError
        If it is at an end of the range tried, and as the score.
    """
    start, highest = model.radius_, score.highest

    def value(radius: FloatArray) -> float:
        return score.function(_at(model, radius))

    with silenced(TiedDataWarning, UndefinedWarning):  # said by the rule for one radius, or the fit
        radius, least = minimise(value, start, low=_LOWEST, high=highest, step=_STEP, common=True)
    factor = float(radius[0] / start[0])
    if math.isfinite(least) and 1.02 * _LOWEST < factor < 0.98 * highest:
        return radius
    raise ValueError(
        f"radius={model.radius!r} must find a best radius from {_LOWEST:g} to {highest:g} times "
        f"that for one radius, got {factor:.3g} times with the score {least:.3g}: repeated values "
        "do that; give radius as a number"
    )


def _at(model: Any, radius: FloatArray) -> Any:
    other = copy.copy(model)
    tol = max(model.tol, _TOL)
    other.__dict__.update(radius_=radius, tol=tol, undefined="nan", _kept=Kept())
    return other
