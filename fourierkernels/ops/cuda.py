"""Fourier attention on a GPU: tensors in, tensors out, over the kernels of ``csrc``.

The library is an argument of every call, so that the same sources compiled for a CPU run through
the same code.
"""

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Cotangents, Gradients, Inputs, Options, Rows, Saved
from fourierkernels.ops.cuda_build import SIZES, build, variant_for
from fourierkernels.ops.cuda_library import Library, Packing, Problem
from fourierkernels.ops.offsets import common_offset, radius_gradient

_CHUNK = 16  # features are padded to its multiples
_REALS = {torch.float32: "float", torch.float64: "double"}


@dataclass(frozen=True)
class _Packed:
    """The inputs as the kernels read them; it keeps the memory alive while they run."""

    library: Library
    query: Tensor
    key: Tensor
    value: Tensor
    radius: Tensor
    mask: Tensor | None
    centre: Tensor  # (B, H, 1, D)


@cache
def library_for(dtype: torch.dtype, width: int, arch: str) -> Library:
    """Return the library for a precision and a number of features, built on first use."""
    variant = variant_for(_REALS[dtype], width)
    return Library.load(str(build(variant, arch)), variant.size)


def find_library(query: Tensor, value: Tensor) -> Library:
    """Return the library for tensors on a GPU."""
    major, minor = torch.cuda.get_device_capability(query.device)
    width = max(query.shape[-1], value.shape[-1])
    size = variant_for(_REALS[query.dtype], width).size  # few keys for the cache
    return library_for(query.dtype, size, f"sm_{major}{minor}")


def forward(library: Library, inputs: Inputs, options: Options) -> Rows:
    """Return the output and the sum of weights of each row as significand and exponent."""
    if options.dropout_p or options.return_weights:
        raise NotImplementedError("dropout and weights have no CUDA kernel")
    query, value = inputs.query, inputs.value
    output = query.new_empty((*query.shape[:3], value.shape[-1]))
    significand = query.new_empty(query.shape[:3])
    exponent = torch.empty(query.shape[:3], dtype=torch.int32, device=query.device)
    nothing = query.new_zeros((*query.shape[:3], 0)), query.new_zeros((*query.shape[:2], 0))
    if output.numel() == 0:
        return Rows(output, significand.fill_(torch.inf), exponent.zero_(), *nothing)
    rows = Rows(output, significand, exponent, *nothing)
    with _device_guard(query.device):
        packed = _pack(library, inputs)
        problem = _problem(packed, inputs, options)
        _point(problem, {"output": output, "significand": significand, "exponent": exponent})
        library.call("fk_forward", problem, query.device)
    return rows


def backward(
    library: Library, cotangents: Cotangents, inputs: Inputs, saved: Saved, options: Options
) -> Gradients:
    """Return the gradients of query, key, value and radius."""
    if options.dropout_p or options.mask_grad or cotangents.weights is not None:
        raise NotImplementedError("dropout, weights and gradients of masks have no CUDA kernel")
    query, key, value, radius, *_ = inputs
    no_mask = query.new_zeros((0,))
    if cotangents.output.numel() == 0:
        dq, dk, dv, dr = (torch.zeros_like(leaf) for leaf in (query, key, value, radius))
        return Gradients(dq, dk, dv, dr, no_mask)
    gradients = [
        torch.empty_like(x, memory_format=torch.contiguous_format) for x in (query, key, value)
    ]
    arrays = {
        "delta": cotangents.delta.contiguous(),
        "significand": saved.significand.contiguous(),
        "exponent": saved.exponent.contiguous(),
        **dict(zip(("query_grad", "key_grad", "value_grad"), gradients, strict=True)),
    }
    with _device_guard(query.device):
        packed = _pack(library, inputs)
        arrays["grad"] = _pack_columns(library, cotangents.output.contiguous())
        problem = _problem(packed, inputs, options)
        _point(problem, arrays)
        library.call("fk_backward", problem, query.device)
    dq, dk, dv = gradients
    dr = radius_gradient(query, key, radius, dq, dk, packed.centre)
    return Gradients(dq, dk, dv, dr, no_mask)


def _point(problem: Problem, arrays: Mapping[str, Tensor]) -> None:
    for name, tensor in arrays.items():
        setattr(problem, name, tensor.data_ptr())


def _pack(library: Library, inputs: Inputs) -> _Packed:
    query, key, value, radius, mask, _ = inputs
    centre, radius = common_offset(key, radius).contiguous(), radius.contiguous()
    sides = [_pack_features(library, side.contiguous(), radius, centre) for side in (query, key)]
    columns = _pack_columns(library, value.contiguous())
    return _Packed(library, sides[0], sides[1], columns, radius, mask, centre)


def _pack_features(library: Library, rows: Tensor, radius: Tensor, centre: Tensor) -> Tensor:
    padded = _padded(rows, library.tile, _CHUNK)
    packed = rows.new_empty((*rows.shape[:2], padded[1], 3, padded[0]))
    _run_packing(library, rows, packed, padded, radius=radius, centre=centre)
    return packed


def _pack_columns(library: Library, rows: Tensor) -> Tensor:
    padded = _padded(rows, library.tile, _columns_staged(library))
    packed = rows.new_empty((*rows.shape[:2], padded[1], padded[0]))
    _run_packing(library, rows, packed, padded)
    return packed


def _columns_staged(library: Library) -> int:
    return _CHUNK if library.size == SIZES[0] else 2 * _CHUNK


def _run_packing(
    library: Library, rows: Tensor, packed: Tensor, padded: Sequence[int], **scaling: Tensor
) -> None:
    batch, heads, n, width = rows.shape
    packing = Packing(
        rows=rows.data_ptr(),
        packed=packed.data_ptr(),
        batches_heads=batch * heads,
        heads=heads,
        n=n,
        width=width,
        padded_n=padded[0],
        padded_width=padded[1],
        **{name: tensor.data_ptr() for name, tensor in scaling.items()},
    )
    library.call("fk_pack", packing, rows.device)


def _problem(packed: _Packed, inputs: Inputs, options: Options) -> Problem:
    batch, heads, queries, features = inputs.query.shape
    problem = Problem(
        query=packed.query.data_ptr(),
        key=packed.key.data_ptr(),
        value=packed.value.data_ptr(),
        radius=packed.radius.data_ptr(),
        batches=batch,
        heads=heads,
        queries=queries,
        keys=inputs.key.shape[2],
        features=features,
        columns=inputs.value.shape[-1],
        padded_queries=packed.query.shape[-1],
        padded_keys=packed.key.shape[-1],
        padded_features=packed.query.shape[2],
        padded_columns=packed.value.shape[2],
        power=options.power,
        causal=options.causal,
        eps=options.eps,
    )
    if packed.mask is not None:
        field = "attend" if packed.mask.dtype is torch.bool else "bias"
        setattr(problem, field, packed.mask.data_ptr())
        sizes = zip(packed.mask.shape, packed.mask.stride(), strict=True)
        strides = [0 if size == 1 else stride for size, stride in sizes]
        problem.mask_stride = (ctypes.c_longlong * 4)(*strides)
    return problem


def _padded(rows: Tensor, tile: int, chunk: int) -> tuple[int, int]:
    return -(-rows.shape[2] // tile) * tile, -(-rows.shape[3] // chunk) * chunk


def _device_guard(device: torch.device) -> AbstractContextManager[object]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
