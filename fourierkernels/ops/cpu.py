# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Fourier attention on the CPU: the compiled sums of the estimators, with values for responses.

Each task takes some queries of one head through the tiles of its keys, with the loops of
:mod:`fourierkernels.ops.pairs`. No N x M array is stored. Sums are never shared between tasks and
tasks do not depend on the number of threads, so neither do results.

The backward pass computes the weights again. With P the normalised weights, Δ_i = dO_i·O_i,
G_ij = l P_ij (dO_i·v_j - Δ_i) and t = d log|sinc x|/dx at x = R_d (q_id - k_jd):

    dq_id = R_d Σ_j G_ij t,    dk_jd = -R_d Σ_i G_ij t,    dv = Pᵀ dO,

and dR_d = (Σ_i q_id dq_id + Σ_j k_jd dk_jd) / R_d, because the weights depend on Rq and Rk alone.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit, prange, types
from numba.extending import overload
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.ops.bits import constant, power_of_two
from fourierkernels.ops.pairs import NOWHERE, SUMMING, TILE, exp2_parts, sinc_pairs
from fourierkernels.ops.threads import as_many_threads_as_torch

Run = Callable[..., None]

_ROWS = 8  # queries of a forward task: their weights share each tile of values
_TASKS = 16  # of a backward pass, at least: a head's queries are cut into slabs to reach it
_SLAB = 64  # the least queries of a slab
_SERIAL_BELOW = 2e6  # pairs times dimensions: less than it takes to wake the threads
_LOG2_E = 1.0 / math.log(2.0)
_NEAR = 0.25  # square of the distance below which the slope is its series

_Array = NDArray[np.floating]


class _Layout(NamedTuple):
    """Heads laid out for the compiled loops; H stands for batch times heads."""

    queries: tuple[_Array, _Array, _Array]  # u, sin u, cos u, each (H, N, D)
    keys: _Array  # (H, tiles, 3D · 256)
    values: _Array  # (H, tiles, C · 256), C even
    mask: _Array  # (B, heads, N, M), or empty


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    *,
    power: int,
    causal: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return output ``(B, H, N, C)`` and Σ_j w_ij + eps as significand and exponent, ``(B, H, N)``.

    Parameters
    ----------
    query, key, value : Tensor
        ``(B, H, N, D)``, ``(B, H, M, D)`` and ``(B, H, M, C)``, float32 or float64.
    radius : Tensor
        ``(H, D)``.
    mask : Tensor or None
        Boolean, or added to log|w|; four dimensions, each 1 or that of ``(B, H, N, M)``.
    """
    batch, heads, n, _ = query.shape
    keys, width = key.shape[2], value.shape[3]
    layout = _lay_out(query, key, value, radius, mask)
    output = np.zeros((batch * heads, n, width), layout.keys.dtype)
    significand = np.full((batch * heads, n), np.inf, output.dtype)
    exponent = np.zeros((batch * heads, n), np.int32)
    if query.numel() and keys:
        run = _chosen(_forward_serially, _forward_in_parallel, query, keys)
        run(*layout, keys, power, causal, output.dtype.type(eps), output, significand, exponent)
    rows = (batch, heads, n)
    return (
        torch.from_numpy(output).view(*rows, width),
        torch.from_numpy(significand).view(rows),
        torch.from_numpy(exponent).view(rows),
    )


def backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    output: Tensor,
    significand: Tensor,
    exponent: Tensor,
    *,
    power: int,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of query, key, value and radius, in their shapes."""
    batch, heads, n, dim = query.shape
    keys, width = key.shape[2], value.shape[3]
    if not (query.numel() and keys):
        return tuple(torch.zeros_like(leaf) for leaf in (query, key, value, radius))  # type: ignore[return-value]
    layout = _lay_out(query, key, value, radius, mask)
    slabs = max(1, min(-(-_TASKS // (batch * heads)), n // _SLAB))
    tiles = layout.keys.shape[1]
    dq = np.zeros((batch * heads, n, dim), layout.keys.dtype)
    dk = np.zeros((batch * heads, slabs, tiles, dim * TILE), dq.dtype)
    dv = np.zeros((batch * heads, slabs, *layout.values.shape[1:]), dq.dtype)
    grads = _padded(grad).flatten(0, 1).contiguous().numpy()
    delta = (grad * output).sum(dim=-1).flatten(0, 1).contiguous().numpy()
    run = _chosen(_backward_serially, _backward_in_parallel, query, keys)
    run(
        *layout,
        keys,
        power,
        causal,
        grads,
        delta,
        significand.flatten(0, 1).numpy(),
        exponent.flatten(0, 1).numpy(),
        dq,
        dk,
        dv,
    )
    scale = radius[:, None, :]  # (H, 1, D)
    dq_ = torch.from_numpy(dq).view(query.shape) * scale
    dk_ = _from_tiles(dk.sum(axis=1), keys).view(key.shape) * -scale
    dv_ = _from_tiles(dv.sum(axis=1), keys)[..., :width].reshape(value.shape)
    dr = ((query * dq_).sum(dim=(0, 2)) + (key * dk_).sum(dim=(0, 2))) / radius
    return dq_, dk_, dv_, dr


def _chosen(serial: Run, parallel: Run, query: Tensor, keys: int) -> Run:
    """Return the kernel in one thread, or in as many as torch has if there is enough to do."""
    if query.numel() * keys < _SERIAL_BELOW or torch.get_num_threads() == 1:
        return serial

    def run(*arguments: Any) -> None:
        with as_many_threads_as_torch():
            parallel(*arguments)

    return run


def _lay_out(
    query: Tensor, key: Tensor, value: Tensor, radius: Tensor, mask: Tensor | None
) -> _Layout:
    u = (query * radius[:, None, :]).flatten(0, 1)
    v = (key * radius[:, None, :]).flatten(0, 1).mT  # (H, D, M)
    v = torch.nn.functional.pad(v, (0, -v.shape[-1] % TILE)).unflatten(-1, (-1, TILE))
    rows = torch.stack([v, v.sin(), v.cos()], dim=2).permute(0, 3, 1, 2, 4)  # (H, tiles, D, 3, 256)
    return _Layout(
        (u.contiguous().numpy(), u.sin().contiguous().numpy(), u.cos().contiguous().numpy()),
        rows.flatten(2).contiguous().numpy(),
        _tiles(_padded(value).flatten(0, 1)),
        _expanded(mask, (*query.shape[:3], key.shape[2]), query.dtype),
    )


def _padded(x: Tensor) -> Tensor:
    """Make the number of columns even: two are summed at a time."""
    return torch.nn.functional.pad(x, (0, x.shape[-1] % 2))


def _tiles(x: Tensor) -> _Array:
    """Cut into zero-padded tiles, one row each: ``(H, M, k)`` to ``(H, tiles, k · 256)``."""
    heads, m, k = x.shape
    padded = torch.nn.functional.pad(x, (0, 0, 0, -m % TILE))
    rows = padded.view(heads, -1, TILE, k).transpose(2, 3).reshape(heads, -1, k * TILE)
    result: _Array = rows.contiguous().numpy()
    return result


def _from_tiles(x: _Array, m: int) -> Tensor:
    heads, tiles, _ = x.shape
    rows = torch.from_numpy(x).view(heads, tiles, -1, TILE).transpose(2, 3)
    return rows.reshape(heads, tiles * TILE, rows.shape[-1])[:, :m]


def _expanded(mask: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype) -> _Array:
    """Return what is added to log|w|, without storing what is shared; empty without a mask."""
    if mask is None:
        bias = torch.zeros((0, 0, 0, 0), dtype=dtype)
    elif mask.dtype is torch.bool:
        bias = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -math.inf).expand(shape)
    else:
        bias = mask.to(dtype).expand(shape)
    result: _Array = bias.numpy()
    return result


# ---- forward ------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _forward_serially(
    queries, keys, values, mask, m, power, causal, eps, output, significand, exponent
):
    blocks = (queries[0].shape[1] + _ROWS - 1) // _ROWS
    for task in range(len(queries[0]) * blocks):
        _forward_rows(
            task // blocks,
            task % blocks * _ROWS,
            queries,
            keys,
            values,
            mask,
            m,
            power,
            causal,
            eps,
            output,
            significand,
            exponent,
        )


@njit(parallel=True, cache=True, error_model="numpy")
def _forward_in_parallel(
    queries, keys, values, mask, m, power, causal, eps, output, significand, exponent
):
    blocks = (queries[0].shape[1] + _ROWS - 1) // _ROWS
    for task in prange(len(queries[0]) * blocks):
        _forward_rows(
            task // blocks,
            task % blocks * _ROWS,
            queries,
            keys,
            values,
            mask,
            m,
            power,
            causal,
            eps,
            output,
            significand,
            exponent,
        )


@njit(cache=True, error_model="numpy")
def _forward_rows(
    head, first, queries, keys, values, mask, m, power, causal, eps, output, significand, exponent
):
    rows = min(_ROWS, queries[0].shape[1] - first)
    weights = np.zeros((_ROWS, TILE), keys.dtype)
    sums = np.zeros((_ROWS, values.shape[2] // TILE), keys.dtype)
    totals = np.zeros(_ROWS, keys.dtype)
    tops = np.full(_ROWS, math.floor(math.log2(eps)) if eps > 0 else NOWHERE, np.int32)
    exponents = np.empty(TILE, np.int32)
    coordinates = _interleaved(head, first, first + rows, queries)
    for tile in range(_tiles_in_sight(first + rows - 1, keys.shape[1], causal)):
        for i in range(rows):
            _weigh(
                head,
                first + i,
                tile,
                coordinates[i],
                keys[head, tile],
                mask,
                m,
                power,
                causal,
                weights[i],
                exponents,
            )
            top = _highest(weights[i], exponents, tops[i])
            if top > tops[i]:
                shrink = power_of_two(np.int32(max(tops[i] - top, -2000)), eps)
                totals[i] *= shrink
                for c in range(sums.shape[1]):
                    sums[i, c] *= shrink
                tops[i] = top
            totals[i] += _scale(weights[i], exponents, top)
        _add_products(weights, values[head, tile], sums)
    for i in range(rows):
        total = totals[i] + (eps * 2.0 ** -tops[i] if eps > 0 else 0.0)
        if total != 0:  # a row without weight keeps its output of 0 and its infinite total
            for c in range(output.shape[2]):
                output[head, first + i, c] = sums[i, c] / total
            significand[head, first + i] = total
            exponent[head, first + i] = tops[i]


@njit(cache=True, error_model="numpy")
def _interleaved(head, start, stop, queries):
    """Rows [u, sin u, cos u] per feature, shape ``(rows, 3D)``."""
    u, sin_u, cos_u = queries
    rows = np.empty((stop - start, 3 * u.shape[2]), u.dtype)
    for i in range(stop - start):
        for d in range(u.shape[2]):
            rows[i, 3 * d] = u[head, start + i, d]
            rows[i, 3 * d + 1] = sin_u[head, start + i, d]
            rows[i, 3 * d + 2] = cos_u[head, start + i, d]
    return rows


@njit(cache=True)
def _tiles_in_sight(row, tiles, causal):
    return min(tiles, row // TILE + 1) if causal else tiles


@njit(cache=True, error_model="numpy", forceinline=True)
def _weigh(head, row, tile, query, keys, mask, m, power, causal, mantissas, exponents):
    """Fill in the weights of one query and a tile of keys: zero where masked or beyond the end."""
    sinc_pairs(query, keys, power, mantissas, exponents, None)
    start = tile * TILE
    in_sight = min(TILE, m - start)
    if causal:
        in_sight = min(in_sight, row + 1 - start)
    if in_sight < TILE:
        for j in range(max(in_sight, 0), TILE):
            mantissas[j] = constant(0.0, mantissas[0])
    if mask.size > 0:
        heads = mask.shape[1]
        bias = mask[head // heads, head % heads, row]
        for j in range(in_sight):
            factor, shift = exp2_parts(bias[start + j] * constant(_LOG2_E, mantissas[0]))
            mantissas[j] *= constant(0.0, factor) if bias[start + j] == -np.inf else factor
            exponents[j] += shift


@njit(cache=True, fastmath=SUMMING, error_model="numpy", forceinline=True)
def _highest(mantissas, exponents, top):
    highest, zero = np.int32(top), constant(0.0, mantissas[0])
    for j in range(TILE):
        highest = max(highest, exponents[j] if mantissas[j] != zero else np.int32(NOWHERE))
    return highest


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


# ---- backward -----------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _backward_serially(
    queries, keys, values, mask, m, power, causal, grads, delta, significand, exponent, dq, dk, dv
):
    slabs = dk.shape[1]
    for task in range(len(queries[0]) * slabs):
        _backward_slab(
            task // slabs,
            task % slabs,
            queries,
            keys,
            values,
            mask,
            m,
            power,
            causal,
            grads,
            delta,
            significand,
            exponent,
            dq,
            dk,
            dv,
        )


@njit(parallel=True, cache=True, error_model="numpy")
def _backward_in_parallel(
    queries, keys, values, mask, m, power, causal, grads, delta, significand, exponent, dq, dk, dv
):
    slabs = dk.shape[1]
    for task in prange(len(queries[0]) * slabs):
        _backward_slab(
            task // slabs,
            task % slabs,
            queries,
            keys,
            values,
            mask,
            m,
            power,
            causal,
            grads,
            delta,
            significand,
            exponent,
            dq,
            dk,
            dv,
        )


@njit(cache=True, error_model="numpy")
def _backward_slab(
    head,
    slab,
    queries,
    keys,
    values,
    mask,
    m,
    power,
    causal,
    grads,
    delta,
    significand,
    exponent,
    dq,
    dk,
    dv,
):
    n, slabs = queries[0].shape[1], dk.shape[1]
    start, stop = slab * n // slabs, (slab + 1) * n // slabs
    weights = np.empty(TILE, keys.dtype)
    pull = np.empty(TILE, keys.dtype)
    exponents = np.empty(TILE, np.int32)
    coordinates = _interleaved(head, start, stop, queries)
    for tile in range(_tiles_in_sight(stop - 1, keys.shape[1], causal)):
        for i in range(start, stop):
            if causal and i < tile * TILE:
                continue
            query = coordinates[i - start]
            _weigh(
                head, i, tile, query, keys[head, tile], mask, m, power, causal, weights, exponents
            )
            _normalise(weights, exponents, exponent[head, i], significand[head, i])
            _pull(power, grads[head, i], delta[head, i], values[head, tile], weights, pull)
            _add_outer(grads[head, i], weights, dv[head, slab, tile])
            for d in range(dq.shape[2]):
                dq[head, i, d] += _add_slopes(
                    query[3 * d :],
                    keys[head, tile, 3 * TILE * d :],
                    pull,
                    dk[head, slab, tile, TILE * d :],
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
        near = -x * _slope_series(y)
        far = (c * x - s) / (s * x + _guard(x))
        part = pull[j] * (near if y < constant(_NEAR, y) else far)
        total += part
        dk[j] += part
    return total


def _slope_series(y):
    """(1/x - cot x)/x in powers of y = x² < 1/4: Σ_k 2^2k |B_2k| / (2k)! y^(k-1)."""


@overload(_slope_series, inline="always")
def _slope_series_of(y):
    if y == types.float32:
        return lambda y: (
            np.float32(1 / 3)
            + y * (np.float32(1 / 45) + y * (np.float32(2 / 945) + y * np.float32(1 / 4725)))
        )
    return lambda y: (
        1 / 3
        + y
        * (
            1 / 45
            + y
            * (
                2 / 945
                + y
                * (
                    1 / 4725
                    + y
                    * (
                        2 / 93555
                        + y
                        * (
                            1382 / 638512875
                            + y
                            * (
                                4 / 18243225
                                + y
                                * (
                                    3617 / 162820783125
                                    + y * (87734 / 38979295480125 + y * 349222 / 1531329465290625)
                                )
                            )
                        )
                    )
                )
            )
        )
    )


def _guard(x):
    """Keep the slope finite at a zero of the sine, where its weight is zero; inside an addition."""


@overload(_guard, inline="always")
def _guard_of(x):
    if x == types.float32:
        return lambda x: np.float32(1e-30)
    return lambda x: 1e-200
