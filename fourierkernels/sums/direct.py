# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Direct sums compiled by Numba: every pair, any dimension, no transcendental in the inner loop.

For sinc powers, sin(a - b) = sin a cos b - cos a sin b from the sines of the coordinates, with a
polynomial near 0 where the difference would cancel. Products are kept as a mantissa in [1, 2) and
a binary exponent per pair, so that nothing underflows at any dimension. Samples are cut into tiles
of 256, stored feature by feature as one row [a | sin a | cos a], which lets LLVM vectorise over the
tile. Threads share out queries, never a sum: results do not depend on their number.
"""

import math

import numpy as np
from numba import njit, prange

from fourierkernels.kernels import FloatArray, FourierKernel, Kernel
from fourierkernels.sums.result import KernelSums

_TILE = 256
_QUERIES = 16  # queries one thread takes at a time
_CHUNK = 4  # features multiplied before mantissa and exponent are split
_SERIES_BELOW = 0.25  # |u| below which sin(u)/u is its series
_EPS = float(np.finfo(float).eps)
_NOWHERE = -(2**40)  # the exponent of an empty sum
_BIAS = 1023
_EXPONENT_BITS = 0x7FF << 52
_SIGN_AND_MANTISSA = -1 ^ _EXPONENT_BITS
_ONE = _BIAS << 52
_LOG2_E = 1.0 / math.log(2.0)
# Value-safe flags: splitting numbers into bits relies on infinities, NaN and rounding.
_SAFE = {"contract", "nsz", "arcp"}
_FINITE = {"contract", "nsz", "arcp", "nnan", "ninf", "reassoc"}
_SUMMING = {"contract", "nsz", "arcp", "reassoc"}


class DirectSum:
    """Sums over all pairs, to rounding whatever `tol`; arguments as checked by `PreparedSum`."""

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
        self._centre = 0.5 * (points.min(axis=0) + points.max(axis=0))  # small arguments of sin
        samples = radius * (points - self._centre)
        self._reach = float(np.abs(samples).max())
        self._rounding = 8 * _EPS * math.sqrt(len(points))
        self._rows = _tiles(_sines(samples))
        columns = np.column_stack([weights, responses * weights[:, None]])
        self._columns = _tiles(columns[:, :, None])

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums of shapes at queries of shape ``(m, dim)``; `parts` are all "value"."""
        m, queries = len(queries), self._radius * (queries - self._centre)
        sums = (
            np.zeros((m, self._columns.shape[1] - 1)),  # numerator
            np.zeros(m),  # denominator
            np.zeros(m),  # error
            np.zeros(m, np.int64),  # exponent
        )
        reach = 2 * _EPS * (1.0 + np.abs(queries).max(axis=1) + self._reach)  # error of u
        _sum_blocks(_sines(queries), self._rows, self._columns,
                    self._power, reach, self._rounding, *sums)  # fmt: skip
        return KernelSums(*sums)


def _sines(x: FloatArray) -> FloatArray:
    """Stack x, sin x and cos x: shape ``(n, dim)`` to ``(n, dim, 3)``."""
    return np.ascontiguousarray(np.stack([x, np.sin(x), np.cos(x)], axis=-1))


def _tiles(x: FloatArray) -> FloatArray:
    """Cut the first axis into zero-padded tiles: ``(n, d, k)`` to ``(tiles, d, k · 256)``."""
    n, d, k = x.shape
    padded = np.zeros((-(-n // _TILE), _TILE, d, k))
    padded.reshape(-1, d, k)[:n] = x
    return np.ascontiguousarray(padded.transpose(0, 2, 3, 1)).reshape(len(padded), d, k * _TILE)


@njit(parallel=True, cache=True, error_model="numpy")
def _sum_blocks(queries, rows, columns, power, reach, rounding, numerator, denominator, error,
                exponent):  # fmt: skip
    blocks = (len(queries) + _QUERIES - 1) // _QUERIES
    for block in prange(blocks):
        buffers = np.empty((5, _TILE))
        exponents = np.empty(_TILE, np.int64)
        for i in range(block * _QUERIES, min(len(queries), (block + 1) * _QUERIES)):
            state = np.zeros(2)  # denominator, error
            top = _NOWHERE
            for tile in range(len(rows)):
                if power == 0:
                    _gaussian_tile(queries[i], rows[tile], reach[i], buffers, exponents)
                else:
                    _sinc_tile(queries[i], rows[tile], power, reach[i], buffers, exponents)
                top = _add_tile(
                    columns[tile], rounding, buffers, exponents, top, numerator[i], state
                )
            denominator[i], error[i], exponent[i] = state[0], state[1], top


@njit(cache=True, fastmath=_SAFE, error_model="numpy")
def _sinc_tile(query, row, power, reach, buffers, exponents):
    """Fill buffers[0] with mantissas of ∏ sinc^power, buffers[1] with their relative errors."""
    mantissa, least, top, bottom = buffers[0], buffers[1], buffers[2], buffers[3]
    quotient = buffers[4]  # unpacking would lose the contiguous layout, and with it the vectors
    mantissa[:] = 1.0
    least[:] = 1.0
    top[:] = 1.0
    bottom[:] = 1.0
    exponents[:] = 0
    dim = len(query)
    for d in range(dim):
        _multiply(row[d], query[d, 0], query[d, 1], query[d, 2], top, bottom, least)
        if (d + 1) % _CHUNK == 0 or d == dim - 1:
            _split(top, bottom, quotient, quotient.view(np.int64), mantissa,
                   mantissa.view(np.int64), exponents)  # fmt: skip
    noise = 2.0 * power * dim * reach  # |cot u - 1/u| <= 2 / |sin u|
    quotient[:] = mantissa
    for _ in range(power - 1):
        for j in range(_TILE):
            mantissa[j] *= quotient[j]
    for j in range(_TILE):
        exponents[j] *= power
        least[j] = min(1.0, noise / least[j])


@njit(cache=True, fastmath=_FINITE, error_model="numpy")
def _multiply(row, u, sin_u, cos_u, top, bottom, least):
    """Multiply sin(u - v) into `top` and u - v into `bottom`, for a tile of v."""
    for j in range(_TILE):
        x = u - row[j]
        s = sin_u * row[2 * _TILE + j] - cos_u * row[_TILE + j]
        y = x * x
        series = 1.0 + y * (
            -1 / 6 + y * (1 / 120 + y * (-1 / 5040 + y * (1 / 362880 - y / 39916800)))
        )
        near = y < _SERIES_BELOW * _SERIES_BELOW
        size = 1.0 if near else abs(s)
        top[j] *= series if near else s
        bottom[j] *= 1.0 if near else x
        least[j] = size if size < least[j] else least[j]


@njit(cache=True, fastmath=_SAFE, error_model="numpy")
def _split(top, bottom, quotient, quotient_bits, mantissa, mantissa_bits, exponents):
    """Multiply top/bottom into the mantissas, move their exponents out, reset the products."""
    for j in range(_TILE):
        quotient[j] = mantissa[j] * (top[j] / bottom[j])
        top[j] = 1.0
        bottom[j] = 1.0
    for j in range(_TILE):
        bits = quotient_bits[j]
        stored = (bits & _EXPONENT_BITS) >> 52
        zero = stored == 0  # an exact zero of the sine stays zero
        exponents[j] += 0 if zero else stored - _BIAS
        mantissa_bits[j] = 0 if zero else (bits & _SIGN_AND_MANTISSA) | _ONE


@njit(cache=True, fastmath=_SAFE, error_model="numpy")
def _gaussian_tile(query, row, reach, buffers, exponents):
    """Fill buffers[0] with mantissas of exp(-Σu²/2), buffers[1] with their relative errors."""
    mantissa, noise, square = buffers[0], buffers[1], buffers[2]
    dim = len(query)
    square[:] = 0.0
    for d in range(dim):
        for j in range(_TILE):
            x = query[d, 0] - row[d, j]
            square[j] += x * x
    for j in range(_TILE):
        log2 = max(-0.5 * _LOG2_E * square[j], -1e15)
        whole = math.floor(log2 + 0.5)
        r = (log2 - whole) / _LOG2_E  # |r| <= ln(2)/2: the series has 13 terms
        p = 1.0
        for k in range(13, 0, -1):
            p = 1.0 + p * r / k
        mantissa[j] = p
        exponents[j] = int(whole)
        noise[j] = min(1.0, reach * math.sqrt(dim * square[j]))


@njit(cache=True, fastmath=_SUMMING, error_model="numpy")
def _add_tile(columns, rounding, buffers, exponents, top, numerator, state):
    """Add a tile to the sums of one query; return the exponent they are now scaled by."""
    mantissa, noise, scale = buffers[0], buffers[1], buffers[2]
    highest = _NOWHERE
    for j in range(_TILE):
        used = columns[0, j] != 0.0 and mantissa[j] != 0.0  # padding must not set the scale
        highest = max(highest, exponents[j] if used else _NOWHERE)
    if highest > top:
        shrink = math.ldexp(1.0, max(top - highest, -2000))
        numerator *= shrink
        state *= shrink
        top = highest
    scale_bits = scale.view(np.int64)
    for j in range(_TILE):
        shift = exponents[j] - top
        scale_bits[j] = (shift + _BIAS) << 52 if -_BIAS < shift <= 0 else 0
    total, error = 0.0, 0.0
    for j in range(_TILE):
        mantissa[j] *= scale[j]
        weighted = mantissa[j] * columns[0, j]
        total += weighted
        error += abs(weighted) * (noise[j] + rounding)
    state[0] += total
    state[1] += error
    for k in range(len(numerator)):
        part = 0.0
        for j in range(_TILE):
            part += mantissa[j] * columns[k + 1, j]
        numerator[k] += part
    return top
