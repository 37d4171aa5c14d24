"""Integrated squared error of one sample, exact in the frequency domain.

By Plancherel, ISE = (2π)^{-D} ∫ |φ_n(t) K̄(t) - p̂(t)|² dt with φ_n the (weighted) empirical
characteristic function: one transform of the sample, whatever the radius. No grid in x, no
truncated tail; beyond K̄ the integral is that of |p̂|², in closed form or as in the exact MISE.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import check_points, check_radius, check_weights
from fourierkernels.kernels import FourierKernel, Kernel, as_kernel
from fourierkernels.sums.spectrum import (
    LARGEST_GRID,
    Axis,
    direct_transform,
    empirical_transform,
    fitted_axis,
)
from fourierkernels.theory.densities import Density, as_density
from fourierkernels.theory.density_error import check_dimension, error_parts, marginals

_ACCURACY = 1e-14
# Panel length times range of data: 16 nodes integrate |φ|² to rounding. In a panel with a knot φ
# itself is interpolated, to 2e-12, 3e-11, 3e-9 for points at the ends of the range.
_PHASE = {1: 10.0, 2: 12.0, 3: 16.0}
_BLOCK = 2**21  # waves of far points at the frequencies of an axis, held at once
_NEGLIGIBLE = 1e-9  # of K̂: less than 1e-18/n of the error
_STEP, _MOST_STEPS = 0.5, 1000  # in which the last frequency where K̂ is more is looked for


class IseCurve:
    """The ISE of one sample as a function of the radius, from one transform.

    Parameters
    ----------
    density : Density or str
    kernel : Kernel or str
    sample : array of shape (n, dim)
    largest : float or array of shape (dim,)
        The largest radius that will be asked for.
    weights : array of shape (n,), optional
    most : int
        Frequencies allowed. A sample of longer range is refused, or with `clip` its far points are
        summed directly at frequencies that do not resolve them: the value is then no longer the
        ISE of the sample, but its mean over samples still is.

    Attributes
    ----------
    resolved : bool
        Whether the range of the sample is resolved; if so, values are exact.
    frequencies : int
        How many the transform went to.

    Raises
    ------
    ValueError
        For a sample that is empty or not finite, more than three dimensions, a radius that is not
        positive, weights that are negative or all zero, a density that is not square integrable, a
        sample whose range needs too many frequencies.

    Examples
    --------
    >>> sample = np.random.default_rng(0).normal(size=(1000, 1))
    >>> curve = IseCurve("gaussian", "fourier4", sample, largest=5.0)
    >>> [f"{curve(radius):.5f}" for radius in (1.0, 2.0, 4.0)]
    ['0.01054', '0.00110', '0.00113']
    """

    def __init__(
        self,
        density: Density | str,
        kernel: Kernel | str,
        sample: ArrayLike,
        *,
        largest: ArrayLike,
        weights: ArrayLike | None = None,
        most: int = LARGEST_GRID,
        clip: bool = False,
    ) -> None:
        points = check_points("sample", sample)
        n, dim = points.shape
        self._density, self._kernel = as_density(density), as_kernel(kernel)
        if check_dimension(self._density, dim) != dim or dim > 3:
            raise ValueError(
                f"sample must have {min(3, self._density.dim)} columns at most for the ISE of this "
                f"density in frequency, got {dim}"
            )
        shares = np.ones(n) if weights is None else check_weights("weights", weights, n)
        self._largest = check_radius(largest, dim)
        low, high = self._box(points)
        self._centre = 0.5 * (low + high)
        self._axes = self._fitted(high - low)
        needed = math.prod(axis.size for axis in self._axes)
        self.resolved = needed <= most
        if not self.resolved and not clip:
            raise ValueError(
                f"sample must span a shorter range: its ISE in frequency needs {needed:.1e} "
                f"frequencies, more than {most:.1e}"
            )
        reach = high - low
        if not self.resolved:  # about the density: the middle of the range may be an outlier's
            self._centre = _location(self._density, dim)
            reach = 2.0 * np.maximum(high - self._centre, self._centre - low)
            reach = reach * self._clipping(reach, most)
            self._axes = self._fitted(reach)
        self.frequencies = math.prod(axis.size for axis in self._axes)
        self._values = self._transformed(points - self._centre, shares / shares.sum(), 0.5 * reach)

    def __call__(self, radius: ArrayLike) -> float:
        """Return the ISE at a radius, one or one per dimension.

        Raises
        ------
        ValueError
            If it is not positive, or above `largest`.
        """
        radii = check_radius(radius, len(self._axes))
        if np.any(radii > self._largest * (1.0 + 1e-12)):
            raise ValueError(f"radius must be at most {self._largest}, got {radius!r}")
        return self._inside(radii) + self._beyond(radii)

    def _box(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends, per dimension, of a box that holds the sample and the density."""
        margin = 4.0 / self._density.spectral_scale
        location = _location(self._density, points.shape[1])
        low = np.minimum(points.min(axis=0), location - margin)
        return low, np.maximum(points.max(axis=0), location + margin)

    def _fitted(self, reach: FloatArray) -> list[Axis]:
        return [
            fitted_axis(
                float(self._knots(r)[-1]),
                float(span),
                _PHASE[len(reach)],
                mirrored=d > 0,
                knots=self._knots(r),
            )
            for d, (r, span) in enumerate(zip(self._largest, reach, strict=True))
        ]

    def _clipping(self, reach: FloatArray, most: int) -> float:
        """Largest power of 1/2 for which the frequencies are not too many."""
        share = 1.0
        while math.prod(axis.size for axis in self._fitted(share * reach)) > most:
            share *= 0.5
        return share

    def _transformed(
        self, points: FloatArray, shares: FloatArray, reach: FloatArray
    ) -> ComplexArray:
        """φ_n of centred points: one transform; those out of reach, if any, by direct sums."""
        if self.resolved:
            return empirical_transform(points, shares, self._axes, accuracy=_ACCURACY)
        near = (np.abs(points) <= reach).all(axis=1)
        total = np.zeros([axis.size for axis in self._axes], np.complex128)
        if near.any():
            total += empirical_transform(points[near], shares[near], self._axes, accuracy=_ACCURACY)
        far, left = points[~near], shares[~near]
        rows = max(1, _BLOCK // max(axis.size for axis in self._axes))
        for i in range(0, len(far), rows):
            total += direct_transform(far[i : i + rows], left[i : i + rows], self._axes)
        return total

    def _inside(self, radii: FloatArray) -> float:
        """Return the integral where K̄ > 0."""
        parts = [
            axis.resampled(self._knots(float(r))) for axis, r in zip(self._axes, radii, strict=True)
        ]
        gap = self._values
        for place, part in enumerate(parts):
            gap = part.apply(gap, place)
        nodes = [part.nodes for part in parts]
        filters = (self._kernel.transform(t / r) for t, r in zip(nodes, radii, strict=True))
        gap = gap * math.prod(np.ix_(*filters))
        gap -= self._target(nodes)
        values = np.square(gap.real) + np.square(gap.imag)
        for part in parts:  # each pass sums over the leading axis
            values = np.tensordot(part.weights, values, axes=1)
        return float(values)

    def _target(self, nodes: list[FloatArray]) -> ComplexArray:
        """p̂ at the nodes, for the density moved to the centre of the box."""
        phases = [np.exp(-1j * c * t) for c, t in zip(self._centre, nodes, strict=True)]
        lines = marginals(self._density, len(nodes))
        if lines is not None:
            factors = (
                line.cf(t) * phase for line, t, phase in zip(lines, nodes, phases, strict=True)
            )
            return np.asarray(math.prod(np.ix_(*factors)))
        grid = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1)
        return np.asarray(self._density.cf(grid) * math.prod(np.ix_(*phases)))

    def _beyond(self, radii: FloatArray) -> float:
        """∫|p̂|² where K̄ = 0: the squared bias of a box."""
        ends = np.array([self._knots(float(radius))[-1] for radius in radii])
        if np.all(ends > self._density.spectral_range):
            return 0.0
        return error_parts(self._density, FourierKernel(1), ends).bias

    def _knots(self, radius: float) -> FloatArray:
        knots = np.asarray(self._kernel.knots)
        if math.isinf(self._kernel.support):
            end = min(_last_frequency(self._kernel), knots[-1])
            knots = np.append(knots[knots < end], end)
        return np.asarray(radius * knots)


@lru_cache(maxsize=32)
def _last_frequency(kernel: Kernel) -> float:
    """Return where K̂ becomes negligible; the cutoff if that is beyond all steps."""
    steps = min(math.ceil(kernel.cutoff / _STEP), _MOST_STEPS)
    s = _STEP * np.arange(1, steps + 1)
    kept = np.flatnonzero(np.abs(kernel.transform(s)) >= _NEGLIGIBLE)
    last = int(kept[-1]) + 1 if len(kept) else 0
    return float(s[last]) if last < steps else kernel.cutoff


def ise(
    density: Density | str,
    kernel: Kernel | str,
    sample: ArrayLike,
    *,
    radius: ArrayLike,
    weights: ArrayLike | None = None,
) -> float:
    """Return the integrated squared error of the density estimate from one sample.

    Parameters
    ----------
    density : Density or str
    kernel : Kernel or str
    sample : array of shape (n, dim)
    radius : float or array of shape (dim,)
    weights : array of shape (n,), optional

    Raises
    ------
    ValueError
        As :class:`~fourierkernels.theory.IseCurve`, which serves many radii.

    Examples
    --------
    >>> sample = np.array([[-1.0], [0.0], [1.0]])
    >>> round(ise("gaussian", "fourier4", sample, radius=2.0), 4)
    0.0133
    """
    radii = check_radius(radius, np.shape(sample)[-1] if np.ndim(sample) == 2 else 1)
    return IseCurve(density, kernel, sample, largest=radii, weights=weights)(radii)


def _location(density: Density, dim: int) -> FloatArray:
    """Return where the density lies: the slope of the phase of p̂ at 0, shape ``(dim,)``."""
    step = 1e-6 * density.spectral_scale
    lines = marginals(density, dim)
    if lines is not None:
        values = np.array([complex(line.cf(step)) for line in lines])
    else:
        values = np.asarray(density.cf(step * np.eye(dim)))
    return np.asarray(np.angle(values) / step)
