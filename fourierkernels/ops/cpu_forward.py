# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Fourier attention on the CPU: the compiled sums of the estimators, with values for responses.

Each task takes some queries of one head through the tiles of its keys, with the loops of
:mod:`fourierkernels.ops.pairs`. No N x M array is stored. Sums are never shared between tasks and
tasks do not depend on the number of threads, so neither do results.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray

from fourierkernels.ops.arguments import Inputs, Options, Rows
from fourierkernels.ops.bits import constant, power_of_two
from fourierkernels.ops.cpu_layout import Array, choose_run, lay_out
from fourierkernels.ops.cpu_weights import interleaved, tiles_in_sight, weigh
from fourierkernels.ops.pairs import NOWHERE, SUMMING, TILE, highest_exponent

_ROWS = 8  # queries of a task: their weights share each tile of values


class _Results(NamedTuple):
    """What the loops write; H stands for batch times heads."""

    output: Array  # (H, N, C)
    significand: Array  # (H, N)
    exponent: NDArray[np.int32]  # (H, N)


def forward(inputs: Inputs, options: Options) -> Rows:
    """Return output and the sum of weights of each row as significand and exponent."""
    if options.dropout_p or options.return_weights:
        raise NotImplementedError("dropout and weights have no CPU kernel")
    query, width = inputs.query, inputs.value.shape[3]
    batch, heads, n, _ = query.shape
    layout = lay_out(inputs)
    results = _Results(
        np.zeros((batch * heads, n, width), layout.keys.dtype),
        np.full((batch * heads, n), np.inf, layout.keys.dtype),
        np.zeros((batch * heads, n), np.int32),
    )
    if query.numel() and layout.m:
        run = choose_run(_forward_serially, _forward_in_parallel, inputs)
        eps = layout.keys.dtype.type(options.eps)
        run(layout, options.power, options.causal, eps, results)
    rows = (batch, heads, n)
    return Rows(
        torch.from_numpy(results.output).view(*rows, width),
        torch.from_numpy(results.significand).view(rows),
        torch.from_numpy(results.exponent).view(rows),
        query.new_zeros((*rows, 0)),
        query.new_zeros((batch, heads, 0)),
    )


@njit(cache=True, error_model="numpy")
def _forward_serially(layout, power, causal, eps, results):
    blocks = (layout.u.shape[1] + _ROWS - 1) // _ROWS
    for task in range(len(layout.u) * blocks):
        _forward_rows(task // blocks, task % blocks * _ROWS, layout, power, causal, eps, results)


@njit(parallel=True, cache=True, error_model="numpy")
def _forward_in_parallel(layout, power, causal, eps, results):
    blocks = (layout.u.shape[1] + _ROWS - 1) // _ROWS
    for task in prange(len(layout.u) * blocks):
        _forward_rows(task // blocks, task % blocks * _ROWS, layout, power, causal, eps, results)


@njit(cache=True, error_model="numpy")
def _forward_rows(head, first, layout, power, causal, eps, results):
    rows, dtype = min(_ROWS, layout.u.shape[1] - first), layout.keys.dtype
    weights = np.zeros((_ROWS, TILE), dtype)
    exponents = np.empty(TILE, np.int32)
    top = math.floor(math.log2(eps)) if eps > 0 else NOWHERE
    sums = np.zeros((_ROWS, layout.values.shape[2] // TILE), dtype)
    totals, tops = np.zeros(_ROWS, dtype), np.full(_ROWS, top, np.int32)
    coordinates = interleaved(head, first, first + rows, layout)
    mask, m = layout.mask, layout.m
    for tile in range(tiles_in_sight(first + rows - 1, layout.keys.shape[1], causal)):
        keys = layout.keys[head, tile]
        for i in range(rows):
            place = head, first + i, tile
            weigh(place, coordinates[i], keys, mask, m, power, causal, weights[i], exponents)
            top = highest_exponent(weights[i], exponents, tops[i], None)
            if top > tops[i]:
                shrink = power_of_two(np.int32(max(tops[i] - top, -2000)), eps)
                totals[i] *= shrink
                for c in range(sums.shape[1]):
                    sums[i, c] *= shrink
                tops[i] = top
            totals[i] += _scale(weights[i], exponents, top)
        _add_products(weights, layout.values[head, tile], sums)
    for i in range(rows):
        total = totals[i] + (eps * 2.0 ** -tops[i] if eps > 0 else 0.0)
        if total != 0:  # a row without weight keeps its output of 0 and its infinite total
            for c in range(results.output.shape[2]):
                results.output[head, first + i, c] = sums[i, c] / total
            results.significand[head, first + i] = total
            results.exponent[head, first + i] = tops[i]


@njit(cache=True, fastmath=SUMMING, error_model="numpy", forceinline=True)
def _scale(mantissas, exponents, top):
    """Turn mantissas into weights over 2**top; return their sum."""
    total = constant(0.0, mantissas[0])
    for j in range(TILE):
        mantissas[j] *= power_of_two(exponents[j] - np.int32(top), total)
        total += mantissas[j]
    return total


@njit(cache=True, error_model="numpy")
def _add_products(weights, columns, sums):
    """Add weights (8, 256) times a tile of C columns to sums (8, C)."""
    for c in range(0, sums.shape[1], 2):
        pair = columns[c * TILE :]
        for i in range(0, _ROWS, 4):
            parts = _eight_products(
                weights[i], weights[i + 1], weights[i + 2], weights[i + 3], pair
            )
            for k in range(4):
                sums[i + k, c] += parts[2 * k]
                sums[i + k, c + 1] += parts[2 * k + 1]


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _eight_products(a, b, c, d, pair):
    """Sum the products of four rows of weights and two columns, all in registers."""
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = constant(0.0, a[0])
    for j in range(TILE):
        left, right = pair[j], pair[TILE + j]
        a0 += a[j] * left
        a1 += a[j] * right
        b0 += b[j] * left
        b1 += b[j] * right
        c0 += c[j] * left
        c1 += c[j] * right
        d0 += d[j] * left
        d1 += d[j] * right
    return a0, a1, b0, b1, c0, c1, d0, d1
