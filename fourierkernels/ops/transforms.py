"""The operator for `torch.func`: `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian` and `vmap`.

`torch.library` has no derivatives for transforms, so the two operators are wrapped into functions
that have. They run the same kernels; forward mode, and what goes beyond the first derivative, are
the reference's (:mod:`fourierkernels.ops.derivatives`).
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd.forward_ad import unpack_dual

from fourierkernels.ops.arguments import BackwardCall, ForwardCall
from fourierkernels.ops.derivatives import (
    Results,
    as_backward_function,
    differentiate,
    differentiate_twice,
    forward_function,
    push_forward,
    save,
    save_backward,
    saved_inputs,
)
from fourierkernels.ops.operator import attend, attend_backward

_Tangents = tuple[Tensor | None, ...]


class _Backward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Results:
        results: Results = attend_backward(*arguments)
        return results

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
        ctx.save_for_forward(*save_backward(ctx, inputs, output))
        if not inputs[-1]:
            ctx.mark_non_differentiable(output[-1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> _Tangents:
        return differentiate_twice(ctx, *gradients)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> _Tangents:
        function, at, options = as_backward_function(ctx)
        moved = BackwardCall.of(tangents)
        weights = [moved.cotangents.weights] if options.return_weights else []
        along = [moved.cotangents.output, *weights, *moved.inputs]
        pushed = push_forward(function, at, along[: len(at)])
        return pushed if options.mask_grad else (*pushed, None)


class _Attend(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Results:
        results: Results = attend(*arguments)
        return results

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
        ctx.save_for_forward(*save(ctx, inputs, output))
        if not inputs[-1]:
            ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> _Tangents:
        return differentiate(_Backward.apply, ctx, *gradients)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> _Tangents:
        moved = ForwardCall.of(tangents).inputs.mask is not None
        function, at = forward_function(saved_inputs(ctx)[0], ctx.options._replace(mask_grad=moved))
        output, *weights = push_forward(function, at, tangents[: len(at)])
        return (output, None, None, weights[0] if weights else None, None)


def attend_anywhere(*arguments: Any) -> Results:
    """Call the operator, under a transform of `torch.func` and forward mode too."""
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    if not torch.compiler.is_compiling() and any(_is_transformed(tensor) for tensor in tensors):
        results: Results = _Attend.apply(*arguments)  # type: ignore[no-untyped-call]
    else:
        results = attend(*arguments)
    return results


def _is_transformed(tensor: Tensor) -> bool:
    if is_functorch_wrapped_tensor(tensor):
        return True
    return unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]
