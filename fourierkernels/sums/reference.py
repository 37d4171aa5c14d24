"""The reference: broadcasting over all pairs, obvious and slow. Fast paths are tested on it."""

import numpy as np
from numpy.typing import NDArray

from fourierkernels.kernels import FloatArray, Kernel
from fourierkernels.sums.result import KernelSums

_EPS = float(np.finfo(float).eps)
_BLOCK = 2**22  # pairs times dimensions held at once


def kernel_matrix(
    points: FloatArray, at: FloatArray, *, kernel: Kernel, radius: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Return the matrix of shapes, the relative error of its entries, and an exponent per row.

    Entry (j, i) is ∏_d shape(R_d(at_jd - points_id)) / 2**exponent_j, the largest of a row between
    1/2 and 1 in size.

    Returns
    -------
    matrix, noise : arrays of shape ``(m, n)``
    exponent : integer array of shape ``(m,)``
    """
    u = radius * (at[:, None, :] - points[None, :, :])  # (m, n, dim)
    log, sign = kernel.log_shape(u)
    log, sign = log.sum(axis=2), sign.prod(axis=2)  # (m, n)
    highest = log.max(axis=1, initial=-np.inf)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    exponent = np.ceil(highest / np.log(2.0))
    matrix = sign * np.exp(log - (exponent * np.log(2.0))[:, None])
    noise = kernel.noise(u, 2 * _EPS * (1.0 + np.abs(u))).sum(axis=2)
    return matrix, np.minimum(noise, 1.0), exponent.astype(np.int64)


def reference_sums(
    points: FloatArray,
    weights: FloatArray,
    responses: FloatArray,
    at: FloatArray,
    *,
    kernel: Kernel,
    radius: FloatArray,
    tol: float = 0.0,
) -> KernelSums:
    """Sum over all pairs, to rounding whatever `tol`; arguments as checked by `kernel_sum`."""
    rows = max(1, _BLOCK // points.size)
    blocks = [
        _block_sums(points, weights, responses, at[i : i + rows], kernel, radius)
        for i in range(0, len(at), rows)
    ]
    return KernelSums(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def _block_sums(
    points: FloatArray,
    weights: FloatArray,
    responses: FloatArray,
    at: FloatArray,
    kernel: Kernel,
    radius: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int64]]:
    matrix, noise, exponent = kernel_matrix(points, at, kernel=kernel, radius=radius)
    weighted = matrix * weights
    size = np.abs(weighted)
    rounding = 8 * _EPS * np.sqrt(len(points)) * size.sum(axis=1)
    error = (size * noise).sum(axis=1) + rounding
    return weighted @ responses, weighted.sum(axis=1), error, exponent
