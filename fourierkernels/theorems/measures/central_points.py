"""The points at which errors at a point are judged."""

from functools import lru_cache

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.theory.densities import Density

_LEVELS = (0.15, 0.3, 0.45, 0.6, 0.75)  # quantiles of the density


@lru_cache
def _quantiles(density: Density) -> tuple[float, ...]:
    sample = density.sample(2**14, np.random.default_rng(0))
    return tuple(float(x) for x in np.quantile(sample, _LEVELS))


def central_points(density: Density, dim: int) -> FloatArray:
    """Return five points inside the bulk of a product density, shape ``(5, dim)``."""
    if density.dim > 1:
        raise ValueError(f"density must be on the line, got one in {density.dim} dimensions")
    column = np.array(_quantiles(density))
    return np.stack([np.roll(column, 2 * d) for d in range(dim)], axis=1)
