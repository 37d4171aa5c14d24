"""FNet's mixing, the real part of a two-dimensional DFT, by FFT and by matrices.

    y = Re(W_N x W_E),    (W_N)_mn = exp(-2πi mn/N)

[leethorp2021fnet]_ eq. 3, unnormalised; [chen_attention]_ section 3.2.1 divides by √(NE). That
report does not say what becomes of the imaginary part: that the real part is taken, in each layer,
is FNet's rule and our choice for its model.
"""

import math

import torch
from torch import Tensor

from fourierkernels.foundation.validation import check_choice
from fourierkernels.mixing.mixer import FixedMixer

NORMS = ("backward", "ortho")
METHODS = ("auto", "fft", "matrix")
REAL_PARTS = ("last", "each")
# Longest sequence for which "auto" takes matrices, by kind of device. On TPUs they win up to 4,096
# tokens and on GPUs never ([leethorp2021fnet]_ section 3.3), on CPUs never either (measured by
# experiments/benchmarks/mixers.py).
MATRIX_CROSSOVER = {"xla": 4096}


def fourier_mixing(x: Tensor, *, norm: str = "backward", method: str = "fft") -> Tensor:
    """Return Re F_seq(F_hidden(x)), the DFT over tokens and features.

    Parameters
    ----------
    x : tensor of shape (..., N, E)
        Tokens and features, float32 or float64.
    norm : {"backward", "ortho"}
        Unnormalised as in [leethorp2021fnet]_ eq. 3, or divided by √(NE) as in [chen_attention]_.
    method : {"fft", "matrix", "auto"}
        O(NE log NE), or O(NE (N + E)) by real cosine and sine matrices; "auto" takes matrices
        for N up to the `MATRIX_CROSSOVER` of the device: on a CPU or GPU the FFT always wins.

    Raises
    ------
    TypeError, ValueError
        For a tensor that is not real floating, has fewer than two dimensions or is empty, and for
        another `norm` or `method`.

    Examples
    --------
    >>> fourier_mixing(torch.ones(2, 3)).tolist()
    [[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    check_tokens("x", x)
    check_choice("norm", norm, list(NORMS))
    if _by_matrix(check_choice("method", method, list(METHODS)), x):
        return _matrix_mixing(x, norm)
    mixed: Tensor = torch.fft.fft2(x, norm=norm).real
    return mixed


def dft_matrix(n: int, *, like: Tensor) -> Tensor:
    """Return exp(-2πi jk/n), ``(n, n)``, complex, in the precision and on the device of `like`.

    Examples
    --------
    >>> dft_matrix(2, like=torch.ones(1)).real
    tensor([[ 1.,  1.],
            [ 1., -1.]])
    """
    k = torch.arange(n, device=like.device)
    angle = ((k[:, None] * k) % n).double() * (-2.0 * math.pi / n)  # exact integers first
    wide = like.dtype in {torch.float64, torch.complex128}
    return torch.polar(torch.ones_like(angle), angle).to(
        torch.complex128 if wide else torch.complex64
    )


class DFTMixer(FixedMixer):
    """FNet's mixing as a layer, without parameters; any number of tokens.

    Parameters
    ----------
    norm : {"backward", "ortho"}
        As in :func:`fourier_mixing`.
    method : {"auto", "fft", "matrix"}
        As in :func:`fourier_mixing`.
    real_part : {"last", "each"}
        Taken after both transforms, as in FNet, or after each of them. Without the imaginary part
        of the first, Re(W_N Re(x W_E)) = C_N x C_E lacks the sines; the authors found it to be
        worse ([leethorp2021fnet]_ section 3.2).
    **options
        Options of :class:`TokenMixer`. It cannot be causal, see :class:`CausalDFTMixer`.

    Examples
    --------
    >>> DFTMixer(3)(torch.ones(1, 2, 3)).tolist()
    [[[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    """

    _table: Tensor | None

    def __init__(
        self,
        dim: int,
        *,
        norm: str = "backward",
        method: str = "fft",
        real_part: str = "last",
        length: int | None = None,
        zero_padding: bool = False,
    ) -> None:
        super().__init__(dim, length=length, zero_padding=zero_padding)
        self.real_part = check_choice("real_part", real_part, list(REAL_PARTS))
        self.norm = check_choice("norm", norm, list(NORMS))
        self.method = check_choice("method", method, list(METHODS))
        longest = self.length if self.method == "matrix" else None
        table = None if longest is None else dft_matrix(longest, like=torch.empty(()))
        self.register_buffer("_table", keep_table(table), persistent=False)  # the case N = L

    def values(self, x: Tensor) -> Tensor:
        """Return the DFT over features, complex ``(B, 1, N, E)``."""
        transformed: Tensor = torch.fft.fft(x, dim=-1, norm=self.norm)
        if self.real_part == "each":
            transformed = transformed.real.to(transformed.dtype)
        return transformed.unsqueeze(1)

    def matrix(self, n: int, like: Tensor) -> Tensor:
        """Return W_N, divided by √N if orthonormal."""
        table = use_table(self._table, like) if n == self.length else None
        matrix = dft_matrix(n, like=like) if table is None else table
        return matrix / math.sqrt(n) if self.norm == "ortho" else matrix

    def mix(self, values: Tensor) -> Tensor:
        """Return the DFT over tokens."""
        if _by_matrix(self.method, values):
            return super().mix(values)
        mixed: Tensor = torch.fft.fft(values, dim=-2, norm=self.norm)
        return mixed

    def combine(self, mixed: Tensor) -> Tensor:
        """Return the real part, ``(B, N, E)``."""
        return mixed.squeeze(1).real


def keep_table(matrix: Tensor | None) -> Tensor | None:
    """Return a complex matrix as a buffer of the bits of its float32 numbers, ``(n, n, 2)``.

    A module that is moved to another dtype leaves integers as they are; a complex buffer would lose
    its imaginary part, and a real one the digits that half precision has not.
    """
    if matrix is None:
        return None
    return torch.view_as_real(matrix.to(torch.complex64)).contiguous().view(torch.int32)


def use_table(table: Tensor | None, like: Tensor) -> Tensor | None:
    """Return the complex matrix that was kept, if it has the precision of `like`."""
    if table is None or like.dtype is not torch.complex64:
        return None
    return torch.view_as_complex(table.view(torch.float32))


def _by_matrix(method: str, x: Tensor) -> bool:
    crossover = MATRIX_CROSSOVER.get(x.device.type, 0)
    return method == "matrix" or (method == "auto" and x.shape[-2] <= crossover)


def _matrix_mixing(x: Tensor, norm: str) -> Tensor:
    """Re(W_N x W_E) = C_N x C_E - S_N x S_E with W = C - iS: real products only."""
    left, right = dft_matrix(x.shape[-2], like=x), dft_matrix(x.shape[-1], like=x)
    mixed = left.real @ (x @ right.real) - left.imag @ (x @ right.imag)
    return mixed / math.sqrt(x.shape[-2] * x.shape[-1]) if norm == "ortho" else mixed


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
