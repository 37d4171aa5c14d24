"""Integrals over frequency that make up the exact MISE, of densities on the line.

Nodes are Gauss-Legendre panels that respect the knots of K̂ and the structure of p̂.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import Density, HasFarField, HasSpectralTail
from fourierkernels.theory.densities.panels import panels


@dataclass(frozen=True)
class Mise:
    """Integrated squared bias, integrated variance, and their sum."""

    bias2: float
    variance: float

    @property
    def total(self) -> float:
        """bias2 + variance."""
        return self.bias2 + self.variance


class Parts(NamedTuple):
    """Integrated squared bias, and n times the integrated variance; neither depends on n."""

    bias: float
    noise: float

    def per(self, n: int) -> Mise:
        """Return the error for n samples."""
        return Mise(self.bias, self.noise / n)


_LARGEST_PHASE = 16.0  # ωL at which 16 nodes still integrate exp(iωt) over a panel to rounding
_LARGEST_STEP = 3.5  # ... and exp(-t²), anywhere on the line
_LONGEST_WAVE = 2.0**18  # radians up to which the waves of |p̂|² are followed, if they may fade
_LARGEST_LINE = 2**23  # nodes of one integral on the line
_UNDERFLOW = 3.0  # spectral ranges: |p̂|² is 1e-32 at one, below 1e-280 at three if it is Gaussian


def spectral_nodes(
    density: Density, kernel: Kernel, radius: float
) -> tuple[FloatArray, FloatArray]:
    """Return nodes t > 0 and weights for ∫_0^T g(t) dt, g made of |p̂(t)|² and K̂(t/radius).

    T is where both are zero to rounding, or only K̂ if |p̂|² has a power tail. Panels break at the
    knots of K̂(t/radius) and at powers of two times the scale of p̂ (so that structure near 0 is
    resolved however large T is); they are no longer than the oscillation of |p̂|² allows. A kernel
    of infinite order has no bias but the energy beyond its edge: there |p̂|² is followed until it
    has fallen by 1e-32 once more, in panels that grow from the length of its decay.

    Waves that are faded out (``fades``) are followed to the far field.

    Returns
    -------
    nodes, weights : arrays of shape ``(q,)``

    Raises
    ------
    ValueError
        If |p̂|² waves so often up to T that it takes more than 2^23 nodes.
    """
    edge = radius * kernel.cutoff
    scale, reach = density.spectral_scale, density.spectral_range
    end = max(edge, reach) if math.isfinite(reach) else edge
    lowest = 0.125 * min(scale, radius)
    breaks = [np.array([0.0]), _doubling(lowest, end), radius * np.asarray(kernel.knots)]
    if math.isinf(kernel.order) and scale < edge < _UNDERFLOW * reach < math.inf:
        end = edge + reach
        breaks.append(edge + _doubling(0.5 * scale * min(1.0, scale / edge), reach))
    ordered = np.unique(np.append(np.concatenate(breaks), end))
    ordered = ordered[ordered <= end]
    span = density.spectral_span
    if span > 0:
        followed = end if end > edge else reach
        if isinstance(density, HasFarField) and fades(density, edge):
            followed = density.far_field
        _refuse_waves(min(end, followed) * span, density, radius)
        longest = np.where(ordered[:-1] < followed, _LARGEST_PHASE / span, math.inf)
        return panels(ordered, longest=longest)
    return panels(ordered)


def fades(density: Density, edge: float) -> bool:
    """Whether |p̂|² is integrated up to a frequency without its waves in the far field.

    That is where following them takes 2^18 radians and more. What is lost is their share at the
    knots of K̂, of the order of R^{-2} of the integrals: less than 1e-9.
    """
    if not isinstance(density, HasFarField):
        return False
    return edge * density.spectral_span > _LONGEST_WAVE


def _refuse_waves(phase: float, density: Density, radius: float) -> None:
    """16 nodes follow 16 radians."""
    if phase > _LARGEST_LINE:
        raise ValueError(
            f"radius must be small enough for {_LARGEST_LINE:.1e} nodes on the waves of |p̂|², got "
            f"{radius:g}, which needs {phase:.1e}, for {density!r}"
        )


def axis_nodes(
    density: Density, kernel: Kernel, radius: float, *, refine: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return nodes t > 0 and weights along one axis of a density with a dimension of its own.

    They end where |p̂|² does, or with K̂ if it does not. |p̂|² is a ridge that need not lie at 0, so
    that panels are short everywhere: the scale of p̂ sets them, divided by `refine`.
    """
    edge = radius * kernel.cutoff
    end = density.spectral_range if math.isfinite(density.spectral_range) else edge
    knots = radius * np.asarray(kernel.knots)
    breaks = np.unique(np.concatenate([[0.0, end], knots[knots < end]]))
    step = _LARGEST_STEP * density.spectral_scale
    if density.spectral_span > 0:
        step = min(step, 0.9 * _LARGEST_PHASE / density.spectral_span)
    inside = step if math.isfinite(kernel.support) else min(step, _LARGEST_STEP * radius)
    longest = np.where(breaks[:-1] < edge, inside, step) / refine
    return panels(breaks, longest=longest)


def _doubling(lowest: float, end: float) -> FloatArray:
    return np.asarray(lowest * 2.0 ** np.arange(max(0, math.ceil(math.log2(end / lowest)))))


class LineIntegrals(NamedTuple):
    """Integrals over frequency, each over 2π; all are non-negative, so nothing cancels.

    bias = ∫|p̂|²(1-K̂)²,  cross = ∫|p̂|²(1-K̂)K̂,  kept = ∫|p̂|²K̂²,  noise = ∫(1-|p̂|²)K̂².
    """

    bias: float
    cross: float
    kept: float
    noise: float

    def times(self, other: "LineIntegrals") -> "LineIntegrals":
        """Return the integrals of the product density and product kernel.

        With A = kept + 2 cross + bias (∫|p̂|²), B = kept + cross, C = kept, the bias of a product
        is ∏A - 2∏B + ∏C; multiplied out, every term is non-negative.
        """
        c, e, b, g = self.kept, self.cross, self.bias, self.noise
        k, x, q, v = other.kept, other.cross, other.bias, other.noise
        bias = b * (k + 2 * x + q) + q * (c + 2 * e) + 2 * e * x
        return LineIntegrals(bias, e * k + c * x + e * x, c * k, g * (k + v) + c * v)


@lru_cache(maxsize=8192)
def line_integrals(density: Density, kernel: Kernel, radius: float) -> LineIntegrals:
    """Return the four integrals of a density on the line."""
    t, weight = spectral_nodes(density, kernel, radius)
    weight = weight / math.pi  # both half-lines, over 2π
    edge = radius * kernel.cutoff
    far = density if isinstance(density, HasFarField) and fades(density, edge) else None
    power, missing = density.power(t) if far is None else far.faded_power(t)
    kept, gap = kernel.transform(t / radius), kernel.gap(t / radius)
    bias = float(weight @ (power * gap * gap))
    lost = 0.0
    if far is not None:
        jump = float(kernel.transform(kernel.cutoff * (1.0 - 1e-12)))  # 1 for a box, else 0
        tail = far.faded_tail(edge)
        lost = tail - far.spectral_tail(edge)  # what the last wave before the edge leaves
        bias += tail - jump * (2.0 - jump) * lost
        lost *= jump * jump
    elif isinstance(density, HasSpectralTail):
        bias += density.spectral_tail(edge)
    elif math.isinf(density.spectral_range):  # the nodes ended before |p̂|² did
        raise ValueError(
            f"density must have a spectral_tail if its spectral range is infinite, got {density!r}"
        )
    return LineIntegrals(
        bias,
        cross=float(weight @ (power * gap * kept)),
        kept=float(weight @ (power * kept * kept)) + lost,
        noise=float(weight @ (missing * kept * kept)) - lost,
    )
