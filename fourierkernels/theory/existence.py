"""Which moments of a regression estimate exist: what the tails decide."""

import math
from functools import lru_cache

import numpy as np

from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import Density, RegressionFunction

_FAR = 1e6  # widths of the density at which its tail is a power, or nothing
_WAVES = np.linspace(1e3, 1.02e3, 20_001)  # where the envelope of a kernel is seen
_TOLERANCE = 0.01  # of an exponent that is read off


def check_moments(density: Density, function: RegressionFunction, kernel: Kernel) -> None:
    """Refuse a question whose answer is infinite: E K_R² f² must exist, and E |K_R f|.

    With a density ~ |x|^{-a}, a kernel ~ |u|^{-l} and f ~ |x|^g, E |K_R f|^j exists if
    j l + a - j g > 1. The exponents of the tails are read off far out; g is that of f.

    Raises
    ------
    ValueError
        If one of them does not exist.
    """
    tail, decay, growth = density_tail(density), kernel_decay(kernel), function.growth
    for times in (1, 2):
        if times * (decay - growth) + tail <= 1.0 + _TOLERANCE:
            raise ValueError(
                "function must grow slowly enough for the error to have a mean and a variance, got "
                f"{function.name} ~ |x|^{growth:g} for a density ~ |x|^-{tail:.3g} and a kernel "
                f"~ |u|^-{decay:.3g}: E |K f|^{times} is infinite"
            )


@lru_cache
def density_tail(density: Density) -> float:
    """Return a in p(x) ~ |x|^{-a}, the smaller of both sides; infinite beneath every power."""
    far = _FAR / density.spectral_scale
    exponents = []
    for side in (-1.0, 1.0):
        near, double = (float(density.pdf(side * far * times)) for times in (1.0, 2.0))
        exponents.append(math.log2(near / double) if double > 0.0 else math.inf)
    return min(exponents)


@lru_cache
def kernel_decay(kernel: Kernel) -> float:
    """Return l in |K(u)| <= C |u|^{-l}, from its envelope; infinite for the Gaussian."""
    near, double = (float(np.max(kernel.log_shape(times * _WAVES)[0])) for times in (1.0, 2.0))
    if not math.isfinite(double):
        return math.inf
    return (near - double) / math.log(2.0)
