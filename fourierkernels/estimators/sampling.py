"""Draws from a nonnegative kernel, exact up to rounding."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import FourierKernel, GaussianKernel, Kernel


@runtime_checkable
class HasSampler(Protocol):
    """A kernel that draws from its own density, besides the members of every kernel."""

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return `n` independent draws from K, shape ``(n,)``."""


def draw_from_kernel(kernel: Kernel, n: int, rng: np.random.Generator) -> FloatArray:
    """Return `n` independent draws from the density K, shape ``(n,)``.

    Raises
    ------
    ValueError
        If the kernel has negative values, or neither a member `sample` nor a built-in sampler.
    """
    if not kernel.nonnegative:
        raise ValueError(
            f"kernel must be nonnegative to be sampled from, got {kernel.name}, which is negative "
            "in places: its estimate is no probability density"
        )
    if isinstance(kernel, HasSampler):
        return kernel.sample(n, rng)
    if type(kernel) not in SAMPLERS:
        known = ", ".join(kind.__name__ for kind in SAMPLERS)
        raise ValueError(
            f"kernel must offer sample(n, rng) or be one of {known} to be sampled from, "
            f"got {kernel!r}"
        )
    return SAMPLERS[type(kernel)](kernel, n, rng)


def moved_by_kernel(
    points: FloatArray,
    kernel: Kernel,
    radius: FloatArray,
    rng: np.random.Generator,
    *,
    factors: FloatArray | None = None,
) -> FloatArray:
    """Return points ``(n, dim)``, each moved by a draw from its kernel, of its factor ``(n,)``."""
    steps = draw_from_kernel(kernel, points.size, rng).reshape(points.shape)
    scaled = np.linalg.solve(radius, steps.T).T if radius.ndim == 2 else steps / radius
    return np.asarray(points + (scaled if factors is None else scaled / factors[:, None]))


def _gaussian(kernel: Kernel, n: int, rng: np.random.Generator) -> FloatArray:
    return rng.standard_normal(n)


def _sinc_power(kernel: Kernel, n: int, rng: np.random.Generator) -> FloatArray:
    """Rejection under min(1, |u|^{-l}), which keeps the tails: Fejér's are like 1/u².

    A share A_l (l-1)/(2l) is accepted: 79 % for l = 2 and 4, 72 % for l = 6.
    """
    power = round(kernel.support)
    accepted: list[FloatArray] = []
    while sum(map(len, accepted)) < n:
        size = rng.random(2 * n + 16)
        tail = rng.random(size.shape) < 1.0 / power
        size[tail] = (1.0 - size[tail]) ** (-1.0 / (power - 1))  # 1 - U is never 0
        envelope = np.where(tail, size ** (-1.0 * power), 1.0)
        kept = rng.random(size.shape) * envelope < kernel.value(size) * kernel.constant
        accepted.append(size[kept])
    signs = rng.choice([-1.0, 1.0], n)
    return np.asarray(signs * np.concatenate(accepted)[:n])


SAMPLERS: dict[type, Callable[[Kernel, int, np.random.Generator], FloatArray]] = {
    GaussianKernel: _gaussian,
    FourierKernel: _sinc_power,
}
