"""Checks of token tensors, made once at the public edge of mixing."""

import torch
from torch import Tensor


def check_tokens(name: str, x: Tensor, *, complex_too: bool = False) -> None:
    """Refuse what is not a non-empty float32 or float64 tensor of shape ``(..., N, E)``."""
    known = [torch.float32, torch.float64, *[torch.complex64, torch.complex128] * complex_too]
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.dtype not in known:
        kinds = ", ".join(str(kind).removeprefix("torch.") for kind in known)
        raise TypeError(f"{name} must be one of {kinds}, got {x.dtype}")
    if x.ndim < 2 or x.numel() == 0:
        raise ValueError(f"{name} must be (..., N, E) and not empty, got shape {tuple(x.shape)}")
    # On a GPU the answer would have to come back first; a NaN is seen in the output there.
    if x.device.type == "cpu" and not torch.compiler.is_compiling() and not x.isfinite().all():
        bad = x.detach()[~x.isfinite()].flatten()[0]
        raise ValueError(f"{name} must be finite, got {bad.item()}")
