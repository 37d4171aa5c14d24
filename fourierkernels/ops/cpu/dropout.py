# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""The draw of :mod:`fourierkernels.ops.dropout`, compiled: the same bits, tile by tile."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from fourierkernels.ops.cpu.bits import constant
from fourierkernels.ops.cpu.compiled import inner
from fourierkernels.ops.dropout import threshold

_ROUNDS = 10
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEP_0, _STEP_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_WORD, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


class Dropout(NamedTuple):
    """A seed's two words; the least word that keeps a weight, 0 to keep all; the factor 1/(1-p)."""

    low: np.uint64
    high: np.uint64
    least: np.uint32
    scale: np.floating


def prepare_dropout(p: float, seed: Tensor | None, dtype: np.dtype) -> Dropout:
    """Return dropout as the loops read it."""
    bits = 0 if seed is None or not p else int(seed) % 2**64
    low, high = np.uint64(bits % 2**32), np.uint64(bits >> 32)
    return Dropout(low, high, np.uint32(threshold(p)), dtype.type(1 / (1 - p)))


@inner(error_model="numpy")
def drop(dropout, width, words, weights, kept):
    """Fill `kept` with the weights, and zeros for those that are dropped."""
    zero = constant(0.0, weights[0])
    for j in range(width):
        kept[j] = weights[j] if np.uint32(words[j]) >= dropout.least else zero


@inner(error_model="numpy")
def draw(dropout, place, width, words):
    """Fill in the words of the first keys of a tile, four to a counter; counters fill vectors.

    `place` is (head, row, first key), `width` a multiple of 4.
    """
    head, row, first = place
    for g in range(width // 4):
        a, b = np.uint64(first // 4 + g), np.uint64(row)
        c, d = np.uint64(head), np.uint64(0)
        low, high = dropout.low, dropout.high
        for _ in range(_ROUNDS):
            left, right = _FIRST * a, _SECOND * c
            a, c = (right >> _HALF) ^ b ^ low, (left >> _HALF) ^ d ^ high
            b, d = right & _WORD, left & _WORD
            low, high = (low + _STEP_0) & _WORD, (high + _STEP_1) & _WORD
        words[4 * g], words[4 * g + 1] = np.int32(a), np.int32(b)
        words[4 * g + 2], words[4 * g + 3] = np.int32(c), np.int32(d)
