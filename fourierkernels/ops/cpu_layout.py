"""Heads of attention laid out for the compiled loops, and back."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.ops.arguments import Inputs
from fourierkernels.ops.pairs import TILE
from fourierkernels.ops.threads import as_many_threads_as_torch

Run = Callable[..., None]
Array = NDArray[np.floating]

_SERIAL_BELOW = 2e6  # pairs times dimensions: less than it takes to wake the threads


class Layout(NamedTuple):
    """Heads as the loops read them; H stands for batch times heads.

    Attributes
    ----------
    u, sines, cosines : arrays of shape (H, N, D)
        Of the scaled queries.
    keys : array of shape (H, tiles, 3D · 256)
    values : array of shape (H, tiles, C · 256), C even
    mask : array of shape (B, heads, N, M), or empty
        Added to log|w|.
    m : int
        Number of keys.
    """

    u: Array
    sines: Array
    cosines: Array
    keys: Array
    values: Array
    mask: Array
    m: int


def choose_run(serial: Run, parallel: Run, inputs: Inputs) -> Run:
    """Return the loop in one thread, or in as many as torch has if there is enough to do."""
    work = inputs.query.numel() * inputs.key.shape[2]
    if work < _SERIAL_BELOW or torch.get_num_threads() == 1:
        return serial

    def run(*arguments: Any) -> None:
        with as_many_threads_as_torch():
            parallel(*arguments)

    return run


def lay_out(inputs: Inputs) -> Layout:
    """Return the inputs as the loops read them."""
    query, key, value, radius, mask, _ = inputs
    m = key.shape[2]
    u = (query * radius[:, None, :]).flatten(0, 1)
    v = (key * radius[:, None, :]).flatten(0, 1).mT  # (H, D, M)
    v = torch.nn.functional.pad(v, (0, -m % TILE))
    v = v.reshape(*v.shape[:2], -1, TILE)  # (H, D, tiles, 256)
    rows = torch.stack([v, v.sin(), v.cos()], dim=2).permute(0, 3, 1, 2, 4)  # (H, tiles, D, 3, 256)
    return Layout(
        u.contiguous().numpy(),
        u.sin().contiguous().numpy(),
        u.cos().contiguous().numpy(),
        rows.flatten(2).contiguous().numpy(),
        _tiles(padded(value).flatten(0, 1)),
        _expanded(mask, (*query.shape[:3], m), query.dtype),
        m,
    )


def padded(x: Tensor) -> Tensor:
    """Make the number of columns even: two are summed at a time."""
    return torch.nn.functional.pad(x, (0, x.shape[-1] % 2))


def _tiles(x: Tensor) -> Array:
    """Cut into zero-padded tiles, one row each: ``(H, M, k)`` to ``(H, tiles, k · 256)``."""
    heads, m, k = x.shape
    padded = torch.nn.functional.pad(x, (0, 0, 0, -m % TILE))
    rows = padded.view(heads, -1, TILE, k).transpose(2, 3).reshape(heads, -1, k * TILE)
    result: Array = rows.contiguous().numpy()
    return result


def from_tiles(x: Array, m: int) -> Tensor:
    """Return the rows of tiles: ``(H, tiles, k · 256)`` to ``(H, m, k)``."""
    heads, tiles, _ = x.shape
    rows = torch.from_numpy(x).view(heads, tiles, -1, TILE).transpose(2, 3)
    return rows.reshape(heads, tiles * TILE, rows.shape[-1])[:, :m]


def _expanded(mask: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype) -> Array:
    """Return what is added to log|w|, without storing what is shared; empty without a mask."""
    if mask is None:
        bias = torch.zeros((0, 0, 0, 0), dtype=dtype)
    elif mask.dtype is torch.bool:
        bias = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -math.inf).expand(shape)
    else:
        bias = mask.to(dtype).expand(shape)
    result: Array = bias.numpy()
    return result
