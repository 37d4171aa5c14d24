"""Heads of attention laid out for the compiled loops."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from numba import config, get_num_threads, set_num_threads
from torch import Tensor

from fourierkernels.ops.arguments import Inputs
from fourierkernels.ops.cpu.packing import Array

Run = Callable[..., None]

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
    """Heads as the loops read them, all contiguous; H stands for batch times heads.

    Attributes
    ----------
    queries, keys : array of shape (3, H, N, D) and (3, H, M, D)
        Scaled rows x = R q, sin x and cos x.
    values : array of shape (1, H, M, C)
    mask : Mask
    """

    queries: Array
    keys: Array
    values: Array
    mask: Mask


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


def lay_out(inputs: Inputs, heads: slice = slice(None)) -> Layout:
    """Return the inputs, or some of their heads without a mask, as the loops read them."""
    query, key, value, radius, mask, _ = inputs
    scale = radius.expand(len(query), *radius.shape).flatten(0, 1)[heads, None]  # (H, 1, D)
    u, v = (_with_sines(side.flatten(0, 1)[heads], scale) for side in (query, key))
    return Layout(u, v, flat(value)[None, heads], _mask(mask, query))


def flat(x: Tensor) -> Array:
    """Return ``(B, H, ...)`` as a contiguous array ``(B·H, ...)``."""
    result: Array = x.detach().flatten(0, 1).contiguous().numpy()
    return result


def _with_sines(x: Tensor, scale: Tensor) -> Array:
    """Return x = R q with its sines and cosines, ``(3, H, N, D)``, by torch's vector loops."""
    parts = x.new_empty((3, *x.shape))
    torch.mul(x, scale, out=parts[0])
    torch.sin(parts[0], out=parts[1])
    torch.cos(parts[0], out=parts[2])
    result: Array = parts.numpy()
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
