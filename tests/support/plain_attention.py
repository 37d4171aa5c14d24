"""Attention as the textbook writes it: products and exponentials, no care for underflow."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from fourierkernels.attention import fourier_attention, gaussian_attention, softmax_attention

Attention = Callable[..., Tensor]

# The contracts that every attention shares are tested over these rows.
ATTENTIONS: dict[str, Attention] = {
    "fourier": partial(fourier_attention, radius=0.7),
    "softmax": softmax_attention,
    "gaussian": gaussian_attention,
}


def plain_weights(query: Tensor, key: Tensor, radius: Tensor | float, power: int) -> Tensor:
    """w_ij = ∏_d sinc(R (q_id - k_jd))^l, as equation 15 writes it."""
    x = radius * (query[..., :, None, :] - key[..., None, :, :])
    return (torch.sinc(x / math.pi) ** power).prod(dim=-1)


def plain_fourier(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor | float,
    power: int = 4,
    eps: float = 0.0,
) -> Tensor:
    """Σ_j w_ij v_j / (Σ_j w_ij + eps)."""
    weights = plain_weights(query, key, radius, power)
    return (weights @ value) / (weights.sum(dim=-1, keepdim=True) + eps)


def draw(
    *shape: int, seed: int = 0, scale: float = 1.0, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Normal draws that require a gradient."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(shape, generator=generator, dtype=dtype)
    return (scale * normal).requires_grad_()


def relative_error(actual: Tensor, expected: Tensor) -> float:
    actual, expected = actual.detach().double(), expected.detach().double()
    return float((actual - expected).norm() / expected.norm())
