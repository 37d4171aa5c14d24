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

from fourierkernels.ops.arguments import (
    BACKWARD_SCHEMA,
    FORWARD_SCHEMA,
    BackwardCall,
    ForwardCall,
    Gradients,
    Inputs,
    Options,
    Rows,
    common_offset,
    is_near,
)
from fourierkernels.ops.cpu.backward import backward
from fourierkernels.ops.cpu.forward import forward
from fourierkernels.ops.cuda import attention as cuda
from fourierkernels.ops.derivatives import (
    Results,
    backward_by_reference,
    differentiate,
    differentiate_twice,
    save,
    save_backward,
)
from fourierkernels.ops.mapped_heads import map_backward, map_forward
from fourierkernels.ops.reference import in_forward_mode

_ROW = 3  # dimensions of a number per row: (B, H, N)


@torch.library.custom_op(
    "fourierkernels::fourier_attention",
    mutates_args=(),
    device_types="cpu",
    schema=FORWARD_SCHEMA,
)
def attend(*arguments: Any) -> Rows:
    """Return the sums of each row; arguments are those of the schema, one by one."""
    inputs, options = ForwardCall.of(arguments)
    if inputs.query.numel() == 0 or inputs.value.numel() == 0:
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
    )


def _centred(inputs: Inputs) -> Inputs:
    """Return R (q - c) and R (k - c), rounded once, and a radius of 1; all as they are if c = 0."""
    query, key, _, radius, mask, _ = inputs
    if is_near(key, radius, mask):
        return inputs
    offset = common_offset(key, radius, mask)
    moved = offset.ne(0).flatten(2).any(dim=-1)  # (B, H): the others are scaled without a detour
    if not moved.any():
        return inputs
    heads = moved.nonzero()[:, 1]
    scale, offset = radius[heads, None].double(), offset[moved].double()  # (moved, 1, D)
    u, v = radius[:, None] * query, radius[:, None] * key
    for side, scaled in ((query, u), (key, v)):
        scaled[moved] = (scale * (side[moved] - offset)).to(query.dtype)
    return inputs._replace(query=u, key=v, radius=torch.ones_like(radius))


@torch.library.custom_op(
    "fourierkernels::fourier_attention_backward",
    mutates_args=(),
    device_types="cpu",
    schema=BACKWARD_SCHEMA,
)
def attend_backward(*arguments: Any) -> Gradients:
    """Return the gradients; arguments are those of the schema, one by one."""
    cotangents, inputs, saved, options = BackwardCall.of(arguments)
    radius = inputs.radius
    if inputs.query.numel() == 0 or inputs.value.numel() == 0:
        return Gradients(*(gradient.zero_() for gradient in _new_gradients(inputs, options)))
    centred = _centred(inputs)
    dq, dk, dv, dr, dmask = backward(cotangents, centred, saved, options)
    if centred.radius is not radius:  # derivatives in R (q - c), R (k - c) and log R
        dq, dk, dr = _scaled(dq, radius), _scaled(dk, radius), dr / radius
    return Gradients(dq.contiguous(), dk.contiguous(), dv.contiguous(), dr.contiguous(), dmask)


def _scaled(gradient: Tensor, radius: Tensor) -> Tensor:
    """Return R times a gradient, which stays 0 where nothing is seen even if R is not finite."""
    return (radius[:, None] * gradient).masked_fill(gradient == 0, 0.0)


def _new_gradients(inputs: Inputs, options: Options) -> Gradients:
    """Return gradients without values; contiguous, as those of the operator."""
    query, key, value, radius, mask, _ = inputs
    dq, dk, dv, dr = (leaf.new_empty(leaf.shape) for leaf in (query, key, value, radius))
    asked = mask if options.mask_grad else None
    return Gradients(dq, dk, dv, dr, query.new_empty((0,) if asked is None else asked.shape))


@attend.register_kernel("cuda")
def _forward_cuda(*arguments: Any) -> Rows:
    inputs, options = ForwardCall.of(arguments)
    return cuda.forward(cuda.find_library(inputs.query, inputs.value), inputs, options)


@attend_backward.register_kernel("cuda")
def _backward_cuda(*arguments: Any) -> Gradients:
    cotangents, inputs, saved, options = BackwardCall.of(arguments)
    library = cuda.find_library(inputs.query, inputs.value)
    return cuda.backward(library, cotangents, inputs, saved, options)


# ---- shapes without values ----------------------------------------------------------------------


@attend.register_fake
def _(*arguments: Any) -> Rows:
    inputs, options = ForwardCall.of(arguments)
    query, key, value = inputs[:3]
    rows = query.shape[:_ROW]
    return Rows(
        query.new_empty((*rows, value.shape[-1])),
        query.new_empty(rows),
        query.new_empty(rows, dtype=torch.int32),
        query.new_empty((*rows, key.shape[2] if options.return_weights else 0)),
    )


@attend_backward.register_fake
def _(*arguments: Any) -> Gradients:
    _, inputs, _, options = BackwardCall.of(arguments)
    return _new_gradients(inputs, options)


def _backward(*arguments: Any) -> Gradients | Results:
    """Return the gradients; the operator would drop the tangent of a cotangent."""
    if not torch.compiler.is_compiling() and in_forward_mode():
        return backward_by_reference(*arguments)
    gradients: Gradients = attend_backward(*arguments)
    return gradients


# ---- derivatives, and vmap ---------------------------------------------------------------------

attend.register_autograd(partial(differentiate, _backward), setup_context=save)
attend_backward.register_autograd(differentiate_twice, setup_context=save_backward)
attend.register_vmap(partial(map_forward, attend))
attend_backward.register_vmap(partial(map_backward, attend_backward))
