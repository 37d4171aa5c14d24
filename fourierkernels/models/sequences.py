"""States along a sequence: their positions, their mean."""

import torch
from torch import Tensor


def sinusoids(length: int, dim: int) -> Tensor:
    """Return sin and cos of n/10000^(2i/E), ``(length, dim)``: first all sines, then all cosines.

    Source: [vaswani2017attention]_ section 3.5, which interleaves them; the order of features is
    that of the published FourierFormer and Marian code. As there, values are those of single
    precision: a model that is built in double precision and one that is moved to it are the same.
    """
    rate = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate  # (length, ceil(dim/2))
    cosines = torch.cos(angle)[:, : dim // 2]
    table = torch.cat([torch.sin(angle), cosines], dim=-1)
    return table.float().to(torch.get_default_dtype())


def mean_over_valid(states: Tensor, padding: Tensor | None) -> Tensor:
    """Return the mean of states ``(B, N, E)`` over what is no padding, ``(B, E)``."""
    if padding is None:
        return states.mean(dim=1)
    valid = (~padding)[..., None].to(states.dtype)
    return (states * valid).sum(dim=1) / valid.sum(dim=1).clamp(min=1.0)
