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
    seed : Tensor or None
        Of dropout, int64, ``(1,)``: see :mod:`fourierkernels.ops.dropout`.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    radius: Tensor
    mask: Tensor | None
    seed: Tensor | None = None


class Options(NamedTuple):
    """What is asked for beside the tensors.

    Attributes
    ----------
    power : int
        Of the sinc.
    causal : bool
        Whether later keys are hidden.
    eps : float
        Added to the totals of rows.
    dropout_p : float
        Probability that a normalised weight is dropped; needs a seed if positive.
    return_weights : bool
        Whether the weights are returned.
    mask_grad : bool
        Whether the derivative includes that of an additive mask.
    """

    power: int
    causal: bool
    eps: float
    dropout_p: float = 0.0
    return_weights: bool = False
    mask_grad: bool = False


class Rows(NamedTuple):
    """The result, and what the derivative needs of each row.

    Attributes
    ----------
    output : Tensor
        ``(B, H, N, C)``.
    significand, exponent : Tensor
        ``(B, H, N)``: Σ_j w_ij + eps = significand 2^exponent, whatever is dropped afterwards. Rows
        without a key have infinity, so that their weights are zero.
    weights : Tensor
        ``(B, H, N, M)`` after dropout, or ``(B, H, N, 0)`` if they were not asked for.
    packed : Tensor
        ``(B, H, K)``: the inputs as a device's kernels read them, for its backward pass; K is a
        function of shapes and dtype, 0 where nothing is kept.
    """

    output: Tensor
    significand: Tensor
    exponent: Tensor
    weights: Tensor
    packed: Tensor


class Saved(NamedTuple):
    """What the backward pass gets back of `Rows`."""

    significand: Tensor
    exponent: Tensor
    packed: Tensor


class Cotangents(NamedTuple):
    """Gradients of the results.

    Attributes
    ----------
    output : Tensor
        dO, ``(B, H, N, C)``.
    weights : Tensor or None
        dW, ``(B, H, N, M)``.
    delta : Tensor
        dO_i·O_i + Σ_j W_ij dW_ij, ``(B, H, N)``.
    """

    output: Tensor
    weights: Tensor | None
    delta: Tensor


class Gradients(NamedTuple):
    """Gradients of query, key, value, radius and mask, in their shapes.

    That of the mask is empty, ``(0,)``, if it was not asked for.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    radius: Tensor
    mask: Tensor
