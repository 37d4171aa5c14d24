"""A library built from ``csrc``: its arguments as C structures, and calls to it.

The kernels know nothing of torch: they get pointers, strides and a stream through ctypes and
return CUDA's error.
"""

import ctypes
from dataclasses import dataclass

import torch


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class Packing(ctypes.Structure):
    """`Packing` of csrc/pack.cuh."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "rows radius centre packed"),
        *_fields(ctypes.c_longlong, "stride batches_heads"),
        *_fields(ctypes.c_int, "heads n width padded_n padded_width"),
    )


class Problem(ctypes.Structure):
    """`Problem` of csrc/problem.cuh."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "query key value grad plain_value plain_grad radius delta"),
        *_fields(ctypes.c_void_p, "weights_grad seed attend bias"),
        *_fields(ctypes.c_void_p, "output significand exponent weights"),
        *_fields(ctypes.c_void_p, "query_grad key_grad value_grad bias_grad"),
        ("mask_stride", ctypes.c_longlong * 4),
        *_fields(ctypes.c_longlong, "packed_stride grad_stride first_head head_count"),
        *_fields(ctypes.c_int, "heads queries keys features columns"),
        *_fields(ctypes.c_int, "padded_queries padded_keys padded_features padded_columns"),
        *_fields(ctypes.c_int, "power causal"),
        ("threshold", ctypes.c_uint),
        *_fields(ctypes.c_double, "eps keep_scale"),
    )


_PROGRAMS = ("fk_forward", "fk_weights", "fk_query_gradients", "fk_key_gradients")


@dataclass(frozen=True)
class Library:
    """A loaded library; its functions return 0 or CUDA's error."""

    handle: ctypes.CDLL
    size: int

    @classmethod
    def load(cls, path: str, size: int) -> "Library":
        """Load a library of the given size."""
        handle = ctypes.CDLL(path)
        handle.fk_pack.argtypes = (ctypes.POINTER(Packing), ctypes.c_void_p)
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
