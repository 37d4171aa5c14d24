"""Highest-density regions: the smallest sets that hold a probability.

Of all sets of probability 1 - α the smallest is {x : p(x) >= c}, with the level c at which it holds
that probability [hyndman1996computing]_.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.modes.critical import (
    Curve,
    Range,
    curve_of,
    extrema,
    prepared_once,
    search_range,
    without_names,
)
from fourierkernels.estimators.roots import bracketed_roots
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_number
from fourierkernels.kernels.periodic import wrapped

_FOUND = 1e-12  # of 1/R: the width of a bracket that ends the search for an end
_LOWEST = 1e-12  # of the largest density: no level is sought below it
_WIDENINGS = 12  # each doubles what is searched beyond the samples


@dataclass(frozen=True)
class Intervals:
    """A highest-density region of the line or of a circle.

    Attributes
    ----------
    level : float
        The density at the ends, except at a bound.
    probability : float
        That of the region under the estimate.
    ends : array of shape (k, 2)
        Its intervals, from left to right. On a circle with period P lower ends lie in [0, P), and
        upper ends above P are those of arcs over the end: 22 to 26 hours.
    """

    level: float
    probability: float
    ends: FloatArray


def density_level(model: KernelDensity, probability: float = 0.95) -> float:
    """Return the level c at which {p̂ >= c} holds a probability, from the samples.

    The weighted (1 - probability)-quantile of p̂ at the samples [hyndman1996computing]_, in any
    dimension. A sample is nearest to itself, so p̂ is larger there than at new points, and the
    region somewhat too small for them; :func:`highest_density_intervals` and
    :func:`highest_density_contours` integrate the estimate instead.

    Raises
    ------
    ValueError
        If the probability is not between 0 and 1.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(4000, 1))
    >>> print(f"{density_level(KernelDensity('gaussian').fit(x), 0.5):.2f}")  # φ(0.674) = 0.318
    0.32
    """
    model = without_names(model)
    share = check_probability(model, probability)
    heights = model.density(model.points_)
    level = np.quantile(heights, 1.0 - share, weights=model.weights_, method="inverted_cdf")
    return float(level)


def highest_density_intervals(model: KernelDensity, probability: float = 0.95) -> Intervals:
    """Return the smallest set of this probability under a one-dimensional estimate.

    Between neighbouring extrema the estimate is monotone, so that the ends at a level are exact
    roots, and the exact integral of the estimate between them gives the level. Of a density that is
    constant on a circle the region is all of it.

    Parameters
    ----------
    model : KernelDensity
        With a nonnegative kernel.
    probability : float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the probability is out of range, the estimate has more than one dimension or is no
        probability density (odd powers), or its tails reach further than can be searched.

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.9], [-2.1], [3.0], [3.2]])
    >>> region = highest_density_intervals(KernelDensity("gaussian", bandwidth=0.5).fit(x), 0.9)
    >>> print(region.ends.round(2), f"{region.level:.3f}")
    [[-2.89 -1.11]
     [ 2.33  3.87]] 0.101
    """
    model = prepared_once(without_names(model))
    share = check_probability(model, probability, dim=1)
    for doubled in range(_WIDENINGS):
        within = search_range(model, 4.0 * 2.0**doubled / float(model.radius_[0]))
        pieces = _monotone_pieces(model, within)
        if within.closed and len(pieces.cuts) == 2:  # no maximum
            return Intervals(float(pieces.heights[0]), 1.0, pieces.cuts[None, :])
        level = _level(pieces, share)
        if level is not None and (within.closed or _tails_below(pieces.curve, within, level)):
            ends = _ends(pieces, level)
            return Intervals(level, _mass(model, ends), _from_zero(ends, within))
    raise ValueError(
        f"probability must be one that the tails within {4 * 2**doubled} bandwidths of the samples "
        f"can tell, got {probability}"
    )


def check_probability(model: KernelDensity, probability: float, dim: int | None = None) -> float:
    """Return the probability if a region of the model can have it."""
    share = check_number("probability", probability)
    if not 0.0 < share < 1.0:
        raise ValueError(f"probability must be between 0 and 1, got {probability}")
    if dim is not None and len(model.radius_) != dim:
        raise ValueError(f"model must have dimension {dim}, got {len(model.radius_)}")
    if not model.kernel_.nonnegative:
        raise ValueError(
            f"kernel must be nonnegative for a region, got {model.kernel_.name}, "
            "whose estimate is no probability density"
        )
    return share


class _Pieces(NamedTuple):
    """An estimate with cuts of the line between which it is monotone, and its density there."""

    model: KernelDensity
    curve: Curve
    cuts: FloatArray
    heights: FloatArray


def _monotone_pieces(model: KernelDensity, within: Range) -> _Pieces:
    curve = curve_of(model)
    inner = extrema(curve, within)
    cut = float(inner.points[0]) if within.closed and len(inner.points) else 0.0
    ends = cut + np.array([within.low, within.high])
    cuts, first = np.unique(np.concatenate([ends, inner.points]), return_index=True)
    heights = np.concatenate([curve.value(ends), inner.densities])[first]
    return _Pieces(model, curve, cuts, heights)


def _level(pieces: _Pieces, share: float) -> float | None:
    """Return the level at which the region holds the share; None if the range holds less."""

    def excess(level: float) -> float:
        return _mass(pieces.model, _ends(pieces, level)) - share

    top = float(pieces.heights.max())
    if not excess(_LOWEST * top) > 0:
        return None
    return float(brentq(excess, _LOWEST * top, top, xtol=1e-14 * top, rtol=1e-12))


def _ends(pieces: _Pieces, level: float) -> FloatArray:
    """Return the intervals where the estimate is above the level, shape ``(k, 2)``."""
    above = pieces.heights > level
    turns = np.flatnonzero(above[1:] != above[:-1])
    roots = bracketed_roots(
        lambda x: pieces.curve.value(x) - level,
        pieces.cuts[turns],
        pieces.cuts[turns + 1],
        xtol=_FOUND / pieces.curve.radius,
    )
    outer = [pieces.cuts[:1][above[:1]], roots, pieces.cuts[-1:][above[-1:]]]
    return np.concatenate(outer).reshape(-1, 2)


def _mass(model: KernelDensity, ends: FloatArray) -> float:
    if not len(ends):
        return 0.0
    places = ends.reshape(-1, 1)
    whole = np.round((places - wrapped(places, model.periods_)) / model.periods_)
    low, high = (model.cdf(places) + whole[:, 0]).reshape(-1, 2).T
    return float((high - low).sum())


def cut_at_end(ends: FloatArray, period: float) -> FloatArray:
    """Return intervals ``(k, 2)`` with arcs over the end of a circle in two."""
    over = ends[ends[:, 1] > period]
    return np.vstack([np.minimum(ends, period), np.maximum(over - period, 0.0)])


def _from_zero(ends: FloatArray, within: Range) -> FloatArray:
    """Return arcs of a circle by lower ends in [0, P), in their order; other intervals as is."""
    if not within.closed:
        return ends
    moved = ends - within.high * (ends[:, :1] >= within.high)
    return moved[np.argsort(moved[:, 0])]


def _tails_below(curve: Curve, within: Range, level: float) -> bool:
    """Return whether the last ripple within the range is below the level, at either end."""
    ripple = 2.0 * np.pi / curve.radius * np.linspace(0.0, 1.0, 33)
    ends = within.low + ripple, within.high - ripple
    return all(
        (curve.value(end) < level).all()
        for end, bounded in zip(ends, within.bounded, strict=True)
        if not bounded
    )
