# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Fourier attention on the CPU: the compiled sums of the estimators, with values for responses.

Each task takes some queries of one head, or those of several short heads in turn, through the
tiles of their keys, with the loops of :mod:`fourierkernels.ops.cpu.pairs`. No N x M array is stored
but the weights, if they are wanted. Sums are never shared between tasks and tasks do not depend on
the number of threads, so neither do results.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numba import prange
from numpy.typing import NDArray

from fourierkernels.ops.arguments import Inputs, Options, Rows
from fourierkernels.ops.cpu.compiling import allocating, entry, inner, outer
from fourierkernels.ops.cpu.layout import choose_run, lay_out
from fourierkernels.ops.cpu.packing import Array, Tile, new_tile, pack_queries, pack_tile
from fourierkernels.ops.cpu.pairs import NOWHERE, highest_exponent
from fourierkernels.ops.cpu.scalar import constant, power_of_two
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
    share,
    tiles_in_sight,
    weigh,
)
from fourierkernels.ops.shapes import TILE

ROWS = 16  # queries that go through a tile together: their weights share its values
_PORTION = 2**18  # entries of queries or keys whose sines are stored at a time,
_FEW_HEADS = 64  # but not fewer heads: threads share them out
SPAN = TILE  # queries for which a tile is copied: in causal order the last tile is on the diagonal


class _Results(NamedTuple):
    """What the loops write; H stands for batch times heads."""

    output: Array  # (H, N, C)
    significand: Array  # (H, N)
    exponent: NDArray[np.int32]  # (H, N)
    weights: Array  # (H, N, M), or (H, N, 0)


class Work(NamedTuple):
    """What a task works in, for a span of at most 256 queries at a time, n in round numbers."""

    tile: Tile
    queries: Array  # (n, 3D): see `pack_queries`
    reaches: Array  # (n,)
    weights: Array  # (17, 256): those of some rows and a tile; factors of a mask
    integers: NDArray[np.int32]  # (3, 256): exponents, a mask's shifts, words of dropout


def forward(inputs: Inputs, options: Options) -> Rows:
    """Return output, the sum of weights of each row, and the weights if wanted."""
    query, key, value = (side.contiguous() for side in inputs[:3])
    inputs, width = inputs._replace(query=query, key=key, value=value), value.shape[3]
    batch, heads, n, _ = rows = query.shape
    dtype, m = value.detach().numpy().dtype, key.shape[2]
    results = _Results(
        np.zeros((batch * heads, n, width), dtype),
        np.full((batch * heads, n), np.inf, dtype),
        np.zeros((batch * heads, n), np.int32),
        np.zeros((batch * heads, n, m if options.return_weights else 0), dtype),
    )
    if query.numel() and m:
        run = choose_run(_forward_serially, _forward_in_parallel, inputs)
        settings = prepare(inputs, options, dtype)
        for portion in _portions(inputs, options):
            some = _Results._make(part[portion] for part in results)
            run(lay_out(inputs, portion), settings, some)
    parts = (torch.from_numpy(part).unflatten(0, rows[:2]) for part in results)
    output, significand, exponent, weights = parts
    return Rows(output, significand, exponent, weights)


def _portions(inputs: Inputs, options: Options) -> Iterator[slice]:
    """Yield the heads whose sines are stored at a time: many short ones would take new memory.

    A mask and dropout know heads by their number, so all go together.
    """
    batch, heads, n, dim = inputs.query.shape
    step = max(_FEW_HEADS, _PORTION // (max(n, inputs.key.shape[2]) * dim))
    if inputs.mask is not None or options.dropout_p:
        step = batch * heads
    for first in range(0, batch * heads, step):
        yield slice(first, first + step)


@entry(error_model="numpy")
def _forward_serially(layout, settings, results):
    _, heads, n, _ = layout.queries.shape
    _forward_spans(0, heads * ((n + SPAN - 1) // SPAN), layout, settings, results)


@entry(parallel=True, error_model="numpy")
def _forward_in_parallel(layout_leaves, setting_leaves, result_leaves):
    _, heads, n, _ = layout_leaves[0].shape
    spans = heads * ((n + SPAN - 1) // SPAN)
    each = share(min(n, SPAN), nested(layout_leaves, setting_leaves)[0])
    for task in prange((spans + each - 1) // each):
        layout, settings = nested(layout_leaves, setting_leaves)
        output, significand, exponent, weights = result_leaves
        results = _Results(output, significand, exponent, weights)
        last = min(spans, (task + 1) * each)
        _forward_spans(task * each, last, layout, settings, results)


@allocating(error_model="numpy")
@outer
def _forward_spans(first, last, layout, settings, results):
    """Do the work of some spans of queries, counted over all heads."""
    spans = (layout.queries.shape[2] + SPAN - 1) // SPAN
    work, running = _room(layout, settings)
    for index in range(first, last):
        # From both ends in turn: late rows of causal heads have most to do.
        turn = index % spans
        span = turn // 2 if turn % 2 == 0 else spans - 1 - turn // 2
        place = index // spans, span * SPAN
        _forward_span(place, layout, settings, work, running, results)


@allocating(error_model="numpy")
def _room(layout, settings):
    """Return what a task works in and its sums."""
    _, _, n, dim = layout.queries.shape
    _, _, m, width = layout.values.shape
    rows, dtype = min(SPAN, (n + ROWS - 1) // ROWS * ROWS), layout.queries.dtype
    work = Work(
        new_tile(layout),
        np.empty((rows, 3 * dim), dtype),
        np.empty(rows, dtype),
        np.empty((ROWS + 1, TILE), dtype),
        np.empty((3, TILE), np.int32),
    )
    running = Running(
        np.empty((rows, width + width % 2), dtype),
        np.empty(rows, dtype),
        np.empty(rows, np.int32),
        np.empty((rows, (m + TILE - 1) // TILE if settings.weights else 0), np.int32),
    )
    return work, running


@inner(error_model="numpy")
@outer
def _forward_span(place, layout, settings, work, running, results):
    """Take queries from a first one on through the tiles of their keys."""
    (head, start), eps = place, settings.eps
    rows = min(SPAN, layout.queries.shape[2] - start)
    pack_queries(layout.queries, head, start, work.queries[:rows], work.reaches[:rows])
    running.tops[:] = math.floor(math.log2(eps)) if eps > 0 else NOWHERE
    running.totals[:] = 0
    running.sums[:] = 0
    for tile in range(tiles_in_sight(start + rows - 1, layout, settings.causal)):
        pack_tile(layout, head, tile, work.tile)
        for first in range(0, rows, ROWS):
            few = min(ROWS, rows - first)
            here = head, start + first, tile
            _forward_block(here, few, layout, settings, *_block(first, work, running), results)
    _finish_rows(head, start, rows, layout, settings, work, running, results)


@inner(error_model="numpy", forceinline=True)
def _block(first, work, running):
    """Return the parts of what a span works in that are of 16 rows."""
    part = slice(first, first + ROWS)
    tile, queries, reaches, weights, integers = work
    sums, totals, tops, stored = running
    return (
        Work(tile, queries[part], reaches[part], weights, integers),
        Running(sums[part], totals[part], tops[part], stored[part]),
    )


@inner(error_model="numpy")
@outer
def _forward_block(place, rows, layout, settings, work, running, results):
    """Add a tile of keys to the sums of some rows."""
    finite = np.isfinite(np.sum(work.reaches[:rows]))
    if finite and _is_plain(work.tile, layout, settings):
        add_plain_tile(rows, place, layout, settings, work, running)
    else:
        _forward_tile(place, rows, layout, settings, work, running, results.weights)


@inner(forceinline=True)
def _is_plain(tile, layout, settings):
    """Return whether nothing in a tile is masked, dropped, spoilt or to be kept."""
    asked = settings.dropout.least > 0 or settings.weights or layout.mask.bias.size > 0
    return not (asked or tile.spoilt[0] or tile.spoilt[1])


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
@outer
def _forward_tile(place, rows, layout, settings, work, running, kept):
    """Add a tile of keys to the sums of the rows."""
    (head, first, tile), start, power = place, place[2] * TILE, settings.power
    masked, shared = layout.mask.bias.size > 0, layout.mask.strides[2] == 0
    factors = work.weights[ROWS, : TILE if masked else 0]
    exponents, shifts = work.integers[0], work.integers[1]
    most = keys_in_sight(first + rows - 1, tile, layout, settings.causal)
    if masked and shared:
        most = read_mask(place, most, layout.mask, factors, shifts)
    near = work.tile.rows, work.tile.reach, work.tile.doubts[: TILE if work.tile.spoilt[0] else 0]
    special = settings.dropout.least > 0 or settings.weights or work.tile.spoilt[1]
    for i in range(rows):
        count, weights, query, reach = most, work.weights[i], work.queries[i], work.reaches[i]
        if settings.causal:
            count = min(most, first + i + 1 - start)
        if masked and not shared:
            here = head, first + i, tile
            count = read_mask(here, count, layout.mask, factors, shifts)
        seen = extent(count).stretch
        if count > 0:
            weigh(query, reach, near, count, power, (factors, shifts), weights, exponents)
            top = highest_exponent(seen, weights, exponents, running.tops[i], None)
            raise_top(i, top, running.sums, running.totals, running.tops)
            running.totals[i] += take_scale(seen, weights, exponents, top)
        for j in range(seen, extent(most).stretch):  # rows that see less share the products' width
            weights[j] = 0
        if special:
            _finish_tile(place, i, (count, most), layout, settings, work, running, kept)
    add_products(rows, extent(most).stretch, work.weights, work.tile.columns, running.sums)


@inner(error_model="numpy", forceinline=True)
def _finish_tile(place, i, counts, layout, settings, work, running, kept):
    """Drop weights of a row and a tile, mind values that are not finite, keep what is wanted."""
    (head, first, tile), (count, most), weights = place, counts, work.weights[i]
    row, start, exponents, words = first + i, tile * TILE, work.integers[0], work.integers[2]
    if settings.dropout.least > 0:
        stretch = extent(most).stretch
        draw(settings.dropout, (head, row, start), stretch, words)
        drop(settings.dropout, stretch, words, weights, weights)
    if work.tile.spoilt[1]:
        given = layout.values[0, head, start : start + count]
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
