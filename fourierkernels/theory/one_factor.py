"""Bias and noise of a normal density with one common correlation, in any D.

With a standard normal Z, exp(-ρ (Σ t_d)²) = E exp(i √(2ρ) Z Σ t_d): given Z coordinates separate,

    (2π)^{-D} ∫ exp(-tᵀΣt) ∏ K̂(t_d/R_d)^j dt = E ∏ g_j(Z; R_d),
    g_j(z; R) = (1/π) ∫_0^∞ exp(-(1-ρ)t²) K̂(t/R)^j cos(√(2ρ) z t) dt,

and the squared bias is that of j = 0 less twice that of j = 1 plus that of j = 2: a difference, so
that what is left of a small bias has an absolute error of about 1e-15 ∫p².
"""

import math
from functools import lru_cache

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import CorrelatedGaussian
from fourierkernels.theory.densities.panels import panels
from fourierkernels.theory.mise_parts import Parts
from fourierkernels.theory.quadrature import axis_nodes

_REFINE = 4.0  # panels in t: the cosine has up to 13 radians a unit
_Z, _Z_WEIGHT = panels(np.linspace(-9.0, 9.0, 37))
_NORMAL = _Z_WEIGHT * np.exp(-0.5 * np.square(_Z)) / math.sqrt(2.0 * math.pi)


def separates(density: object) -> bool:
    """Whether the integrals of a density separate so: one correlation, not negative."""
    return isinstance(density, CorrelatedGaussian) and density.correlation >= 0.0


def factor_parts(density: CorrelatedGaussian, kernel: Kernel, radii: FloatArray) -> Parts:
    """Return bias and noise at one radius per dimension."""
    once, twice = np.ones_like(_Z), np.ones_like(_Z)
    for radius in radii:
        first, second = _conditional(density, kernel, float(radius))
        once, twice = once * first, twice * second
    kept = float(_NORMAL @ twice)
    bias = density.roughness - 2.0 * float(_NORMAL @ once) + kept
    noise = math.prod(kernel.roughness * float(radius) for radius in radii) - kept
    return Parts(max(0.0, bias), max(0.0, noise))


@lru_cache(maxsize=64)
def _conditional(
    density: CorrelatedGaussian, kernel: Kernel, radius: float
) -> tuple[FloatArray, FloatArray]:
    """Return g_1 and g_2 at the nodes in z."""
    t, weight = axis_nodes(density, kernel, radius, refine=_REFINE)
    kept = kernel.transform(t / radius)
    weight = weight * np.exp(-(1.0 - density.correlation) * np.square(t)) * kept / math.pi
    waves = np.cos(np.outer(math.sqrt(2.0 * density.correlation) * _Z, t))
    return waves @ weight, waves @ (weight * kept)
