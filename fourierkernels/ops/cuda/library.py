"""The library of CUDA kernels: its loading and calls, and the checks that precede a call."""

import ctypes
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Inputs

# Compute capabilities with half as many double-precision units as single-precision ones; all others
# that can run the kernels have a 32nd or a 64th.
_DOUBLES = ((8, 0), (9, 0), (10, 0))


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class Packing(ctypes.Structure):
    """`Packing` of csrc/pack.cuh."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "rows radius origin packed"),
        *_fields(ctypes.c_longlong, "stride origin_stride batches_heads"),
        *_fields(ctypes.c_int, "heads n width padded_n padded_width"),
    )


class Packings(ctypes.Structure):
    """`Packings` of csrc/pack.cuh: those of one call."""

    _fields_ = (("part", Packing * 4),)


class Problem(ctypes.Structure):
    """`Problem` of csrc/problem.cuh."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "query key value grad plain_value plain_grad radius delta"),
        *_fields(ctypes.c_void_p, "weights_grad seed attend bias"),
        *_fields(ctypes.c_void_p, "output significand exponent weights"),
        *_fields(ctypes.c_void_p, "query_sums query_grad key_grad value_grad bias_grad"),
        ("mask_stride", ctypes.c_longlong * 4),
        *_fields(ctypes.c_longlong, "packed_stride grad_stride first_head head_count"),
        *_fields(ctypes.c_int, "heads queries keys features columns"),
        *_fields(ctypes.c_int, "padded_queries padded_keys padded_features padded_columns"),
        *_fields(ctypes.c_int, "splits power causal"),
        ("threshold", ctypes.c_uint),
        *_fields(ctypes.c_double, "eps keep_scale"),
    )


_PROGRAMS = ("fk_forward", "fk_weights", "fk_gradients")


@dataclass(frozen=True)
class Library:
    """A loaded library; its functions return 0 or CUDA's error."""

    handle: ctypes.CDLL
    size: int

    @classmethod
    def load(cls, path: str, size: int) -> "Library":
        """Load a library of the given size."""
        handle = ctypes.CDLL(path)
        handle.fk_pack.argtypes = (ctypes.POINTER(Packings), ctypes.c_void_p)
        for name in _PROGRAMS:
            getattr(handle, name).argtypes = (ctypes.POINTER(Problem), ctypes.c_void_p)
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


def check_devices(inputs: Inputs, **others: Tensor | None) -> None:
    """Raise ValueError unless all tensors are on the device of the query: kernels get addresses."""
    device = inputs.query.device
    for name, tensor in (inputs._asdict() | others).items():
        if tensor is not None and tensor.device != device:
            raise ValueError(
                f"{name} must be on the device of query, {device}, got {tensor.device}"
            )


@contextmanager
def explained(inputs: Inputs, **needed: tuple[int, ...]) -> Iterator[None]:
    """Add shapes and bytes to what torch says when memory is short.

    Parameters
    ----------
    **needed : tuple of int
        Shapes of what is stored beside the inputs, by name.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        size = inputs.query.element_size()
        sizes = {name: size * math.prod(shape) for name, shape in needed.items()}
        shapes = ", ".join(f"{name} {tuple(getattr(inputs, name).shape)}" for name in _SHAPED)
        parts = ", ".join(f"{name} {each:,}" for name, each in sizes.items() if each)
        raise torch.OutOfMemoryError(
            f"Fourier attention of {shapes} needs {sum(sizes.values()):,} bytes on "
            f"{inputs.query.device} beside its inputs ({parts}): {error}"
        ) from error


_SHAPED = ("query", "key", "value")


def warn_of_doubles(dtype: torch.dtype, capability: tuple[int, int]) -> None:
    """Warn, once per process and architecture, of cards whose double precision crawls."""
    if dtype is torch.float64 and capability not in _DOUBLES:
        _warn_of_doubles("sm_{}{}".format(*capability))


@cache
def _warn_of_doubles(arch: str) -> None:
    warnings.warn(
        f"float64 has a 32nd of the speed of float32 or less on a GPU of architecture {arch}: "
        "pass float32 unless its digits are too few",
        stacklevel=2,
    )
