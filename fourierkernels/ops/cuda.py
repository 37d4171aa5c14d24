"""Fourier attention on a GPU: tensors in, tensors out, over the kernels of ``csrc``.

The kernels know nothing of torch: they get pointers, strides and a stream through ctypes and
return CUDA's error. The library is an argument of every call, so that the same sources compiled
for a CPU run through the same code.
"""

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from fourierkernels.ops.cuda_build import SIZES, build, variant_for
from fourierkernels.ops.offsets import common_offset, radius_gradient

_CHUNK = 16  # features are padded to its multiples
_REALS = {torch.float32: "float", torch.float64: "double"}
_POINTERS = ctypes.c_void_p


class _Packing(ctypes.Structure):
    """`Packing` of csrc/attention.cu."""

    _fields_ = (
        *((name, _POINTERS) for name in ("rows", "radius", "centre", "packed")),
        *(
            (n, ctypes.c_int)
            for n in ("batches_heads", "heads", "n", "width", "padded_n", "padded_width")
        ),
    )


class _Problem(ctypes.Structure):
    """`Problem` of csrc/tile.cuh."""

    _fields_ = (
        *(
            (n, _POINTERS)
            for n in ("query", "key", "value", "grad", "radius", "delta", "attend", "bias")
        ),
        ("mask_stride", ctypes.c_longlong * 4),
        *(
            (n, _POINTERS)
            for n in ("output", "significand", "exponent", "query_grad", "key_grad", "value_grad")
        ),
        *(
            (n, ctypes.c_int)
            for n in (
                "batches",
                "heads",
                "queries",
                "keys",
                "features",
                "columns",
                "padded_queries",
                "padded_keys",
                "padded_features",
                "padded_columns",
                "power",
                "causal",
            )
        ),
        ("eps", ctypes.c_double),
    )


@dataclass(frozen=True)
class Library:
    """A loaded library; its functions return 0 or CUDA's error."""

    handle: ctypes.CDLL
    size: int

    @classmethod
    def load(cls, path: str, size: int) -> "Library":
        """Load a library of the given size."""
        handle = ctypes.CDLL(path)
        handle.fk_pack.argtypes = (ctypes.POINTER(_Packing), ctypes.c_void_p)
        handle.fk_forward.argtypes = (ctypes.POINTER(_Problem), ctypes.c_void_p)
        handle.fk_backward.argtypes = (ctypes.POINTER(_Problem), ctypes.c_void_p)
        handle.fk_error.argtypes, handle.fk_error.restype = (ctypes.c_int,), ctypes.c_char_p
        return cls(handle, size)

    @property
    def tile(self) -> int:
        """Rows of a tile; lengths are padded to its multiples."""
        return int(self.handle.fk_tile_rows())

    def call(self, name: str, argument: ctypes.Structure, device: torch.device) -> None:
        """Run one entry point on the current stream of `device`."""
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
        error = getattr(self.handle, name)(ctypes.byref(argument), stream)
        if error:
            raise RuntimeError(f"{name} failed on {device}: {self.handle.fk_error(error).decode()}")


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


def forward(
    library: Library,
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
    """Return the output and the sum of weights of each row as significand and exponent.

    Parameters
    ----------
    query, key, value : Tensor
        ``(B, H, N, D)``, ``(B, H, M, D)`` and ``(B, H, M, C)``, float32 or float64.
    radius : Tensor
        ``(H, D)``.
    mask : Tensor or None
        Boolean or of the dtype of query, four dimensions, each 1 or that of ``(B, H, N, M)``.

    Returns
    -------
    output : Tensor
        ``(B, H, N, C)``.
    significand, exponent : Tensor
        ``(B, H, N)``: Σ_j w_ij + eps = significand 2^exponent. Rows without a key have infinity,
        so that their weights are zero.
    """
    output = query.new_empty((*query.shape[:3], value.shape[-1]))
    significand = query.new_empty(query.shape[:3])
    exponent = torch.empty(query.shape[:3], dtype=torch.int32, device=query.device)
    if output.numel() == 0:
        return output, significand.fill_(torch.inf), exponent.zero_()
    with _device_guard(query.device):
        packed = _pack(library, query, key, value, radius, mask)
        problem = _problem(packed, query, key, value, power=power, causal=causal, eps=eps)
        problem.output, problem.significand = output.data_ptr(), significand.data_ptr()
        problem.exponent = exponent.data_ptr()
        library.call("fk_forward", problem, query.device)
    return output, significand, exponent


def backward(
    library: Library,
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
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of query, key, value and radius."""
    leaves = (query, key, value, radius)
    if output.numel() == 0:
        dq, dk, dv, dr = (torch.zeros_like(leaf) for leaf in leaves)
        return dq, dk, dv, dr
    dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in leaves[:3])
    significand, exponent = significand.contiguous(), exponent.contiguous()
    delta = (grad * output).sum(dim=-1)  # (B, H, N)
    with _device_guard(query.device):
        packed = _pack(library, query, key, value, radius, mask)
        columns = _pack_columns(library, grad.contiguous())
        problem = _problem(packed, query, key, value, power=power, causal=causal, eps=eps)
        for name, tensor in (
            ("grad", columns),
            ("delta", delta),
            ("significand", significand),
            ("exponent", exponent),
            ("query_grad", dq),
            ("key_grad", dk),
            ("value_grad", dv),
        ):
            setattr(problem, name, tensor.data_ptr())
        library.call("fk_backward", problem, query.device)
    return dq, dk, dv, radius_gradient(query, key, radius, dq, dk, packed.centre)


def _pack(
    library: Library,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
) -> _Packed:
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
    packing = _Packing(
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


def _problem(
    packed: _Packed,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    power: int,
    causal: bool,
    eps: float,
) -> _Problem:
    batch, heads, queries, features = query.shape
    problem = _Problem(
        query=packed.query.data_ptr(),
        key=packed.key.data_ptr(),
        value=packed.value.data_ptr(),
        radius=packed.radius.data_ptr(),
        batches=batch,
        heads=heads,
        queries=queries,
        keys=key.shape[2],
        features=features,
        columns=value.shape[-1],
        padded_queries=packed.query.shape[-1],
        padded_keys=packed.key.shape[-1],
        padded_features=packed.query.shape[2],
        padded_columns=packed.value.shape[2],
        power=power,
        causal=causal,
        eps=eps,
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
