# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""The derivative of Fourier attention on the CPU, which computes the weights again.

With P the normalised weights, W those after dropout and dP_ij = W_ij / P_ij (dO_i·v_j + dW_ij),
which is 0 for what was dropped, B_ij = P_ij (dP_ij - Δ_i) is the gradient of an additive mask.
With Δ_i = Σ_j W_ij (dO_i·v_j + dW_ij) and t = d log|sinc x|/dx at x = R_d (q_id - k_jd):

    dq_id = l R_d Σ_j B_ij t,    dk_jd = -l R_d Σ_i B_ij t,    dv = Wᵀ dO,

and dR_d = (Σ_i q_id dq_id + Σ_j k_jd dk_jd) / R_d, because the weights depend on Rq and Rk alone.

A task is a slab of queries of the heads that share a mask, so that no two tasks share a sum.
"""

from typing import NamedTuple

import numpy as np
import torch
from numba import prange
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.ops.arguments import Cotangents, Gradients, Inputs, Options, Saved
from fourierkernels.ops.cpu.compiling import allocating, entry, inner, outer
from fourierkernels.ops.cpu.layout import Layout, choose_run, flat, lay_out
from fourierkernels.ops.cpu.packing import (
    Array,
    Tile,
    add_transposed,
    clear,
    new_tile,
    pack_queries,
    pack_tile,
)
from fourierkernels.ops.cpu.pairs import SUMMING
from fourierkernels.ops.cpu.scalar import constant, power_of_two
from fourierkernels.ops.cpu.slopes import add_outer, add_slopes, add_to_mask, fill_pull, finish_pull
from fourierkernels.ops.cpu.weights import (
    HIDDEN,
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

_TASKS = 8  # at least: a head's queries are cut into slabs to reach it
_SLAB = 64  # the least queries of a slab


class _Saved(NamedTuple):
    """Gradients of the results, and what the forward pass left; H is batch times heads."""

    grads: Array  # (H, N, C), C even
    weights: Array  # (H, N, M), or (H, N, 0)
    delta: Array  # (H, N)
    significand: Array  # (H, N)
    exponent: NDArray[np.int32]  # (H, N)


class _Results(NamedTuple):
    """What the loops add to, slab by slab: the gradients before their signs, radii and powers."""

    query: Array  # (H, N, D)
    key: Array  # (H, slabs, M, D)
    value: Array  # (H, slabs, M, C)
    mask: Array  # (groups, slabs or N, M or 1); (H, slabs, 0) if it is not wanted
    groups: tuple[int, int]  # steps from a batch item and from a head to the next group


class _Work(NamedTuple):
    """What a task works in."""

    tile: Tile
    key: Array  # (D · 256,): the gradients of the tile, as it is laid out
    value: Array  # (C · 256,)
    queries: Array  # (slab, 3D): see `pack_queries`
    reaches: Array  # (slab,)
    numbers: Array  # (4, 256): P, W, dP and factors of a mask
    integers: NDArray[np.int32]  # (3, 256): exponents, a mask's shifts, words of dropout


def backward(cotangents: Cotangents, inputs: Inputs, saved: Saved, options: Options) -> Gradients:
    """Return the gradients of query, key, value and radius, and of the mask if it is wanted."""
    query, key, value, radius, mask, _ = inputs
    wanted = mask if options.mask_grad else None
    if not (query.numel() and key.shape[2]):
        dmask = query.new_zeros((0,) if wanted is None else wanted.shape)
        dq, dk, dv, dr = (leaf.new_zeros(leaf.shape) for leaf in (query, key, value, radius))
        return Gradients(dq, dk, dv, dr, dmask)
    layout = lay_out(inputs)
    results = _room(layout, wanted)
    dtype = layout.values.dtype
    run = choose_run(_backward_serially, _backward_in_parallel, inputs)
    run(layout, prepare(inputs, options, dtype), _saved(cotangents, saved), results)
    # What is not finite has gradients that are not, or zero where it is hidden from all.
    q, k = (side.nan_to_num(0.0, 0.0, 0.0) for side in (query, key))
    radius = radius.nan_to_num(1.0, 1.0, 1.0)
    # The power first: a radius may have been applied by the caller, and must not change a bit.
    found, scale = (results.query, _total(results.key)), radius[:, None, :]  # (H, 1, D)
    dq, dk = (torch.from_numpy(part).mul_(options.power) for part in found)
    dq, dk = dq.view(query.shape) * scale, dk.view(key.shape) * -scale
    dv = torch.from_numpy(_total(results.value)).view(value.shape)
    dv = dv / (1 - options.dropout_p) if options.dropout_p else dv
    dr = ((q * dq).sum(dim=(0, 2)) + (k * dk).sum(dim=(0, 2))) / radius
    return Gradients(dq, dk, dv, dr, _mask_gradient(results.mask, wanted, query))


def _room(layout: Layout, mask: Tensor | None) -> _Results:
    """Return zeros to add to; the mask's in its own shape, by slabs if it is shared by queries."""
    _, heads, n, dim = layout.queries.shape
    sizes = (heads // layout.mask.heads, layout.mask.heads) if mask is None else mask.shape[:2]
    groups = sizes[0] * sizes[1]
    slabs = max(1, min(-(-_TASKS // groups), n // _SLAB))
    (_, _, m, width), dtype = layout.values.shape, layout.values.dtype
    rows = slabs if mask is None or mask.shape[2] == 1 else n
    return _Results(
        np.zeros((heads, n, dim), dtype),
        np.zeros((heads, slabs, m, dim), dtype),
        np.zeros((heads, slabs, m, width), dtype),
        np.zeros((groups, rows, 0 if mask is None else mask.shape[3]), dtype),
        (sizes[1] if sizes[0] > 1 else 0, 1 if sizes[1] > 1 else 0),
    )


def _saved(cotangents: Cotangents, saved: Saved) -> _Saved:
    grads, weights = cotangents.output, cotangents.weights
    grads = torch.nn.functional.pad(grads, (0, grads.shape[-1] % 2))
    if weights is None:
        weights = grads.new_empty((*grads.shape[:3], 0))
    return _Saved(
        flat(grads),
        flat(weights),
        flat(cotangents.delta),
        flat(saved.significand),
        saved.exponent.flatten(0, 1).contiguous().numpy(),
    )


def _total(slabs: Array) -> Array:
    return slabs[:, 0] if slabs.shape[1] == 1 else slabs.sum(axis=1)


def _mask_gradient(found: Array, mask: Tensor | None, query: Tensor) -> Tensor:
    if mask is None:
        return query.new_zeros((0,))
    shared = mask.shape[2] == 1
    return torch.from_numpy(found.sum(axis=1) if shared else found).view(mask.shape)


@entry(error_model="numpy")
def _backward_serially(layout, settings, saved, results):
    tasks = len(results.mask) * results.key.shape[1]
    _backward_groups(0, tasks, layout, settings, saved, results)


@entry(parallel=True, error_model="numpy")
def _backward_in_parallel(layout_leaves, setting_leaves, saved_leaves, result_leaves):
    _, heads, n, _ = layout_leaves[0].shape
    slabs = len(result_leaves[3]) * result_leaves[1].shape[1]
    each = share(heads * n // slabs, nested(layout_leaves, setting_leaves)[0])
    for task in prange((slabs + each - 1) // each):
        layout, settings = nested(layout_leaves, setting_leaves)
        grads, weights, delta, significand, exponent = saved_leaves
        saved = _Saved(grads, weights, delta, significand, exponent)
        query, key, value, mask, per_batch, per_head = result_leaves
        results = _Results(query, key, value, mask, (per_batch, per_head))
        last = min(slabs, (task + 1) * each)
        _backward_groups(task * each, last, layout, settings, saved, results)


@allocating(error_model="numpy")
@outer
def _backward_groups(first, last, layout, settings, saved, results):
    """Do the work of some slabs of queries, counted over all groups."""
    slabs, work = results.key.shape[1], _work(layout, results)
    for index in range(first, last):
        # From both ends in turn: late rows of causal heads have most to do.
        turn = index % slabs
        slab = turn // 2 if turn % 2 == 0 else slabs - 1 - turn // 2
        _backward_group(index // slabs, slab, layout, settings, saved, work, results)


@allocating(error_model="numpy")
def _work(layout, results):
    _, _, n, dim = layout.queries.shape
    tile, like, slabs = new_tile(layout), layout.queries, results.key.shape[1]
    return _Work(
        tile,
        np.empty(dim * TILE, like.dtype),
        np.empty(len(tile.columns), like.dtype),
        np.empty((n // slabs + 1, 3 * dim), like.dtype),
        np.empty(n // slabs + 1, like.dtype),
        np.empty((4, TILE), like.dtype),
        np.empty((3, TILE), np.int32),
    )


@inner(error_model="numpy")
@outer
def _backward_group(group, slab, layout, settings, saved, work, results):
    """Take a slab of queries through the heads that share a mask, or through one head."""
    each, (per_batch, per_head) = layout.mask.heads, results.groups
    items, item, of_item = layout.queries.shape[1] // each, 0, group
    if per_batch > 0:
        item, of_item = group // per_batch, group % per_batch
    for batch in range(item, item + 1 if per_batch > 0 else items):
        for head in range(of_item, of_item + 1 if per_head > 0 else each):
            place = group, slab
            _backward_slab(batch * each + head, place, layout, settings, saved, work, results)


@inner(error_model="numpy")
@outer
def _backward_slab(head, place, layout, settings, saved, work, results):
    n, (_, slab), slabs = layout.queries.shape[2], place, results.key.shape[1]
    start, stop = slab * n // slabs, (slab + 1) * n // slabs
    rows = stop - start
    pack_queries(layout.queries, head, start, work.queries[:rows], work.reaches[:rows])
    # Queries are the inner loop: the tile's dk and dv stay in the cache for all of a slab.
    for tile in range(tiles_in_sight(stop - 1, layout, settings.causal)):
        pack_tile(layout, head, tile, work.tile)
        keys = slice(tile * TILE, (tile + 1) * TILE)
        clear(work.key, results.key[head, slab, keys])
        clear(work.value, results.value[head, slab, keys])
        _backward_tile((head, start, tile), rows, place, layout, settings, saved, work, results)
        add_transposed(work.key, results.key[head, slab, keys])
        add_transposed(work.value, results.value[head, slab, keys])


@inner(error_model="numpy")
@outer
def _backward_tile(here, rows, place, layout, settings, saved, work, results):
    """Add what a tile of keys and the queries of a slab give each other."""
    (head, start, tile), first, power = here, here[2] * TILE, settings.power
    masked, shared = layout.mask.bias.size > 0, layout.mask.strides[2] == 0
    factors = work.numbers[3, : TILE if masked else 0]
    exponents, shifts = work.integers[0], work.integers[1]
    weights, pull = work.numbers[0], work.numbers[2]
    most = keys_in_sight(start + rows - 1, tile, layout, settings.causal)
    if masked and shared:
        most = read_mask(here, most, layout.mask, factors, shifts)
    near = work.tile.rows, work.tile.reach, work.tile.doubts[: TILE if work.tile.spoilt[0] else 0]
    dq = results.query[head]
    for k in range(rows):
        i, count, query, reach = start + k, most, work.queries[k], work.reaches[k]
        if settings.causal:
            count = min(count, i + 1 - first)
        if masked and not shared and count > 0:
            count = read_mask((head, i, tile), count, layout.mask, factors, shifts)
        if count > 0:
            weigh(query, reach, near, count, power, (factors, shifts), weights, exponents)
            _add_row((head, i, tile), place, count, layout, settings, saved, work, results)
            for d in range(dq.shape[1]):
                width = extent(count).width
                dq[i, d] += add_slopes(width, np.uintp(d), query, near[0], pull, work.key)


@inner(error_model="numpy", forceinline=True)
def _add_row(here, place, count, layout, settings, saved, work, results):
    """Fill in B of a query and a tile from its weights, and add to dv and to dmask."""
    (head, i, _), (group, slab), first = here, place, here[2] * TILE
    weights, pull, kept = work.numbers[0], work.numbers[2], work.numbers[0]
    exponents, words, stretch = work.integers[0], work.integers[2], extent(count).stretch
    grad, dweight = saved.grads[head, i], saved.weights[head, i, first : first + count]
    _normalise(stretch, weights, exponents, saved.exponent[head, i], saved.significand[head, i])
    if settings.dropout.least > 0:
        kept = work.numbers[1]
        draw(settings.dropout, (head, i, first), stretch, words)
        drop(settings.dropout, stretch, words, weights, kept)
    add_outer(count, grad, kept, exponents, work.value)
    fill_pull(stretch, grad, dweight, work.tile.columns, settings.dropout, words, pull)
    finish_pull(stretch, saved.delta[head, i], weights, exponents, pull)
    if results.mask.shape[2] > 0:
        row = i if results.mask.shape[1] == saved.delta.shape[1] else slab
        add_to_mask(count, first, pull, results.mask[group, row])


@inner(fastmath=SUMMING, error_model="numpy", forceinline=True)
def _normalise(width, mantissas, exponents, top, total):
    """Turn mantissas into P; a row without weight has an infinite total."""
    scale = constant(1.0, total) / total
    for j in range(width):
        weight = mantissas[j] * power_of_two(exponents[j] - np.int32(top), total) * scale
        mantissas[j] = weight if exponents[j] != HIDDEN else constant(0.0, total)
