"""Sums over the images of a kernel on a circle, from the images themselves: slow and obvious."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fourierkernels.kernels import FourierKernel, GaussianKernel, Kernel

Array = NDArray[np.float64]
_NEAR = 3  # rounds of images that are summed one by one, on either side


def image_sum(kernel: Kernel, u: Array, a: int, b: int) -> Array:
    """Return Σ_k shape(u + kp) for p = πa/b, a even, over symmetric ranges of images.

    With this period sin(u + kp) repeats after b images, so that beyond the nearest the sums are
    Σ 1/(z + j)^l, Hurwitz's zeta function, for l = 1 a difference of digamma functions.
    """
    period, turn = math.pi * a / b, math.pi * a
    u = u - period * np.round(u / period)
    if isinstance(kernel, GaussianKernel):
        places = u[..., None] + period * np.arange(-200, 201)
        return np.exp(-0.5 * np.square(places)).sum(axis=-1)
    assert isinstance(kernel, FourierKernel)
    total = np.zeros_like(u)
    for first in range(b):
        v = u + (first - b // 2) * period
        for j in range(-_NEAR, _NEAR + 1):
            total += np.sinc((v + j * turn) / math.pi) ** kernel.power
        total += np.sin(v) ** kernel.power * _tail(kernel.power, v / turn) / turn**kernel.power
    return total


def _tail(power: int, z: Array) -> Array:
    """Σ 1/(z + j)^l over |j| > _NEAR."""
    first = _NEAR + 1.0
    if power == 1:
        return special.digamma(first - z) - special.digamma(first + z)
    return special.zeta(power, first + z) + (-1) ** power * special.zeta(power, first - z)
