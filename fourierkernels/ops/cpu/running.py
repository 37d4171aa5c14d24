# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Sums of rows that go through tiles of keys, over a power of two that rises with the weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fourierkernels.ops.cpu.bits import constant, power_of_two
from fourierkernels.ops.cpu.compiled import inner
from fourierkernels.ops.cpu.layout import Array
from fourierkernels.ops.cpu.pairs import SUMMING


class Running(NamedTuple):
    """Sums of the rows of a task over 2**tops, a multiple of which a tile's weights were."""

    sums: Array  # (16, C)
    totals: Array  # (16,)
    tops: NDArray[np.int32]  # (16,)
    stored: NDArray[np.int32]  # (16, tiles)


@inner(error_model="numpy", forceinline=True)
def raise_top(i, top, sums, totals, tops):
    """Bring the sums of row i to an exponent if it is higher: arrays of :class:`Running`."""
    if top <= tops[i]:
        return
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
