"""Arguments and results that the operator passes to its kernels and back."""

from typing import NamedTuple

from torch import Tensor


class Inputs(NamedTuple):
    """The tensors of Fourier attention, float32 or float64.

    Attributes
    ----------
    query, key, value : Tensor
        ``(B, H, N, D)``, ``(B, H, M, D)`` and ``(B, H, M, C)``.
    radius : Tensor
        ``(H, D)``.
    mask : Tensor or None
        Boolean, or added to log|w|; four dimensions, each 1 or that of ``(B, H, N, M)``.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    radius: Tensor
    mask: Tensor | None


class Options(NamedTuple):
    """The power of the sinc, whether later keys are hidden, and what is added to totals."""

    power: int
    causal: bool
    eps: float


class Rows(NamedTuple):
    """The result, and what the derivative needs of each row.

    Attributes
    ----------
    output : Tensor
        ``(B, H, N, C)``.
    significand, exponent : Tensor
        ``(B, H, N)``: Σ_j w_ij + eps = significand 2^exponent. Rows without a key have infinity,
        so that their weights are zero.
    """

    output: Tensor
    significand: Tensor
    exponent: Tensor


class Gradients(NamedTuple):
    """Gradients of query, key, value and radius, in their shapes."""

    query: Tensor
    key: Tensor
    value: Tensor
    radius: Tensor
