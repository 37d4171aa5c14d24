# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Fourier attention on the CPU: the compiled sums of the estimators, with values for responses.

Each task takes some queries of one head through the tiles of its keys, with the loops of
:mod:`fourierkernels.ops.cpu.pairs`. No N x M array is stored but the weights, if they are wanted.
Sums are never shared between tasks and tasks do not depend on the number of threads, so neither do
results.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import prange
from numpy.typing import NDArray

from fourierkernels.ops.arguments import Inputs, Options, Rows
from fourierkernels.ops.cpu.layout import Array, choose_run, lay_out
from fourierkernels.ops.cpu.packing import pack_queries
from fourierkernels.ops.cpu.pairs import NOWHERE, TILE, highest_exponent
from fourierkernels.ops.cpu.scalar import constant, entry, inner, power_of_two
from fourierkernels.ops.cpu.tiles import (
    Running,
    add_plain_tile,
    add_products,
    add_spoilt_values,
    raise_top,
    take_scale,
)
from fourierkernels.ops.cpu.weights import (
    draw,
    drop,
    extent,
    keys_in_sight,
    nested,
    prepare,
    read_mask,
    tiles_in_sight,
    weigh,
)

ROWS = 16  # queries of a task: their weights share each tile of values


class _Results(NamedTuple):
    """What the loops write; H stands for batch times heads."""

    output: Array  # (H, N, C)
    significand: Array  # (H, N)
    exponent: NDArray[np.int32]  # (H, N)
    weights: Array  # (H, N, M), or (H, N, 0)


class Work(NamedTuple):
    """What a task works in."""

    queries: Array  # (16, 3D): see `pack_queries`
    reaches: Array  # (16,)
    weights: Array  # (17, 256): those of some rows and a tile; factors of a mask
    integers: NDArray[np.int32]  # (3, 256): exponents, a mask's shifts, words of dropout


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
    output, significand, exponent, weights = parts
    return Rows(output, significand, exponent, weights, query.new_zeros((*rows[:2], 0)))


@entry(error_model="numpy")
def _forward_serially(layout, settings, results):
    blocks = (layout.queries.shape[2] + ROWS - 1) // ROWS
    for task in range(layout.queries.shape[1] * blocks):
        _forward_rows(task // blocks, task % blocks, layout, settings, results)


@entry(parallel=True, error_model="numpy")
def _forward_in_parallel(layout_leaves, setting_leaves, result_leaves):
    blocks = (layout_leaves[0].shape[2] + ROWS - 1) // ROWS
    for task in prange(layout_leaves[0].shape[1] * blocks):
        layout, settings = nested(layout_leaves, setting_leaves)
        output, significand, exponent, weights = result_leaves
        results = _Results(output, significand, exponent, weights)
        # From both ends in turn: late rows of causal heads have most to do.
        turn = task % blocks
        block = turn // 2 if turn % 2 == 0 else blocks - 1 - turn // 2
        _forward_rows(task // blocks, block, layout, settings, results)


@inner(error_model="numpy")
def _forward_rows(head, block, layout, settings, results):
    first = block * ROWS
    rows = min(ROWS, layout.queries.shape[2] - first)
    like, eps = layout.values.given, settings.eps
    top = math.floor(math.log2(eps)) if eps > 0 else NOWHERE
    tiles = tiles_in_sight(first + rows - 1, layout, settings.causal)
    queries, reaches = pack_queries(layout.queries, head, first, first + rows)
    work = Work(
        queries,
        reaches,
        np.empty((ROWS + 1, TILE), like.dtype),
        np.empty((3, TILE), np.int32),
    )
    if rows < ROWS:
        work.weights[rows:] = 0  # products take rows by fours; those that are not there add zero
    running = Running(
        np.zeros((ROWS, like.shape[2] + like.shape[2] % 2), like.dtype),
        np.zeros(ROWS, like.dtype),
        np.full(ROWS, top, np.int32),
        np.empty((ROWS, tiles if settings.weights else 0), np.int32),
    )
    for tile in range(tiles):
        place = head, first, tile
        if _is_plain(place, layout, settings) and np.isfinite(np.sum(reaches)):
            add_plain_tile(rows, place, layout, settings, work, running)
        else:
            _forward_tile(place, rows, layout, settings, work, running, results.weights)
    _finish_rows(head, first, rows, layout, settings, work, running, results)


@inner(forceinline=True)
def _is_plain(place, layout, settings):
    """Return whether nothing in a tile is masked, dropped, spoilt or to be kept."""
    head, _, tile = place
    asked = settings.dropout.least > 0 or settings.weights or layout.mask.bias.size > 0
    return not (asked or layout.keys.spoilt[head, tile] or layout.values.spoilt[head, tile])


@inner(error_model="numpy")
def _finish_rows(head, first, rows, layout, settings, work, running, results):
    """Divide the sums of rows by their totals."""
    output, significand = results.output[head], results.significand[head]
    exponent, sums, tops, eps = results.exponent[head], running.sums, running.tops, settings.eps
    for i in range(rows):
        total = running.totals[i] + (eps * 2.0 ** -tops[i] if eps > 0 else 0.0)
        if total == 0:
            continue  # a row without weight keeps its output of 0 and its infinite total
        row, scale = first + i, settings.dropout.scale / constant(total, eps)
        significand[row], exponent[row] = total, tops[i]
        for c in range(output.shape[1]):
            output[row, c] = sums[i, c] * scale
        if settings.weights and total == total:
            _normalise(running.stored[i], tops[i], scale, results.weights[head, row])
        elif settings.weights:
            _spread(head, row, layout, settings.causal, work, results.weights[head, row])


@inner(error_model="numpy")
def _forward_tile(place, rows, layout, settings, work, running, kept):
    """Add a tile of keys to the sums of the rows."""
    (head, first, tile), start, power = place, place[2] * TILE, settings.power
    masked, shared = layout.mask.bias.size > 0, layout.mask.strides[2] == 0
    factors = work.weights[ROWS, : TILE if masked else 0]
    exponents, shifts = work.integers[0], work.integers[1]
    most = keys_in_sight(first + rows - 1, tile, layout, settings.causal)
    if masked and shared:
        most = read_mask(place, most, layout.mask, factors, shifts)
    columns, reaches = layout.keys.rows[head, tile], layout.keys.reach[head, tile]
    doubts = layout.keys.doubts[head, tile, : TILE if layout.keys.spoilt[head, tile] else 0]
    special = settings.dropout.least > 0 or settings.weights or layout.values.spoilt[head, tile]
    for i in range(rows):
        count, weights, query, reach = most, work.weights[i], work.queries[i], work.reaches[i]
        if settings.causal:
            count = min(most, first + i + 1 - start)
        if masked and not shared:
            here = head, first + i, tile
            count = read_mask(here, count, layout.mask, factors, shifts)
        seen = extent(count).stretch
        if count > 0:
            near = columns, reaches, doubts
            weigh(query, reach, near, count, power, (factors, shifts), weights, exponents)
            top = highest_exponent(seen, weights, exponents, running.tops[i], None)
            raise_top(i, top, running.sums, running.totals, running.tops)
            running.totals[i] += take_scale(seen, weights, exponents, top)
        for j in range(seen, extent(most).stretch):  # rows that see less share the products' width
            weights[j] = 0
        if special:
            _finish_tile(place, i, (count, most), layout, settings, work, running, kept)
    values = layout.values.columns[head, tile]
    add_products(rows, extent(most).stretch, work.weights, values, running.sums)


@inner(error_model="numpy", forceinline=True)
def _finish_tile(place, i, counts, layout, settings, work, running, kept):
    """Drop weights of a row and a tile, mind values that are not finite, keep what is wanted."""
    (head, first, tile), (count, most), weights = place, counts, work.weights[i]
    row, start, exponents, words = first + i, tile * TILE, work.integers[0], work.integers[2]
    if settings.dropout.least > 0:
        stretch = extent(most).stretch
        draw(settings.dropout, (head, row, start), stretch, words)
        drop(settings.dropout, stretch, words, weights, weights)
    if layout.values.spoilt[head, tile]:
        given = layout.values.given[head, start : start + count]
        add_spoilt_values(given, exponents, weights, running.sums[i])
    if settings.weights:
        running.stored[i, tile] = running.tops[i]  # later tiles may raise it
        for j in range(most):  # assigning a slice would also compile error messages for 4 s
            kept[head, row, start + j] = weights[j]


@inner(error_model="numpy")
def _normalise(stored, top, scale, weights):
    """Bring a row of weights, tile by tile over an exponent, to one exponent and its total."""
    for tile in range(len(stored)):
        factor = power_of_two(np.int32(stored[tile] - top), scale) * scale
        for j in range(tile * TILE, min((tile + 1) * TILE, len(weights))):
            weights[j] *= factor


@inner(error_model="numpy")
def _spread(head, row, layout, causal, work, weights):
    """Fill the weights of a row whose total is NaN: NaN for the pairs that no mask hides."""
    factors, shifts = work.weights[ROWS], work.integers[1]
    for tile in range(tiles_in_sight(row, layout, causal)):
        count, first = keys_in_sight(row, tile, layout, causal), tile * TILE
        if layout.mask.bias.size > 0:
            read_mask((head, row, tile), count, layout.mask, factors, shifts)
        weights[first : first + TILE] = 0
        for j in range(count):
            hidden = layout.mask.bias.size > 0 and factors[j] == 0
            weights[first + j] = constant(0.0 if hidden else np.nan, factors[0])
