"""Heads of attention laid out for the compiled loops, and back."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import config, get_num_threads, set_num_threads
from numpy.typing import NDArray
from torch import Tensor

from fourierkernels.ops.arguments import Inputs
from fourierkernels.ops.cpu.packing import pack_keys, pack_values
from fourierkernels.ops.cpu.pairs import TILE

Run = Callable[..., None]
Array = NDArray[np.floating]
Flags = NDArray[np.bool_]

_SERIAL_BELOW = 2e6  # pairs times dimensions: less than it takes to wake the threads


@contextmanager
def as_many_threads_as_torch() -> Iterator[None]:
    """Let numba use torch's number of threads for the moment, and leave both as they were.

    Both may share one OpenMP library, whose number numba sets for itself when it starts.
    """
    wanted = torch.get_num_threads()
    before = get_num_threads()  # starts numba's threads, the first time
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)
    set_num_threads(min(wanted, config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        set_num_threads(before)


class Keys(NamedTuple):
    """Scaled keys in tiles of 256; H stands for batch times heads.

    Attributes
    ----------
    rows : array of shape (H, tiles, 3D · 256)
        Feature by feature [v | sin v | cos v]; zeros for what is not finite.
    reach : array of shape (H, tiles, 256)
        The largest of all abs(v) of the tile up to a key.
    doubts : array of shape (H, tiles, 256)
        NaN for a key that is not finite, else 0.
    spoilt : boolean array of shape (H, tiles)
        Whether any is NaN.
    """

    rows: Array
    reach: Array
    doubts: Array
    spoilt: Flags


class Values(NamedTuple):
    """Values in tiles of 256.

    Attributes
    ----------
    columns : array of shape (H, tiles, C · 256), C even
        Zeros for what is not finite.
    spoilt : boolean array of shape (H, tiles)
        Whether anything is not finite.
    given : array of shape (H, M, C)
    """

    columns: Array
    spoilt: Flags
    given: Array


class Mask(NamedTuple):
    """What is added to log|w|, without storing what is shared.

    Attributes
    ----------
    bias : array of shape (entries,)
        Empty without a mask.
    heads : int
        H of ``(B, H, N, M)``.
    strides : tuple of int
        Of the four dimensions, in entries; 0 where they share.
    """

    bias: Array
    heads: int
    strides: tuple[int, ...]


class Layout(NamedTuple):
    """Heads as the loops read them.

    What is not finite is stored as zero and kept apart: no loop multiplies it by the zero weight of
    a hidden pair.

    Attributes
    ----------
    queries : array of shape (3, H, N, D)
        Scaled queries u, sin u and cos u.
    m : int
        Number of keys.
    """

    queries: Array
    keys: Keys
    values: Values
    mask: Mask
    m: int


def flattened(nested: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the leaves of nested tuples: what numba passes to a parallel loop has no nesting."""
    parts = (flattened(part) if isinstance(part, tuple) else (part,) for part in nested)
    return sum(parts, ())


def choose_run(serial: Run, parallel: Run, inputs: Inputs) -> Run:
    """Return the loop in one thread, or in as many as torch has if there is enough to do."""
    work = inputs.query.numel() * inputs.key.shape[2]
    if work < _SERIAL_BELOW or torch.get_num_threads() == 1:
        return serial

    def run(*arguments: Any) -> None:
        with as_many_threads_as_torch():
            parallel(*map(flattened, arguments))

    return run


def lay_out(inputs: Inputs) -> Layout:
    """Return the inputs as the loops read them."""
    query, key, value, radius, mask, _ = inputs
    m, scale = key.shape[2], radius[:, None, :]
    given = flat(value)
    keys = Keys(*pack_keys(_with_sines(key, scale)))  # first, to free what it takes in between
    return Layout(
        _with_sines(query, scale),
        keys,
        Values(*pack_values(given[None]), given),  # type: ignore[call-arg]
        _mask(mask, query),
        m,
    )


def flat(x: Tensor) -> Array:
    """Return ``(B, H, ...)`` as a contiguous array ``(B·H, ...)``."""
    result: Array = x.detach().flatten(0, 1).contiguous().numpy()
    return result


def from_tiles(x: Array, m: int) -> Tensor:
    """Return the rows of tiles: ``(H, tiles, k · 256)`` to ``(H, m, k)``."""
    heads, tiles, _ = x.shape
    rows = torch.from_numpy(x).view(heads, tiles, -1, TILE).transpose(2, 3)
    return rows.reshape(heads, tiles * TILE, rows.shape[-1])[:, :m]


def _with_sines(x: Tensor, scale: Tensor) -> Array:
    """Return x = R q with its sines and cosines, ``(3, B·H, N, D)``, by torch's vector loops."""
    parts = x.new_empty((3, *x.shape))
    torch.mul(x, scale, out=parts[0])
    torch.sin(parts[0], out=parts[1])
    torch.cos(parts[0], out=parts[2])
    result: Array = parts.flatten(1, 2).numpy()
    return result


def _mask(mask: Tensor | None, query: Tensor) -> Mask:
    heads = query.shape[1]
    if mask is None:
        return Mask(query.new_empty(0).numpy(), heads, (0, 0, 0, 0))
    stored = mask.detach()
    for axis in range(mask.ndim):  # what is expanded is stored once
        stored = stored.narrow(axis, 0, 1) if stored.stride(axis) == 0 else stored
    if mask.dtype is torch.bool:
        bias = query.new_zeros(stored.shape).masked_fill_(~stored, -math.inf)
    else:
        bias = stored.to(query.dtype).contiguous()
    strides = (0 if k == 1 else step for k, step in zip(bias.shape, bias.stride(), strict=True))
    return Mask(bias.view(-1).numpy(), heads, tuple(strides))
