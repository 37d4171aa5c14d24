"""The registered operator behind `fourier_attention`: schema, fake kernels, derivative, vmap.

``fourierkernels::fourier_attention`` takes tensors of four dimensions, float32 or float64, and one
radius per head and feature; broadcasting, casts and checks are its caller's. It returns the output
and what its derivative, a second operator, needs of each row: Σ_j w_ij + eps as significand and
exponent, because the sum itself underflows. No N x M array outlives a call but those
asked for.
"""

from functools import partial
from typing import Any

from fourierkernels.foundation.extras import needed_for

with needed_for("the operator of attention"):
    import torch
    from torch import Tensor

from fourierkernels.ops.arguments import Cotangents, Inputs, Options, Rows, Saved
from fourierkernels.ops.cpu.backward import backward
from fourierkernels.ops.cpu.forward import forward
from fourierkernels.ops.cuda import attention as cuda
from fourierkernels.ops.cuda.layout import packed_size
from fourierkernels.ops.derivatives import (
    differentiate,
    differentiate_twice,
    save,
    save_backward,
)
from fourierkernels.ops.mapped_heads import map_backward, map_forward
from fourierkernels.ops.offsets import common_offset

_Five = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
_ROW = 3  # dimensions of a number per row: (B, H, N)
_FLOATS = 4  # query, key, value and radius, which always have derivatives


@torch.library.custom_op("fourierkernels::fourier_attention", mutates_args=(), device_types="cpu")
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    power: int,
    is_causal: bool,
    eps: float,
    dropout_p: float,
    return_weights: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the fields of :class:`~fourierkernels.ops.arguments.Rows`.

    Parameters
    ----------
    query, key, value, radius, mask, seed
        As :class:`~fourierkernels.ops.arguments.Inputs` has them.
    power, is_causal, eps, dropout_p, return_weights
        As :class:`~fourierkernels.ops.arguments.Options` has them.
    """
    inputs = Inputs(query, key, value, radius, mask, seed)
    options = Options(power, is_causal, eps, dropout_p, return_weights)
    if query.numel() == 0 or value.numel() == 0:
        return _rows_without_sums(inputs, options)
    return forward(_centred(inputs), options)


def _rows_without_sums(inputs: Inputs, options: Options) -> Rows:
    query, key, value = inputs[:3]
    rows = query.shape[:_ROW]
    return Rows(
        query.new_zeros((*rows, value.shape[-1])),
        query.new_full(rows, torch.inf),
        torch.zeros(rows, dtype=torch.int32, device=query.device),
        query.new_zeros((*rows, key.shape[2] if options.return_weights else 0)),
        query.new_zeros((*rows[:2], 0)),
    )


def _centred(inputs: Inputs) -> Inputs:
    """Return R (q - c) and R (k - c), rounded once, and a radius of 1; all as they are if c = 0."""
    query, key, _, radius, *_ = inputs
    offset = common_offset(key, radius)
    if not offset.any():
        return inputs
    offset, scale = offset.double(), radius[:, None].double()
    u, v = ((scale * (side - offset)).to(query.dtype) for side in (query, key))
    return inputs._replace(query=u, key=v, radius=torch.ones_like(radius))


@torch.library.custom_op(
    "fourierkernels::fourier_attention_backward", mutates_args=(), device_types="cpu"
)
def attend_backward(
    grad: Tensor,
    weights_grad: Tensor | None,
    delta: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    significand: Tensor,
    exponent: Tensor,
    packed: Tensor,
    power: int,
    is_causal: bool,
    eps: float,
    dropout_p: float,
    mask_grad: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the fields of :class:`~fourierkernels.ops.arguments.Gradients`.

    Parameters
    ----------
    grad, weights_grad, delta
        As :class:`~fourierkernels.ops.arguments.Cotangents` has them.
    significand, exponent, packed
        Of the forward pass.
    mask_grad : bool
        Whether the gradient of an additive mask is wanted.
    """
    inputs = Inputs(query, key, value, radius, mask, seed)
    options = Options(power, is_causal, eps, dropout_p, mask_grad=mask_grad)
    if query.numel() == 0 or value.numel() == 0:
        dq, dk, dv, dr = (leaf.new_zeros(leaf.shape) for leaf in (query, key, value, radius))
        return dq, dk, dv, dr, _no_mask_gradient(query, mask, mask_grad).zero_()
    centred, saved = _centred(inputs), Saved(significand, exponent, packed)
    dq, dk, dv, dr, dmask = backward(Cotangents(grad, weights_grad, delta), centred, saved, options)
    if centred.radius is not radius:  # derivatives in R (q - c), R (k - c) and log R
        dq, dk, dr = _scaled(dq, radius), _scaled(dk, radius), dr / radius
    return dq.contiguous(), dk.contiguous(), dv.contiguous(), dr.contiguous(), dmask


def _scaled(gradient: Tensor, radius: Tensor) -> Tensor:
    """Return R times a gradient, which stays 0 where nothing is seen even if R is not finite."""
    return (radius[:, None] * gradient).masked_fill(gradient == 0, 0.0)


def _no_mask_gradient(query: Tensor, mask: Tensor | None, wanted: bool) -> Tensor:
    return query.new_empty(mask.shape if wanted and mask is not None else (0,))


@attend.register_kernel("cuda")
def _forward_cuda(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    power: int,
    is_causal: bool,
    eps: float,
    dropout_p: float,
    return_weights: bool,
) -> _Five:
    inputs = Inputs(query, key, value, radius, mask, seed)
    options = Options(power, is_causal, eps, dropout_p, return_weights)
    return cuda.forward(cuda.find_library(query, value), inputs, options)


@attend_backward.register_kernel("cuda")
def _backward_cuda(
    grad: Tensor,
    weights_grad: Tensor | None,
    delta: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    significand: Tensor,
    exponent: Tensor,
    packed: Tensor,
    power: int,
    is_causal: bool,
    eps: float,
    dropout_p: float,
    mask_grad: bool,
) -> _Five:
    inputs, saved = (
        Inputs(query, key, value, radius, mask, seed),
        Saved(significand, exponent, packed),
    )
    options = Options(power, is_causal, eps, dropout_p, mask_grad=mask_grad)
    library = cuda.find_library(query, value)
    return cuda.backward(library, Cotangents(grad, weights_grad, delta), inputs, saved, options)


# ---- shapes without values ----------------------------------------------------------------------


@attend.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> _Five:
    rows, return_weights = query.shape[:_ROW], rest[-1]
    output = query.new_empty((*rows, value.shape[-1]))
    weights = query.new_empty((*rows, key.shape[2] if return_weights else 0))
    kept = packed_size(query, key, value) if query.device.type == "cuda" else 0
    packed = query.new_empty((*rows[:2], kept))
    return (
        output,
        query.new_empty(rows),
        query.new_empty(rows, dtype=torch.int32),
        weights,
        packed,
    )


@attend_backward.register_fake
def _(grad: Tensor, weights_grad: Tensor | None, delta: Tensor, *rest: Any) -> _Five:
    *leaves, mask, mask_grad = *rest[: _FLOATS + 1], rest[-1]
    dq, dk, dv, dr = (leaf.new_empty(leaf.shape) for leaf in leaves)
    return dq, dk, dv, dr, _no_mask_gradient(dq, mask, mask_grad)


# ---- derivatives, and vmap ---------------------------------------------------------------------

attend.register_autograd(partial(differentiate, attend_backward), setup_context=save)
attend_backward.register_autograd(differentiate_twice, setup_context=save_backward)
attend.register_vmap(partial(map_forward, attend))
attend_backward.register_vmap(partial(map_backward, attend_backward))
