"""Boxes: boundary correction by reflection, and integrals of a density estimate over boxes.

Each sample gets mirror images beyond the bounds, which carry its mass back into the box. What even
they lose, the mass of a wide or heavy-tailed kernel beyond the box mirrored once, is made up by the
weight of the sample, so that the density integrates to one on the box exactly. Source:
[silverman1986density]_, section 2.10.

Integrals over boxes are sums of the kernel's own integral at the corners.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_period
from fourierkernels.kernels import Kernel
from fourierkernels.sums import SampleSum
from fourierkernels.sums.parts import log_scale

Bounds = Sequence[tuple[float | None, float | None] | None]
Period = float | Sequence[float | None] | None


class Images(NamedTuple):
    """Samples with their mirror images.

    Attributes
    ----------
    points : array of shape (q, dim)
    weights : array of shape (q,)
    source : integer array of shape (q,)
        The sample each is an image of; the samples themselves come first, in order.
    """

    points: FloatArray
    weights: FloatArray
    source: NDArray[np.intp]


def check_bounds(bounds: Bounds | None, points: FloatArray, *, name: str = "bounds") -> FloatArray:
    """Return bounds as an array ``(2, dim)`` of lower and upper ends, infinite where there is none.

    Raises
    ------
    ValueError
        If there is not one pair (or None) per dimension, a lower end is not below its upper end,
        or a sample lies outside.
    """
    box = check_ends(bounds, points.shape[1], name)
    if np.isinf(box).all():
        return box
    outside = int((~inside(points, box)).sum())
    if outside:
        raise ValueError(f"{name} must contain all samples, got {bounds}: {outside} lie outside")
    return box


def check_ends(bounds: Bounds | None, dim: int, name: str = "bounds") -> FloatArray:
    """Return bounds as `check_bounds` does, whatever the samples."""
    if bounds is None:
        return np.array([[-np.inf] * dim, [np.inf] * dim])
    each = bounds if isinstance(bounds, Iterable) else ()
    pairs = [(None, None) if pair is None else pair for pair in each]
    if len(pairs) != dim or not all(_is_pair(pair) for pair in pairs):
        raise ValueError(f"{name} must have a pair (low, high) per dimension, {dim}, got {bounds}")
    low = [-np.inf if pair[0] is None else float(pair[0]) for pair in pairs]
    high = [np.inf if pair[1] is None else float(pair[1]) for pair in pairs]
    box = np.array([low, high])
    if not np.all(box[0] < box[1]):
        raise ValueError(f"{name} must have low < high in every dimension, got {bounds}")
    return box


def check_circles(period: Period, box: FloatArray) -> FloatArray:
    """Return the period of each dimension, shape ``(dim,)``, infinite for a line.

    Raises
    ------
    ValueError, TypeError
        If one is not positive, their number is wrong, or a dimension with one has bounds as well.
    """
    periods = check_period(period, box.shape[1])
    both = np.flatnonzero(np.isfinite(periods) & np.isfinite(box).any(axis=0))
    if len(both):
        raise ValueError(
            f"period must be None where there are bounds, got {period!r} and the bounds "
            f"{box[:, both[0]].tolist()} in column {both[0]}"
        )
    return periods


def _is_pair(value: Any) -> bool:
    return np.shape(value) == (2,) and all(
        end is None or hasattr(end, "__float__") for end in value
    )


def inside(points: FloatArray, box: FloatArray) -> NDArray[np.bool_]:
    """Return which points lie in the closed box, shape ``(m,)``."""
    if np.isinf(box).all():
        return np.ones(len(points), bool)
    return np.asarray(((points >= box[0]) & (points <= box[1])).all(axis=1))


def folded(points: FloatArray, box: FloatArray) -> FloatArray:
    """Return points ``(m, dim)`` with those beyond a bound mirrored there once."""
    low, high = box
    with np.errstate(invalid="ignore"):  # infinite ends mirror nothing
        below = np.where(points > high, 2.0 * high - points, points)
        return np.where(points < low, 2.0 * low - points, below)


def reflect(
    points: FloatArray, weights: FloatArray, box: FloatArray, *, kernel: Kernel, radius: FloatArray
) -> Images:
    """Return the samples and their images about every finite bound, corners included.

    The weight of a sample and of its images is w_i over the mass that they leave in the box.

    Parameters
    ----------
    radius : array of shape (dim,) or (dim, n)
        Of all samples, or of each.

    Raises
    ------
    ValueError
        If that mass is not positive, as for an odd power wider than the box.
    """
    n, dim = points.shape
    source = np.arange(n)
    if np.isinf(box).all():
        return Images(points, weights, source)
    mirrors = [[None, *(end for end in box[:, d] if np.isfinite(end))] for d in range(dim)]
    images = [
        np.column_stack([_mirrored(points[:, d], end) for d, end in enumerate(ends)])
        for ends in itertools.product(*mirrors)
    ]
    total = np.concatenate(images)
    source = np.tile(source, len(images))
    each = np.broadcast_to(radius.reshape(dim, -1), (dim, n))[:, source]
    mass = np.bincount(source, weights=_mass(total, box, kernel, each))
    if not mass.min() > 0:
        raise ValueError(
            f"bounds must leave each sample a positive mass, got {mass.min():.3g} "
            f"with kernel {kernel.name} and radius {radius if radius.ndim == 1 else 'of each'}"
        )
    return Images(total, (weights / mass)[source], source)


def _mirrored(x: FloatArray, end: float | None) -> FloatArray:
    return x if end is None else 2.0 * end - x


def _mass(points: FloatArray, box: FloatArray, kernel: Kernel, radius: FloatArray) -> FloatArray:
    """∏_d of the kernel's integral over the box, for a kernel at each point."""
    mass = np.ones(len(points))
    for d in range(points.shape[1]):
        ends = [_cumulative(kernel, radius[d] * (end - points[:, d])) for end in box[:, d]]
        mass *= ends[1] - ends[0]
    return mass


def _cumulative(kernel: Kernel, u: FloatArray) -> FloatArray:
    finite = np.where(np.isfinite(u), u, 0.0)
    return np.where(np.isfinite(u), kernel.cumulative(finite), u > 0)


SumOver = Callable[[tuple[int, ...]], SampleSum]


def box_mass(
    over: SumOver, low: FloatArray, high: FloatArray, periods: FloatArray | None = None
) -> FloatArray:
    """Return ∫ Σ_i w_i K_R(x - x_i) dx over boxes [low, high_j], by inclusion and exclusion.

    Parameters
    ----------
    over : callable
        Some of the dimensions to the kernel sum over them.
    low : array of shape (dim,)
        An end of minus infinity has no corner.
    high : array of shape (m, dim)
        A column of infinities leaves its dimension out: the kernel integrates to one.
    periods : array of shape (dim,), optional
        On a circle a box is the arc from `low` up to `high`, all of it from a period on.

    Returns
    -------
    array of shape (m,)
    """
    around = np.full(len(low), np.inf) if periods is None else periods
    total = np.zeros(len(high))
    for terms in itertools.product(*map(_terms, low, high.T, around)):
        factors, ends = zip(*terms, strict=True)
        total += math.prod(factors) * _orthant_mass(over, np.column_stack(ends))
    return total


def _terms(low: float, high: FloatArray, period: float) -> list[tuple[FloatArray, FloatArray]]:
    """Return factors and ends whose integrals add up to that between the ends of an interval.

    Integrals on a circle leave out the mean of the kernel, which is the share of the arc.
    """
    one, out = np.ones(len(high)), np.full(len(high), np.inf)
    if np.isinf(period):
        return [(one, high)] if np.isneginf(low) else [(one, high), (-one, np.full(len(high), low))]
    with np.errstate(invalid="ignore"):  # infinite ends are those of the whole circle
        part = high - low < period
    if not part.any():
        return [(one, out)]
    share = np.where(part, (high - low) / period, 1.0)
    return [(1.0 * part, high), (-1.0 * part, np.full(len(high), low)), (share, out)]


def _orthant_mass(over: SumOver, ends: FloatArray) -> FloatArray:
    """Return Σ w ∏_d C(R_d(end_d - x_d)), C the integral of the kernel; shape ``(m,)``."""
    every = tuple(range(ends.shape[1]))
    dims = [d for d in every if not np.isposinf(ends[:, d]).all()]
    if not dims:
        return np.full(len(ends), over(every).weights.sum())
    prepared, parts = over(tuple(dims)), ("cumulative",) * len(dims)
    sums = prepared.at(np.ascontiguousarray(ends[:, dims]), parts=parts)
    return np.asarray(sums.totals() * np.exp(log_scale(prepared.kernel, prepared.radius, parts)))
