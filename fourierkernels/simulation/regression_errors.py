"""The result of simulated regressions: bias, variance and squared error of each replicate.

Integrated errors are over the box that holds the bulk of the density, by quadrature.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.simulation.mise import Estimate, draw
from fourierkernels.theory.densities import Density
from fourierkernels.theory.densities.panels import panels

NODES = {1: 96, 2: 24, 3: 10}  # per dimension, of the integrated error


@lru_cache
def central_box(density: Density, dim: int = 1) -> tuple[tuple[float, float], ...]:
    """Return (low, high) per dimension: 5 % and 95 % quantiles of 2^16 draws with a fixed seed.

    Examples
    --------
    >>> from fourierkernels.theory.densities import Gaussian
    >>> low, high = central_box(Gaussian())[0]
    >>> print(f"{low:.2f} {high:.2f}")
    -1.64 1.63
    """
    sample = draw(density, 2**16, np.random.default_rng(0), dim=dim)
    low, high = np.quantile(sample, [0.05, 0.95], axis=0)
    return tuple((float(a), float(b)) for a, b in zip(low, high, strict=True))


def quadrature(
    density: Density, dim: int = 1, *, nodes: int | None = None, breaks: tuple[float, ...] = ()
) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre points ``(m, dim)`` on the central box and weights for ∫ g(x) p(x) dx.

    Parameters
    ----------
    nodes : int, optional
        Per dimension and piece; by default 96, 24 or 10 in one, two or three dimensions.
    breaks : tuple of float
        Where f is not smooth: the box is cut there, in every dimension.
    """
    order = nodes or NODES[dim]
    axes = [_side(box, breaks, order) for box in central_box(density, dim)]
    grid = np.meshgrid(*(x for x, _ in axes), indexing="ij")
    points = np.stack([axis.ravel() for axis in grid], axis=1)
    weights = np.ravel(math.prod(np.ix_(*(weight for _, weight in axes))))
    return points, weights * density_at(density, points)


def _side(
    box: tuple[float, float], breaks: tuple[float, ...], order: int
) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of one side of the box, in each piece symmetric about its middle."""
    low, high = box
    ends = (low, *(place for place in breaks if low < place < high), high)
    nodes, weights = [], []
    for a, b in pairwise(ends):
        half = 0.5 * (b - a)
        place, share = panels((-half, half), order=order)
        nodes.append(0.5 * (a + b) + place)
        weights.append(share)
    return np.concatenate(nodes), np.concatenate(weights)


def density_at(density: Density, points: FloatArray) -> FloatArray:
    """Return the density at points of shape ``(m, dim)``: its own, or the product of copies."""
    if density.dim > 1:
        return density.pdf(points)
    return np.asarray(density.pdf(points).prod(axis=1))


_NEAR_ZERO = 0.1  # of the density: denominators below it make the heavy tail
_GROUPS = 16  # whose means the robust centre is the median of


@dataclass(frozen=True)
class RegressionError:
    """Simulated errors of regression at m points, one row per replicate.

    Attributes
    ----------
    points : array of shape (m, dim)
    truth : array of shape (m,)
        f at the points.
    bias : array of shape (replicates, m)
        Σ W_i f(x_i) - f(x), given the design; NaN where the fit is undefined.
    variance : array of shape (replicates, m)
        Σ W_i² σ²(x_i), given the design.
    error : array of shape (replicates, m)
        f̂(x) - f(x), with the noise drawn.
    denominator : array of shape (replicates, m)
        Estimated over true density, about 1; near 0 the ratio is wild.
    measure : array of shape (m,) or None
        Weights of the integrated error (quadrature times density), if it was asked for.
    """

    points: FloatArray
    truth: FloatArray
    bias: FloatArray
    variance: FloatArray
    error: FloatArray
    denominator: FloatArray
    measure: FloatArray | None = None

    @cached_property
    def values(self) -> FloatArray:
        """Mean squared error given the design, shape ``(replicates, m)``."""
        return np.square(self.bias) + self.variance

    @property
    def mean(self) -> FloatArray:
        """MSE at each point, shape ``(m,)``: the mean of `values` where they are defined."""
        return _over_columns(self.values, np.mean)

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of `mean`, shape ``(m,)``."""
        return _over_columns(self.values, _standard_error)

    @property
    def robust(self) -> FloatArray:
        """Median of the means of 16 groups of `values`, shape ``(m,)``.

        It estimates `mean` and does not follow a few wild replicates: signed kernels have a heavy
        tail, because their denominators can come near zero.
        """
        return _over_columns(self.values, median_of_means)

    @property
    def median(self) -> FloatArray:
        """Median of the squared errors with the noise drawn, shape ``(m,)``.

        Not an estimate of the mean: for normal errors without bias it is 0.455 of it.
        """
        return _over_columns(np.square(self.error), np.median)

    @property
    def plain_mean(self) -> FloatArray:
        """Mean of the squared errors with the noise drawn, shape ``(m,)``: `mean`, less exactly."""
        return _over_columns(np.square(self.error), np.mean)

    @property
    def plain_standard_error(self) -> FloatArray:
        """Standard error of `plain_mean`, shape ``(m,)``."""
        return _over_columns(np.square(self.error), _standard_error)

    @property
    def undefined(self) -> FloatArray:
        """Share of replicates where the denominator is zero within its own error, ``(m,)``."""
        return np.asarray(np.isnan(self.bias).mean(axis=0))

    @property
    def near_zero(self) -> FloatArray:
        """Share of replicates with a denominator below a tenth of the density, ``(m,)``."""
        return np.asarray((self.denominator < _NEAR_ZERO).mean(axis=0))

    @property
    def integrated(self) -> Estimate:
        """∫ MSE(x) p(x) dx over the box of `central_box`, per replicate and in the mean.

        NaN in a replicate with an undefined node.

        Raises
        ------
        ValueError
            If points were given: it is the error simulated without them.
        """
        if self.measure is None:
            raise ValueError(f"at must be None for an integrated error, got {len(self.points)}")
        return Estimate(np.asarray(self.values @ self.measure))


def median_of_means(values: FloatArray) -> float:
    """Return the median of the means of 16 groups: a mean that a few wild values cannot move."""
    groups = np.array_split(values, min(_GROUPS, len(values)))
    return float(np.median([group.mean() for group in groups]))


def _over_columns(values: FloatArray, statistic: Callable[[FloatArray], float]) -> FloatArray:
    """Apply a statistic to the defined values of each column; NaN where there are none."""
    columns = (column[~np.isnan(column)] for column in values.T)
    return np.array([statistic(c) if len(c) > 1 else math.nan for c in columns])


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))
