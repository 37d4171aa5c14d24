"""The modes of a density estimate, and which samples belong to each, in any dimension.

Off the line samples ascend to the maxima. The step is x + ∇p̂/(c R² p̂), c = -K''(0)/K(0). For the
Gaussian c is 1 and this is mean shift, which always climbs [comaniciu2002mean]_. Powers of sinc
have side lobes: mean shift as a weighted mean of the samples is undefined for them, and the step is
halved until it climbs.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.modes.critical import (
    Extrema,
    curve_of,
    extrema,
    mapped,
    moment,
    prepared_once,
    search_range,
    without_names,
)
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_number
from fourierkernels.kernels.periodic import wrapped

_ROUNDS = 1000
_LONGEST = 8.0  # steps of mean shift, where several in a row climb
_NEAR = 1e-3  # of the bandwidth: where climbing ends and Newton's method takes over
_NEWTON_ROUNDS = 20
_DIFFERENCE = 1e-4  # of the bandwidth: the step of the Hessian
_FLAT = 1e-6  # of the density, in bandwidths: a second derivative that small is rounding


class Summits(NamedTuple):
    """Maxima at which the ascents ended.

    Attributes
    ----------
    points : array of shape (k, dim)
    densities : array of shape (k,)
    reached : integer array of shape (n,)
        The summit that each start leads to; -1 for a saddle, or where the ascent did not end.
    """

    points: FloatArray
    densities: FloatArray
    reached: NDArray[np.intp]


def climb(model: KernelDensity, starts: FloatArray) -> Summits:
    """Return the maxima that the starts ``(n, dim)`` lead to."""
    ends, done = _ascents(model, starts)
    near, group = _merged(model, ends, 30.0 * _NEAR)
    tops = np.array([_newton(model, x) for x in near])
    tops, second = _merged(model, wrapped(tops, model.periods_), _NEAR)
    proper = np.array([_is_maximum(model, x) for x in tops])
    number = np.where(proper, np.cumsum(proper) - 1, -1)
    reached = np.where(done, number[second[group]], -1)
    return Summits(tops[proper], model.density(tops)[proper], reached)


def hessian(model: KernelDensity, x: FloatArray) -> FloatArray:
    """Return the second derivatives of p̂ at one point, by differences of exact gradients."""
    step = _DIFFERENCE / model.radius_
    moved = x + np.concatenate([np.diag(step), -np.diag(step)])
    slopes = _folded_gradient(model, moved)
    half = (slopes[: len(x)] - slopes[len(x) :]) / (2.0 * step[:, None])
    return np.asarray(0.5 * (half + half.T))


def _ascents(model: KernelDensity, starts: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the ends of all ascents, and which of them have come to rest."""
    x, size = starts.copy(), np.ones(len(starts))
    height, moving = model.density(x), np.arange(len(x))
    curvature = moment(model.kernel_, 2) / moment(model.kernel_, 0)
    least = 1e-3 * float(np.abs(height).max())
    for _ in range(_ROUNDS):
        here = x[moving]
        above = np.maximum(np.abs(height[moving]), least)[:, None]
        step = model.derivative(here) / (curvature * model.radius_**2 * above)
        there = np.clip(here + size[moving, None] * step, *model.bounds_)
        new = model.density(there)
        higher = new >= height[moving]
        x[moving[higher]], height[moving[higher]] = there[higher], new[higher]
        factor = np.where(higher, 1.5, 0.4)
        size[moving] = np.clip(size[moving] * factor, 1e-6, _LONGEST)
        moving = moving[(np.abs(step) * model.radius_).max(axis=1) > 0.1 * _NEAR]
        if not len(moving):
            break
    done = np.ones(len(x), bool)
    done[moving] = False
    return x, done


def _newton(model: KernelDensity, x: FloatArray) -> FloatArray:
    """Return the zero of the gradient near x, or x where Newton's method leads away."""
    start, best = x, x
    for _ in range(_NEWTON_ROUNDS):
        second = hessian(model, x)
        step, *_ = np.linalg.lstsq(second, _folded_gradient(model, x[None, :])[0])
        x = np.clip(x - step, *model.bounds_)
        if (np.abs(x - start) * model.radius_).max() > 0.5:
            return start
        best = x
        if (np.abs(step) * model.radius_).max() < 1e-10:
            break
    return best


def _is_maximum(model: KernelDensity, x: FloatArray) -> bool:
    scaled = hessian(model, x) / np.outer(model.radius_, model.radius_)
    top = float(np.linalg.eigvalsh(scaled)[-1])
    return top < -_FLAT * float(model.density(x[None, :])[0])


def _folded_gradient(model: KernelDensity, x: FloatArray) -> FloatArray:
    """Return the gradient of the estimate continued beyond its bounds by reflection."""
    low, high = model.bounds_
    with np.errstate(invalid="ignore"):
        inner = np.where(x < low, 2.0 * low - x, np.where(x > high, 2.0 * high - x, x))
    return model.derivative(inner) * np.where((x < low) | (x > high), -1.0, 1.0)


def _merged(
    model: KernelDensity, points: FloatArray, distance: float
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the highest of each group of points within a distance in bandwidths, and the group.

    Distances on a circle are the shorter way round.
    """
    group, kept = np.full(len(points), -1), list[int]()
    turn = np.where(np.isfinite(model.periods_), model.periods_, 0.0)
    for i in np.argsort(-model.density(points), kind="stable"):
        if group[i] < 0:
            gaps = points - points[i]
            gaps -= turn * np.round(gaps / model.periods_)
            near = (np.abs(gaps) * model.radius_).max(axis=1) <= distance
            group[near & (group < 0)] = len(kept)
            kept.append(int(i))
    return points[kept], group


@dataclass(frozen=True)
class Modes:
    """Local maxima of a density estimate, the highest first.

    Attributes
    ----------
    points : array of shape (k, dim)
    densities : array of shape (k,)
    labels : integer array of shape (n,)
        The mode whose basin each sample lies in, a clustering; -1 for samples that lead to none:
        to a maximum below the floor, or a saddle.
    """

    points: FloatArray
    densities: FloatArray
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        """Return the number of modes."""
        return len(self.densities)


def modes(model: KernelDensity, *, floor: float = 0.01) -> Modes:
    """Return the local maxima of a fitted density, with the basin of each sample.

    In one dimension all of them, by sign changes of the exact derivative on a grid that the band
    limit justifies: what it could miss is a maximum that rises by less than 1e-7 of the largest
    density above the minimum beside it. A basin reaches from the lowest point on one side of its
    mode to that on the other. A bound where the density falls inwards is a mode. The line is
    searched up to one bandwidth beyond the samples: ripples further out, which powers 1 and 2 have
    above the floor, are left out. On a circle a mode lies in [0, P) and its basin may go over the
    end; a density that is constant has none.

    In more dimensions the maxima that a gradient ascent from some sample reaches, saddle points
    excluded; with a radius matrix, of the data mapped by it. For the Gaussian the ascent is mean
    shift [comaniciu2002mean]_; for powers of sinc, whose side lobes leave mean shift undefined, its
    steps are shortened until they climb.

    Parameters
    ----------
    model : KernelDensity
    floor : float
        Share of the largest density, from 0 to 1. Maxima below it are left out: side lobes of
        sinc^l make ripples around a sample, of 4.7 % of its peak for l = 2 and 0.2 % for l = 4.

    Raises
    ------
    ValueError
        If the floor is out of range; in one dimension, if the range of the samples has more than
        a million bandwidths.

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.9], [-2.1], [3.0], [3.2]])
    >>> result = modes(KernelDensity("gaussian", bandwidth=0.5).fit(x))
    >>> result.points[:, 0].round(3), result.labels
    (array([-2. ,  3.1]), array([0, 0, 0, 1, 1]))
    """
    model = without_names(model)
    share = check_number("floor", floor)
    if not 0.0 <= share < 1.0:
        raise ValueError(f"floor must be at least 0 and below 1, got {floor}")
    if model.radius_.ndim == 2:
        other = mapped(model)
        found = _in_space(other.model, share)
        return Modes(other.back(found.points), other.volume * found.densities, found.labels)
    search = _on_line if len(model.radius_) == 1 else _in_space
    return search(model, share)


def _on_line(model: KernelDensity, floor: float) -> Modes:
    within = search_range(model, 1.0 / float(model.radius_[0]))
    turning = extrema(curve_of(prepared_once(model)), within, floor=floor)
    highest = float(turning.densities[turning.maxima].max(initial=0.0))
    peaks = turning.maxima & (turning.densities >= floor * highest)
    order = np.argsort(-turning.densities[peaks], kind="stable")
    rank = np.argsort(order)  # of the modes from left to right
    x = model.points_[:, 0]
    if within.closed and len(turning.points):
        x = np.where(x < turning.points[0], x + within.high, x)
    basin = np.searchsorted(_boundaries(turning, np.flatnonzero(peaks)), x)
    points = wrapped(turning.points[peaks][order][:, None], model.periods_)
    labels = rank[basin] if peaks.any() else np.full(len(basin), -1)
    return Modes(points, turning.densities[peaks][order], labels)


def _boundaries(turning: Extrema, peaks: NDArray[np.intp]) -> FloatArray:
    """Return the lowest minimum between each mode and the next."""
    between = pairwise(peaks)
    return np.array([turning.points[a + np.argmin(turning.densities[a:b])] for a, b in between])


def _in_space(model: KernelDensity, floor: float) -> Modes:
    starts, place = np.unique(model.points_, axis=0, return_inverse=True)
    summits = climb(model, starts)
    order = np.argsort(-summits.densities, kind="stable")
    high = summits.densities[order] >= floor * summits.densities.max(initial=0.0)
    number = np.full(len(order) + 1, -1)  # the last entry serves the label -1
    number[order[high]] = np.arange(high.sum())
    labels = number[summits.reached[place.ravel()]]
    kept = order[high]
    return Modes(summits.points[kept], summits.densities[kept], labels)
