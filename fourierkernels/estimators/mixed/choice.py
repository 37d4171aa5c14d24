"""Radius and smoothing of mixed data, chosen together by cross-validation."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from fourierkernels.estimators.design import DIGITS, LEFT, DesignFit, peak_of, sample_counts
from fourierkernels.estimators.mixed.categories import Category, Cells, cell_weights
from fourierkernels.estimators.radius.reference import normal_reference
from fourierkernels.estimators.radius.rule import minimise
from fourierkernels.estimators.radius.sample import Sample, standardise, tie_limit
from fourierkernels.estimators.radius.spectrum import SampleSpectrum, circle_sum, resolved
from fourierkernels.estimators.weights import left_out
from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.cells import CellSums
from fourierkernels.sums.spectrum import Factor, empirical_transform

#: (radius, smoothing) to what is minimised.
MixedScore = Callable[[FloatArray, FloatArray], float]

_ACCURACY = 1e-12
_ROUNDS = 2
_SCANNED = (0.0, 0.02, 0.08, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the largest smoothing
_FIRST = 0.2
_STEP = 0.2
_RANGE = {1: (0.1, 16.0), 2: (0.2, 4.0), 3: (0.3, 2.0)}  # radii, in normal references
_RANGE_BEYOND = (0.3, 2.0)
_WIDEST = 1024.0


@dataclass(frozen=True)
class MixedSample:
    """Samples of numbers and categories.

    Attributes
    ----------
    points : array of shape (n, dim)
        The numbers.
    weights : array of shape (n,)
    categories : tuple of Category
    cells : Cells
    periods : array of shape (dim,)
        Of columns that are circles, infinite for lines.
    """

    points: FloatArray
    weights: FloatArray
    categories: tuple[Category, ...]
    cells: Cells
    periods: FloatArray

    @property
    def largest(self) -> FloatArray:
        """The largest smoothing of each category."""
        return np.array([category.largest for category in self.categories])

    def factors(self, smoothing: FloatArray) -> FloatArray:
        """Return the weights of pairs of cells, shape ``(s, s)``."""
        return cell_weights(self.categories, smoothing, self.cells.table, self.cells.table)

    def reference(self, kernel: Kernel) -> FloatArray:
        """Return the normal-reference radius of the numbers, shape ``(dim,)``."""
        return normal_reference(self.points, self.weights, kernel, periods=self.periods)


class DensityScore:
    """Least squares cross-validation of a mixed density, all radii from one transform a cell.

    Σ_z ∫ p̂(x, z)² dx - 2 Σ_j p_j p̂_{-j}(x_j, z_j), the sum over all combinations z of levels that
    occur. Sources: [li2003nonparametric]_; [davis1977mean]_.

    Raises
    ------
    ValueError
        For more than three columns of numbers, one that does not vary, or too long a range.
    """

    def __init__(self, sample: MixedSample, kernel: Kernel, largest: float) -> None:
        dim = sample.points.shape[1]
        if dim > 3:
            raise ValueError(
                f"X must have at most 3 columns of numbers for cross-validation, got {dim}; give "
                "radius and smoothing as numbers"
            )
        self._kernel, self._mixed = kernel, sample
        self._standard = standardise(sample.points, sample.weights, sample.periods)
        self.start = sample.reference(kernel)
        used = sample.weights > 0
        end = resolved(self._standard, sample.points[used], tie_limit(kernel, dim), "lscv")
        ends = np.minimum(kernel.cutoff * largest * self.start * self._standard.scale, end)
        self._spectrum = SampleSpectrum(_one_sample(self._standard), ends, rule="lscv")
        cells = sample.cells.place[used]
        self._own = np.bincount(cells, np.square(self._standard.weights), len(sample.cells.table))
        self._transforms = np.stack(
            [self._of_cell(cells == cell) for cell in range(len(sample.cells.table))]
        )

    def __call__(self, radius: FloatArray, smoothing: FloatArray) -> float:
        """Return the score at a radius ``(dim,)`` and a smoothing ``(k,)``."""
        factors, squares = self._mixed.factors(smoothing), self._squares(smoothing)
        scaled = radius * self._standard.scale
        plain, square = self._others(factors, scaled, 1), self._others(squares, scaled, 2)
        noise = float(self._own @ np.diag(squares)) * self._roughness(scaled)
        total = square + noise - 2.0 * plain / (1.0 - float(self._own.sum()))
        return total / math.prod(self._standard.scale)

    def _others(self, factors: FloatArray, radius: FloatArray, power: int) -> float:
        """Return (2π)^{-D} ∫ (Σ_ab factors_ab φ_a φ_b* less the terms of i = j) K̄^power dt."""
        mixed, plain = np.tensordot(factors, self._transforms, 1), self._transforms
        power_of_pairs = (mixed.real * plain.real + mixed.imag * plain.imag).sum(axis=0)
        self._spectrum.power = power_of_pairs - float(self._own @ np.diag(factors))
        ends = self._spectrum.ends
        return self._spectrum.integral(
            [self._factor(float(r), float(end), power) for r, end in zip(radius, ends, strict=True)]
        )

    def _roughness(self, radius: FloatArray) -> float:
        """Return the integral of the squared kernel, on a circle of that of its images."""
        return math.prod(
            self._kernel.roughness * r
            if math.isinf(period)
            else circle_sum(period, self._factor(float(r), math.inf, 2))
            for r, period in zip(radius, self._spectrum.periods, strict=True)
        )

    def _of_cell(self, rows: Any) -> ComplexArray:
        points, shares = self._standard.points[rows], self._standard.weights[rows]
        if not len(points):
            return np.zeros([axis.size for axis in self._spectrum.axes], np.complex128)
        return empirical_transform(points, shares, self._spectrum.axes, accuracy=_ACCURACY)

    def _squares(self, smoothing: FloatArray) -> FloatArray:
        """Return Σ_z L(z, a) L(z, b) for pairs of cells, shape ``(s, s)``."""
        total, table = np.ones([len(self._mixed.cells.table)] * 2), self._mixed.cells.table
        for k, (category, share) in enumerate(zip(self._mixed.categories, smoothing, strict=True)):
            weights = category.kernel.weights(category.places, float(share))
            total *= (weights.T @ weights)[np.ix_(table[:, k], table[:, k])]
        return total

    def _factor(self, radius: float, end: float, power: int) -> Factor:
        knots = radius * np.asarray(self._kernel.knots)
        kept = np.append(knots[knots < end], min(end, knots[-1]))

        def function(t: FloatArray) -> FloatArray:
            return np.asarray(self._kernel.transform(t / radius) ** power)

        return function, np.unique(kept)


def _one_sample(sample: Sample) -> Sample:
    """Return two samples at the ends of the range: all that the axes of a grid depend on."""
    ends = np.stack([sample.points.min(axis=0), sample.points.max(axis=0)])
    return Sample(ends, np.array([0.5, 0.5]), sample.size, sample.scale, sample.periods)


def cross_validated(
    sample: MixedSample,
    kernel: Kernel,
    *,
    radius: FloatArray | None,
    smoothing: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Return radius and smoothing by :class:`DensityScore`; what is given stays.

    The range of radii doubles while the best is near its end.

    Raises
    ------
    ValueError
        As that, and if there is no best radius within 1024 normal references.
    """
    widest = _RANGE.get(sample.points.shape[1], _RANGE_BEYOND)[1]
    if radius is not None:
        start = sample.reference(kernel)
        widest = max(1.0, float((radius / start).max()))
    while widest <= _WIDEST or radius is not None:
        score = DensityScore(sample, kernel, widest)
        own = score.start if radius is None else radius
        found, moved = search(
            score, own, sample.largest, radius=radius, smoothing=smoothing, high=widest
        )
        if radius is not None or (found < 0.85 * widest * score.start).all():
            return found, moved
        widest *= 2.0
    raise ValueError(
        f"X must be a sample of a density for radius='lscv', got no best radius up to {_WIDEST:g} "
        "times the normal reference: repeated values do that; give radius as a number"
    )


class MixedDesign:
    """The regression at its design points, for any radius and smoothing; weights are positive.

    What depends on the radius alone is kept for the next smoothing.
    """

    def __init__(
        self, sample: MixedSample, responses: FloatArray, kernel: Kernel, weighting: str
    ) -> None:
        self._sample, self._responses = sample, responses
        self._kernel, self._weighting = kernel, weighting
        self._kept: tuple[bytes, CellSums] | None = None

    def __call__(self, radius: FloatArray, smoothing: FloatArray) -> DesignFit:
        """Return the fit."""
        sample, kernel = self._sample, self._kernel
        factors, place = sample.factors(smoothing), sample.cells.place
        sums = self._sums(radius).at(sample.points, place, factors)
        peak = peak_of(kernel, radius, sample.periods)
        alike = peak * np.diag(factors)[place] * left_out(sample.weights, self._weighting)
        left_terms = np.ldexp(alike, -sums.exponent)
        with np.errstate(divide="ignore", invalid="ignore"):
            leverage = left_terms / sums.denominator
        known = DIGITS * sums.error
        return DesignFit(
            self._responses - sums.ratios(),
            leverage,
            sample.weights,
            sample_counts(sample.weights, self._weighting),
            ~(np.abs(sums.denominator) > known),
            ~(np.abs(sums.denominator - left_terms) > np.maximum(known, LEFT * np.abs(left_terms))),
        )

    def _sums(self, radius: FloatArray) -> CellSums:
        key = radius.tobytes()
        if self._kept is None or self._kept[0] != key:
            sample = self._sample
            self._kept = (
                key,
                CellSums(
                    sample.points,
                    sample.weights,
                    self._responses,
                    sample.cells.place,
                    kernel=self._kernel,
                    radius=radius,
                    periods=sample.periods,
                ),
            )
        return self._kept[1]


def search(
    score: MixedScore,
    start: FloatArray,
    largest: FloatArray,
    *,
    radius: FloatArray | None,
    smoothing: FloatArray | None,
    high: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the radius and the smoothing with the least score; what is given stays.

    The radius on a grid of one common factor, then each smoothing on a grid, twice; then all
    together by the simplex of Nelder and Mead.

    Raises
    ------
    ValueError
        If no score is finite.
    """
    low, usual = _RANGE.get(len(start), _RANGE_BEYOND)
    high = usual if high is None else high
    best = radius if radius is not None else start
    own = smoothing if smoothing is not None else _FIRST * largest
    least = math.inf
    for _ in range(_ROUNDS):
        if radius is None:
            at = partial(_at, score, own)
            best, least = minimise(at, start, low=low, high=high, step=_STEP, common=True)
        if smoothing is None:
            own, least = _scanned(score, best, own, largest)
    if not math.isfinite(least):
        raise ValueError(
            "cross-validation must find a radius at which every prediction is defined, got none "
            f"from {low:g} to {high:g} times the normal reference; give radius and smoothing"
        )
    ends = np.log([low * start / best, high * start / best]) if radius is None else None
    return _together(score, best, own, largest, ends, smoothing is None)


def _at(score: MixedScore, smoothing: FloatArray, radius: FloatArray) -> float:
    return score(radius, smoothing)


def _scanned(
    score: MixedScore, radius: FloatArray, smoothing: FloatArray, largest: FloatArray
) -> tuple[FloatArray, float]:
    """Return the best smoothing on a grid, one category after the other, and its score."""
    best, least = smoothing.copy(), score(radius, smoothing)
    for k in range(len(best)):
        for share in _SCANNED:
            tried = best.copy()
            tried[k] = share * largest[k]
            value = score(radius, tried)
            if value < least:
                best, least = tried, value
    return best, least


def _together(
    score: MixedScore,
    radius: FloatArray,
    smoothing: FloatArray,
    largest: FloatArray,
    ends: FloatArray | None,
    move_smoothing: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return the least score near by; the logarithm of the radius moves within `ends`."""
    dim, free = 0 if ends is None else len(radius), (largest > 0) & move_smoothing
    if not dim + free.sum():
        return radius, smoothing

    def placed(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        moved = smoothing.copy()
        moved[free] = x[dim:] * largest[free]
        return (radius * np.exp(x[:dim]) if dim else radius), moved

    def value(x: FloatArray) -> float:
        found = score(*placed(x))
        return found if math.isfinite(found) else math.inf

    centre = np.concatenate([np.zeros(dim), smoothing[free] / largest[free]])
    steps = np.concatenate([np.full(dim, 0.15), np.where(centre[dim:] > 0.5, -0.1, 0.1)])
    bounds = [] if ends is None else [tuple(each) for each in ends.T]
    bounds += [(0.0, 1.0)] * int(free.sum())
    options: Any = {
        "initial_simplex": centre + np.vstack([np.zeros(len(centre)), np.diag(steps)]),
        "xatol": 1e-3,
        "fatol": math.inf,
        "maxfev": 60 * len(centre),
    }
    found: Any = minimize(value, centre, method="Nelder-Mead", bounds=bounds, options=options)
    return placed(found.x)


def given_smoothing(
    smoothing: float | Sequence[float] | None, categories: Sequence[Category]
) -> FloatArray | None:
    """Return a checked smoothing per category, None if it is to be chosen.

    Raises
    ------
    ValueError
        For another number of values, or one out of the range of its kernel.
    """
    if smoothing is None:
        return None
    values = np.asarray(smoothing, dtype=np.float64)
    if values.shape not in ((), (len(categories),)):
        raise ValueError(
            f"smoothing must be a number or one for each of the {len(categories)} columns of "
            f"categories, got shape {values.shape}"
        )
    values = np.array(np.broadcast_to(values, (len(categories),)))
    for value, category in zip(values, categories, strict=True):
        end = 1.0 if category.kind == "ordered" else category.largest
        if not (0.0 <= value <= end and value < 1.0):
            raise ValueError(
                f"smoothing of {category.kind} column {category.name!r} must be in [0, {end:g}]"
                f"{' and below 1' if end == 1.0 else ''}, got {value:g}"
            )
    return values
