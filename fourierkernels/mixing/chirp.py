"""The chirp exp(-πi k²/L), by which a DFT is a convolution, and rows of the masked DFT.

With mn = (m² + n² - (m-n)²)/2 and ω = exp(-2πi/L),

    ω^{mn} = c_m c_n conj(c_{m-n}),    c_k = exp(-πi k²/L).
"""

import math

import torch
from torch import Tensor


def chirp(last: int, *, length: int, like: Tensor, first: int = 0) -> Tensor:
    """Return c_k for first <= k < last, ``(last - first, 1)``, in the dtype of `like`.

    k² is reduced modulo 2L before it becomes an angle.
    """
    k = torch.arange(first, last, device=like.device)
    angle = ((k * k) % (2 * length)).double() * (-math.pi / length)
    return torch.polar(torch.ones_like(angle), angle)[:, None].to(like.dtype)


def convolve_into_second_half(first: Tensor, response: Tensor) -> Tensor:
    """Return Σ_s x_s r_{h+k-s}, k < h: what the first half of a node adds to the second one.

    The lags are 1..2h-1, so a circular convolution of 2h points wraps around into the first half
    only, which is thrown away.

    Parameters
    ----------
    first : Tensor
        x, ``(..., h, E)``.
    response : Tensor
        r, ``(2h, 1)``.
    """
    half = first.shape[-2]
    product = torch.fft.fft(first, 2 * half, dim=-2) * torch.fft.fft(response, dim=-2)
    second: Tensor = torch.fft.ifft(product, dim=-2)[..., half:, :]
    return second


def masked_row(m: int, length: int, like: Tensor, *, first: int = 0) -> Tensor:
    """Return ω^{mn} for first <= n <= m, ``(m + 1 - first,)``: row m of the masked matrix."""
    phase = (m * torch.arange(first, m + 1, device=like.device)) % length
    angle = phase.double() * (-2.0 * math.pi / length)
    return torch.polar(torch.ones_like(angle), angle).to(like.dtype)
