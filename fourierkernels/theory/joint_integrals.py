"""Bias and noise of densities in several dimensions that are not products.

In D <= 3 it is a sum over nodes, block by block. A normal density with one common correlation has
any D: with a standard normal Z, exp(-ρ (Σ t_d)²) = E exp(i √(2ρ) Z Σ t_d), so that given Z
coordinates separate,

    (2π)^{-D} ∫ exp(-tᵀΣt) ∏ K̂(t_d/R_d)^j dt = E ∏ g_j(Z; R_d),
    g_j(z; R) = (1/π) ∫_0^∞ exp(-(1-ρ)t²) K̂(t/R)^j cos(√(2ρ) z t) dt,

and the squared bias is that of j = 0 less twice that of j = 1 plus that of j = 2: a difference, so
that what is left of a small bias has an absolute error of about 1e-15 ∫p².
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import FloatArray, IntArray
from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import CorrelatedGaussian, Density, HasSpectralWindow
from fourierkernels.theory.densities.panels import panels
from fourierkernels.theory.frequency_integrals import Parts, axis_nodes

_WAVES = 2**22  # cosines held at once
_REFINE = 4.0  # panels in t: the cosine has up to 13 radians a unit
_LARGEST_Z, _LEAST_PANELS = 9.0, 36
_LARGEST_WIDTH = 4.9  # standard deviations of a normal curve that 16 nodes integrate to rounding,
_LARGEST_PHASE = 16.0  # and radians of a cosine


def separates(density: object) -> bool:
    """Whether the integrals of a density separate so: one correlation, not negative."""
    return isinstance(density, CorrelatedGaussian) and density.correlation >= 0.0


def factor_parts(density: CorrelatedGaussian, kernel: Kernel, radii: FloatArray) -> Parts:
    """Return bias and noise at one radius per dimension."""
    count = _factor_panels(density, kernel, radii)
    z, normal = _factor_nodes(count)
    once, twice = np.ones_like(z), np.ones_like(z)
    for radius in radii:
        first, second = _conditional(density, kernel, float(radius), count)
        once, twice = once * first, twice * second
    kept = float(normal @ twice)
    bias = density.roughness - 2.0 * float(normal @ once) + kept
    noise = math.prod(kernel.roughness * float(radius) for radius in radii) - kept
    return Parts(max(0.0, bias), max(0.0, noise))


def _factor_panels(density: CorrelatedGaussian, kernel: Kernel, radii: FloatArray) -> int:
    """Return the number of panels that resolve the product over coordinates as a curve in z.

    For R -> ∞ it is a normal curve of variance (1-ρ)/(ρD), and no narrower at a finite R, where it
    has no higher frequency than √(2ρ) times the sum of the largest t that kernels keep.
    """
    rho = density.correlation
    narrow = math.sqrt((1.0 - rho) / max(rho * density.dim, 1.0 - rho))
    fastest = math.sqrt(2.0 * rho) * kernel.cutoff * float(sum(radii))
    shortest = max(_LARGEST_WIDTH * narrow, _LARGEST_PHASE / max(fastest, 1.0))
    return max(_LEAST_PANELS, math.ceil(2.0 * _LARGEST_Z / shortest))


@lru_cache(maxsize=8)
def _factor_nodes(count: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes z and weights of the standard normal."""
    z, weight = panels(np.linspace(-_LARGEST_Z, _LARGEST_Z, count + 1))
    return z, weight * np.exp(-0.5 * np.square(z)) / math.sqrt(2.0 * math.pi)


@lru_cache(maxsize=64)
def _conditional(
    density: CorrelatedGaussian, kernel: Kernel, radius: float, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return g_1 and g_2 at the nodes in z."""
    t, weight = axis_nodes(density, kernel, radius, refine=_REFINE)
    kept = kernel.transform(t / radius)
    weight = weight * np.exp(-(1.0 - density.correlation) * np.square(t)) * kept / math.pi
    once, twice = [], []
    z, _ = _factor_nodes(count)
    for part in np.array_split(z, math.ceil(z.size * t.size / _WAVES)):
        waves = np.cos(np.outer(math.sqrt(2.0 * density.correlation) * part, t))
        once.append(waves @ weight)
        twice.append(waves @ (weight * kept))
    return np.concatenate(once), np.concatenate(twice)


LARGEST_TENSOR = 3  # dimensions
_BLOCK = 2**16  # nodes held at once
_LARGEST_REST = 2**22  # rows of nodes
_LARGEST_GRID = 2**27  # nodes of one integral: about ten seconds


@lru_cache(maxsize=1024)
def joint_parts(
    density: Density, kernel: Kernel, radii: tuple[float, ...], *, refine: float = 1.0
) -> Parts:
    """Return bias and noise at one radius per dimension.

    Rows are the nodes in t_1 ... t_{D-1} (t_1 > 0: integrands are even); each row sums over the
    nodes in t_D that the density's window leaves. What K̄ keeps outside is pure noise and has the
    closed form ∏ R_d ∫K² less what was inside; what |p̂|² keeps beyond the nodes (only if it has
    no end) is ∫p² less what was inside.

    Parameters
    ----------
    refine : float
        Panels are that much shorter: the difference of two values states the error.

    Raises
    ------
    ValueError
        If that takes more than 2^27 nodes.
    """
    grid = _Grid(density, kernel, radii, refine)
    bias = noise = box = energy = 0.0
    for nodes, weights, kept, gap in grid.blocks():
        power, missing = density.power(nodes)
        noisy, energetic = weights * np.square(kept), weights * power
        box += float(noisy.sum())
        noise += float(np.vdot(noisy, missing))
        bias += float(np.vdot(energetic, np.square(gap)))
        energy += float(energetic.sum())
    if not grid.holds_kernel:
        noise += max(0.0, math.prod(kernel.roughness * radius for radius in radii) - box)
    if math.isinf(density.spectral_range):
        bias += max(0.0, density.roughness - energy)
    return Parts(bias, noise)


class _Table(NamedTuple):
    """Frequencies ``(q, d)``, weights over (2π)^d, K̄ and 1 - K̄, each ``(q,)``."""

    t: FloatArray
    weights: FloatArray
    kept: FloatArray
    gap: FloatArray

    def times(self, other: "_Table") -> "_Table":
        """Return the table of the tensor grid."""
        i, j = (index.ravel() for index in np.indices((len(self.t), len(other.t))))
        gap = self.gap[i] + self.kept[i] * other.gap[j]
        return _Table(
            np.hstack([self.t[i], other.t[j]]),
            self.weights[i] * other.weights[j],
            self.kept[i] * other.kept[j],
            gap,
        )


class _Grid:
    """A tensor grid whose rows along the last axis end where |p̂|² does."""

    def __init__(
        self, density: Density, kernel: Kernel, radii: tuple[float, ...], refine: float
    ) -> None:
        axes = [axis_nodes(density, kernel, radius, refine=refine) for radius in radii]
        _refuse_more(math.prod(2 * len(t) for t, _ in axes[:-1]) // 2, _LARGEST_REST)
        first, *others = (
            _table(kernel, radius, t, weights, mirrored=d > 0)
            for d, (radius, (t, weights)) in enumerate(zip(radii, axes, strict=True))
        )
        self._last = others.pop()
        self._rest = first
        for table in others:
            self._rest = self._rest.times(table)
        self._start, self._stop = self._window(density)
        width = self._stop - self._start
        _refuse_more(int(width.sum()), _LARGEST_GRID)
        self._order = np.argsort(-width, kind="stable")[: np.count_nonzero(width)]
        self.holds_kernel = self._holds_kernel() and all(
            radius * kernel.cutoff <= density.spectral_range for radius in radii
        )

    def blocks(self) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
        """Yield nodes ``(rows, width, D)``, and weights, K̄ and 1 - K̄ at them."""
        place = 0
        while place < len(self._order):
            widest = self._order[place]
            width = int(self._stop[widest] - self._start[widest])
            rows = self._order[place : place + max(1, _BLOCK // width)]
            place += len(rows)
            yield self._block(rows, width)

    def _block(
        self, rows: IntArray, width: int
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        rest, last = self._rest, self._last
        column = self._start[rows][:, None] + np.arange(width)
        used = column < self._stop[rows][:, None]
        column = np.minimum(column, len(last.t) - 1)
        nodes = np.empty((*column.shape, rest.t.shape[1] + 1))
        nodes[..., :-1], nodes[..., -1] = rest.t[rows][:, None, :], last.t[column, 0]
        weights = np.where(used, rest.weights[rows][:, None] * last.weights[column], 0.0)
        kept = rest.kept[rows][:, None]
        gap = rest.gap[rows][:, None] + kept * last.gap[column]
        return nodes, weights, kept * last.kept[column], gap

    def _window(self, density: Density) -> tuple[IntArray, IntArray]:
        count, t = len(self._rest.t), self._last.t[:, 0]
        if not isinstance(density, HasSpectralWindow):
            return np.zeros(count, int), np.full(count, len(t))
        low, high = density.spectral_window(self._rest.t)
        start = np.searchsorted(t, low)
        return start, np.maximum(start, np.searchsorted(t, high, side="right"))

    def _holds_kernel(self) -> bool:
        """Whether no node with K̄ > 0 lies outside the windows."""
        used, rows = np.flatnonzero(self._last.kept), self._rest.kept > 0
        return bool(np.all(self._start[rows] <= used[0]) and np.all(self._stop[rows] > used[-1]))


def _table(
    kernel: Kernel, radius: float, t: FloatArray, weights: FloatArray, *, mirrored: bool
) -> _Table:
    """Return one axis: its positive half with doubled weights, or both halves in order."""
    if mirrored:
        t, weights = np.append(-t[::-1], t), 0.5 * np.append(weights[::-1], weights)
    s = t / radius
    return _Table(t[:, None], weights / math.pi, kernel.transform(s), kernel.gap(s))


def _refuse_more(count: int, most: int) -> None:
    if count > most:
        raise ValueError(
            f"density and radius must be resolved by {most:.1e} nodes in frequency, got {count:.1e}"
        )
