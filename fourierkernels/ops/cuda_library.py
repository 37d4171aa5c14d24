"""A library built from ``csrc``: its arguments as C structures, and calls to it.

The kernels know nothing of torch: they get pointers, strides and a stream through ctypes and
return CUDA's error.
"""

import ctypes
from dataclasses import dataclass

import torch

_POINTERS = ctypes.c_void_p


class Packing(ctypes.Structure):
    """`Packing` of csrc/attention.cu."""

    _fields_ = (
        *((name, _POINTERS) for name in ("rows", "radius", "centre", "packed")),
        *(
            (n, ctypes.c_int)
            for n in ("batches_heads", "heads", "n", "width", "padded_n", "padded_width")
        ),
    )


class Problem(ctypes.Structure):
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
        handle.fk_pack.argtypes = (ctypes.POINTER(Packing), ctypes.c_void_p)
        handle.fk_forward.argtypes = (ctypes.POINTER(Problem), ctypes.c_void_p)
        handle.fk_backward.argtypes = (ctypes.POINTER(Problem), ctypes.c_void_p)
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
