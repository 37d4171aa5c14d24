"""|φ_n|², the squared empirical characteristic function, from one transform; ties in it.

Every radius of every kernel is scored from the same values: only quadrature weights change.

Values rounded to multiples of δ are ties of independent samples, and their characteristic function
has the period 2π/δ: what lies beyond π/δ is a copy that says nothing about the density. Rules look
at frequencies up to π/δ, which limits the radius to what the rounding resolves.

Points that repeat without such a lattice (replicates of a design) are one: they are merged, each
with its joint weight, and count as (Σw)²/Σw² samples. Repeated rows never come here, see
`fourierkernels.estimators.weights`.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from fourierkernels.estimators.checks import warn_tied
from fourierkernels.estimators.lattice import lattice_step
from fourierkernels.estimators.radius.sample import Sample, Standardised, standardise
from fourierkernels.estimators.weights import weighted_rows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.spectrum import (
    LARGEST_GRID,
    AnyAxis,
    Axis,
    CircleAxis,
    Factor,
    empirical_transform,
    fitted_axis,
)

Terms = tuple[float, float]  # factors of K̂ and of K̂²

_COMFORTABLE_GRID = 2**20
_ACCURACY = 1e-12
# Panel length times range of data. 16 nodes integrate any of these to rounding; the interpolation
# in a panel with a knot errs by 1e-8, 2e-3, 2e-2, and only for pairs a full range apart.
_PHASE = {1: 8.0, 2: 16.0, 3: 20.0}


class TooManyFrequenciesError(ValueError):
    """A transform would be too large: data of very long range, or in D = 3 large radii."""


class SampleSpectrum:
    """|φ_n(t)|², φ_n(t) = Σ p_j exp(i t·x_j), on a tensor grid up to `ends` per dimension.

    Source: [davis1977mean]_ (the idea), [barnett2019finufft]_ (the transform, of type 3).

    Raises
    ------
    ValueError
        If that takes more than 2^23 frequencies: data of very long range, or in D = 3 large
        radii.
    """

    def __init__(self, sample: Standardised, ends: FloatArray, *, rule: str) -> None:
        self.size, self.ends = sample.size, ends
        self.periods, self.axes = periods_of(sample), _axes(sample, ends)
        needed = math.prod(axis.size for axis in self.axes)
        if needed > LARGEST_GRID:
            raise TooManyFrequenciesError(
                f"X must have a range that 2^23 frequencies resolve for radius={rule!r}, got "
                f"ranges of {sample.ranges.round(1)} robust scales, which take "
                f"{needed:.1e}; use 'normal_reference' or give radius as a number"
            )
        self.power = _power(sample, self.axes)

    def integral(self, factors: list[Factor]) -> float:
        """Return (2π)^{-D} ∫ |φ_n(t)|² ∏_d f_d(t_d) dt, one factor per dimension."""
        total = self.power
        for axis, factor in zip(self.axes[::-1], factors[::-1], strict=True):
            # Not a dot product: waking the threads of one costs more than they save.
            total = np.einsum("...i,i->...", total, axis.weights(factor))
        return float(total)


class Spectrum(Protocol):
    """|φ_n|², integrated against products of factors."""

    size: float
    ends: FloatArray
    periods: FloatArray

    def integral(self, factors: list[Factor]) -> float:
        """Return (2π)^{-D} ∫ |φ_n(t)|² ∏_d f_d(t_d) dt, one factor per dimension."""


class KernelScore:
    """The exact MISE, less a constant, with |p̂|² replaced by its unbiased estimate u.

    u = (n|φ_n|² - 1)/(n - 1), so that E u = |p̂|². With K̄(t) = ∏ K̂(t_d/R_d),

        score(R) = (2π)^{-D} [ ∫ u (K̄² - 2K̄) dt + (1/n) ∫ (1 - u) K̄² dt ].

    Without a cut this is least squares cross-validation, identically; with u set to zero beyond a
    `cut` per dimension it is the plug-in estimate of the error.
    """

    def __init__(self, spectrum: Spectrum, kernel: Kernel, cut: FloatArray | None = None) -> None:
        self._spectrum, self._kernel = spectrum, kernel
        self._cut = np.full(len(spectrum.ends), math.inf) if cut is None else cut

    def __call__(self, radius: FloatArray) -> float:
        """Return the score at a radius of shape ``(dim,)``."""
        n = self._spectrum.size
        noise = self._products(radius, np.full(len(radius), math.inf), (0.0, 1.0)) / n
        if len(radius) == 1:  # the sum of both terms is a factor itself: one pass over the nodes
            return noise + self._unbiased(radius, (-2.0, 1.0 - 1.0 / n))
        square, plain = self._unbiased(radius, (0.0, 1.0)), self._unbiased(radius, (1.0, 0.0))
        return noise + (1.0 - 1.0 / n) * square - 2.0 * plain

    def _unbiased(self, radius: FloatArray, terms: Terms) -> float:
        """(2π)^{-D} ∫ u ∏_d (a K̂ + b K̂²) dt up to the cut, for terms (a, b)."""
        places = list(zip(radius, self._cut, strict=True))
        n = self._spectrum.size
        kept = self._spectrum.integral([self._factor(r, c, terms) for r, c in places])
        flat = self._products(radius, self._cut, terms)
        return (n * kept - flat) / (n - 1.0)

    def _products(self, radius: FloatArray, cut: FloatArray, terms: Terms) -> float:
        """(2π)^{-D} ∫ ∏_d (a K̂ + b K̂²) dt up to the cut; a sum where a dimension is a circle."""
        each = zip(self._spectrum.periods, radius, cut, strict=True)
        return math.prod(
            self._flat(r, c, terms) if math.isinf(p) else circle_sum(p, self._factor(r, c, terms))
            for p, r, c in each
        )

    def _factor(self, radius: float, cut: float, terms: Terms) -> Factor:
        knots = radius * np.asarray(self._kernel.knots)
        kept = np.append(knots[knots < cut], min(cut, knots[-1]))

        def function(t: FloatArray) -> FloatArray:
            transform = self._kernel.transform(t / radius)
            return transform * (terms[0] + terms[1] * transform)

        return function, np.unique(kept)

    def _flat(self, radius: float, cut: float, terms: Terms) -> float:
        """(2π)^{-1} ∫ (a K̂ + b K̂²) dt up to the cut; in closed form if that is beyond the end."""
        if cut >= radius * self._kernel.cutoff:
            peak = float(self._kernel.value(0.0))
            return radius * (terms[0] * peak + terms[1] * self._kernel.roughness)
        function, knots = self._factor(radius, cut, terms)
        axis = Axis(float(knots[-1]) / 8, 8, mirrored=False)
        return float(axis.weights((function, knots)).sum())


def circle_sum(period: float, factor: Factor) -> float:
    """Return P^{-1} Σ_m f(2πm/P), the integral over frequencies of a circle."""
    axis = CircleAxis(float(period), float(factor[1][-1]), mirrored=False)
    return float(axis.weights(factor).sum())


def box(end: float) -> Factor:
    """Return the factor that is one up to `end`."""
    return np.ones_like, np.array([end])


def comfortable_factor(sample: Standardised, ends: FloatArray) -> float:
    """Return how many times `ends` a transform of moderate size (2^20) reaches, at least 1.6."""
    needed = math.prod(axis.size for axis in _axes(sample, ends))
    return float(max(1.6, (_COMFORTABLE_GRID / needed) ** (1.0 / sample.dim)))


def periods_of(sample: Standardised) -> FloatArray:
    """Return the period of each column, infinite for lines, as those of a stream all are."""
    periods = getattr(sample, "periods", None)
    return np.full(sample.dim, math.inf) if periods is None else np.asarray(periods)


def _axes(sample: Standardised, ends: FloatArray) -> list[AnyAxis]:
    """Return the frequencies of each column up to `ends`; those of a circle are its own."""
    phase = _PHASE[len(ends)]
    each = zip(sample.ranges, ends, periods_of(sample), strict=True)
    return [
        fitted_axis(float(end), float(reach), phase, mirrored=i > 0)
        if math.isinf(period)
        else CircleAxis(float(period), float(end), mirrored=i > 0)
        for i, (reach, end, period) in enumerate(each)
    ]


def _power(sample: Standardised, axes: list[AnyAxis]) -> FloatArray:
    values = sample.total(partial(empirical_transform, axes=axes, accuracy=_ACCURACY))
    return np.asarray(values.real**2 + values.imag**2)


REPEATED = 1.05  # copies on average from which equal points are one


def settled(
    points: FloatArray,
    weights: FloatArray,
    most: float,
    rule: str,
    periods: FloatArray | None = None,
) -> tuple[Sample, FloatArray]:
    """Return the sample in standard form, and the frequencies up to which it may be looked at.

    Warns if a sample has, itself among them, `most` copies or more on average in a rounded column,
    and if points repeat that are not rounded.

    Returns
    -------
    sample : Sample
    end : array of shape (dim,)
        π/δ of rounded columns, infinite for others.

    Raises
    ------
    ValueError
        If a column does not vary.
    """
    used = points[weighted_rows(weights)]
    ordered = [np.sort(column) for column in used.T]
    sample = standardise(points, weights, periods, ordered)
    values = [_distinct(column) for column in ordered]
    end = _resolved(sample, values, len(used), most, rule)
    repeats = np.isinf(end).any() and _may_repeat(sample, values, len(used))
    if repeats and sample.copies() >= min(most, REPEATED):
        sample = _merged(sample, rule)
    return sample, end


def _counted(sample: Sample) -> bool:
    return bool(sample.weights.max() * sample.size > 1.0 + 1e-9)


def _may_repeat(sample: Sample, values: list[FloatArray], n: int) -> bool:
    """Return False if no two of n points agree in all columns, since they do not in one of them."""
    return _counted(sample) or max(map(len, values)) < n


def resolved(sample: Sample, used: FloatArray, most: float, rule: str) -> FloatArray:
    """Return the frequencies that the rounding of each column resolves, shape ``(dim,)``.

    Infinite for columns that are not rounded; warns as :func:`settled`.
    """
    return _resolved(
        sample, [_distinct(np.sort(column)) for column in used.T], len(used), most, rule
    )


def _resolved(
    sample: Sample, values: list[FloatArray], n: int, most: float, rule: str
) -> FloatArray:
    """Return the same from the distinct values of each column of n points."""
    counted = _counted(sample)
    quanta = np.array([_quantum(each, n, counted) for each in values])
    rounded = np.flatnonzero(quanta > 0)
    tied = [d for d in rounded if _column(sample, int(d)).copies() >= most]
    if tied:
        steps = ", ".join(f"{quanta[d]:.6g} (column {d})" for d in tied)
        warn_tied(
            f"X is rounded to multiples of {steps}: radius={rule!r} looks at frequencies that this "
            "resolves, up to π over the step"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(math.pi * sample.scale / quanta)


def _column(sample: Sample, d: int) -> Sample:
    return Sample(sample.points[:, [d]], sample.weights, sample.size, sample.scale[[d]])


def _merged(sample: Sample, rule: str) -> Sample:
    """Return the sample whose equal points are one, and warn of it."""
    points, place = np.unique(sample.points, axis=0, return_inverse=True)
    shares = np.bincount(place.ravel(), weights=sample.weights).astype(np.float64)
    size = float(1.0 / (shares @ shares))
    warn_tied(
        f"X has repeated points, {sample.copies():.3g} copies of a sample on average: "
        f"radius={rule!r} takes equal points for one sample, {size:.6g} in all instead of "
        f"{sample.size:.6g}"
    )
    return replace(sample, points=points, weights=shares, size=size)


def _distinct(values: FloatArray) -> FloatArray:
    """Return sorted values once each."""
    others = np.append(True, values[1:] != values[:-1])
    return values if others.all() else values[others]


def _quantum(values: FloatArray, n: int, counted: bool) -> float:
    """Return δ if n values coincide, or are counted by weights, and are a multiple of δ apart."""
    ties = counted or len(values) < n
    return lattice_step(values) if ties and len(values) > 1 else 0.0
