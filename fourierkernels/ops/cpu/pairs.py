# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Weights of one query against a tile of samples: the compiled inner loops of every direct sum.

For sinc powers, sin(u - v) = sin u cos v - cos u sin v from the sines of the scaled coordinates:
no transcendental function in the loop, and a polynomial near 0 where the difference would cancel.
Products are mantissas in [1, 2) and binary exponents, split once in four features, so that nothing
underflows in any dimension. Everything is compiled for float32 and for float64.

Speed comes from the layout: a tile of 256 samples is one contiguous row, feature by feature
[v | sin v | cos v], so that LLVM sees one pointer per argument and vectorises over the samples with
all intermediate results in registers.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.ops.cpu.compiling import allocating, inner
from fourierkernels.ops.cpu.scalar import constant, exp_series, exponent, mantissa, sinc_series
from fourierkernels.ops.shapes import TILE

LANES = 16  # the least samples that a loop takes: a vector of the widest machines
STRETCH = 64  # the same for short loops, which the compiler unrolls
NOWHERE = -(2**30)  # the exponent of an empty sum

# Value-safe flags: splitting numbers into bits relies on infinities and NaN.
SUMMING = {"contract", "nsz", "arcp", "reassoc"}
_LARGEST_UNSPLIT = 64  # a mantissa below 2 to this power is within single precision
# Unsigned, because for signed indices numba adds a test of their sign that keeps loops scalar.
_ROW, _SINES, _COSINES = np.uintp(3 * TILE), np.uintp(TILE), np.uintp(2 * TILE)
_COLUMNS, _ONE, _TWO = np.uintp(3), np.uintp(1), np.uintp(2)
_NEAR = 0.0625  # square of the distance below which sin(x)/x is its series
_LOG2_E = 1.0 / math.log(2.0)


class Extent(NamedTuple):
    """How many of a tile's samples loops take: `width` or, in short loops, `stretch`.

    Neither leaves a remainder, which the compiler does not vectorise.
    """

    width: int
    stretch: int


WHOLE = Extent(TILE, TILE)


def sines(x: FloatArray) -> list[FloatArray]:
    """Return x, sin x and cos x of each feature: ``(n, dim)`` to 3 · dim columns ``(n,)``."""
    return [of(column) for column in x.T for of in (np.asarray, np.sin, np.cos)]


def tiles(columns: Sequence[FloatArray], dtype: DTypeLike) -> NDArray[np.floating]:
    """Cut columns into zero-padded tiles, one row each: k of ``(n,)`` to ``(tiles, k · 256)``."""
    n, whole = len(columns[0]), len(columns[0]) // TILE
    laid_out = np.zeros((-(-n // TILE), len(columns), TILE), dtype)
    for k, column in enumerate(columns):
        laid_out[:whole, k] = column[: whole * TILE].reshape(whole, TILE)
        laid_out[whole:, k, : n - whole * TILE] = column[whole * TILE :]
    return laid_out.reshape(len(laid_out), -1)


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def sinc_pairs(query, row, extent, power, distant, mantissas, exponents, least):
    """Fill mantissas and exponents with those of ∏_d sinc(u_d - v_d)^power, for a tile of v.

    Parameters
    ----------
    query : array of shape (3 · dim,)
        [u, sin u, cos u] per feature.
    row : array of shape (3 · dim · 256,)
        A tile of the samples.
    extent : Extent
    power : int
    distant : bool
        Whether some abs(u_d - v_d) may be too large for products of four: `scalar.far_limit`.
    mantissas : array of shape (256,)
    exponents : int32 array of shape (256,)
    least : array of shape (256,) or None
        Filled with the smallest |sin(u_d - v_d)| of a pair, 1 if all are near: the relative error
        of the product is what the coordinates carry, over this.
    """
    _start(extent.stretch, mantissas, exponents, least)
    if distant:
        _distant_features(query, row, extent.width, mantissas, exponents, least)
    elif extent.width == TILE:  # a constant, with which the loop is a tenth faster
        _all_features(query, row, TILE, mantissas, exponents, least)
    else:
        _all_features(query, row, extent.width, mantissas, exponents, least)
    raise_to(power, extent.stretch, mantissas, exponents)


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _all_features(query, row, width, mantissas, exponents, least):
    dim, d = len(query) // 3, 0
    # Four features share a division, the slowest instruction, and a split of the exponent; products
    # of more distances would leave the range of float32 too soon.
    while d + 4 <= dim:
        _four_features(np.uintp(d), query, row, width, mantissas, exponents, least)
        d += 4
    if d + 2 <= dim:
        _two_features(np.uintp(d), query, row, width, mantissas, exponents, least)
        d += 2
    if d < dim:
        _one_feature(np.uintp(d), query, row, width, mantissas, exponents, least)


@inner(fastmath=SUMMING, error_model="numpy")
def gaussian_pairs(query, row, base, mantissas, exponents, squares):
    """Fill mantissas and exponents with those of 2**base exp(-|u - v|²/2), and squares |u - v|².

    `query` has shape ``(dim,)``, `row` ``(dim · 256,)``, `base` keeps the exponents of a far query
    within 32 bits; the rest is as in :func:`sinc_pairs`.
    """
    for j in range(TILE):
        squares[j] = constant(0.0, squares[0])
    d, dim = 0, len(query)
    while d + 4 <= dim:  # squares are read and written once for four features
        _add_four_squares(query[d:], row[TILE * d :], squares)
        d += 4
    while d < dim:
        _add_square(query[d:], row[TILE * d :], squares)
        d += 1
    for j in range(TILE):
        log2 = constant(-0.5 * _LOG2_E, base) * squares[j] + base
        mantissas[j], exponents[j] = exp2_parts(log2)


@inner(fastmath=SUMMING, error_model="numpy")
def exp2_parts(log2):
    """Return 2**log2 as a factor in [2**-1/2, 2**1/2] and an int32 exponent, for log2 <= 1e9."""
    log2 = max(log2, constant(-1e9, log2))  # so that the exponent is an int32
    whole = np.floor(log2 + constant(0.5, log2))
    return exp_series((log2 - whole) * constant(math.log(2.0), log2)), np.int32(whole)


@inner(fastmath=SUMMING, error_model="numpy")
def highest_exponent(width, mantissas, exponents, top, used):
    """Return the highest exponent of a pair that counts, or `top` if that is higher.

    Pairs of mantissa zero do not count, nor those of weight zero in `used`, an array of shape
    ``(256,)`` or None: padding must not set the scale.
    """
    highest, zero = np.int32(top), constant(0.0, mantissas[0])
    for j in range(width):
        counts = mantissas[j] != zero if used is None else used[j] * mantissas[j] != zero
        highest = max(highest, exponents[j] if counts else np.int32(NOWHERE))
    return highest


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def raise_to(power, width, mantissas, exponents):
    """Raise a tile to an integer power: the bits of the power from the top, a squaring for each."""
    bit = 1
    while 2 * bit <= power:
        bit *= 2
    if power > _LARGEST_UNSPLIT:
        _raise_and_split(power, bit, width, mantissas, exponents)
        return
    for j in range(width):
        exponents[j] *= np.int32(power)
    if power == bit:  # 1, 2, 4, …
        while bit > 1:
            bit //= 2
            _square(width, mantissas)
    else:
        _square_and_multiply(power, bit, width, mantissas)


@allocating(fastmath=SUMMING, error_model="numpy")
def _square_and_multiply(power, bit, width, mantissas):
    base = mantissas.copy()
    while bit > 1:
        bit //= 2
        _square(width, mantissas)
        if power & bit:
            _multiply(width, base, mantissas)


@allocating(fastmath=SUMMING, error_model="numpy")
def _raise_and_split(power, bit, width, mantissas, exponents):
    """Take the exponent out after each product, which would overflow at high powers."""
    base, base_exponents = mantissas.copy(), exponents.copy()
    while bit > 1:
        bit //= 2
        for j in range(width):
            product, shift = mantissas[j] * mantissas[j], 2 * exponents[j]
            if power & bit:
                product, shift = product * base[j], shift + base_exponents[j]
            exponents[j] = shift + exponent(product)
            mantissas[j] = mantissa(product)


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _square(width, mantissas):
    for j in range(width):
        mantissas[j] *= mantissas[j]


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _multiply(width, base, mantissas):
    for j in range(width):
        mantissas[j] *= base[j]


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _start(width, mantissas, exponents, least):
    for j in range(width):  # a loop vectorises; filling a slice does not
        mantissas[j] = constant(1.0, mantissas[0])
        exponents[j] = np.int32(0)
        if least is not None:
            least[j] = constant(1.0, mantissas[0])


@inner(fastmath=SUMMING, error_model="numpy")
def _factor(d, query, row, j):
    """Return numerator and denominator of sinc(u_d - v_dj), and its relative error's divisor."""
    k, i = _ROW * d + j, _COLUMNS * d
    x = query[i] - row[k]
    s = query[i + _ONE] * row[k + _COSINES] - query[i + _TWO] * row[k + _SINES]
    y = x * x
    series = sinc_series(y)  # outside the choice below, which then compiles without a branch
    near, one = y < constant(_NEAR, y), constant(1.0, y)
    return (series if near else s), (one if near else x), (one if near else abs(s))


@inner(fastmath=SUMMING, error_model="numpy")
def _distant_features(query, row, width, mantissas, exponents, least):
    """Take features one by one, and the exponent out of a distance before dividing by it."""
    for d in range(len(query) // 3):
        for j in range(width):
            top, bottom, size = _factor(np.uintp(d), query, row, np.uintp(j))
            product = mantissas[j] * (mantissa(top) / mantissa(bottom))
            exponents[j] += exponent(top) - exponent(bottom) + exponent(product)
            mantissas[j] = mantissa(product)
            if least is not None:
                least[j] = min(least[j], size)


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _one_feature(d, query, row, width, mantissas, exponents, least):
    for j in range(width):
        top, bottom, size = _factor(d, query, row, np.uintp(j))
        product = mantissas[j] * (top / bottom)
        exponents[j] += exponent(product)
        mantissas[j] = mantissa(product)
        if least is not None:
            least[j] = min(least[j], size)


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _two_features(d, query, row, width, mantissas, exponents, least):
    for j in range(width):
        top_0, bottom_0, size_0 = _factor(d, query, row, np.uintp(j))
        top_1, bottom_1, size_1 = _factor(d + np.uintp(1), query, row, np.uintp(j))
        product = mantissas[j] * ((top_0 * top_1) / (bottom_0 * bottom_1))
        exponents[j] += exponent(product)
        mantissas[j] = mantissa(product)
        if least is not None:
            least[j] = min(least[j], min(size_0, size_1))


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _four_features(d, query, row, width, mantissas, exponents, least):
    for j in range(width):
        top_0, bottom_0, size_0 = _factor(d, query, row, np.uintp(j))
        top_1, bottom_1, size_1 = _factor(d + np.uintp(1), query, row, np.uintp(j))
        top_2, bottom_2, size_2 = _factor(d + np.uintp(2), query, row, np.uintp(j))
        top_3, bottom_3, size_3 = _factor(d + np.uintp(3), query, row, np.uintp(j))
        top, bottom = (
            (top_0 * top_1) * (top_2 * top_3),
            (bottom_0 * bottom_1) * (bottom_2 * bottom_3),
        )
        product = mantissas[j] * (top / bottom)
        exponents[j] += exponent(product)
        mantissas[j] = mantissa(product)
        if least is not None:
            least[j] = min(least[j], min(min(size_0, size_1), min(size_2, size_3)))


@inner(fastmath=SUMMING, error_model="numpy")
def _add_square(query, row, squares):
    for j in range(TILE):
        squares[j] += (query[0] - row[j]) ** 2


@inner(fastmath=SUMMING, error_model="numpy")
def _add_four_squares(query, row, squares):
    for j in range(TILE):
        near = (query[0] - row[j]) ** 2 + (query[1] - row[TILE + j]) ** 2
        far = (query[2] - row[2 * TILE + j]) ** 2 + (query[3] - row[3 * TILE + j]) ** 2
        squares[j] += near + far
