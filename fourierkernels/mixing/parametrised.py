"""A Fourier transform with a gain and a phase per frequency."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.mixing.causal import causal_by_halves, masked_matrix
from fourierkernels.mixing.fourier import dft_matrix
from fourierkernels.mixing.streaming import StreamingMixer


class ParametrisedDFTMixer(StreamingMixer):
    """The DFT with 2L parameters, a gain and a phase for each frequency.

    [chen_attention]_ names, in its abstract and among the contributions of section 1, "a
    parametrized general Fourier Transform" with "learnable coefficients [...] for token-mixing
    across the positional dimension with little added memory footprint"; it has no formula for it,
    no experiment and no count of parameters. What follows is ours, and keeps to that sentence: what
    is learned acts across positions, and is as little as 2L numbers. It is a diagonal between two
    DFTs: after the DFT over tokens and before the one over features, frequency k is multiplied by
    g_k exp(iθ_k),

        y = Re(diag(g exp(iθ)) W_N x W_E) / √(NE),

    with g = 1 and θ = 0 at the start, so that it begins as the plain DFT. In the causal form W_N is
    the masked matrix, whose rows a diagonal does not mix.

    A sequence of N < L tokens has the frequencies k/N; each takes the gain of the nearest of the
    L frequencies. In the causal form row m is frequency m/L at every length.

    Parameters
    ----------
    length : int
        L, the longest sequence.
    causal : bool
        Take the masked matrix.
    decoding : {"auto", "row", "stream"}
        How a step of decoding is computed in the causal form, see ``StreamingMixer``.
    **options
        Options of :class:`TokenMixer`.

    Attributes
    ----------
    gain, phase : Parameter
        g and θ (in radians), ``(L,)``.

    Examples
    --------
    >>> mixer = ParametrisedDFTMixer(4, length=8)
    >>> sum(p.numel() for p in mixer.parameters())
    16
    """

    def __init__(self, dim: int, *, length: int, causal: bool = False, **options: Any) -> None:
        super().__init__(dim, length=length, causal=causal, **options)
        self.gain, self.phase = nn.Parameter(torch.ones(length)), nn.Parameter(torch.zeros(length))

    def matrix(self, n: int, like: Tensor) -> Tensor:
        """Return diag(g exp(iθ)) times the (masked) orthonormal DFT matrix."""
        masked = self.causal
        plain = masked_matrix(n, self.fixed_length, like) if masked else dft_matrix(n, like=like)
        return self._diagonal(n, like) * plain * self._scale(n)

    def factor(self, m: int, like: Tensor) -> Tensor:
        """Return g exp(iθ)/√L of frequency m/L, ``(1,)``."""
        return self._turned(torch.tensor([m], device=like.device), like) * self._scale(m)

    def mix(self, values: Tensor) -> Tensor:
        """Return the (masked) DFT over tokens, each frequency with its gain and phase."""
        n = values.shape[-2]
        if self.causal:
            mixed = causal_by_halves(values, self.fixed_length)
        else:
            mixed = torch.fft.fft(values, dim=-2)
        return mixed * self._diagonal(n, values) * self._scale(n)

    def _scale(self, n: int) -> float:
        return 1 / math.sqrt(self.fixed_length if self.causal else n)

    def _diagonal(self, n: int, like: Tensor) -> Tensor:
        """Return g exp(iθ) of the n frequencies in use, ``(n, 1)``."""
        k = torch.arange(n, device=like.device)
        if not self.causal:
            k = (k * self.fixed_length + n // 2) // n % self.fixed_length  # nearest of the L
        return self._turned(k, like)[:, None]

    def _turned(self, k: Tensor, like: Tensor) -> Tensor:
        """Return g exp(iθ) of frequencies k."""
        gain, phase = (p[k].to(like.real.dtype) for p in (self.gain, self.phase))
        return gain * torch.polar(torch.ones_like(phase), phase)
