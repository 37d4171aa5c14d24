# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Fourier attention on the CPU: the compiled sums of the estimators, with values for responses.

Each task takes some queries of one head through the tiles of its keys, with the loops of
:mod:`fourierkernels.ops.pairs`. No N x M array is stored but the weights, if they are wanted. Sums
are never shared between tasks and tasks do not depend on the number of threads, so neither do
results.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray

from fourierkernels.ops.arguments import Inputs, Options, Rows
from fourierkernels.ops.bits import constant, power_of_two
from fourierkernels.ops.cpu_dropout import draw, drop
from fourierkernels.ops.cpu_layout import Array, choose_run, lay_out
from fourierkernels.ops.cpu_packing import pack_queries
from fourierkernels.ops.cpu_products import add_products, add_spoilt_values
from fourierkernels.ops.cpu_settings import prepare
from fourierkernels.ops.cpu_weights import (
    EXPONENTS,
    SHIFTS,
    WORDS,
    extent,
    keys_in_sight,
    read_mask,
    tiles_in_sight,
    weigh,
)
from fourierkernels.ops.pairs import NOWHERE, SUMMING, TILE, highest_exponent

ROWS = 8  # queries of a task: their weights share each tile of values


class _Results(NamedTuple):
    """What the loops write; H stands for batch times heads."""

    output: Array  # (H, N, C)
    significand: Array  # (H, N)
    exponent: NDArray[np.int32]  # (H, N)
    weights: Array  # (H, N, M), or (H, N, 0)


class _Running(NamedTuple):
    """Sums of the rows of a task over 2**tops, a multiple of which a tile's weights were."""

    sums: Array  # (8, C)
    totals: Array  # (8,)
    tops: NDArray[np.int32]  # (8,)
    stored: NDArray[np.int32]  # (8, tiles)


class Work(NamedTuple):
    """What a task works in."""

    queries: Array  # (8, 3D): see `pack_queries`
    reaches: Array  # (8,)
    weights: Array  # (9, 256): those of eight rows and a tile; factors of a mask
    integers: NDArray[np.int32]  # (3, 256): see `cpu_weights`


def forward(inputs: Inputs, options: Options) -> Rows:
    """Return output, the sum of weights of each row, and the weights if wanted."""
    query, width = inputs.query, inputs.value.shape[3]
    batch, heads, n, _ = rows = query.shape
    layout = lay_out(inputs)
    dtype, columns = layout.values.given.dtype, layout.m if options.return_weights else 0
    results = _Results(
        np.zeros((batch * heads, n, width), dtype),
        np.full((batch * heads, n), np.inf, dtype),
        np.zeros((batch * heads, n), np.int32),
        np.zeros((batch * heads, n, columns), dtype),
    )
    if query.numel() and layout.m:
        run = choose_run(_forward_serially, _forward_in_parallel, inputs)
        run(layout, prepare(inputs, options, dtype), results)
    parts = (torch.from_numpy(part).unflatten(0, rows[:2]) for part in results)
    return Rows(*parts, query.new_zeros((*rows[:2], 0)))


@njit(cache=True, error_model="numpy")
def _forward_serially(layout, settings, results):
    blocks = (layout.queries.shape[2] + ROWS - 1) // ROWS
    for task in range(layout.queries.shape[1] * blocks):
        _forward_rows(task // blocks, task % blocks, layout, settings, results)


@njit(parallel=True, cache=True, error_model="numpy")
def _forward_in_parallel(layout, settings, results):
    blocks = (layout.queries.shape[2] + ROWS - 1) // ROWS
    for task in prange(layout.queries.shape[1] * blocks):
        # From both ends in turn: late rows of causal heads have most to do.
        turn = task % blocks
        block = turn // 2 if turn % 2 == 0 else blocks - 1 - turn // 2
        _forward_rows(task // blocks, block, layout, settings, results)


@njit(cache=True, error_model="numpy")
def _forward_rows(head, block, layout, settings, results):
    first = block * ROWS
    rows = min(ROWS, layout.queries.shape[2] - first)
    like, eps = layout.values.given, settings.eps
    top = math.floor(math.log2(eps)) if eps > 0 else NOWHERE
    tiles = tiles_in_sight(first + rows - 1, layout, settings.causal)
    work = Work(
        *pack_queries(layout.queries, head, first, first + rows),
        np.empty((ROWS + 1, TILE), like.dtype),
        np.empty((3, TILE), np.int32),
    )
    if rows < ROWS:
        work.weights[rows:] = 0
    running = _Running(
        np.zeros((ROWS, like.shape[2] + like.shape[2] % 2), like.dtype),
        np.zeros(ROWS, like.dtype),
        np.full(ROWS, top, np.int32),
        np.empty((ROWS, tiles if settings.weights else 0), np.int32),
    )
    for tile in range(tiles):
        _forward_tile((head, first, tile), rows, layout, settings, work, running, results.weights)
    for i in range(rows):
        total = running.totals[i] + (eps * 2.0 ** -running.tops[i] if eps > 0 else 0.0)
        if total != 0:  # a row without weight keeps its output of 0 and its infinite total
            scale = settings.dropout.scale / constant(total, eps)
            results.significand[head, first + i] = total
            results.exponent[head, first + i] = running.tops[i]
            for c in range(like.shape[2]):
                results.output[head, first + i, c] = running.sums[i, c] * scale
            if settings.weights:
                row = results.weights[head, first + i]
                _normalise(running.stored[i], running.tops[i], scale, row)


@njit(cache=True, error_model="numpy")
def _forward_tile(place, rows, layout, settings, work, running, kept):
    """Add a tile of keys to the sums of the rows."""
    (head, first, tile), start = place, place[2] * TILE
    masked, shared = layout.mask.bias.size > 0, layout.mask.strides[2] == 0
    most = keys_in_sight(first + rows - 1, tile, layout, settings.causal)
    factors, integers = work.weights[ROWS, : TILE if masked else 0], work.integers
    if masked and shared:
        most = read_mask(place, most, layout.mask, factors, integers[SHIFTS])
    stretch = extent(most).stretch
    columns, reaches = layout.keys.rows[head, tile], layout.keys.reach[head, tile]
    doubts = layout.keys.doubts[head, tile, : TILE if layout.keys.spoilt[head, tile] else 0]
    for i in range(rows):
        count, weights = most, work.weights[i]
        if settings.causal:
            count = min(most, first + i + 1 - start)
        if masked and not shared:
            here = head, first + i, tile
            count = read_mask(here, count, layout.mask, factors, integers[SHIFTS])
        top, seen = running.tops[i], extent(count).stretch
        if count > 0:
            query, reach, power = work.queries[i], work.reaches[i], settings.power
            weigh(query, reach, columns, reaches, doubts, count, power, factors, integers, weights)
            top = highest_exponent(seen, weights, integers[EXPONENTS], top, None)
            _raise_top(i, top, running)
            running.totals[i] += _scale(seen, weights, integers[EXPONENTS], top)
        for j in range(seen, stretch):
            weights[j] = 0
        if settings.dropout.least > 0:
            draw(settings.dropout, (head, first + i, start), stretch, integers[WORDS])
            drop(settings.dropout, stretch, integers[WORDS], weights, weights)
        if layout.values.spoilt[head, tile]:
            given = layout.values.given[head, start : start + count]
            add_spoilt_values(given, integers[EXPONENTS], weights, running.sums[i])
        if settings.weights:
            running.stored[i, tile] = top
            kept[head, first + i, start : start + most] = weights[:most]
    add_products(rows, stretch, work.weights, layout.values.columns[head, tile], running.sums)


@njit(cache=True, error_model="numpy")
def _raise_top(i, top, running):
    """Bring the sums of a row to a higher exponent."""
    if top > running.tops[i]:
        shrink = power_of_two(np.int32(max(running.tops[i] - top, -2000)), running.totals[i])
        running.totals[i] *= shrink
        for c in range(running.sums.shape[1]):
            running.sums[i, c] *= shrink
        running.tops[i] = top


@njit(cache=True, fastmath=SUMMING, error_model="numpy", forceinline=True)
def _scale(width, mantissas, exponents, top):
    """Turn mantissas into weights over 2**top; return their sum."""
    total = constant(0.0, mantissas[0])
    for j in range(width):
        mantissas[j] *= power_of_two(exponents[j] - np.int32(top), total)
        total += mantissas[j]
    return total


@njit(cache=True, error_model="numpy")
def _normalise(stored, top, scale, weights):
    """Bring a row of weights, tile by tile over an exponent, to one exponent and its total."""
    for tile in range(len(stored)):
        factor = power_of_two(np.int32(stored[tile] - top), scale) * scale
        for j in range(tile * TILE, min((tile + 1) * TILE, len(weights))):
            weights[j] *= factor
