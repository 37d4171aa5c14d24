"""What may go wrong on a GPU, said so that it can be put right."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Inputs

# Compute capabilities with half as many double-precision units as single-precision ones; all others
# that can run the kernels have a 32nd or a 64th.
_DOUBLES = ((8, 0), (9, 0), (10, 0))


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
