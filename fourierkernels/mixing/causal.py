"""The DFT with a causal mask: by matrix, by chirp convolution, and step by step.

Token m sees the tokens up to itself: y_m = Σ_{n<=m} ω^{mn} x_n, ω = exp(-2πi/L), where L is one
number for a model, its longest sequence ([chen_attention]_ section 3.2.2 has L = N, which changes
as a sequence grows). Since mn = (m² + n² - (m-n)²)/2, the sum is a causal convolution with a chirp,

    y_m = c_m Σ_{n<=m} (c_n x_n) conj(c_{m-n}),    c_k = exp(-πi k²/L),

so no N × N matrix is needed. One FFT of twice the length computes it (Bluestein's trick under a
mask), but its rounding carries about 1e-16 of every later token into every earlier one. Halving
the sequence again and again keeps the arrow of time exact: at each level only first halves act, on
their second halves, by an FFT without padding; what is left are small triangles.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.mixing.fourier import check_tokens, keep_table, use_table
from fourierkernels.mixing.streaming import StreamingMixer, chirp, convolve_into_second_half

CAUSAL_METHODS = ("halving", "chirp", "matrix")
_TRIANGLE = 32  # tokens that are mixed by a dense triangle


def causal_dft(x: Tensor, *, length: int, method: str = "chirp") -> Tensor:
    """Return the lower-triangular DFT over tokens.

    Parameters
    ----------
    x : tensor of shape (..., N, E)
        Real or complex tokens.
    length : int
        L of ω = exp(-2πi/L): one number for a model, its longest sequence. With L = N it would
        change as a sequence grows, and step-by-step decoding would disagree with training.
    method : {"chirp", "halving", "matrix"}
        One convolution, O(N log N); the same by halves, O(N log² N), whose earlier outputs do not
        change by a single bit with later tokens; the masked matrix, O(N²), the reference.

    Returns
    -------
    complex tensor of shape (..., N, E)

    Raises
    ------
    TypeError, ValueError
        For a tensor that is not floating, has fewer than two dimensions or is empty, for a
        `length` that is not an integer of at least N, and for another `method`.

    Notes
    -----
    Source: the masked matrix of [chen_attention]_ section 3.2.2; the convolutions are this
    package's.

    Examples
    --------
    >>> x = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    >>> causal_dft(x, length=2).real.round(decimals=6).tolist()
    [[1.0], [-1.0]]
    """
    check_tokens("x", x, complex_too=True)
    if check_integer("length", length) < x.shape[-2]:
        raise ValueError(f"length must be at least the {x.shape[-2]} tokens of x, got {length}")
    method = check_choice("method", method, list(CAUSAL_METHODS))
    return _by_method(x if x.is_complex() else x.to(x.dtype.to_complex()), length, method)


def causal_dft_matrix(n: int, *, length: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the masked matrix itself, shape ``(n, n)``: the reference of :func:`causal_dft`."""
    m = torch.arange(n)
    phase = (m[:, None] * m[None, :]) % length  # exact integers: no rounding of large angles
    angle = phase.to(dtype) * (-2.0 * math.pi / length)
    return torch.polar(torch.ones_like(angle), angle).tril()


class CausalDFTMixer(StreamingMixer):
    """The decoder's mixing of [chen_attention]_: Re((mask ∘ W_L) x W_E) / √(LE).

    The report says neither that the real part is taken, without which nothing could follow, nor
    where: once in each layer, as in FNet, is our choice, and so is the fixed L.

    Parameters
    ----------
    length : int
        L, fixed for the life of the model.
    method : {"halving", "chirp", "matrix"}
        As in :func:`causal_dft`. The default is the one that is exactly causal.
    decoding : {"auto", "row", "stream"}
        How a step of decoding is computed, see ``StreamingMixer``.
    **options
        Options of :class:`TokenMixer`.

    Examples
    --------
    >>> mixer = CausalDFTMixer(1, length=2)
    >>> mixer(torch.tensor([[[1.0], [2.0]]])).flatten()
    tensor([ 0.7071, -0.7071])
    """

    _table: Tensor | None

    def __init__(self, dim: int, *, length: int, method: str = "halving", **options: Any) -> None:
        super().__init__(dim, length=length, **options)
        self.method = check_choice("method", method, list(CAUSAL_METHODS))
        by_matrix = self.method == "matrix"
        table = causal_dft_matrix(length, length=length) if by_matrix else None
        self.register_buffer("_table", keep_table(table), persistent=False)

    def matrix(self, n: int, like: Tensor) -> Tensor:
        """Return the masked matrix over √L."""
        table = use_table(self._table, like)
        if table is not None:
            return table[:n, :n] * self._scale
        return masked_matrix(n, self.fixed_length, like) * self._scale

    def factor(self, m: int, like: Tensor) -> float:
        """Return 1/√L."""
        return self._scale

    def mix(self, values: Tensor) -> Tensor:
        """Return the masked DFT over tokens by the chosen method."""
        if self.method == "matrix":
            return super().mix(values)
        return _by_method(values, self.fixed_length, self.method) * self._scale

    @property
    def _scale(self) -> float:
        return 1 / math.sqrt(self.fixed_length)


def masked_matrix(n: int, length: int, like: Tensor) -> Tensor:
    """Return the masked matrix ``(n, n)`` in the complex dtype and on the device of `like`."""
    return causal_dft_matrix(n, length=length).to(like.device, like.dtype)


def causal_by_halves(x: Tensor, length: int) -> Tensor:
    """Return the masked DFT of complex tokens; output m depends on tokens n <= m to the last bit.

    A node of 2h tokens adds, to its second half, the convolution of its first half with the chirp.
    Triangles of `_TRIANGLE` tokens remain on the diagonal.
    """
    n = x.shape[-2]
    levels = max(0, math.ceil(math.log2(n / _TRIANGLE)))
    size = _TRIANGLE << levels if levels else n
    factors = chirp(size, length=length, like=x)  # (size, 1)
    signal = pad(x * factors[:n], (0, 0, 0, size - n))  # (..., size, E)
    mixed = _triangles(signal, factors, size >> levels)
    for level in range(levels):
        mixed = mixed + _second_halves(signal, factors, _TRIANGLE << level)
    return mixed[..., :n, :] * factors[:n]


def causal_by_chirp(x: Tensor, length: int) -> Tensor:
    """Return the masked DFT of complex tokens by one convolution of twice the length."""
    n = x.shape[-2]
    factors, size = chirp(n, length=length, like=x), 2 * n  # no wrap-around: lags go up to n - 1
    signal = torch.fft.fft(x * factors, size, dim=-2)
    response = torch.fft.fft(factors.conj(), size, dim=-2)
    mixed: Tensor = torch.fft.ifft(signal * response, dim=-2)[..., :n, :] * factors
    return mixed


def _by_method(x: Tensor, length: int, method: str) -> Tensor:
    if method == "matrix":
        return masked_matrix(x.shape[-2], length, x) @ x
    return causal_by_chirp(x, length) if method == "chirp" else causal_by_halves(x, length)


def _triangles(signal: Tensor, factors: Tensor, block: int) -> Tensor:
    """Σ_{n<=m} s_n conj(c_{m-n}) for m and n of the same block."""
    k = torch.arange(block, device=signal.device)
    toeplitz = factors[:block, 0].conj()[(k[:, None] - k).clamp(min=0)].tril()  # (block, block)
    mixed: Tensor = toeplitz @ _nodes(signal, block)
    return mixed.flatten(-3, -2)


def _second_halves(signal: Tensor, factors: Tensor, half: int) -> Tensor:
    """Σ_n s_n conj(c_{m-n}) for n in the first and m in the second half of each node."""
    first = _nodes(signal, 2 * half)[..., :half, :]  # (..., nodes, half, E)
    second = convolve_into_second_half(first, factors[: 2 * half].conj())
    return pad(second, (0, 0, half, 0)).flatten(-3, -2)


def _nodes(signal: Tensor, size: int) -> Tensor:
    return signal.reshape(*signal.shape[:-2], -1, size, signal.shape[-1])
