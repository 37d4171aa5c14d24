"""Arguments and results that the operator passes to its kernels and back."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

_STEP = 16.0  # of R c: nothing is moved that is closer to 0 than half of it
_HIDDEN = -1e4  # of a mask: what is written for minus infinity begins here

# The schemas of the operator and of its backward pass.
_TENSORS = "Tensor query, Tensor key, Tensor value, Tensor radius, Tensor? mask, Tensor? seed"
_NUMBERS = "SymInt power, bool is_causal, float eps, float dropout_p"
FORWARD_SCHEMA = (
    f"({_TENSORS}, {_NUMBERS}, bool return_weights) -> (Tensor, Tensor, Tensor, Tensor)"
)
BACKWARD_SCHEMA = (
    f"(Tensor grad, Tensor? weights_grad, Tensor delta, {_TENSORS}, Tensor significand, "
    f"Tensor exponent, {_NUMBERS}, bool mask_grad) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


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
    """

    output: Tensor
    significand: Tensor
    exponent: Tensor
    weights: Tensor


class Saved(NamedTuple):
    """What the backward pass gets back of `Rows`."""

    significand: Tensor
    exponent: Tensor


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


_COTANGENTS, _INPUTS, _SAVED = (len(kind._fields) for kind in (Cotangents, Inputs, Saved))


class ForwardCall(NamedTuple):
    """The arguments of the operator, which torch passes one by one, in the order of its schema."""

    inputs: Inputs
    options: Options

    @classmethod
    def of(cls, arguments: Sequence[Any]) -> "ForwardCall":
        """Restore what is kept together; what there is one of for each argument, likewise."""
        return cls(Inputs(*arguments[:_INPUTS]), Options(*arguments[_INPUTS:]))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """All arguments one by one."""
        return (*self.inputs, *self.options[:-1])


class BackwardCall(NamedTuple):
    """The arguments of the operator's backward pass, likewise.

    They have the gradient of the mask among the options in place of the weights, which were asked
    for if they have a cotangent.
    """

    cotangents: Cotangents
    inputs: Inputs
    saved: Saved
    options: Options

    @classmethod
    def of(cls, arguments: Sequence[Any]) -> "BackwardCall":
        """Restore what is kept together; what there is one of for each argument, likewise."""
        first, last = _COTANGENTS, _COTANGENTS + _INPUTS
        cotangents, inputs = Cotangents(*arguments[:first]), Inputs(*arguments[first:last])
        saved, last = Saved(*arguments[last : last + _SAVED]), last + _SAVED
        power, causal, eps, dropout_p, mask_grad = arguments[last:]
        weights = arguments[1] is not None
        options = Options(power, causal, eps, dropout_p, weights, mask_grad)
        return cls(cotangents, inputs, saved, options)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """All arguments one by one."""
        *options, _, mask_grad = self.options
        return (*self.cotangents, *self.inputs, *self.saved, *options, mask_grad)


def common_offset(key: Tensor, radius: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return c, ``(B, H, 1, D)``: near the first key that is seen if that is far from 0, else 0.

    Sines are taken of R (q - c) and R (k - c), whose rounding grows with their size: a row loses
    digits whose keys are far from the first one. Of the keys only the first is looked at, because
    every causal row sees it: no output may depend on what comes later, not in its last bit. If it
    is not finite, c is 0.

    Parameters
    ----------
    key : Tensor
        ``(B, H, M, D)``, M at least 1.
    radius : Tensor
        ``(H, D)``.
    mask : Tensor or None
        As in `Inputs`. Keys that it hides from every query are passed over.
    """
    scale = radius[:, None]  # (H, 1, D)
    first = first_seen(key, mask)
    offset = _STEP * torch.round(scale * first / _STEP) / scale
    return torch.where(torch.isfinite(first), offset, 0.0)


def is_near(key: Tensor, radius: Tensor, mask: Tensor | None = None) -> bool:
    """Whether c is 0 in all heads, which costs less to know than c; see :func:`common_offset`."""
    scaled = radius[:, None] * first_seen(key, mask)
    return bool(scaled.abs().amax() <= _STEP / 2)  # False if one is NaN


def first_seen(key: Tensor, mask: Tensor | None) -> Tensor:
    """Return the first key that a mask leaves to any query, ``(B, H, 1, D)``; if none, the first.

    Parameters
    ----------
    key, mask : Tensor
        As in `Inputs`, M at least 1.
    """
    if mask is None or mask.shape[2] == 0 or mask.shape[3] == 1:
        return key[:, :, :1]
    place = seen_by_any(mask).int().argmax(dim=-1)[..., None, None]  # of the first True
    return key.gather(2, place.expand(*key.shape[:2], 1, key.shape[3]))


def seen_by_any(mask: Tensor) -> Tensor:
    """Return which keys a mask leaves to any query, ``(B or 1, H or 1, M or 1)``."""
    if mask.dtype is torch.bool or mask.shape[2] == 0:
        return mask.bool().any(dim=2)
    return mask.amax(dim=2) > _HIDDEN
