"""The two integrals of the exact MISE, by the structure of the density.

bias = (2π)^{-D} ∫ |p̂|² (1 - K̄)² dt and noise = (2π)^{-D} ∫ (1 - |p̂|²) K̄² dt, K̄ = ∏ K̂(t_d/R_d):
products of integrals on the line, a closed form (normal mixtures and the Gaussian kernel), or a
sum over nodes in D <= 3. Every sum is over terms that are not negative, and 1 - K̂ and 1 - |p̂|² come
without cancellation, so that small and large radii lose no digits.
"""

import math
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import GaussianKernel, Kernel
from fourierkernels.theory.densities import (
    CorrelatedGaussian,
    Density,
    HasComponents,
    HasFarField,
    HasMarginals,
    HasSpectralTail,
)
from fourierkernels.theory.joint_integrals import LARGEST_TENSOR, joint_parts
from fourierkernels.theory.mise_parts import Parts
from fourierkernels.theory.normal import normal_parts
from fourierkernels.theory.one_factor import factor_parts
from fourierkernels.theory.quadrature import fades, spectral_nodes


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


def error_parts(density: Density, kernel: Kernel, radii: FloatArray) -> Parts:
    """Return bias and noise at radii of shape ``(D,)``."""
    lines = marginals(density, len(radii))
    if lines is not None:
        factors = (line_integrals(m, kernel, float(r)) for m, r in zip(lines, radii, strict=True))
        product = reduce(LineIntegrals.times, factors)
        return Parts(product.bias, product.noise)
    if isinstance(density, HasComponents) and isinstance(kernel, GaussianKernel):
        return normal_parts(density.components, np.diag(np.square(1.0 / radii)))
    if len(radii) > LARGEST_TENSOR and isinstance(density, CorrelatedGaussian):
        return factor_parts(density, kernel, radii)
    return joint_parts(density, kernel, tuple(map(float, radii)))


def marginals(density: Density, dim: int) -> tuple[Density, ...] | None:
    """Return one density per dimension if they are independent, else None."""
    if isinstance(density, HasMarginals):
        return density.marginals
    return (density,) * dim if density.dim == 1 else None


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
