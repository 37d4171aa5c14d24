"""The reference: broadcasting over all pairs, obvious and slow. Tests compare others with it."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.kernels.periodic import kernels_along
from fourierkernels.sums.parts import PARTS
from fourierkernels.sums.result import KernelSums, rounding_of_sum

_EPS = float(np.finfo(float).eps)
_BLOCK = 2**22  # pairs times dimensions held at once
_Block = tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int64]]


def kernel_matrix(
    points: FloatArray,
    at: FloatArray,
    *,
    kernel: Kernel,
    radius: FloatArray,
    parts: Sequence[str] | None = None,
    periods: FloatArray | None = None,
    left_out: NDArray[np.bool_] | None = None,
) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Return the matrix of shapes, the relative error of its entries, and an exponent per row.

    Entry (j, i) is ∏_d g_d(R_d(at_jd - points_id)) / 2**exponent_j, g_d the shape or another of
    :data:`fourierkernels.sums.parts.PARTS`, the largest of a row between 1/2 and 1 in size. Pairs
    that are left out ``(m, n)`` are zero and do not count as the largest. Where there is a finite
    period the shape is its sum over images. The radius has the shape ``(dim,)``, or ``(dim, n)`` if
    each point has its own.

    Returns
    -------
    matrix, noise : arrays of shape ``(m, n)``
    exponent : integer array of shape ``(m,)``
    """
    log, noise = np.zeros((2, len(at), len(points)))
    sign = np.ones(log.shape)
    along = kernels_along(kernel, radius, periods)
    for d, part in enumerate(parts or ["value"] * len(radius)):
        kernel, u = along[d], radius[d] * (at[:, None, d] - points[None, :, d])  # (m, n)
        log_factor, sign_factor = PARTS[part].log(kernel, u)
        log += log_factor
        sign *= sign_factor
        noise += PARTS[part].noise(kernel, u, 2 * _EPS * (1.0 + np.abs(u)))
    if left_out is not None:
        log[left_out] = -np.inf
    highest = log.max(axis=1, initial=-np.inf)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    exponent = np.maximum(np.ceil(highest / np.log(2.0)), -(2.0**62))  # an integer of 64 bits
    matrix = sign * np.exp(log - (exponent * np.log(2.0))[:, None])
    return matrix, noise, exponent.astype(np.int64)


class ReferenceSum:
    """Sums over all pairs, exact up to rounding; arguments as `SampleSum` passes them."""

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        tol: float = 0.0,
        periods: FloatArray | None = None,
    ) -> None:
        self._points, self._weights, self._responses = points, weights, responses
        self._kernel, self._radius, self._periods = kernel, radius, periods

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums at queries of shape ``(m, dim)``, in blocks of bounded memory."""
        return self._joined(self._block(queries[rows], parts) for rows in self._cut(len(queries)))

    def at_others(
        self,
        queries: FloatArray,
        names: NDArray[np.intp],
        owners: NDArray[np.intp],
        *,
        parts: tuple[str, ...] | None = None,
    ) -> KernelSums:
        """Return the sums at queries, of shapes by default, without the samples whose owner it is.

        Parameters
        ----------
        queries : array of shape (m, dim)
        names : integer array of shape (m,)
        owners : integer array of shape (n,)
            The name of a query for each sample.
        """
        chosen = parts or ("value",) * len(self._radius)
        return self._joined(
            self._block(queries[rows], chosen, names[rows, None] == owners)
            for rows in self._cut(len(queries))
        )

    def _cut(self, count: int) -> list[slice]:
        rows = max(1, _BLOCK // self._points.size)
        return [slice(start, start + rows) for start in range(0, count, rows)]

    def _joined(self, blocks: Iterable[_Block]) -> KernelSums:
        numerator, denominator, error, exponent = (
            np.concatenate(each) for each in zip(*blocks, strict=True)
        )
        return KernelSums(numerator, denominator, error, exponent)

    def _block(
        self,
        queries: FloatArray,
        parts: tuple[str, ...],
        left_out: NDArray[np.bool_] | None = None,
    ) -> _Block:
        matrix, noise, exponent = kernel_matrix(
            self._points,
            queries,
            kernel=self._kernel,
            radius=self._radius,
            parts=parts,
            periods=self._periods,
            left_out=left_out,
        )
        weighted = matrix * self._weights
        size = np.abs(weighted)
        rounding = rounding_of_sum(len(self._points)) * size.sum(axis=1)
        error = (size * noise).sum(axis=1) + rounding
        return weighted @ self._responses, weighted.sum(axis=1), error, exponent
