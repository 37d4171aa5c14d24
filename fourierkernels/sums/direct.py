# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Direct sums compiled by Numba: every pair, any dimension, in double or single precision.

Threads share out blocks of queries, never a sum: results do not depend on their number. A block
goes through the tiles of samples one after the other, so that a tile is read from the cache by all
its queries. Within a tile sums are taken in the working precision, across tiles in float64.
"""

import math
from typing import ClassVar

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from fourierkernels.arrays import FloatArray
from fourierkernels.kernels import FourierKernel, Kernel
from fourierkernels.ops.bits import constant, power_of_two
from fourierkernels.ops.pairs import (
    NOWHERE,
    SUMMING,
    TILE,
    gaussian_pairs,
    sinc_pairs,
    sines,
    tiles,
)
from fourierkernels.sums.result import KernelSums

_QUERIES = 16  # queries that go through a tile together, and the least a thread takes
_SERIAL_BELOW = (
    4e6  # pairs times dimensions: about a millisecond, less than it takes to wake a thread
)
_HALF_LOG2_E = 0.5 / math.log(2.0)
_FAR = 5e8  # of -log2 of a weight: half of where its exponent is cut off
_LEAST_EXPONENT = -(2.0**62)
_EPS = float(np.finfo(float).eps)


class DirectSum:
    """Sums over all pairs, to rounding whatever `tol`; arguments as checked by `PreparedSum`."""

    dtype: ClassVar[type[np.floating]] = np.float64

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        tol: float = 0.0,
    ) -> None:
        self._radius = radius
        self._power = kernel.power if isinstance(kernel, FourierKernel) else 0
        self._centre = 0.5 * points.min(axis=0) + 0.5 * points.max(axis=0)  # small arguments of sin
        samples = radius * (points - self._centre)
        self._samples, self._span = samples, np.abs(samples).max(axis=0)
        self._reach = float(self._span.max())
        self._eps = float(np.finfo(self.dtype).eps)
        self._rounding = 4 * self._eps + 8 * _EPS * math.sqrt(len(points))
        self._scale = np.maximum(np.abs(responses).max(axis=0, initial=0.0), np.finfo(float).tiny)
        self._rows = tiles(self._coordinates(samples))
        columns = np.column_stack([weights, responses / self._scale * weights[:, None]])
        self._columns = tiles(columns.astype(self.dtype))

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums of shapes at queries of shape ``(m, dim)``; `parts` are all "value"."""
        m, queries = len(queries), self._radius * (queries - self._centre)
        sums = (
            np.zeros((m, len(self._scale))),  # numerator
            np.zeros(m),  # denominator
            np.zeros(m),  # error
            np.zeros(m, np.int64),  # exponent
        )
        base = self._bases(queries)
        reach = 2 * self._eps * (1.0 + np.abs(queries).max(axis=1) + self._reach)  # error of u
        work = float(queries.size) * TILE * len(self._rows)
        run = _sum_serially if work < _SERIAL_BELOW else _sum_in_parallel
        run(
            self._coordinates(queries),
            self._rows,
            self._columns,
            self._power,
            base.astype(self.dtype),
            reach.astype(self.dtype),
            self.dtype(self._rounding),
            *sums,
        )
        numerator, denominator, error, exponent = sums
        exponent = np.maximum(exponent - base, _LEAST_EXPONENT).astype(np.int64)
        return KernelSums(numerator * self._scale, denominator, error, exponent)

    def _bases(self, queries: FloatArray) -> FloatArray:
        """Return -log2 of the largest Gaussian weight where exponents would overflow, else 0."""
        bases = np.zeros(len(queries))
        farthest = np.square(np.abs(queries) + self._span).sum(axis=1)
        far = np.flatnonzero(_HALF_LOG2_E * farthest > _FAR)
        if self._power == 0 and len(far):
            nearest = cKDTree(self._samples).query(queries[far])[0]
            bases[far] = np.floor(_HALF_LOG2_E * np.square(nearest))
        return bases

    def _coordinates(self, x: FloatArray) -> NDArray[np.floating]:
        return sines(x, self.dtype) if self._power else x.astype(self.dtype)


class SinglePrecisionSum(DirectSum):
    """The same in single precision: about twice as fast, errors of a few 1e-7 times the span."""

    dtype = np.float32


@njit(cache=True, error_model="numpy")
def _sum_serially(
    queries, rows, columns, power, base, reach, rounding, numerator, denominator, error, exponent
):
    for start in range(0, len(queries), _QUERIES):
        _sum_block(
            start,
            queries,
            rows,
            columns,
            power,
            base,
            reach,
            rounding,
            numerator,
            denominator,
            error,
            exponent,
        )


@njit(parallel=True, cache=True, error_model="numpy")
def _sum_in_parallel(
    queries, rows, columns, power, base, reach, rounding, numerator, denominator, error, exponent
):
    for block in prange((len(queries) + _QUERIES - 1) // _QUERIES):
        _sum_block(
            block * _QUERIES,
            queries,
            rows,
            columns,
            power,
            base,
            reach,
            rounding,
            numerator,
            denominator,
            error,
            exponent,
        )


@njit(cache=True, error_model="numpy")
def _sum_block(
    start,
    queries,
    rows,
    columns,
    power,
    base,
    reach,
    rounding,
    numerator,
    denominator,
    error,
    exponent,
):
    stop = min(start + _QUERIES, len(queries))
    mantissas = np.empty(TILE, queries.dtype)  # unpacked from one array they would lose, for the
    noise = np.empty(TILE, queries.dtype)  # compiler, the contiguous layout and with it the vectors
    exponents = np.empty(TILE, np.int32)
    dim = queries.shape[1] if power == 0 else queries.shape[1] // 3
    exponent[start:stop] = NOWHERE
    for tile in range(len(rows)):
        for i in range(start, stop):
            if power == 0:
                gaussian_pairs(queries[i], rows[tile], base[i], mantissas, exponents, noise)
                _gaussian_noise(dim, reach[i], rounding, noise)
            else:
                sinc_pairs(queries[i], rows[tile], power, mantissas, exponents, noise)
                _sinc_noise(power * dim, reach[i], noise)
            used = columns[tile, :TILE]
            top = _highest(used, mantissas, exponents, exponent[i])
            if top > exponent[i]:
                shrink = math.ldexp(1.0, max(exponent[i] - top, -2000))
                for k in range(numerator.shape[1]):
                    numerator[i, k] *= shrink
                denominator[i] *= shrink
                error[i] *= shrink
                exponent[i] = top
            total, doubt = _add_weights(used, rounding, top, mantissas, exponents, noise)
            denominator[i] += total
            error[i] += doubt
            for k in range(numerator.shape[1]):
                numerator[i, k] += _dot(k + 1, columns[tile], mantissas)


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _sinc_noise(factors, reach, noise):
    """Relative errors from the least |sin u|: |cot u - 1/u| <= 2 / |sin u| a factor."""
    one, most = constant(1.0, reach), constant(2.0 * factors, reach) * reach
    for j in range(TILE):
        noise[j] = min(one, most / noise[j])


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _gaussian_noise(dim, reach, rounding, noise):
    """Relative errors from the squared distances: Σ|u_d| of them, and the square's rounding."""
    one = constant(1.0, reach)
    for j in range(TILE):
        square = noise[j]
        noise[j] = min(one, reach * np.sqrt(constant(dim, reach) * square) + rounding * square)


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _highest(used, mantissas, exponents, top):
    """Return the highest exponent of a pair that counts, or `top`: padding must not set it."""
    highest, zero = np.int32(top), constant(0.0, used[0])
    for j in range(TILE):
        counts = used[j] * mantissas[j] != zero
        highest = max(highest, exponents[j] if counts else np.int32(NOWHERE))
    return highest


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _add_weights(used, rounding, top, mantissas, exponents, noise):
    """Scale the mantissas to one exponent; return the sum of weights and the bound on its error."""
    total = error = constant(0.0, rounding)
    for j in range(TILE):
        scaled = mantissas[j] * power_of_two(exponents[j] - np.int32(top), rounding)
        mantissas[j] = scaled
        weighted = scaled * used[j]
        total += weighted
        error += abs(weighted) * (noise[j] + rounding)
    return total, error


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _dot(k, columns, mantissas):
    total = constant(0.0, mantissas[0])
    for j in range(TILE):
        total += mantissas[j] * columns[k * TILE + j]
    return total
