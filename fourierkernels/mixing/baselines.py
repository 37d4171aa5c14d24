"""FNet's baselines: dense linear mixing, random mixing, none, and the Hadamard transform.

[leethorp2021fnet]_ section 4.1. Linear and random mixing are y = S x H with a matrix over tokens
and one over features, learned or constant. As in the authors' code (f_net/layers.py of
google-research) learned matrices start with a standard deviation of 0.02, from where they grow,
and constant ones keep the variance of what they mix (:func:`lecun_normal_`): with 0.02 hardly
anything would ever reach another token. Causal, S keeps its lower triangle.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.mixing.mixer import FixedMixer

_LEARNED_STD = 0.02
_TRUNCATED_STD = 0.87962566103423978  # of a standard normal cut off at ±2


def lecun_normal_(tensor: Tensor) -> Tensor:
    """Fill a matrix with normal numbers cut off at two deviations, of variance 1 / fan-in.

    Fan-in is the last dimension, as in the weight of a dense layer. Products then keep the
    variance of what they multiply; it is the default of Flax, in which the code of
    [leethorp2021fnet]_ and [tay2021long]_ is written.

    Examples
    --------
    >>> start = lecun_normal_(torch.empty(100, 400))
    >>> round(start.std().item(), 2), bool(start.abs().max() <= 0.05 * 2 / 0.879)
    (0.05, True)
    """
    std = tensor.shape[-1] ** -0.5 / _TRUNCATED_STD
    filled: Tensor = nn.init.trunc_normal_(tensor, std=std, a=-2.0 * std, b=2.0 * std)
    return filled


class DenseMixer(FixedMixer):
    """y = S x H with dense S, ``(L, L)``, and H, ``(E, E)``: FNet's Linear and Random encoders.

    A sequence of N < L tokens takes the leading N × N part of S.

    Parameters
    ----------
    length : int
        L, the longest sequence.
    learn : bool
        Whether the matrices are parameters (Linear) or constants saved with the model (Random).
    std : float or None
        Standard deviation of their normal entries at the start; None for the authors' choice, 0.02
        for learned matrices and a truncated normal of variance 1/L and 1/E for constant ones.
    **options
        Options of :class:`TokenMixer`.

    Examples
    --------
    >>> mixer = DenseMixer(3, length=5)
    >>> sum(p.numel() for p in mixer.parameters())
    34
    """

    tokens: Tensor
    features: Tensor

    def __init__(
        self,
        dim: int,
        *,
        length: int,
        learn: bool = True,
        std: float | None = None,
        causal: bool = False,
        zero_padding: bool = False,
    ) -> None:
        super().__init__(
            dim, length=check_integer("length", length), causal=causal, zero_padding=zero_padding
        )
        if std is not None or learn:
            std = check_number("std", _LEARNED_STD if std is None else std, above=0.0)
        for name, size in (("tokens", length), ("features", dim)):
            matrix = torch.empty(size, size)
            matrix = lecun_normal_(matrix) if std is None else matrix.normal_(std=std)
            if learn:
                self.register_parameter(name, nn.Parameter(matrix))
            else:
                self.register_buffer(name, matrix)

    def values(self, x: Tensor) -> Tensor:
        """Return x H, ``(B, 1, N, E)``."""
        return (x @ self.features.to(x.dtype)).unsqueeze(1)

    def matrix(self, n: int, like: Tensor) -> Tensor:
        """Return the leading part of S, its lower triangle if causal."""
        part = self.tokens[:n, :n].to(like.dtype)
        return part.tril() if self.causal else part


class HadamardMixer(FixedMixer):
    """The Hadamard transform over tokens and features: FNet's footnote 3.

    The Sylvester matrix has entries ±1 and a power of two for its size; other sizes take its
    leading part, by zeros at the end. Unnormalised, as FNet's DFT.

    Examples
    --------
    >>> HadamardMixer(2)(torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """

    def __init__(self, dim: int, *, length: int | None = None, zero_padding: bool = False) -> None:
        super().__init__(dim, length=length, zero_padding=zero_padding)

    def values(self, x: Tensor) -> Tensor:
        """Return the transform over features, ``(B, 1, N, E)``."""
        return walsh_hadamard(x).unsqueeze(1)

    def matrix(self, n: int, like: Tensor) -> Tensor:
        """Return the leading ``(n, n)`` part of the Sylvester matrix."""
        return walsh_hadamard(torch.eye(n, dtype=like.dtype, device=like.device))

    def mix(self, values: Tensor) -> Tensor:
        """Return the transform over tokens."""
        return walsh_hadamard(values.mT).mT


class NoMixer(FixedMixer):
    """No mixing: FNet's FF-only encoder, whose blocks leave the sublayer out altogether.

    As a layer it returns its input, and its matrix is the identity.
    """

    masks_padding = True  # no token reaches another

    def __init__(self, dim: int, *, length: int | None = None, causal: bool = False) -> None:
        super().__init__(dim, length=length, causal=causal, zero_padding=True)

    def matrix(self, n: int, like: Tensor) -> Tensor:
        """Return the identity."""
        return torch.eye(n, dtype=like.dtype, device=like.device)

    def forward(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return the tokens as they are."""
        self.check_tokens(x, padding)
        return x

    def mixing_matrix(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return the identity, ``(B, 1, N, N)``; padding stays."""
        return super().mixing_matrix(x)


def walsh_hadamard(x: Tensor) -> Tensor:
    """Return the unnormalised Walsh-Hadamard transform over the last dimension, in O(E log E).

    Source: [kunz1979equivalence]_.

    Examples
    --------
    >>> walsh_hadamard(torch.eye(2)).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    size = x.shape[-1]
    levels = math.ceil(math.log2(size))
    y = pad(x, (0, (1 << levels) - size))  # (..., 2^levels)
    for level in range(levels):
        even, odd = y.reshape(*y.shape[:-1], -1, 2, 1 << level).unbind(-2)
        y = torch.stack([even + odd, even - odd], dim=-2).flatten(-3)  # (..., 2^levels)
    return y[..., :size]
