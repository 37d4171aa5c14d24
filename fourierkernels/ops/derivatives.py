"""Derivatives of the operator and of its derivative, as torch registers them.

The first is the operator's backward pass. The second is the reference's under the same draw of
dropout, and with it all others: they are too rare for kernels of their own, and cost the
reference's O(N M D) memory. Written with `torch.func`, they can themselves be differentiated,
mapped and pushed forward, so that derivatives of every order and mode are right.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fourierkernels.ops.arguments import (
    BackwardCall,
    Cotangents,
    ForwardCall,
    Inputs,
    Options,
    Rows,
    Saved,
)
from fourierkernels.ops.dropout import drop
from fourierkernels.ops.nadaraya_watson import additive, nadaraya_watson
from fourierkernels.ops.reference import fourier_scores

Function = Callable[..., tuple[Tensor, ...]]
Results = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def attend_by_reference(inputs: Inputs, options: Options) -> tuple[Tensor, Tensor]:
    """Return output ``(B, H, N, C)`` and weights ``(B, H, N, M)``: what the operator computes."""
    query, key, value, radius, mask, seed = inputs
    dropout = None
    if options.dropout_p:
        assert seed is not None  # whoever drops, draws a seed
        dropout = partial(drop, seed=seed, p=options.dropout_p)
    return nadaraya_watson(
        partial(fourier_scores, radius=radius[:, None, None, :], power=options.power),
        query,
        key,
        value,
        bias=additive(mask, query, key.shape[-2], is_causal=options.causal),
        drop=dropout,
        eps=options.eps,
    )


def forward_function(inputs: Inputs, options: Options) -> tuple[Function, tuple[Tensor, ...]]:
    """Return what has derivatives as a function of what it has them in, and where.

    They are the output and, if asked for, the weights; and query, key, value, radius and, if its
    gradient is asked for, the mask.
    """
    names = Inputs._fields[: 4 + options.mask_grad]

    def forward(*leaves: Tensor) -> tuple[Tensor, ...]:
        given = inputs._replace(**dict(zip(names, leaves, strict=True)))
        output, weights = attend_by_reference(given, options)
        return (output, weights) if options.return_weights else (output,)

    return forward, tuple(getattr(inputs, name) for name in names)


def backward_function(
    cotangents: tuple[Tensor, ...], inputs: Inputs, options: Options
) -> tuple[Function, tuple[Tensor, ...]]:
    """Return the gradients as a function of cotangents and leaves, and where it is taken.

    Parameters
    ----------
    cotangents : tuple of Tensor
        Of the output and, if they were asked for, of the weights.
    """
    forward, leaves = forward_function(inputs, options)
    count = len(cotangents)

    def backward(*tensors: Tensor) -> tuple[Tensor, ...]:
        pull = torch.func.vjp(forward, *tensors[count:])[1]
        gradients: tuple[Tensor, ...] = pull(tensors[:count])
        return gradients

    return backward, (*cotangents, *leaves)


def backward_by_reference(*arguments: Any) -> Results:
    """Return the gradients by the reference, whose operations know forward mode."""
    call = BackwardCall.of(arguments)
    given = call.cotangents
    cotangents = (given.output,) if given.weights is None else (given.output, given.weights)
    function, at = backward_function(cotangents, call.inputs, call.options)
    dq, dk, dv, dr, *dmask = function(*at)
    return dq, dk, dv, dr, dmask[0] if dmask else dq.new_empty(0)


def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep what the backward pass needs of the forward's arguments and results."""
    call, rows = ForwardCall.of(inputs), Rows(*output)
    ctx.save_for_backward(*call.inputs, *rows)
    ctx.options, ctx.count = call.options, len(inputs)
    ctx.mark_non_differentiable(rows.significand, rows.exponent)


def saved_inputs(ctx: Any) -> tuple[Inputs, Rows]:
    """Return what :func:`save` has kept."""
    count, saved = len(Inputs._fields), ctx.saved_tensors  # a checkpoint lets these be read once
    return Inputs(*saved[:count]), Rows(*saved[count:])


def differentiate(
    attend_backward: Callable[..., Results], ctx: Any, *gradients: Tensor
) -> tuple[Tensor | None, ...]:
    """Return the gradients of all arguments by the backward pass."""
    inputs, rows = saved_inputs(ctx)
    of_rows = Rows(*gradients)
    weights_grad = of_rows.weights if ctx.options.return_weights else None
    delta = (of_rows.output * rows.output).sum(dim=-1)
    if weights_grad is not None:
        delta = delta + (weights_grad * rows.weights).sum(dim=-1)
    call = BackwardCall(
        Cotangents(of_rows.output, weights_grad, delta),
        inputs,
        Saved(rows.significand, rows.exponent),
        ctx.options._replace(mask_grad=ctx.needs_input_grad[Inputs._fields.index("mask")]),
    )
    *four, dmask = attend_backward(*call.arguments)
    first = (*four, dmask if call.options.mask_grad else None)
    return _padded(first, ctx.count)


def _padded(gradients: tuple[Tensor | None, ...], count: int) -> tuple[Tensor | None, ...]:
    """Return a gradient for each argument: None for those that come last."""
    return (*gradients, *(None,) * (count - len(gradients)))


def save_backward(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
    """Keep what the derivative of the backward pass needs.

    delta and what the forward saved are functions of the other tensors.
    """
    call = BackwardCall.of(inputs)
    ctx.save_for_backward(call.cotangents.output, call.cotangents.weights, *call.inputs)
    ctx.options, ctx.count = call.options, len(inputs)


def differentiate_twice(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of all arguments of the backward pass by the reference."""
    grad, weights_grad, *tensors = ctx.saved_tensors
    cotangents = (grad,) if weights_grad is None else (grad, weights_grad)
    function, at = backward_function(cotangents, Inputs(*tensors), ctx.options)
    found = list(torch.func.vjp(function, *at)[1](gradients[: 4 + ctx.options.mask_grad]))
    grad = found.pop(0)
    weights_grad = None if weights_grad is None else found.pop(0)
    return _padded((grad, weights_grad, None, *found), ctx.count)
