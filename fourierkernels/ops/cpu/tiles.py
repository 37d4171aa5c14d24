# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""What a tile of keys adds to the sums of a task's rows, over a power of two that rises with them.

The common case is compiled by itself: nothing masked, dropped, spoilt or kept. A row's work on a
tile takes half a microsecond, of which the layout's many arrays, handed from function to function,
would be a third: there only the arrays in use are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.ops.cpu.compiling import inner
from fourierkernels.ops.cpu.packing import Array
from fourierkernels.ops.cpu.pairs import SUMMING, highest_exponent, sinc_pairs
from fourierkernels.ops.cpu.scalar import constant, far_limit, power_of_two
from fourierkernels.ops.cpu.weights import HIDDEN, extent, keys_in_sight
from fourierkernels.ops.shapes import TILE


class Running(NamedTuple):
    """Sums of n rows over 2**tops, a multiple of which a tile's weights were."""

    sums: Array  # (n, C), C even
    totals: Array  # (n,)
    tops: NDArray[np.int32]  # (n,)
    stored: NDArray[np.int32]  # (n, tiles)


@inner(error_model="numpy", forceinline=True)
def raise_top(i, top, sums, totals, tops):
    """Bring the sums of row i to an exponent if it is higher: arrays of :class:`Running`."""
    if top <= tops[i]:
        return
    # At -2000 the factor is zero already.
    shrink = power_of_two(np.int32(max(tops[i] - top, -2000)), totals[i])
    totals[i] *= shrink
    for c in range(sums.shape[1]):
        sums[i, c] *= shrink
    tops[i] = top


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def take_scale(width, mantissas, exponents, top):
    """Turn mantissas into weights over 2**top; return their sum."""
    total = constant(0.0, mantissas[0])
    for j in range(width):
        mantissas[j] *= power_of_two(exponents[j] - np.int32(top), total)
        total += mantissas[j]
    return total


@inner(error_model="numpy")
def add_products(rows, width, weights, columns, sums):
    """Add weights (16, 256) times a tile of C columns to the first sums (16, C)."""
    # Eight sums stay in registers, and a value that is loaded serves four of them.
    for i in range(0, rows, 4):
        for row in range(rows, i + 4):  # those that are not there add zero
            for j in range(width):
                weights[row, j] = 0
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for k in range(0, sums.shape[1], 2):
            parts = _eight_products(width, a, b, c, d, np.uintp(k * TILE), columns)
            for row in range(4):
                sums[i + row, k] += parts[2 * row]
                sums[i + row, k + 1] += parts[2 * row + 1]


@inner(fastmath=SUMMING, error_model="numpy")
def _eight_products(width, a, b, c, d, start, columns):
    """Sum the products of four rows of weights and two columns, all in registers."""
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = constant(0.0, a[0])
    for j in range(width):
        left, right = columns[start + np.uintp(j)], columns[start + np.uintp(TILE + j)]
        a0 += a[j] * left
        a1 += a[j] * right
        b0 += b[j] * left
        b1 += b[j] * right
        c0 += c[j] * left
        c1 += c[j] * right
        d0 += d[j] * left
        d1 += d[j] * right
    return a0, a1, b0, b1, c0, c1, d0, d1


@inner(error_model="numpy")
def add_spoilt_values(given, exponents, weights, sums):
    """Add what a tile leaves out: values ``(count, C)`` not finite of pairs not hidden."""
    for j in range(len(given)):
        if exponents[j] != HIDDEN:
            for c in range(given.shape[1]):
                if not np.isfinite(given[j, c]):
                    sums[c] += weights[j] * given[j, c]


@inner(error_model="numpy", forceinline=True)
def add_plain_tile(rows, place, layout, settings, work, running):
    """Add a tile of keys to the sums of the rows; arguments as those of the general case."""
    _, first, tile = place
    most = keys_in_sight(first + rows - 1, tile, layout, settings.causal)
    _weigh_rows(
        rows,
        most,
        first + 1 - tile * TILE if settings.causal else TILE,
        settings.power,
        work.queries,
        work.reaches,
        work.tile.rows,
        work.tile.reach,
        work.weights,
        work.integers[0],
        running,
    )
    add_products(rows, extent(most).stretch, work.weights, work.tile.columns, running.sums)


@inner(error_model="numpy")
def _weigh_rows(
    rows, most, seen, power, queries, reaches, columns, far, weights, exponents, running
):
    """Fill in the weights of rows, the first of which sees `seen` keys; 0 beyond what they see."""
    zero, limit = constant(0.0, reaches[0]), far_limit(reaches[0])
    end, sums, totals, tops = extent(most).stretch, running.sums, running.totals, running.tops
    for i in range(rows):
        row, count = weights[i], min(most, seen + i)
        part = extent(max(count, 0))
        if count > 0:
            distant = reaches[i] + far[count - 1] > limit
            sinc_pairs(queries[i], columns, part, power, distant, row, exponents, None)
            for j in range(count, part.stretch):
                row[j] = zero
            top = highest_exponent(part.stretch, row, exponents, tops[i], None)
            raise_top(i, top, sums, totals, tops)
            totals[i] += take_scale(part.stretch, row, exponents, top)
        for j in range(part.stretch, end):
            row[j] = zero
