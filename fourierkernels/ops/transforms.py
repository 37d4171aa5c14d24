"""The operator for `torch.func`: `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian` and `vmap`.

`torch.library` has no derivatives for transforms, so the two operators are wrapped into functions
that have. They run the same kernels; forward mode, and what goes beyond the first derivative, are
the reference's (:mod:`fourierkernels.ops.by_reference`).
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd.forward_ad import unpack_dual

from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.by_reference import forward_function, push_forward
from fourierkernels.ops.derivatives import (
    Results,
    as_backward_function,
    differentiate,
    differentiate_twice,
    save,
    save_backward,
)
from fourierkernels.ops.operator import attend, attend_backward

_TENSORS, _MASK = 6, 4
_Tangents = tuple[Tensor | None, ...]


class _Backward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Results:
        return attend_backward(*arguments)

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
        grad, weights_grad, _, *leaves = tangents[:8]
        own = [grad, *([weights_grad] if options.return_weights else []), *leaves]
        pushed = push_forward(function, at, own[: len(at)])
        return pushed if options.mask_grad else (*pushed, None)


class _Attend(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Results:
        return attend(*arguments)

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
        inputs = Inputs(*ctx.saved_tensors[:_TENSORS])
        asked, moved = ctx.options[-1], tangents[_MASK] is not None
        function, at = forward_function(inputs, Options(*ctx.options, mask_grad=moved))
        output, *weights = push_forward(function, at, tangents[: len(at)])
        return (output, None, None, weights[0] if asked else None, None)


def attend_anywhere(*arguments: Any) -> Results:
    """Call the operator, under a transform of `torch.func` and forward mode too."""
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    if not torch.compiler.is_compiling() and any(_is_transformed(tensor) for tensor in tensors):
        results: Results = _Attend.apply(*arguments)  # type: ignore[no-untyped-call]
        return results
    return attend(*arguments)


def _is_transformed(tensor: Tensor) -> bool:
    return is_functorch_wrapped_tensor(tensor) or unpack_dual(tensor).tangent is not None
