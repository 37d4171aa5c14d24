"""The registered operator behind `fourier_attention`: schema, fake kernels, derivative, vmap.

``fourierkernels::fourier_attention`` takes tensors of four dimensions, float32 or float64, and one
radius per head and feature; broadcasting, casts and checks are its caller's. It returns the output
and what its derivative, a second operator, needs of each row: Σ_j w_ij + eps as significand and
exponent, because the sum itself underflows. No N x M array outlives a call.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fourierkernels.ops import cuda
from fourierkernels.ops.arguments import Inputs, Options, Rows
from fourierkernels.ops.cpu_backward import backward
from fourierkernels.ops.cpu_forward import forward
from fourierkernels.ops.mapped_heads import Dims, as_heads, count_heads, inputs_as_heads
from fourierkernels.ops.offsets import common_offset
from fourierkernels.ops.reference import additive, fourier_scores, nadaraya_watson

_Three = tuple[Tensor, Tensor, Tensor]
_Four = tuple[Tensor, Tensor, Tensor, Tensor]
_ROW = 3  # dimensions of a number per row: (B, H, N)


@torch.library.custom_op("fourierkernels::fourier_attention", mutates_args=(), device_types="cpu")
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    power: int,
    is_causal: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return output ``(B, H, N, C)``, significand and exponent ``(B, H, N)``.

    Parameters
    ----------
    query, key, value : Tensor
        ``(B, H, N, D)``, ``(B, H, M, D)`` and ``(B, H, M, C)``.
    radius : Tensor
        ``(H, D)``.
    mask : Tensor or None
        Boolean or floating, four dimensions, each 1 or that of ``(B, H, N, M)``.
    """
    if query.numel() == 0 or value.numel() == 0:
        rows = query.shape[:_ROW]
        exponent = torch.zeros(rows, dtype=torch.int32)
        return query.new_zeros((*rows, value.shape[-1])), query.new_full(rows, torch.inf), exponent
    inputs = _centred(Inputs(query, key, value, radius, mask))
    return forward(inputs, Options(power, is_causal, eps))


def _centred(inputs: Inputs) -> Inputs:
    """Return R (q - c) and R (k - c), rounded once, and a radius of 1; all as they are if c = 0."""
    query, key, value, radius, mask = inputs
    offset = common_offset(key, radius)
    if not offset.any():
        return inputs
    offset, scale = offset.double(), radius[:, None].double()
    u, v = ((scale * (side - offset)).to(query.dtype) for side in (query, key))
    return Inputs(u, v, value, torch.ones_like(radius), mask)


@torch.library.custom_op(
    "fourierkernels::fourier_attention_backward", mutates_args=(), device_types="cpu"
)
def attend_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    output: Tensor,
    significand: Tensor,
    exponent: Tensor,
    power: int,
    is_causal: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of query, key, value and radius."""
    if output.numel() == 0:
        dq, dk, dv, dr = (leaf.new_zeros(leaf.shape) for leaf in (query, key, value, radius))
    else:
        inputs = _centred(Inputs(query, key, value, radius, mask))
        rows = Rows(output, significand, exponent)
        dq, dk, dv, dr = backward(grad, inputs, rows, Options(power, is_causal, eps))
        if inputs.radius is not radius:  # derivatives in R (q - c), R (k - c) and log R
            dq, dk, dr = radius[:, None] * dq, radius[:, None] * dk, dr / radius
    return dq.contiguous(), dk.contiguous(), dv.contiguous(), dr.contiguous()


@attend.register_kernel("cuda")
def _forward_cuda(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    power: int,
    is_causal: bool,
    eps: float,
) -> _Three:
    inputs, options = Inputs(query, key, value, radius, mask), Options(power, is_causal, eps)
    return cuda.forward(cuda.find_library(query, value), inputs, options)


@attend_backward.register_kernel("cuda")
def _backward_cuda(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor,
    mask: Tensor | None,
    output: Tensor,
    significand: Tensor,
    exponent: Tensor,
    power: int,
    is_causal: bool,
    eps: float,
) -> _Four:
    inputs, rows = Inputs(query, key, value, radius, mask), Rows(output, significand, exponent)
    library, options = cuda.find_library(query, value), Options(power, is_causal, eps)
    return cuda.backward(library, grad, inputs, rows, options)


# ---- shapes without values ----------------------------------------------------------------------


@attend.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: object) -> _Three:
    rows = query.shape[:_ROW]
    output = query.new_empty((*rows, value.shape[-1]))
    return output, query.new_empty(rows), query.new_empty(rows, dtype=torch.int32)


@attend_backward.register_fake
def _(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, radius: Tensor, *_: object) -> _Four:
    dq, dk, dv, dr = (leaf.new_empty(leaf.shape) for leaf in (query, key, value, radius))
    return dq, dk, dv, dr


# ---- derivatives --------------------------------------------------------------------------------


def _save(ctx: Any, inputs: tuple[Any, ...], output: _Three) -> None:
    query, key, value, radius, mask, *options = inputs
    ctx.save_for_backward(query, key, value, radius, mask, *output)
    ctx.options = options
    ctx.mark_non_differentiable(*output[1:])


def _differentiate(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    gradients = attend_backward(grad, *ctx.saved_tensors, *ctx.options)
    # A mask that requires a gradient does not come here: the reference takes it.
    return (*gradients, None, None, None, None)


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: _Four) -> None:
    grad, query, key, value, radius, mask, *_, power, is_causal, eps = inputs
    ctx.save_for_backward(grad, query, key, value, radius, mask)
    ctx.options = power, is_causal, eps


def _differentiate_twice(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    """Return second derivatives by the reference: they are too rare for kernels of their own."""
    *tensors, mask = ctx.saved_tensors
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        grad, *inputs = leaves
        output = _by_reference(inputs, mask, *ctx.options)
        first = torch.autograd.grad(output, inputs, grad, create_graph=True)
    second = torch.autograd.grad(first, leaves, gradients)
    return (*second, *(None,) * 7)  # what the forward saved is a function of the leaves


def _by_reference(
    inputs: Sequence[Tensor], mask: Tensor | None, power: int, is_causal: bool, eps: float
) -> Tensor:
    query, key, value, radius = inputs
    score = partial(fourier_scores, radius=radius[:, None, None, :], power=power)
    bias = additive(mask, query, key.shape[-2], is_causal=is_causal)
    return nadaraya_watson(score, query, key, value, bias=bias, eps=eps)[0]


attend.register_autograd(_differentiate, setup_context=_save)
attend_backward.register_autograd(_differentiate_twice, setup_context=_save_backward)


# ---- vmap: what is mapped becomes more heads ----------------------------------------------------


@attend.register_vmap
def _(info: Any, in_dims: Dims, *inputs: Any) -> tuple[_Three, tuple[int, int, int]]:
    size, heads = info.batch_size, count_heads(inputs[0], in_dims[0])
    tensors = inputs_as_heads(inputs[:5], in_dims, size, heads)
    output, significand, exponent = (
        part.unflatten(1, (size, heads)) for part in attend(*tensors, *inputs[5:])
    )
    return (output, significand, exponent), (1, 1, 1)


@attend_backward.register_vmap
def _(info: Any, in_dims: Dims, grad: Tensor, *inputs: Any) -> tuple[_Four, tuple[int, ...]]:
    size, heads = info.batch_size, count_heads(inputs[0], in_dims[1])
    grad = as_heads(grad, in_dims[0], size, axis=1)
    tensors = inputs_as_heads(inputs[:5], in_dims[1:], size, heads)
    saved = [
        as_heads(part, dim, size, axis=1)
        for part, dim in zip(inputs[5:8], in_dims[6:9], strict=True)
    ]
    dq, dk, dv, dr = attend_backward(grad, *tensors, *saved, *inputs[8:])
    split = (size, heads)
    gradients = (*(part.unflatten(1, split) for part in (dq, dk, dv)), dr.unflatten(0, split))
    return gradients, (1, 1, 1, 0)
