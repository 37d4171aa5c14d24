"""What is compiled before a slider needs it."""

from functools import cache

import numpy as np

from fourierkernels.estimators import KernelDensity, LocalPolynomial

_FEW, _MANY = 64, 2100  # samples, and queries: pairs of the latter are summed in parallel
_SUMS = ((_FEW, "direct"), (_MANY, "direct"), (_FEW, "bandlimited"), (_MANY, "bandlimited"))
_KERNELS = ("fourier4", "gaussian")


@cache
def compile_sums() -> None:
    """Compile the loops of densities and of local means: over few pairs, many, and by transforms.

    A loop takes seconds to compile, once per installation. In one process this is done once.
    """
    for count, method in _SUMS:
        points = np.linspace(0.0, 1.0, count)[:, None]
        for kernel in _KERNELS:
            KernelDensity(kernel, radius=9.0, method=method).fit(points).density(points)


@cache
def compile_moment_sums() -> None:
    """Compile the loops of local fits of degree one or more, which all have."""
    points = np.linspace(0.0, 1.0, _FEW)[:, None]
    for kernel in _KERNELS:
        for method in ("direct", "bandlimited"):
            model = LocalPolynomial(kernel, radius=9.0, degree=1, method=method)
            model.fit(points, points[:, 0]).predict(points)
            model.weights(points)
