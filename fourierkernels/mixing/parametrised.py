"""A Fourier transform with a gain and a phase per frequency.

[chen_attention]_ proposes a "sparsely parametrised" Fourier transform and gives no formula. This
one is a diagonal between two DFTs: after the DFT over tokens and before the one over features,
frequency k is multiplied by g_k exp(iθ_k),

    y = Re(diag(g exp(iθ)) W_N x W_E) / √(NE),

with g = 1 and θ = 0 at the start, so that it begins as the plain DFT. In the causal form W_N is
the masked matrix, whose rows a diagonal does not mix.
"""

import math

import torch
from torch import Tensor, nn

from fourierkernels.mixing.causal import causal_by_halves, masked_matrix, masked_row
from fourierkernels.mixing.fourier import dft_matrix
from fourierkernels.mixing.mixer import FixedMixer
from fourierkernels.validation import check_integer


class ParametrisedDFTMixer(FixedMixer):
    """The DFT with 2L parameters, a gain and a phase for each frequency.

    A sequence of N < L tokens has the frequencies k/N; each takes the gain of the nearest of the
    L frequencies. In the causal form row m is frequency m/L at every length.

    Parameters
    ----------
    length : int
        L, the longest sequence.
    causal : bool
        Take the masked matrix.
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

    def __init__(
        self, dim: int, *, length: int, causal: bool = False, zero_padding: bool = False
    ) -> None:
        super().__init__(dim, length=length, causal=causal, zero_padding=zero_padding)
        self._length = check_integer("length", length)
        self.gain, self.phase = nn.Parameter(torch.ones(length)), nn.Parameter(torch.zeros(length))

    def values(self, x: Tensor) -> Tensor:
        """Return the orthonormal DFT over features, complex ``(B, 1, N, E)``."""
        transformed: Tensor = torch.fft.fft(x, dim=-1, norm="ortho")
        return transformed.unsqueeze(1)

    def matrix(self, n: int, like: Tensor) -> Tensor:
        """Return diag(g exp(iθ)) times the (masked) orthonormal DFT matrix."""
        plain = masked_matrix(n, self._length, like) if self.causal else dft_matrix(n, like=like)
        return self._diagonal(n, like) * plain * self._scale(n)

    def row(self, m: int, like: Tensor) -> Tensor:
        """Return row m up to its diagonal, ``(m + 1,)``."""
        return self._diagonal(m + 1, like)[-1] * masked_row(m, self._length, like) * self._scale(m)

    def mix(self, values: Tensor) -> Tensor:
        """Return the (masked) DFT over tokens, each frequency with its gain and phase."""
        n = values.shape[-2]
        if self.causal:
            mixed = causal_by_halves(values, self._length)
        else:
            mixed = torch.fft.fft(values, dim=-2)
        return mixed * self._diagonal(n, values) * self._scale(n)

    def combine(self, mixed: Tensor) -> Tensor:
        """Return the real part, ``(B, N, E)``."""
        return mixed.squeeze(1).real

    def _scale(self, n: int) -> float:
        return 1 / math.sqrt(self._length if self.causal else n)

    def _diagonal(self, n: int, like: Tensor) -> Tensor:
        """Return g exp(iθ) of the n frequencies in use, ``(n, 1)``."""
        k = torch.arange(n, device=like.device)
        if not self.causal:
            k = (k * self._length + n // 2) // n % self._length  # nearest of the L frequencies
        gain, phase = (p[k].to(like.real.dtype) for p in (self.gain, self.phase))
        return (gain * torch.polar(torch.ones_like(phase), phase))[:, None]
