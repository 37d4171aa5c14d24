"""The DFT with a causal mask, in O(N log N).

Token m sees the tokens up to itself: y_m = Σ_{n<=m} ω^{mn} x_n, ω = exp(-2πi/L). Since
mn = (m² + n² - (m-n)²)/2, the sum is a causal convolution with a chirp,

    y_m = c_m Σ_{n<=m} (c_n x_n) conj(c_{m-n}),    c_k = exp(-πi k²/L),

which an FFT of twice the length computes without an N × N matrix (Bluestein's trick under a mask).
"""

import math

import torch
from torch import Tensor

from fourierkernels.mixing.validation import check_tokens
from fourierkernels.validation import check_integer


def causal_dft(x: Tensor, *, length: int) -> Tensor:
    """Return the lower-triangular DFT over tokens, by a chirp convolution.

    Parameters
    ----------
    x : tensor of shape (..., N, E)
        Real or complex tokens.
    length : int
        L of ω = exp(-2πi/L): one number for a model, its longest sequence. With L = N it would
        change as a sequence grows, and step-by-step decoding would disagree with training.

    Returns
    -------
    complex tensor of shape (..., N, E)

    Raises
    ------
    TypeError, ValueError
        For a tensor that is not floating, has fewer than two dimensions or is empty, and for a
        `length` that is not an integer of at least N.

    Notes
    -----
    Source: the masked matrix of [chen_attention]_ section 3.2.2; the convolution is this package's.

    Examples
    --------
    >>> x = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    >>> causal_dft(x, length=2).real.round(decimals=6).tolist()
    [[1.0], [-1.0]]
    """
    check_tokens("x", x, complex_too=True)
    n = x.shape[-2]
    if check_integer("length", length) < n:
        raise ValueError(f"length must be at least the {n} tokens of x, got {length}")
    chirp = _chirp(n, length, x)
    size = 2 * n  # no wrap-around: differences go up to n - 1
    signal = torch.fft.fft(x * chirp, size, dim=-2)
    response = torch.fft.fft(chirp.conj(), size, dim=-2)
    mixed: Tensor = torch.fft.ifft(signal * response, dim=-2)[..., :n, :] * chirp
    return mixed


def causal_dft_matrix(n: int, *, length: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the masked matrix itself, shape ``(n, n)``: the reference of :func:`causal_dft`."""
    m = torch.arange(n)
    phase = (m[:, None] * m[None, :]) % length  # exact integers: no rounding of large angles
    angle = phase.to(dtype) * (-2.0 * math.pi / length)
    return torch.polar(torch.ones_like(angle), angle).tril()


def _chirp(n: int, length: int, like: Tensor) -> Tensor:
    """exp(-πi k²/L), shape ``(n, 1)``; k² is reduced modulo 2L before it becomes an angle."""
    k = torch.arange(n, device=like.device)
    angle = ((k * k) % (2 * length)).double() * (-math.pi / length)
    chirp = torch.polar(torch.ones_like(angle), angle)[:, None]
    wide = like.dtype in {torch.float64, torch.complex128}
    return chirp if wide else chirp.to(torch.complex64)
