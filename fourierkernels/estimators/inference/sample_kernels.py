"""The kernel that each sample contributes to a density, with its images, as a density in x."""

from dataclasses import dataclass

import numpy as np

from fourierkernels.estimators.boundary import Images, inside
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums import SampleSum, kernel_matrix
from fourierkernels.sums.parts import log_scale

_BLOCK = 2**22  # entries of the matrix of kernels held at once


@dataclass(frozen=True)
class SampleKernels:
    """K_i(x) = Σ over sample i and its images of a ∏_d R_d K(R_d(x_d - x_id)), 0 out of bounds.

    Attributes
    ----------
    images : Images
        Of samples with weight one: `images.weights` are the a, which make each K_i integrate to
        one on the box.
    box : array of shape (2, dim)
    kernel, radius : Kernel, array of shape (dim,)
    method, tol, device
        As of the estimator.
    """

    images: Images
    box: FloatArray
    kernel: Kernel
    radius: FloatArray
    method: str
    tol: float
    device: str

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.images.source.max()) + 1

    def rows(self, queries: FloatArray) -> FloatArray:
        """Return K_i(x), shape ``(m, n)``."""
        points, weights, _ = self.images
        matrix, _, exponent = kernel_matrix(points, queries, kernel=self.kernel, radius=self.radius)
        scale = self._scale * inside(queries, self.box)
        each = np.ldexp(matrix * weights * scale[:, None], exponent[:, None])
        return np.asarray(each.reshape(len(queries), -1, self.n).sum(axis=1))

    def sums(self, queries: FloatArray, columns: FloatArray) -> FloatArray:
        """Return Σ_i c_i K_i(x) for columns ``(n, k)``, shape ``(m, k)``."""
        sums = self._sum(columns[self.images.source]).at(queries)
        total = np.ldexp(sums.numerator, sums.exponent[:, None])
        return np.asarray(total * (self._scale * inside(queries, self.box))[:, None])

    def squares(self, queries: FloatArray, variances: FloatArray) -> FloatArray:
        """Return Σ_i v_i K_i(x)², shape ``(m,)``.

        By a sum of the squared kernel, which is a kernel again. With images of a sample the squares
        have cross terms: then from the kernels themselves.
        """
        if len(self.images.points) > self.n:
            cut = in_blocks(queries, len(self.images.points))
            return np.concatenate([np.square(self.rows(block)) @ variances for block in cut])
        kernel, factor = self.kernel.squared
        squared = SampleSum(
            self.images.points,
            kernel=kernel,
            radius=factor * self.radius,
            weights=variances,
            responses=np.zeros((self.n, 0)),
            method=self.method,
            tol=self.tol,
        ).at(queries)
        return np.asarray(np.maximum(squared.totals(), 0.0) * self._scale**2)

    @property
    def _scale(self) -> float:
        names = ("value",) * len(self.radius)
        return float(np.exp(log_scale(self.kernel, self.radius, names)))

    def _sum(self, columns: FloatArray) -> SampleSum:
        return SampleSum(
            self.images.points,
            kernel=self.kernel,
            radius=self.radius,
            weights=self.images.weights,
            responses=columns,
            method=self.method,
            tol=self.tol,
            device=self.device,
        )


def in_blocks(queries: FloatArray, length: int) -> list[FloatArray]:
    """Return the queries in blocks of as many rows of that length as are held at once."""
    rows = max(1, _BLOCK // length)
    return [queries[start : start + rows] for start in range(0, len(queries), rows)]
