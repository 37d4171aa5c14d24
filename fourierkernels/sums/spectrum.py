"""The empirical characteristic function of a sample on panels in frequency: one transform.

Every radius of every kernel is served by the same values: only quadrature weights change, and
panels that a knot of K̂ cuts are integrated piece by piece, the values interpolated by their 16.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import finufft
import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import ComplexArray, FloatArray

Factor = tuple[Callable[[FloatArray], FloatArray], FloatArray]  # even f(t), its knots > 0, end last

LARGEST_GRID = 2**23  # frequencies: about 0.8 GB with the transform's workspace
_EDGE = 1e-10  # of a panel
_FEW = {1: 16, 2: 64, 3: 256}  # samples: direct sums up to here
_BLOCK = 2**21  # phases held at once by direct sums
_ORDER = 16  # nodes of a panel
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_ORDER)
_TRANSFORMS = {1: finufft.nufft1d3, 2: finufft.nufft2d3, 3: finufft.nufft3d3}
_VALUES = np.polynomial.legendre.legvander(_NODES, _ORDER - 1)  # (node, degree)
_INTERPOLATION = (_VALUES * _WEIGHTS[:, None] * (np.arange(_ORDER) + 0.5)).T  # values to series


class _Piece(NamedTuple):
    """A panel that knots cut: nodes and weights up to the last knot, and how values get there."""

    panel: int
    nodes: FloatArray  # (q,)
    weights: FloatArray  # (q,)
    interpolation: FloatArray  # (q, 16)


@dataclass(frozen=True)
class Axis:
    """Gauss-Legendre panels of one length on [0, panels · length], perhaps mirrored.

    Attributes
    ----------
    length : float
    panels : int
    mirrored : bool
        Whether the negative half-line has its own nodes; if not, integrands are even.
    """

    length: float
    panels: int
    mirrored: bool

    @property
    def size(self) -> int:
        """Number of nodes."""
        return _ORDER * self.panels * (2 if self.mirrored else 1)

    @cached_property
    def nodes(self) -> FloatArray:
        """Nodes t, shape ``(size,)``."""
        half = self._positive.ravel()
        return np.append(half, -half) if self.mirrored else half

    @cached_property
    def _positive(self) -> FloatArray:
        middle = np.arange(self.panels)[:, None] + 0.5
        return np.asarray(self.length * (middle + 0.5 * _NODES))  # (panels, 16)

    def weights(self, factor: Factor) -> FloatArray:
        """Return q with q @ g(nodes) = (2π)^{-1} ∫ f(t) g(t) dt, up to the last knot of f."""
        function, knots = factor
        used = self._used(knots)
        weight = np.zeros((self.panels, _ORDER))
        weight[:used] = 0.5 * self.length * _WEIGHTS * function(self._positive[:used])
        for piece in self._pieces(knots):
            weight[piece.panel] = (piece.weights * function(piece.nodes)) @ piece.interpolation
        return self._halves(weight.ravel())

    def resampled(self, knots: FloatArray) -> "Resampling":
        """Return nodes up to the last knot such that no panel is cut by a knot."""
        pieces = self._pieces(knots)
        whole = np.setdiff1d(np.arange(self._used(knots)), [piece.panel for piece in pieces])
        plain = np.tile(0.5 * self.length * _WEIGHTS, len(whole))
        nodes = np.concatenate([self._positive[whole].ravel(), *(p.nodes for p in pieces)])
        weights = self._halves(np.concatenate([plain, *(p.weights for p in pieces)]))
        if self.mirrored:
            nodes = np.append(nodes, -nodes)
        return Resampling(nodes, weights, self, whole, pieces)

    def _halves(self, weight: FloatArray) -> FloatArray:
        half = weight / (2.0 * math.pi)
        return np.append(half, half) if self.mirrored else 2.0 * half

    def _places(self, knots: FloatArray) -> FloatArray:
        """Knots in panels, those at the edge of two panels exactly there."""
        places = knots / self.length
        edges = np.round(places)
        return np.where(np.abs(places - edges) < _EDGE, edges, places)

    def _used(self, knots: FloatArray) -> int:
        return min(self.panels, math.ceil(float(self._places(knots)[-1])))

    def _pieces(self, knots: FloatArray) -> list[_Piece]:
        places = self._places(knots)
        cut = sorted({math.floor(place) for place in places if place != round(place)})
        return [self._piece(places, int(panel)) for panel in cut if panel < self.panels]

    def _piece(self, places: FloatArray, panel: int) -> _Piece:
        cuts = places - panel
        cuts = np.concatenate([[0.0], cuts[(cuts > 0) & (cuts < 1)], [min(1.0, cuts[-1])]])
        half = 0.5 * np.diff(cuts)[:, None]
        place = (cuts[:-1, None] + half * (1.0 + _NODES)).ravel()  # in [0, 1], pieces in turn
        series = np.polynomial.legendre.legvander(2.0 * place - 1.0, _ORDER - 1)
        weights = (half * _WEIGHTS).ravel() * self.length
        nodes = np.asarray(self.length * (panel + place))
        return _Piece(panel, nodes, weights, np.asarray(series @ _INTERPOLATION))


@dataclass(frozen=True)
class Resampling:
    """Nodes of one axis whose panels no knot cuts, with weights over 2π."""

    nodes: FloatArray
    weights: FloatArray
    axis: Axis
    whole: NDArray[np.integer]
    pieces: list[_Piece]

    def apply(self, values: ComplexArray, place: int) -> ComplexArray:
        """Return values at the nodes of the axis, its dimension at `place`, at the new nodes."""
        moved = np.moveaxis(values, place, 0)
        rest = moved.shape[1:]
        panels = moved.reshape(-1, self.axis.panels, _ORDER, math.prod(rest))  # halves first
        parts = [panels[:, self.whole].reshape(len(panels), -1, panels.shape[-1])]
        parts += [np.matmul(p.interpolation, panels[:, p.panel]) for p in self.pieces]
        joined = np.concatenate(parts, axis=1).reshape(-1, *rest)
        return np.moveaxis(joined, 0, place)


@dataclass(frozen=True)
class CircleAxis:
    """The frequencies 2πm/P of a circle up to `end`, perhaps mirrored: sums instead of integrals.

    Attributes
    ----------
    period, end : float
    mirrored : bool
        As of an :class:`Axis`; zero is then there twice, with half of its weight.
    """

    period: float
    end: float
    mirrored: bool

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self._positive) * (2 if self.mirrored else 1)

    @cached_property
    def nodes(self) -> FloatArray:
        """Frequencies, shape ``(size,)``."""
        return np.append(self._positive, -self._positive) if self.mirrored else self._positive

    @cached_property
    def _positive(self) -> FloatArray:
        turn = 2.0 * math.pi / self.period
        return np.asarray(turn * np.arange(math.floor(self.end / turn * (1.0 + _EDGE)) + 1))

    def weights(self, factor: Factor) -> FloatArray:
        """Return q with q @ g(nodes) = P^{-1} Σ_m f(2πm/P) g(2πm/P), up to the last knot of f."""
        function, knots = factor
        t = self._positive
        half = np.where(t <= knots[-1] * (1.0 + _EDGE), function(t), 0.0) / self.period
        half[0] *= 0.5
        return np.append(half, half) if self.mirrored else 2.0 * half


AnyAxis = Axis | CircleAxis


def fitted_axis(
    end: float,
    reach: float,
    phase: float,
    *,
    mirrored: bool,
    knots: FloatArray | None = None,
) -> Axis:
    """Return panels up to `end`, at least four, whose length times `reach` is at most `phase`.

    A few more are taken if then all `knots` lie at edges of panels.
    """
    panels = math.ceil(max(4.0, end * reach / phase))
    if knots is not None:
        counts = np.arange(panels, panels + _ORDER)
        places = counts[:, None] * (knots / end)
        fits = (np.abs(places - np.round(places)) < _EDGE).all(axis=1)
        panels = int(counts[np.argmax(fits)])  # the first if none fits
    return Axis(end / panels, panels, mirrored=mirrored)


def empirical_transform(
    points: FloatArray, shares: FloatArray, axes: Sequence[AnyAxis], *, accuracy: float
) -> ComplexArray:
    """Return Σ p_j exp(i t·x_j) at the tensor grid of the axes; D at most 3.

    Parameters
    ----------
    points : array of shape (n, D)
        Best centred: the transform works on its largest absolute value.
    shares : array of shape (n,)
    axes : sequence of D axes
    accuracy : float
        Relative to Σ p_j.
    """
    if len(points) <= _FEW[len(axes)]:
        return direct_transform(points, shares, axes)
    coordinates = [np.ascontiguousarray(column) for column in points.T]
    strengths = shares.astype(np.complex128)
    options = {"isign": 1, "eps": accuracy, "nthreads": 1}
    if len(axes) == 1:
        (t,) = (axis.nodes for axis in axes)
        # Frequencies that are not centred cost one complex exponential per point.
        both = np.append(t, -t) if len(t) < len(points) else t
        return np.asarray(finufft.nufft1d3(*coordinates, strengths, both, **options)[: len(t)])
    grids = np.meshgrid(*(axis.nodes for axis in axes), indexing="ij", copy=False)
    at = [np.ascontiguousarray(grid).ravel() for grid in grids]
    values = _TRANSFORMS[len(axes)](*coordinates, strengths, *at, **options)
    return np.asarray(values).reshape([axis.size for axis in axes])


def direct_transform(
    points: FloatArray, shares: FloatArray, axes: Sequence[AnyAxis]
) -> ComplexArray:
    """Sum over samples by a matrix product, in blocks: for few samples faster than a transform."""
    rest = math.prod(axis.size for axis in axes[1:])
    total = np.zeros((axes[0].size, rest), np.complex128)
    rows = max(1, _BLOCK // rest)
    for i in range(0, len(points), rows):
        first, *others = (
            np.exp(1j * np.outer(x, axis.nodes))
            for x, axis in zip(points[i : i + rows].T, axes, strict=True)
        )
        product = shares[i : i + rows, None].astype(np.complex128)
        for waves in others:
            product = (product[:, :, None] * waves[:, None, :]).reshape(len(waves), -1)
        total += first.T @ product
    return total.reshape([axis.size for axis in axes])
