"""Derivatives of the operator and of its derivative, as torch registers them.

The first is the operator's backward pass. The second is the reference's, see
:mod:`fourierkernels.ops.by_reference`, and with it all others.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.by_reference import Function, backward_function, pull_back

_TENSORS = 6  # query, key, value, radius, mask and seed
_MASK = 4  # the place of the mask
_OPTIONS = 5  # power, is_causal, eps, dropout_p, and return_weights or mask_grad
_COTANGENTS, _SAVED = 3, 3  # of the backward pass, before and after the tensors

Results = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def save(ctx: Any, inputs: tuple[Any, ...], output: Results) -> tuple[Tensor | None, ...]:
    """Keep, and return, what the backward pass needs of the forward's arguments and results."""
    kept = (*inputs[:_TENSORS], *output)
    ctx.save_for_backward(*kept)
    ctx.options = inputs[_TENSORS:]
    _, significand, exponent, _, packed = output
    ctx.mark_non_differentiable(significand, exponent, packed)
    return kept


def differentiate(
    attend_backward: Callable[..., Results], ctx: Any, *gradients: Tensor
) -> tuple[Tensor | None, ...]:
    """Return the gradients of all arguments by the backward pass."""
    *inputs, output, significand, exponent, weights, packed = ctx.saved_tensors
    *options, return_weights = ctx.options
    grad, weights_grad = gradients[0], gradients[3] if return_weights else None
    delta = (grad * output).sum(dim=-1)
    if weights_grad is not None:
        delta = delta + (weights_grad * weights).sum(dim=-1)
    mask_grad = ctx.needs_input_grad[_MASK]
    *four, dmask = attend_backward(
        grad,
        weights_grad,
        delta,
        *inputs,
        significand,
        exponent,
        packed,
        *options,
        mask_grad,
    )
    return (*four, dmask if mask_grad else None, *(None,) * (1 + _OPTIONS))


def save_backward(ctx: Any, inputs: tuple[Any, ...], output: Results) -> tuple[Tensor | None, ...]:
    """Keep, and return, what the derivative of the backward pass needs.

    delta and what the forward saved are functions of the other tensors.
    """
    grad, weights_grad, _, *tensors = inputs[: _COTANGENTS + _TENSORS]
    kept = (grad, weights_grad, *tensors)
    ctx.save_for_backward(*kept)
    ctx.options = inputs[-_OPTIONS:]
    return kept


def differentiate_twice(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of all arguments of the backward pass by the reference."""
    function, at, options = as_backward_function(ctx)
    found = list(pull_back(function, at, gradients[: 4 + options.mask_grad]))
    grad = found.pop(0)
    weights_grad = found.pop(0) if options.return_weights else None
    dmask = found.pop() if options.mask_grad else None
    return (grad, weights_grad, None, *found, dmask, *(None,) * (1 + _SAVED + _OPTIONS))


def as_backward_function(ctx: Any) -> tuple[Function, tuple[Tensor, ...], Options]:
    """Return the reference's backward pass, where it is taken, and its options."""
    grad, weights_grad, *tensors = ctx.saved_tensors
    power, is_causal, eps, dropout_p, mask_grad = ctx.options
    asked = weights_grad is not None
    options = Options(power, is_causal, eps, dropout_p, asked, mask_grad)
    cotangents = (grad, weights_grad) if asked else (grad,)
    return (*backward_function(cotangents, Inputs(*tensors), options), options)
