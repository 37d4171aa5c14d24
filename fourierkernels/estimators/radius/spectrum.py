"""|φ_n|², the squared empirical characteristic function, from one transform; integrals against it.

Every radius of every kernel is scored from the same values: only quadrature weights change.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import finufft
import numpy as np

from fourierkernels.estimators.radius.sample import Sample
from fourierkernels.kernels import FloatArray, Kernel

Factor = tuple[Callable[[FloatArray], FloatArray], FloatArray]  # even f(t), its knots > 0, end last

LARGEST_GRID = 2**23  # frequencies: about 0.8 GB with the transform's workspace
_COMFORTABLE_GRID = 2**20
_ACCURACY = 1e-12
_ORDER = 16
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_ORDER)
# Panel length times range of data. 16 nodes integrate any of these to rounding; the interpolation
# in a panel with a knot errs by 1e-8, 2e-3, 2e-2, and only for pairs a full range apart.
_PHASE = {1: 8.0, 2: 16.0, 3: 20.0}
_TRANSFORMS = {1: finufft.nufft1d3, 2: finufft.nufft2d3, 3: finufft.nufft3d3}
_VALUES = np.polynomial.legendre.legvander(_NODES, _ORDER - 1)  # (node, degree)
_INTERPOLATION = (_VALUES * _WEIGHTS[:, None] * (np.arange(_ORDER) + 0.5)).T  # values to series


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
        half = self._positive
        return np.append(half, -half) if self.mirrored else half

    @cached_property
    def _positive(self) -> FloatArray:
        middle = np.arange(self.panels)[:, None] + 0.5
        return np.asarray(self.length * (middle + 0.5 * _NODES).ravel())

    def weights(self, factor: Factor) -> FloatArray:
        """Return q with q @ g(nodes) = (2π)^{-1} ∫ f(t) g(t) dt, up to the last knot of f.

        Panels that a knot cuts are integrated piece by piece, g interpolated by its 16 values.
        """
        function, knots = factor
        used = min(self.panels, math.ceil(knots[-1] / self.length))
        weight = np.zeros((self.panels, _ORDER))
        inside = self._positive[: used * _ORDER].reshape(used, _ORDER)
        weight[:used] = 0.5 * self.length * _WEIGHTS * function(inside)
        for panel in np.unique((knots / self.length).astype(int)):
            if panel < self.panels:
                weight[panel] = self._broken(function, knots, int(panel))
        half = weight.ravel() / (2.0 * math.pi)
        return np.append(half, half) if self.mirrored else 2.0 * half

    def _broken(
        self, function: Callable[[FloatArray], FloatArray], knots: FloatArray, panel: int
    ) -> FloatArray:
        cuts = knots / self.length - panel
        cuts = np.concatenate([[0.0], cuts[(cuts > 0) & (cuts < 1)], [min(1.0, cuts[-1])]])
        half = 0.5 * np.diff(cuts)[:, None]
        place = (cuts[:-1, None] + half * (1.0 + _NODES)).ravel()  # in [0, 1], pieces in turn
        weight = (half * _WEIGHTS).ravel() * self.length * function(self.length * (panel + place))
        series = np.polynomial.legendre.legvander(2.0 * place - 1.0, _ORDER - 1)
        return np.asarray(weight @ series @ _INTERPOLATION)


class SampleSpectrum:
    """|φ_n(t)|², φ_n(t) = Σ p_j exp(i t·x_j), on a tensor grid up to `ends` per dimension.

    Source: [davis1977mean]_ (the idea), [barnett2019finufft]_ (the transform, of type 3).

    Raises
    ------
    ValueError
        If that takes more than 2^23 frequencies: data of very long range, or in D = 3 large
        radii.
    """

    def __init__(self, sample: Sample, ends: FloatArray, *, rule: str) -> None:
        self.size, self.ends = sample.size, ends
        self.axes = _axes(np.ptp(sample.points, axis=0), ends)
        needed = math.prod(axis.size for axis in self.axes)
        if needed > LARGEST_GRID:
            raise ValueError(
                f"X must have a range that 2^23 frequencies resolve for radius={rule!r}, got "
                f"ranges of {np.ptp(sample.points, axis=0).round(1)} robust scales, which take "
                f"{needed:.1e}; use 'normal_reference' or give radius as a number"
            )
        self.power = _power(sample, self.axes)

    def integral(self, factors: list[Factor]) -> float:
        """Return (2π)^{-D} ∫ |φ_n(t)|² ∏_d f_d(t_d) dt, one factor per dimension."""
        total = self.power
        for axis, factor in zip(self.axes[::-1], factors[::-1], strict=True):
            total = total @ axis.weights(factor)
        return float(total)


class KernelScore:
    """The exact MISE, less a constant, with |p̂|² replaced by its unbiased estimate u.

    u = (n|φ_n|² - 1)/(n - 1), so that E u = |p̂|². With K̄(t) = ∏ K̂(t_d/R_d),

        score(R) = (2π)^{-D} [ ∫ u (K̄² - 2K̄) dt + (1/n) ∫ (1 - u) K̄² dt ].

    Without a cut this is least squares cross-validation, identically; with u set to zero beyond a
    `cut` per dimension it is the plug-in estimate of the error.
    """

    def __init__(
        self, spectrum: SampleSpectrum, kernel: Kernel, cut: FloatArray | None = None
    ) -> None:
        self._spectrum, self._kernel = spectrum, kernel
        self._cut = np.full(len(spectrum.axes), math.inf) if cut is None else cut

    def __call__(self, radius: FloatArray) -> float:
        """Return the score at a radius of shape ``(dim,)``."""
        n = self._spectrum.size
        noise = math.prod(self._kernel.roughness * radius) / n
        return noise + (1.0 - 1.0 / n) * self._unbiased(radius, 2) - 2.0 * self._unbiased(radius, 1)

    def _unbiased(self, radius: FloatArray, power: int) -> float:
        """(2π)^{-D} ∫ u K̄^power dt up to the cut."""
        factors = [self._factor(r, c, power) for r, c in zip(radius, self._cut, strict=True)]
        n = self._spectrum.size
        flat = math.prod(self._flat(r, c, power) for r, c in zip(radius, self._cut, strict=True))
        return (n * self._spectrum.integral(factors) - flat) / (n - 1.0)

    def _factor(self, radius: float, cut: float, power: int) -> Factor:
        knots = radius * np.asarray(self._kernel.knots)
        kept = np.append(knots[knots < cut], min(cut, knots[-1]))
        return lambda t: self._kernel.transform(t / radius) ** power, np.unique(kept)

    def _flat(self, radius: float, cut: float, power: int) -> float:
        """(2π)^{-1} ∫ K̂(t/R)^power dt up to the cut; in closed form if that is beyond the end."""
        if cut >= radius * self._kernel.cutoff:
            known = {1: float(self._kernel.value(0.0)), 2: self._kernel.roughness}
            return radius * known[power]
        function, knots = self._factor(radius, cut, power)
        axis = Axis(float(knots[-1]) / 8, 8, mirrored=False)
        return float(axis.weights((function, knots)).sum())


def box(end: float) -> Factor:
    """Return the factor that is one up to `end`."""
    return np.ones_like, np.array([end])


def comfortable_factor(sample: Sample, ends: FloatArray) -> float:
    """Return how many times `ends` a transform of moderate size (2^20) reaches, at least 1.6."""
    needed = math.prod(axis.size for axis in _axes(np.ptp(sample.points, axis=0), ends))
    return float(max(1.6, (_COMFORTABLE_GRID / needed) ** (1.0 / sample.dim)))


def _axes(ranges: FloatArray, ends: FloatArray) -> list[Axis]:
    axes = []
    for i, (reach, end) in enumerate(zip(ranges, ends, strict=True)):
        panels = math.ceil(max(4.0, end * reach / _PHASE[len(ends)]))
        axes.append(Axis(float(end) / panels, panels, mirrored=i > 0))
    return axes


def _power(sample: Sample, axes: list[Axis]) -> FloatArray:
    grids = np.meshgrid(*(axis.nodes for axis in axes), indexing="ij", copy=False)
    at = [np.ascontiguousarray(grid).ravel() for grid in grids]
    coordinates = [np.ascontiguousarray(column) for column in sample.points.T]
    strengths = sample.weights.astype(complex)
    transform = _TRANSFORMS[len(axes)]
    values = transform(*coordinates, strengths, *at, isign=1, eps=_ACCURACY, nthreads=1)
    return np.asarray(values.real**2 + values.imag**2).reshape([axis.size for axis in axes])
