"""Random points for kernel sums, and the tolerance that each method can keep."""

import numpy as np

from fourierkernels.kernels import KERNELS
from fourierkernels.sums import METHODS

KERNEL_NAMES = [*KERNELS, "fourier9"]
# Single precision serves coarse tolerances only, and says so at finer ones.
TOL = {name: 1e-2 if name == "direct_float32" else 1e-12 for name in METHODS}


def problem(n: int, m: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)), rng.normal(size=(m, dim)), rng.normal(size=(n, 2))
