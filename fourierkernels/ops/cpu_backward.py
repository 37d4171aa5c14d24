# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""The derivative of Fourier attention on the CPU, which computes the weights again.

With P the normalised weights, Δ_i = dO_i·O_i, G_ij = l P_ij (dO_i·v_j - Δ_i) and
t = d log|sinc x|/dx at x = R_d (q_id - k_jd):

    dq_id = R_d Σ_j G_ij t,    dk_jd = -R_d Σ_i G_ij t,    dv = Pᵀ dO,

and dR_d = (Σ_i q_id dq_id + Σ_j k_jd dk_jd) / R_d, because the weights depend on Rq and Rk alone.
"""

from typing import NamedTuple

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray

from fourierkernels.ops.arguments import Cotangents, Gradients, Inputs, Options, Saved
from fourierkernels.ops.bits import constant, power_of_two
from fourierkernels.ops.cpu_layout import Array, choose_run, from_tiles, lay_out, padded
from fourierkernels.ops.cpu_weights import interleaved, tiles_in_sight, weigh
from fourierkernels.ops.pairs import SUMMING, TILE
from fourierkernels.ops.series import guard, slope_series

_TASKS = 16  # at least: a head's queries are cut into slabs to reach it
_SLAB = 64  # the least queries of a slab
_NEAR = 0.25  # square of the distance below which the slope is its series


class _Saved(NamedTuple):
    """The gradient of the output, and what the forward pass left; H is batch times heads."""

    grads: Array  # (H, N, C), C even
    delta: Array  # (H, N)
    significand: Array  # (H, N)
    exponent: NDArray[np.int32]  # (H, N)


class _Results(NamedTuple):
    """What the loops add to, slab by slab: the gradients before their signs and radii."""

    query: Array  # (H, N, D)
    key: Array  # (H, slabs, tiles, D · 256)
    value: Array  # (H, slabs, tiles, C · 256)


def backward(cotangents: Cotangents, inputs: Inputs, saved: Saved, options: Options) -> Gradients:
    """Return the gradients of query, key, value and radius, in their shapes."""
    if options.dropout_p or options.mask_grad or cotangents.weights is not None:
        raise NotImplementedError("dropout, weights and gradients of masks have no CPU kernel")
    query, key, value, radius, *_ = inputs
    no_mask = query.new_zeros((0,))
    m, width = key.shape[2], value.shape[3]
    if not (query.numel() and m):
        dq, dk, dv, dr = (torch.zeros_like(leaf) for leaf in (query, key, value, radius))
        return Gradients(dq, dk, dv, dr, no_mask)
    layout = lay_out(inputs)
    heads, n, dim = layout.u.shape
    slabs = max(1, min(-(-_TASKS // heads), n // _SLAB))
    tiles, dtype = layout.keys.shape[1], layout.keys.dtype
    results = _Results(
        np.zeros((heads, n, dim), dtype),
        np.zeros((heads, slabs, tiles, dim * TILE), dtype),
        np.zeros((heads, slabs, *layout.values.shape[1:]), dtype),
    )
    run = choose_run(_backward_serially, _backward_in_parallel, inputs)
    run(layout, options.power, options.causal, _saved(cotangents, saved), results)
    scale = radius[:, None, :]  # (H, 1, D)
    dq = torch.from_numpy(results.query).view(query.shape) * scale
    dk = from_tiles(results.key.sum(axis=1), m).view(key.shape) * -scale
    dv = from_tiles(results.value.sum(axis=1), m)[..., :width].reshape(value.shape)
    dr = ((query * dq).sum(dim=(0, 2)) + (key * dk).sum(dim=(0, 2))) / radius
    return Gradients(dq, dk, dv, dr, no_mask)


def _saved(cotangents: Cotangents, saved: Saved) -> _Saved:
    return _Saved(
        padded(cotangents.output).flatten(0, 1).contiguous().numpy(),
        cotangents.delta.flatten(0, 1).contiguous().numpy(),
        saved.significand.flatten(0, 1).numpy(),
        saved.exponent.flatten(0, 1).numpy(),
    )


@njit(cache=True, error_model="numpy")
def _backward_serially(layout, power, causal, saved, results):
    slabs = results.key.shape[1]
    for task in range(len(layout.u) * slabs):
        _backward_slab(task // slabs, task % slabs, layout, power, causal, saved, results)


@njit(parallel=True, cache=True, error_model="numpy")
def _backward_in_parallel(layout, power, causal, saved, results):
    slabs = results.key.shape[1]
    for task in prange(len(layout.u) * slabs):
        _backward_slab(task // slabs, task % slabs, layout, power, causal, saved, results)


@njit(cache=True, error_model="numpy")
def _backward_slab(head, slab, layout, power, causal, saved, results):
    n, slabs = layout.u.shape[1], results.key.shape[1]
    start, stop = slab * n // slabs, (slab + 1) * n // slabs
    weights = np.empty(TILE, layout.keys.dtype)
    pull = np.empty(TILE, layout.keys.dtype)
    exponents = np.empty(TILE, np.int32)
    coordinates = interleaved(head, start, stop, layout)
    mask, m, dq = layout.mask, layout.m, results.query
    grads, delta = saved.grads[head], saved.delta[head]
    exponent, significand = saved.exponent[head], saved.significand[head]
    for tile in range(tiles_in_sight(stop - 1, layout.keys.shape[1], causal)):
        keys, values = layout.keys[head, tile], layout.values[head, tile]
        dk, dv = results.key[head, slab, tile], results.value[head, slab, tile]
        for i in range(start, stop):
            if causal and i < tile * TILE:
                continue
            query, grad = coordinates[i - start], grads[i]
            weigh((head, i, tile), query, keys, mask, m, power, causal, weights, exponents)
            _normalise(weights, exponents, exponent[i], significand[i])
            _pull(power, grad, delta[i], values, weights, pull)
            _add_outer(grad, weights, dv)
            for d in range(dq.shape[2]):
                dq[head, i, d] += _add_slopes(
                    query[3 * d :], keys[3 * TILE * d :], pull, dk[TILE * d :]
                )


@njit(cache=True, fastmath=SUMMING, error_model="numpy", forceinline=True)
def _normalise(mantissas, exponents, top, total):
    """Turn mantissas into P; a row without weight has an infinite total."""
    scale = constant(1.0, total) / total
    for j in range(TILE):
        mantissas[j] *= power_of_two(exponents[j] - np.int32(top), total) * scale


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _pull(power, grad, delta, columns, weights, pull):
    """Fill in G = l P (dO·v - Δ)."""
    for j in range(TILE):
        pull[j] = -delta
    for c in range(0, len(grad), 2):
        _add_pair(grad[c:], columns[c * TILE :], pull)
    for j in range(TILE):
        pull[j] *= constant(power, delta) * weights[j]


@njit(cache=True, fastmath=SUMMING, error_model="numpy", forceinline=True)
def _add_pair(grad, columns, pull):
    for j in range(TILE):
        pull[j] += grad[0] * columns[j] + grad[1] * columns[TILE + j]


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _add_outer(grad, weights, columns):
    for c in range(len(grad)):
        _add_multiple(grad[c], weights, columns[c * TILE :])


@njit(cache=True, fastmath=SUMMING, error_model="numpy", forceinline=True)
def _add_multiple(factor, weights, column):
    for j in range(TILE):
        column[j] += factor * weights[j]


@njit(cache=True, fastmath=SUMMING, error_model="numpy")
def _add_slopes(query, row, pull, dk):
    """Add G t to a feature of dk (its sign and R are applied at the end); return Σ_j G t."""
    u, sin_u, cos_u = query[0], query[1], query[2]
    total = constant(0.0, u)
    for j in range(TILE):
        x = u - row[j]
        s = sin_u * row[2 * TILE + j] - cos_u * row[TILE + j]
        c = cos_u * row[2 * TILE + j] + sin_u * row[TILE + j]
        y = x * x
        near = -x * slope_series(y)
        far = (c * x - s) / (s * x + guard(x))
        part = pull[j] * (near if y < constant(_NEAR, y) else far)
        total += part
        dk[j] += part
    return total
