"""Correction of density estimates with negative parts: max(0, p̂ - ξ), with integral one.

Odd powers of sinc give estimates that are negative in places. Lowered by ξ and cut off at zero,
such an estimate integrates to one for exactly one ξ > 0, and its integrated squared error is never
larger than before: among all densities it is the nearest to p̂ in L² [glad2003correction]_. For
l = 1 the positive part alone has an infinite integral; less any ξ > 0 it has not.

On the line this is exact up to rounding. p̂ has no frequency above l R, so on a grid much finer than
that each extremum is seen; between them p̂ crosses ξ at most once. The integrals between crossings
are those of the kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators.roots import roots_between
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_integer, check_points, check_rng
from fourierkernels.kernels import FourierKernel, Kernel
from fourierkernels.theory.densities import Density, as_density

_PER_PERIOD = 32  # knots in one period of the highest frequency
_MOST_KNOTS = 2**22
_LEAST_SHARE = 1e-13  # of the maximum: no threshold is below
_NEARLY = 0.9  # an integral by the trapezoid rule that may be one
_ROUNDING = 1e-13  # of an integral of one
_NODES = 12  # of Gauss's rule between two knots


class SignedEstimate(Protocol):
    """A fitted density estimate that can be corrected; see `KernelDensity`."""

    points_: FloatArray
    weights_: FloatArray
    kernel_: Kernel
    radius_: FloatArray
    bounds_: FloatArray
    periods_: FloatArray

    def density(self, X: ArrayLike) -> FloatArray:
        """Return p̂ at queries ``(m, 1)``, shape ``(m,)``."""

    def derivative(self, X: ArrayLike) -> FloatArray:
        """Return p̂' at queries ``(m, 1)``, shape ``(m, 1)``."""

    def cdf(self, X: ArrayLike) -> FloatArray:
        """Return the integral of p̂ up to queries ``(m, 1)``, shape ``(m,)``."""


class Pieces(NamedTuple):
    """The intervals in which p̂ is above ξ, from left to right; arrays of shape ``(k,)``."""

    start: FloatArray
    stop: FloatArray
    mass: FloatArray


@dataclass(frozen=True, eq=False)
class ProperDensity:
    """A density p̃(x) = max(0, p̂(x) - ξ) on the line, from :meth:`KernelDensity.proper`.

    Source: [glad2003correction]_.

    Attributes
    ----------
    threshold : float
        ξ.
    start, stop : arrays of shape (k,)
        The intervals outside of which it is zero.

    Examples
    --------
    >>> from fourierkernels import KernelDensity
    >>> x = np.random.default_rng(0).normal(size=(100, 1))
    >>> model = KernelDensity("fourier1").fit(x)
    >>> proper = model.proper()
    >>> bool(model.density([[4.0]])[0] < 0), float(proper.density([[4.0]])[0])
    (True, 0.0)
    >>> proper.ise("gaussian") < model.ise("gaussian")
    True
    """

    estimate: SignedEstimate
    threshold: float
    start: FloatArray
    stop: FloatArray
    _knots: FloatArray

    def density(self, X: ArrayLike) -> FloatArray:
        """Return p̃ at queries of shape ``(m, 1)``; shape ``(m,)``."""
        return np.maximum(self.estimate.density(X) - self.threshold, 0.0)

    def cdf(self, X: ArrayLike) -> FloatArray:
        """Return the integral of p̃ up to queries of shape ``(m, 1)``; shape ``(m,)``; monotone."""
        return self._integral(check_points("X", X, dim=1)[:, 0])

    def probability(self, low: float, high: float) -> float:
        """Return the integral of p̃ from `low` to `high`, which may be infinite.

        Raises
        ------
        ValueError
            If an end is NaN, or `low` above `high`.
        """
        ends = as_real("low, high", [low, high])
        if not ends[0] <= ends[1]:
            raise ValueError(f"low must not be above high, got {low!r} and {high!r}")
        return float(np.diff(self._integral(np.clip(ends, self.start[0], self.stop[-1])))[0])

    def sample(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Return `n` independent draws, shape ``(n, 1)``, by the inverse of the cdf."""
        count = check_integer("n", n)
        knots, below = self._levels
        level = check_rng(rng).random(count) * below[-1]
        cell = np.searchsorted(below, level, side="right") - 1
        draws = roots_between(lambda x: self._integral(x) - level, knots[cell], knots[cell + 1])
        return draws[:, None]

    def ise(self, density: Density | str) -> float:
        """Return ∫ (p̃ - p)² against a known density on the line, by Gauss's rule between knots.

        Exact to rounding for densities that are smooth on the scale of 1/R between their breaks.

        Raises
        ------
        ValueError
            If the density is unknown, or in more than one dimension.
        """
        target = as_density(density)
        if target.dim != 1:
            raise ValueError(f"density must be on the line, got dimension {target.dim}")
        knots = np.unique(np.concatenate([self._levels[0], target.breaks]))
        node, weight = np.polynomial.legendre.leggauss(_NODES)
        half = 0.5 * np.diff(knots)
        x = ((knots[:-1] + half)[:, None] + half[:, None] * node).ravel()
        mine, other = self.density(x[:, None]), np.asarray(target.pdf(x[:, None])).ravel()
        product = (mine * (mine - 2.0 * other)).reshape(-1, _NODES) @ weight
        return float(half @ product + target.roughness)

    @cached_property
    def _levels(self) -> tuple[FloatArray, FloatArray]:
        """Knots of the pieces, their ends included, and the integral up to each."""
        piece = np.searchsorted(self.start, self._knots, side="right") - 1
        within = (piece >= 0) & (self._knots < self.stop[piece])
        knots = np.unique(np.concatenate([self.start, self._knots[within], self.stop]))
        return knots, self._integral(knots)

    @cached_property
    def _before(self) -> FloatArray:
        """The integral up to each start, and in all; shape ``(k + 1,)``."""
        ends = np.stack([self.start, self.stop])
        mass = np.diff(_cumulative(self.estimate, ends.ravel()).reshape(2, -1), axis=0)[0]
        return np.concatenate([[0.0], np.cumsum(mass - self.threshold * (self.stop - self.start))])

    def _integral(self, x: FloatArray) -> FloatArray:
        piece = np.maximum(np.searchsorted(self.start, x, side="right") - 1, 0)
        start = self.start[piece]
        end = np.clip(x, start, self.stop[piece])
        both = _cumulative(self.estimate, np.concatenate([start, end])).reshape(2, -1)
        grown = both[1] - both[0] - self.threshold * (end - start)
        return np.asarray(np.clip(self._before[piece] + grown, 0.0, 1.0))


def proper_density(estimate: SignedEstimate) -> ProperDensity:
    """Return the density max(0, p̂ - ξ) with integral one.

    Raises
    ------
    ValueError
        In more than one dimension or on a circle; for a kernel that is no power of sinc; or if the
        estimate has more extrema than are held at once.
    """
    dim, kernel = estimate.points_.shape[1], estimate.kernel_
    if dim != 1:
        raise ValueError(
            f"X must have 1 column to be made a density, got {dim}: in more dimensions the region "
            "where an estimate is above a level has no exact integral"
        )
    if np.isfinite(estimate.periods_[0]):
        raise ValueError(
            f"period must be None for an estimate to be made a density, got {estimate.periods_[0]}"
        )
    if not isinstance(kernel, FourierKernel):
        raise ValueError(
            f"kernel must be a power of sinc to be made a density, got {kernel.name}: how far its "
            "tails reach above a level is not known"
        )
    threshold, knots, values = _low_threshold(estimate)
    for _ in range(60):  # Newton's method on a convex function, from the left
        pieces = _above(estimate, threshold, knots, values)
        excess = pieces.mass.sum() - 1.0
        if abs(excess) <= _ROUNDING:
            break
        threshold += excess / (pieces.stop - pieces.start).sum()
    return ProperDensity(estimate, float(threshold), pieces.start, pieces.stop, knots)


def _low_threshold(estimate: SignedEstimate) -> tuple[float, FloatArray, FloatArray]:
    """Return a threshold that is not too high, with the knots above it and p̂ at them."""
    highest = float(_line(estimate.density, _grid(estimate, 0.0)).max())
    threshold = 0.5 * highest
    while True:
        knots = _grid(estimate, threshold)
        values = _line(estimate.density, knots)
        if np.trapezoid(np.maximum(values - threshold, 0.0), knots) > _NEARLY:
            knots, values = _with_extrema(estimate, knots, values)
            enough = _above(estimate, threshold, knots, values).mass.sum() >= 1.0
            if enough or threshold < _LEAST_SHARE * highest:
                return threshold, knots, values
        threshold *= 0.5


def _grid(estimate: SignedEstimate, threshold: float) -> FloatArray:
    """Return a fine grid over all places where p̂ can be above the threshold.

    |p̂| is at most R/A_l (R d)^{-l} at a distance d from all samples; over the samples alone for 0.
    """
    kernel, radius = estimate.kernel_, float(estimate.radius_[0])
    reach = 0.0
    if threshold > 0:
        reach = (radius / (kernel.constant * threshold)) ** (1.0 / kernel.support) / radius
    used = estimate.points_[estimate.weights_ > 0, 0]
    low, high = np.clip([used.min() - reach, used.max() + reach], *estimate.bounds_[:, 0])
    step = 2.0 * np.pi / (kernel.support * radius * _PER_PERIOD)
    count = np.ceil((high - low) / step) + 2
    if count > _MOST_KNOTS:
        raise ValueError(
            f"radius must be small enough for {_MOST_KNOTS} knots on the estimate to be made a "
            f"density, got {radius:g}, which needs {count:.0f}"
        )
    return np.linspace(low, high, int(count))


def _with_extrema(
    estimate: SignedEstimate, knots: FloatArray, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the knots with the extrema of p̂ between them, and p̂ at all."""

    def slope(x: FloatArray) -> FloatArray:
        return estimate.derivative(x[:, None])[:, 0]

    sign = np.sign(slope(knots))
    cell = np.flatnonzero(sign[:-1] * sign[1:] < 0)
    extrema = roots_between(slope, knots[cell], knots[cell + 1]) if len(cell) else knots[:0]
    places = np.searchsorted(knots, extrema)
    at_extrema = _line(estimate.density, extrema) if len(cell) else extrema
    return np.insert(knots, places, extrema), np.insert(values, places, at_extrema)


def _above(
    estimate: SignedEstimate, threshold: float, knots: FloatArray, values: FloatArray
) -> Pieces:
    """Return where p̂ is above the threshold, and the integral of the excess of each piece."""
    above = np.concatenate([[False], values > threshold, [False]])
    cell = np.flatnonzero(above[1:-2] != above[2:-1])
    roots = knots[:0]
    if len(cell):
        roots = roots_between(
            lambda x: _line(estimate.density, x) - threshold, knots[cell], knots[cell + 1]
        )
    ends = np.concatenate([knots[:1][above[1:2]], roots, knots[-1:][above[-2:-1]]])
    start, stop = ends[::2], ends[1::2]
    below, upto = _cumulative(estimate, np.concatenate([start, stop])).reshape(2, -1)
    return Pieces(start, stop, upto - below - threshold * (stop - start))


def _line(function: Callable[[ArrayLike], FloatArray], x: FloatArray) -> FloatArray:
    return function(x[:, None])


def _cumulative(estimate: SignedEstimate, x: FloatArray) -> FloatArray:
    return _line(estimate.cdf, x) if len(x) else x
